"""Random worlds: is status 0 right?

Worlds that nobody chose, each simulated by every scheme it is for, with a step and with half of it, over a few impacts.
Where the status is 0

- every percussion closes a contact that approaches;
- no energy is gained beyond truncation, and with e = 1 none is lost;
- halving the step moves the state by no more than the stated error.

The stated error is measured backwards, as chaos asks for: a result is right if a start nearby has it. The start is
displaced, in three random directions, by what the scheme may do wrong: first-order schemes by a step's way (h |V|),
EventTimed by h^2 times the acceleration, curvature included. Where the exact motion (EventTimed with half the step)
goes elsewhere from there, the position may be off by so much, times 2 and once more for each impact.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from worlds import DURATION, FAMILIES, RUBBING, Family, clearance

import diffcontact as dc

# Of each family; 10 000 of each scheme have been tried, in an hour and a half of a core.
WORLDS = 64

STEPS = 40
# Starts nearby; percussions that are listed. Few lanes at once: all wait for each other's impacts.
NEARBY, LISTED, CHUNK = 3, 64, 16
# Truncation of the energy, in units of what it is proportional to.
MARGIN = 4.0
TIMES = np.linspace(0.0, DURATION, STEPS + 1)
SCHEMES = {
    "EventTimed": dc.EventTimed(),
    "EventTimed 2": dc.EventTimed(order=2),
    "ElasticProjection": dc.ElasticProjection(),
    "CatchingUp": dc.CatchingUp(),
    "VelocityProjection": dc.VelocityProjection(),
    "PercussionFriction": dc.PercussionFriction(),
}


def schemes_for(family: Family) -> list[str]:
    line = ("EventTimed", "PercussionFriction")
    if isinstance(family.system, dc.ParticleLine):
        return list(line)
    if family in RUBBING:
        return ["EventTimed"]
    return [name for name in SCHEMES if name != "PercussionFriction"]


def worlds(family: Family, n: int, seed: int) -> dict[str, np.ndarray]:
    """n worlds that begin without contact, with the directions in which the start is displaced."""
    rng, parts = np.random.default_rng(seed), []
    while sum(part["q0"].shape[0] for part in parts) < n:
        part = family.sample(rng, n)
        clear = np.asarray(jax.vmap(lambda p: clearance(family, p, p["q0"]))(part)) > 0.03
        parts.append({name: value[clear] for name, value in part.items()})
    batch = {name: np.concatenate([part[name] for part in parts])[:n] for name in parts[0]}
    aside = [rng.normal(size=(n, NEARBY, batch[name].shape[1])) for name in ("q0", "u0")]
    aside_q, aside_u = (way / np.linalg.norm(way, axis=-1, keepdims=True) for way in aside)
    return {**batch, "aside_q": aside_q, "aside_u": aside_u}


def scales(family: Family, p):
    """Speed, acceleration (curvature included) and how fast velocities turn, of a world."""
    force, bend = family.turn(p)
    speed = jnp.linalg.norm(p["u0"]) + force * DURATION / 4
    return speed, force + bend * speed**2


def ended(run):
    """(5, d) where a trajectory is in the second half of the time. Positions only: an impact within the last step may
    not have happened yet, which turns a velocity round."""
    return run.q[STEPS // 2 :: STEPS // 8]


def apart(one, other):
    """The largest distance between two such [m]."""
    return np.max(np.linalg.norm(one - other, axis=-1), axis=-1)


def look(family: Family, scheme, p, substeps: int) -> dict[str, jax.Array]:
    """Simulate a world: its end and status, the largest rise of its energy above where it had been [J], its loss at the
    end, the fastest separation among its percussions [m/s]."""
    listed = LISTED if isinstance(scheme, dc.EventTimed) and isinstance(family.system, dc.System) else 0
    run = dc.simulate(family.system, p, p["q0"], p["u0"], TIMES, scheme=scheme, substeps=substeps, percussions=listed)
    gain, loss, separation = np.zeros(()), np.zeros(()), -jnp.inf * np.ones(())
    if family.energy is not None:
        energies = jax.vmap(partial(family.energy, p))(run.q, run.u)
        gain, loss = jnp.max(energies) - energies[0], energies[0] - jnp.max(energies[-4:])
    if listed:
        struck = run.percussions
        before = jnp.take_along_axis(struck.before, jnp.maximum(struck.contact, 0)[:, None], axis=1)[:, 0]
        separation = jnp.max(jnp.where(struck.contact >= 0, before, -jnp.inf))
    return {"end": ended(run), "status": run.status, "gain": gain, "loss": loss, "separation": separation}


def both_steps(family: Family, scheme) -> Callable:
    """params -> what is seen with a step and with half of it."""
    return lambda p: (look(family, scheme, p, 1), look(family, scheme, p, 2))


def nearby(family: Family) -> Callable:
    """params -> the exact motion, its status, its impacts, and how far from it those from nearby starts go: (2,), as
    near as a first-order scheme is right, and as EventTimed is."""

    def ends(p, q0, u0):
        run = dc.simulate(family.system, p, q0, u0, TIMES, substeps=2, percussions=listed)
        return ended(run), run.status, jnp.sum(run.percussions.contact >= 0) if listed else np.zeros((), int)

    listed = LISTED if isinstance(family.system, dc.System) else 0
    # Where a start on the one side would overlap, it goes to the other, and less far.
    shares = np.array([1, -1, 1 / 2, -1 / 2, 1 / 4, -1 / 4, 1 / 8, -1 / 8, 1 / 16, -1 / 16, 1 / 64])

    def moved(p):
        speed, turn = scales(family, p)
        h = DURATION / STEPS
        here, status, hits = ends(p, p["q0"], p["u0"])
        widths = jnp.stack([jnp.stack([h * speed, h * turn]), h**2 * turn * np.ones(2)])
        dq, du = (
            (widths[:, k, None, None] * p[name][None]).reshape(-1, p[name].shape[1])
            for k, name in enumerate(("aside_q", "aside_u"))
        )

        def far(aside):
            dq, du = aside
            part = jnp.asarray(shares)[
                jnp.argmax(jax.vmap(lambda share: clearance(family, p, p["q0"] + share * dq) >= 0)(shares))
            ]
            away = ends(p, p["q0"] + part * dq, p["u0"] + part * du)[0] - here
            return jnp.max(jnp.linalg.norm(away, axis=-1)) / jnp.abs(part)

        # One after the other: side by side each would wait for the impacts of the others.
        return here, status, hits, jnp.max(jax.lax.map(far, (dq, du)).reshape(2, NEARBY), axis=1)

    return moved


def inelastic(batch: dict) -> dict:
    """The same worlds with e = 0."""
    return {**batch, "restitution": np.zeros_like(batch["restitution"])}


def study(family: Family, name: str, batch: dict, truth: tuple):
    """Which worlds of a family have status 0 with the step and with half of it, and by kind which of these are wrong;
    `truth` is what `nearby` says of them."""
    timed = isinstance(SCHEMES[name], dc.EventTimed)
    coarse, halved = dc.ensemble(compiled(family, name), batch, chunk=CHUNK)
    exact, known, hits, spread = truth
    speed, turn = (np.asarray(x) for x in jax.vmap(partial(scales, family))(batch))
    h, n = DURATION / STEPS, speed.size
    # Where the end of the motion forgets its start (rest, e = 0), what happens within a step still counts.
    least = h**2 * turn if timed else h * speed
    stated = (2 + hits) * (spread[:, int(timed)] + least) + 1e-9 * (1 + speed)
    mass = batch["mass"].max(1) if "mass" in batch else batch.get("bob", np.ones(n)) + batch.get("cart", 0.0)
    # Energy: the error of a velocity, h^k turn, against the speed. Rounding for what is exact.
    power = MARGIN * (mass * speed * turn * (h**2 if timed else h) + 1e-9 * mass * speed**2)
    elastic = (batch.get("restitution", np.zeros(n)) == 1.0) & (family not in RUBBING)
    wrong = {
        "gain energy": coarse["gain"] > power,
        "lose energy": elastic & (np.abs(coarse["loss"]) > power),
        "are struck where they separate": np.maximum(coarse["separation"], halved["separation"]) > 1e-9,
        "move when the step is halved": apart(coarse["end"], halved["end"]) > stated,
        "are off": (known == 0) & (apart(coarse["end"], exact) > stated),
    }
    fine = (coarse["status"] == 0) & (halved["status"] == 0)
    return fine, {kind: np.flatnonzero(fine & found) for kind, found in wrong.items()}


@lru_cache
def compiled(family: Family, name: str | None) -> Callable:
    """The run that `ensemble` vectorises; one object for each, so that it compiles once."""
    return nearby(family) if name is None else both_steps(family, SCHEMES[name])


# The first compiles for two minutes, all of them for half an hour.
@pytest.mark.parametrize(
    "seed",
    [pytest.param(seed, marks=pytest.mark.studies if seed else pytest.mark.full) for seed in FAMILIES],
    ids=lambda seed: FAMILIES[seed].name,
)
def test_status_0_is_right(seed):
    family = FAMILIES[seed]
    # What nearby starts do is the same for all schemes with the same e: it is found once.
    for still in (False, True):
        names = [name for name in schemes_for(family) if SCHEMES[name].inelastic == still]
        if not names:
            continue
        batch = worlds(family, WORLDS, seed)
        batch = inelastic(batch) if still else batch
        truth = dc.ensemble(compiled(family, None), batch, chunk=CHUNK)
        for name in names:
            fine, wrong = study(family, name, batch, truth)
            assert fine.any()
            for kind, which in wrong.items():
                assert which.size == 0, f"{family.name} by {name}: worlds {which} {kind}"


@pytest.mark.full
def test_worlds_begin_in_the_open_and_differ():
    for family in FAMILIES.values():
        batch, again = (worlds(family, 8, seed=3) for _ in range(2))
        for name, values in batch.items():
            np.testing.assert_array_equal(values, again[name])
        gaps = [clearance(family, {k: v[i] for k, v in batch.items()}, batch["q0"][i]) for i in range(8)]
        assert min(gaps) > 0.03
        assert len(np.unique(batch["q0"][:, 0])) == 8
