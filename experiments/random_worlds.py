# %% [markdown]
# # Random worlds: is status 0 right?
#
# Thousands of worlds that nobody chose: balls in boxes in one to three dimensions, a mass between curved walls, a cart
# with a pendulum between walls (M depends on q), masses on springs that land and lift off, discs that pass or hit each
# other fast and obliquely, particles with dry friction, discs and spheres that spin and rub, a box that tumbles. Each
# is simulated by every scheme it is for, with a step and with half of it, over a few impacts. Where the status is 0
#
# - every percussion closes a contact that approaches;
# - no energy is gained beyond truncation, and with e = 1 none is lost;
# - halving the step moves the state by no more than the stated error.
#
# **The stated error** is measured backwards, as chaos asks for: a result is right if a start nearby has it. The start
# is displaced, in three random directions, by what the scheme may do wrong: first-order schemes by a step's way
# (h |V|), EventTimed by h^2 times the acceleration, curvature included. Where the exact motion (EventTimed with
# half the step) goes elsewhere from there, the position may be off by so much, times 2 and once more for each impact.
#
# Run it: `python experiments/random_worlds.py` (10 000 worlds per scheme, an hour and a half of a core), with
# `--worlds 256`, or with `--smoke`.

# %%
from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np

import diffcontact as dc
from diffcontact.status import Status

jax.config.update("jax_enable_x64", True)

STEPS, DURATION = 40, 1.0
# Starts nearby; percussions that are listed. Few lanes at once: all wait for each other's impacts.
NEARBY, LISTED, CHUNK = 3, 64, 16
# Truncation of the energy, in units of what it is proportional to.
MARGIN = 4.0
TIMES = np.linspace(0.0, DURATION, STEPS + 1)


# %% [markdown]
# ## The worlds


# %%
@dataclass(frozen=True)
class Family:
    """Worlds that share a system and differ in their parameters.

    Attributes:
        system: what is simulated.
        sample: (rng, n) -> params with `q0` and `u0`, arrays with a leading axis (n, ...).
        energy: (params, q, u) -> kinetic and potential energy [J]; None where something from outside does work.
        turn: params -> how fast velocities change between impacts, forces and curvature together, as
            (acceleration [m/s^2], 1 / smallest radius of curvature [1/m]).
    """

    name: str
    system: dc.System | dc.ParticleLine
    sample: Callable
    energy: Callable | None
    turn: Callable


def clearance(family: Family, p, q):
    """The smallest gap of a position at the start [m]."""
    line = isinstance(family.system, dc.ParticleLine)
    return jnp.asarray(jnp.inf) if line else jnp.min(family.system.gap(0.0, q, p))


def uniform(rng, low, high, *shape):
    return rng.uniform(low, high, shape)


def restitutions(rng, n):
    """One in four elastic, one in eight inelastic."""
    e, which = rng.uniform(0.1, 1.0, n), rng.integers(8, size=n)
    return np.where(which < 2, 1.0, np.where(which == 2, 0.0, e))


def velocities(rng, n, d):
    """Slow and fast ones, 0.3 to 10 m/s."""
    way = rng.normal(size=(n, d))
    return way / np.linalg.norm(way, axis=1, keepdims=True) * 10 ** rng.uniform(-0.5, 1.0, (n, 1))


def balls(count: int, dimension: int, box=(0.0, 2.0), gravity: float = 10.0) -> Family:
    """Balls of 0.1 to 0.25 m in a box of 2 m, with gravity or without."""
    d = count * dimension

    def sample(rng, n):
        radius = uniform(rng, 0.1, 0.25, n, count)
        pull = gravity * uniform(rng, -1, 1, n, dimension) * (rng.random((n, 1)) < 0.5)
        return {
            "mass": uniform(rng, 0.3, 3.0, n, count),
            "radius": radius,
            "gravity": pull,
            "restitution": restitutions(rng, n),
            "q0": uniform(rng, 0.1, 1.9, n, d),
            "u0": velocities(rng, n, d),
        }

    def energy(p, q, u):
        mass = jnp.repeat(p["mass"], dimension)
        return mass @ u**2 / 2 - mass @ (jnp.tile(p["gravity"], count) * q)

    def turn(p):
        # The pair's gap bends over the distance of the centres, by the relative velocity.
        bend = 2 / (p["radius"][0] + p["radius"][1]) if count > 1 and dimension > 1 else 0.0
        return jnp.linalg.norm(p["gravity"]), jnp.asarray(bend)

    return Family(f"balls {count} in {dimension}D", dc.systems.balls(count, dimension, box), sample, energy, turn)


def oblique() -> Family:
    """Two discs that meet fast and obliquely, e = 1, nothing else: hits, grazes and misses."""

    def sample(rng, n):
        radius = uniform(rng, 0.05, 0.2, n, 2)
        aim = uniform(rng, -1.1, 1.1, n) * radius.sum(1)
        speed = 10 ** rng.uniform(-0.5, 1.2, n)
        way = rng.uniform(0.1, 0.6, n) * speed * DURATION + radius.sum(1)
        zero = np.zeros(n)
        return {
            "mass": uniform(rng, 0.3, 3.0, n, 2),
            "radius": radius,
            "gravity": np.zeros((n, 2)),
            "restitution": np.ones(n),
            "q0": np.stack([-way, aim, zero, zero], axis=1),
            "u0": np.stack([speed, zero, zero, zero], axis=1),
        }

    plain = balls(2, 2)
    return Family("oblique e = 1", dc.systems.balls(2, 2), sample, plain.energy, plain.turn)


def curved() -> Family:
    """A point mass inside a bowl, above a wavy floor and around a disc."""

    def gap(t, q, p):
        floor = q[1] + 0.5 - p["wave"] * jnp.sin(4.0 * q[0])
        return jnp.stack([jnp.linalg.norm(q - p["centre"]) - p["radius"], 1.0 - jnp.linalg.norm(q), floor])

    def sample(rng, n):
        return {
            "centre": uniform(rng, -0.4, 0.4, n, 2),
            "radius": uniform(rng, 0.15, 0.35, n),
            "wave": uniform(rng, 0.0, 0.15, n),
            "gravity": 10.0 * rng.random(n) * (rng.random(n) < 0.7),
            "restitution": restitutions(rng, n),
            "q0": uniform(rng, -0.8, 0.8, n, 2),
            "u0": velocities(rng, n, 2),
        }

    system = dc.System(
        gap=gap,
        force=lambda t, q, u, p: jnp.array([0.0, -1.0], q.dtype) * p["gravity"],
        mass=lambda q, p: jnp.ones_like(q),
        restitution=lambda p: p["restitution"],
    )

    def turn(p):
        return p["gravity"], jnp.maximum(1 / p["radius"], jnp.maximum(1.0, 16.0 * p["wave"]))

    return Family("curved gaps", system, sample, lambda p, q, u: u @ u / 2 + p["gravity"] * q[1], turn)


def kinked() -> Family:
    """A point mass over a wavy floor and between walls, with gaps that never close and have a kink where these are
    struck: no cubic through the ends of a step tells of it."""

    def gap(t, q, p):
        closing = jnp.stack([q[1] + 0.6 - p["wave"] * jnp.sin(4.0 * q[0]), 0.9 - q[0], 0.9 + q[0], 1.2 - q[1]])
        return jnp.concatenate([closing, p["apart"] + jnp.abs(closing)])

    def sample(rng, n):
        return {
            "wave": uniform(rng, 0.0, 0.15, n),
            "apart": uniform(rng, 0.01, 1.0, n),
            "gravity": 10.0 * rng.random(n) * (rng.random(n) < 0.7),
            "restitution": restitutions(rng, n),
            "q0": uniform(rng, -0.8, 0.8, n, 2),
            "u0": velocities(rng, n, 2),
        }

    system = dc.System(
        gap=gap,
        force=lambda t, q, u, p: jnp.array([0.0, -1.0], q.dtype) * p["gravity"],
        mass=lambda q, p: jnp.ones_like(q),
        restitution=lambda p: p["restitution"],
    )

    def energy(p, q, u):
        return u @ u / 2 + p["gravity"] * q[1]

    return Family("kinked gaps", system, sample, energy, lambda p: (p["gravity"], 16.0 * p["wave"]))


def cart_pole() -> Family:
    """A cart on a rail with a pendulum, both between walls at +-1: M(q), and centrifugal forces."""

    def mass(q, p):
        m, cart, length = p["bob"], p["cart"], p["length"]
        cross = m * length * jnp.cos(q[1])
        return jnp.array([[cart + m, cross], [cross, m * length**2]])

    def force(t, q, u, p):
        m, length = p["bob"], p["length"]
        return jnp.stack([m * length * jnp.sin(q[1]) * u[1] ** 2, -m * p["gravity"] * length * jnp.sin(q[1])])

    def gap(t, q, p):
        bob = q[0] + p["length"] * jnp.sin(q[1])
        return jnp.stack([1.0 - bob, 1.0 + bob, 0.8 - q[0], 0.8 + q[0]])

    def sample(rng, n):
        return {
            "bob": uniform(rng, 0.3, 2.0, n),
            "cart": uniform(rng, 0.3, 3.0, n),
            "length": uniform(rng, 0.4, 0.9, n),
            "gravity": 10.0 * rng.random(n),
            "restitution": restitutions(rng, n),
            "q0": np.stack([rng.uniform(-0.7, 0.7, n), rng.uniform(-1.2, 1.2, n)], axis=1),
            "u0": velocities(rng, n, 2) / 2,
        }

    def energy(p, q, u):
        return u @ mass(q, p) @ u / 2 - p["bob"] * p["gravity"] * p["length"] * jnp.cos(q[1])

    def turn(p):
        # The pendulum bends the bob's path over its length; the bob pulls the cart along.
        return p["gravity"] * (1 + p["bob"] / p["cart"]), (1 + p["bob"] / p["cart"]) / p["length"]

    system = dc.System(gap=gap, force=force, mass=mass, restitution=lambda p: p["restitution"])
    return Family("cart-pole M(q)", system, sample, energy, turn)


def hopper() -> Family:
    """Two masses on a spring above a table that may shake: landing, rest, lift-off."""

    def gap(t, q, p):
        table = p["shake"] * jnp.sin(p["omega"] * t)
        return jnp.stack([q[0] - table, q[1] - q[0]])

    def force(t, q, u, p):
        pull = p["stiffness"] * (q[1] - q[0] - 0.5 - 0.3 * jnp.sin(p["drive"] * t))
        return jnp.stack([pull, -pull]) - p["mass"] * p["gravity"]

    def sample(rng, n):
        foot = rng.uniform(0.04, 0.3, n)
        return {
            "mass": uniform(rng, 0.3, 2.0, n, 2),
            "stiffness": 10 ** rng.uniform(1.0, 2.3, n),
            "drive": uniform(rng, 0.0, 12.0, n),
            "shake": uniform(rng, 0.0, 0.03, n) * (rng.random(n) < 0.5),
            "omega": uniform(rng, 5.0, 25.0, n),
            "gravity": 10.0 * (0.2 + rng.random(n)),
            "restitution": restitutions(rng, n) * (rng.random(n) < 0.7),
            "q0": np.stack([foot, foot + rng.uniform(0.3, 0.6, n)], axis=1),
            "u0": rng.normal(size=(n, 2)),
        }

    system = dc.System(gap=gap, force=force, mass=lambda q, p: p["mass"], restitution=lambda p: p["restitution"])

    def turn(p):
        spring = 0.5 * p["stiffness"] / jnp.min(p["mass"])
        return p["gravity"] + spring + p["shake"] * p["omega"] ** 2, jnp.zeros(())

    return Family("hopper", system, sample, None, turn)


def sliders() -> Family:
    """Three particles with springs and dashpots that rub on the ground and are struck twice."""
    times = (0.31, 0.62)

    def chain(p):
        k = p["stiffness"]
        return k * jnp.array([[2.0, -1.0, 0.0], [-1.0, 2.0, -1.0], [0.0, -1.0, 1.0]])

    system = dc.ParticleLine(
        mass=lambda p: p["mass"],
        damping=lambda p: p["damping"] * jnp.eye(3),
        stiffness=chain,
        load=lambda t, p: p["load"] * jnp.sin(p["drive"] * t),
        friction=lambda p: p["friction"],
        normal=lambda t, p: 10.0 * p["mass"],
        percussion_times=times,
        percussions=lambda p: p["struck"],
    )

    def sample(rng, n):
        return {
            "mass": uniform(rng, 0.3, 2.0, n, 3),
            "damping": uniform(rng, 0.0, 0.5, n),
            "stiffness": 10 ** rng.uniform(0.0, 2.0, n),
            "load": uniform(rng, -5.0, 5.0, n, 3) * (rng.random((n, 1)) < 0.5),
            "drive": uniform(rng, 0.0, 12.0, n),
            "friction": uniform(rng, 0.05, 0.6, n),
            "struck": uniform(rng, 0.0, 0.1, n, 2),
            "q0": 0.1 * rng.normal(size=(n, 3)),
            "u0": rng.normal(size=(n, 3)),
        }

    def turn(p):
        heaviest = (p["stiffness"] + jnp.max(jnp.abs(p["load"])) + p["damping"]) / jnp.min(p["mass"])
        return heaviest + 10.0 * p["friction"], jnp.zeros(())

    return Family("sliders", system, sample, None, turn)


def spinning(count: int, dimension: int) -> Family:
    """Discs or spheres that spin and rub, in a box of 2 m, with gravity or without."""
    system = dc.systems.balls(count, dimension, (0.0, 2.0), spin=True)
    places, speeds = (3, 3) if dimension == 2 else (7, 6)

    def sample(rng, n):
        q0, u0 = np.zeros((n, count, places)), np.zeros((n, count, speeds))
        q0[..., :dimension] = uniform(rng, 0.1, 1.9, n, count, dimension)
        if dimension == 3:
            q0[..., 3] = 1.0
        u0[..., :dimension] = velocities(rng, n, count * dimension).reshape(n, count, dimension)
        u0[..., dimension:] = 10.0 * rng.normal(size=(n, count, speeds - dimension))
        return {
            "mass": uniform(rng, 0.3, 3.0, n, count),
            "radius": uniform(rng, 0.1, 0.25, n, count),
            "gravity": 10.0 * uniform(rng, -1, 1, n, dimension) * (rng.random((n, 1)) < 0.5),
            "restitution": restitutions(rng, n),
            "friction": uniform(rng, 0.0, 1.5, n) * (rng.random(n) < 0.9),
            "tangential_restitution": uniform(rng, 0.0, 1.0, n) * (rng.random(n) < 0.3),
            "q0": q0.reshape(n, -1),
            "u0": u0.reshape(n, -1),
        }

    def energy(p, q, u):
        place = q.reshape(count, places)[:, :dimension]
        return u @ (system.mass(q, p) * u) / 2 - p["mass"] @ (place @ p["gravity"])

    def turn(p):
        bend = 2 / (p["radius"][0] + p["radius"][1]) if count > 1 else 0.0
        # Friction turns a ball by its lever: 2 mu g / r for a disc.
        pull = jnp.linalg.norm(p["gravity"]) * (1 + 2.5 * p["friction"] / jnp.min(p["radius"]))
        return pull, jnp.asarray(bend)

    kind = "discs" if dimension == 2 else "spheres"
    return Family(f"{kind} that spin", system, sample, energy, turn)


def tumbling() -> Family:
    """A rectangle that tumbles and slides between four walls: sixteen gaps, and many that close together."""
    corners = jnp.array([[-1.0, 1.0, 1.0, -1.0], [-1.0, -1.0, 1.0, 1.0]])

    def levers(q, p):
        """(2, 4) from the centre to the corners."""
        cos, sin = jnp.cos(q[2]), jnp.sin(q[2])
        x, y = p["half"][:, None] * corners
        return jnp.stack([cos * x - sin * y, sin * x + cos * y])

    def gap(t, q, p):
        x, y = q[:2, None] + levers(q, p)
        return jnp.concatenate([y, 2.0 - x, 2.0 - y, x])

    def slip(t, q, u, p):
        x, y = levers(q, p)
        across, up = u[0] - y * u[2], u[1] + x * u[2]
        return jnp.concatenate([across, up, across, up])[:, None]

    def inertia(p):
        return p["mass"][0] * jnp.sum(p["half"] ** 2) / 3

    def sample(rng, n):
        return {
            "mass": uniform(rng, 0.3, 3.0, n, 1),
            "half": uniform(rng, 0.1, 0.3, n, 2),
            "gravity": 10.0 * rng.random(n),
            "restitution": restitutions(rng, n) * (rng.random(n) < 0.8),
            "friction": uniform(rng, 0.0, 1.0, n) * (rng.random(n) < 0.9),
            "q0": np.concatenate([rng.uniform(0.5, 1.5, (n, 2)), rng.uniform(-3, 3, (n, 1))], axis=1),
            "u0": np.concatenate([velocities(rng, n, 2) / 2, 3.0 * rng.normal(size=(n, 1))], axis=1),
        }

    system = dc.System(
        gap=gap,
        force=lambda t, q, u, p: -p["mass"][0] * p["gravity"] * jnp.array([0.0, 1.0, 0.0], q.dtype),
        mass=lambda q, p: jnp.stack([p["mass"][0], p["mass"][0], inertia(p)]),
        restitution=lambda p: p["restitution"],
        slip=slip,
        friction=lambda p: p["friction"],
    )

    def energy(p, q, u):
        return u @ (system.mass(q, p) * u) / 2 + p["mass"][0] * p["gravity"] * q[1]

    def turn(p):
        return p["gravity"] * (1 + 3 * p["friction"] / jnp.min(p["half"])), 1 / jnp.min(p["half"])

    return Family("tumbling box", system, sample, energy, turn)


FAMILIES = (balls(3, 1), balls(4, 2), balls(2, 3), curved(), kinked(), cart_pole(), hopper(), oblique(), sliders())
RUBBING = (spinning(2, 2), spinning(2, 3), tumbling())
FAMILIES = (*FAMILIES, *RUBBING)
SCHEMES = {
    "EventTimed": dc.EventTimed(),
    "EventTimed 4": dc.EventTimed(order=4),
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


# %% [markdown]
# ## A world by one scheme, with two steps


# %%
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


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["end", "status", "gain", "loss", "separation", "depth", "hits"],
    meta_fields=[],
)
@dataclass(frozen=True)
class Seen:
    """What became of a world: its end, its status, the largest rise of its energy above where it had been [J], its loss
    at the end, the fastest separation among its percussions [m/s], the deepest penetration [m], impacts."""

    end: jax.Array
    status: jax.Array
    gain: jax.Array
    loss: jax.Array
    separation: jax.Array
    depth: jax.Array
    hits: jax.Array


def look(family: Family, scheme, p, substeps: int) -> Seen:
    """Simulate a world and look."""
    listed = LISTED if isinstance(scheme, dc.EventTimed) and isinstance(family.system, dc.System) else 0
    run = dc.simulate(family.system, p, p["q0"], p["u0"], TIMES, scheme=scheme, substeps=substeps, percussions=listed)
    zero = jnp.zeros(())
    gain = loss = depth = zero
    separation = -jnp.inf * jnp.ones(())
    hits = jnp.zeros((), int)
    if family.energy is not None:
        energies = jax.vmap(partial(family.energy, p))(run.q, run.u)
        gain, loss = jnp.max(energies) - energies[0], energies[0] - jnp.max(energies[-4:])
    if isinstance(family.system, dc.System):
        depth = -jnp.min(jax.vmap(lambda t, q: jnp.min(family.system.gap(t, q, p)))(run.t, run.q))
    if listed:
        struck = run.percussions
        hits = jnp.sum(struck.contact >= 0)
        before = jnp.take_along_axis(struck.before, jnp.maximum(struck.contact, 0)[:, None], axis=1)[:, 0]
        separation = jnp.max(jnp.where(struck.contact >= 0, before, -jnp.inf))
    return Seen(ended(run), run.status, gain, loss, separation, depth, hits)


def both_steps(family: Family, scheme) -> Callable:
    """params -> what is seen with a step and with half of it."""
    return lambda p: (look(family, scheme, p, 1), look(family, scheme, p, 2))


def nearby(family: Family) -> Callable:
    """params -> the exact motion, its status, its impacts, and how far from it those from nearby starts go: (2,), as
    near as a first-order scheme is right, and as EventTimed is."""

    def ends(p, q0, u0):
        run = dc.simulate(family.system, p, q0, u0, TIMES, substeps=2, percussions=listed)
        return ended(run), run.status, jnp.sum(run.percussions.contact >= 0) if listed else jnp.zeros((), int)

    listed = LISTED if isinstance(family.system, dc.System) else 0
    # Where a start on the one side would overlap, it goes to the other, and less far.
    shares = jnp.array([1, -1, 1 / 2, -1 / 2, 1 / 4, -1 / 4, 1 / 8, -1 / 8, 1 / 16, -1 / 16, 1 / 64])

    def moved(p):
        speed, turn = scales(family, p)
        h = DURATION / STEPS
        here, status, hits = ends(p, p["q0"], p["u0"])
        widths = jnp.stack([jnp.stack([h * speed, h * turn]), h**2 * turn * jnp.ones(2)])
        dq, du = (
            (widths[:, k, None, None] * p[name][None]).reshape(-1, p[name].shape[1])
            for k, name in enumerate(("aside_q", "aside_u"))
        )

        def far(aside):
            dq, du = aside
            part = shares[jnp.argmax(jax.vmap(lambda share: clearance(family, p, p["q0"] + share * dq) >= 0)(shares))]
            away = ends(p, p["q0"] + part * dq, p["u0"] + part * du)[0] - here
            return jnp.max(jnp.linalg.norm(away, axis=-1)) / jnp.abs(part)

        # One after the other: side by side each would wait for the impacts of the others.
        return here, status, hits, jnp.max(jax.lax.map(far, (dq, du)).reshape(2, NEARBY), axis=1)

    return moved


# %% [markdown]
# ## The table


# %%
@dataclass(frozen=True)
class Row:
    """One family by one scheme.

    Attributes:
        worlds: how many. status: (n,) with the step.
        fine: (n,) status 0 with the step and with half of it.
        gain: (n,) energy gained over what truncation allows, and loss: the same lost with e = 1; above 1 is wrong.
        separation: (n,) fastest separation of a percussion [m/s].
        moved, wrong: (n,) by how much of the stated error the state moves when the step is halved, and lies off the
            exact one; above 1 is wrong.
    """

    family: str
    scheme: str
    status: np.ndarray
    fine: np.ndarray
    gain: np.ndarray
    loss: np.ndarray
    separation: np.ndarray
    depth: np.ndarray
    moved: np.ndarray
    wrong: np.ndarray

    def bad(self) -> dict[str, np.ndarray]:
        """Which worlds are wrong with status 0, by kind."""
        measures = {"gain": self.gain > 1, "loss": self.loss > 1, "separates": self.separation > 1e-9}
        measures |= {"moved": self.moved > 1, "wrong": self.wrong > 1}
        return {kind: np.flatnonzero(self.fine & found) for kind, found in measures.items()}


def inelastic(batch: dict) -> dict:
    """The same worlds with e = 0."""
    return {**batch, "restitution": np.zeros_like(batch["restitution"])}


def study(family: Family, name: str, batch: dict, truth: tuple) -> Row:
    """All worlds of a family by one scheme; `truth` is what `nearby` says of them."""
    timed = isinstance(SCHEMES[name], dc.EventTimed)
    coarse, halved = dc.ensemble(compiled(family, name), batch, chunk=CHUNK)
    exact, known, hits, spread = truth
    speed, turn = (np.asarray(x) for x in jax.vmap(partial(scales, family))(batch))
    h, n = DURATION / STEPS, speed.size
    # Where the end of the motion forgets its start (rest, e = 0), what happens within a step still counts.
    least = h**2 * turn if timed else h * speed
    stated = (2 + hits) * (spread[:, int(timed)] + least) + 1e-9 * (1 + speed)
    fine = (coarse.status == 0) & (halved.status == 0)
    moved = apart(coarse.end, halved.end) / stated
    wrong = np.where(known == 0, apart(coarse.end, exact) / stated, 0.0)
    mass = batch["mass"].max(1) if "mass" in batch else batch.get("bob", np.ones(n)) + batch.get("cart", 0.0)
    # Energy: the error of a velocity, h^k turn, against the speed. Rounding for what is exact.
    power = mass * speed * turn * (h**2 * 1.0 if timed else h) + 1e-9 * mass * speed**2
    elastic = (batch.get("restitution", np.zeros(n)) == 1.0) & (family not in RUBBING)
    return Row(
        family.name,
        name,
        coarse.status,
        fine,
        coarse.gain / (MARGIN * power),
        np.where(elastic, np.abs(coarse.loss) / (MARGIN * power), 0.0),
        np.maximum(coarse.separation, halved.separation),
        coarse.depth,
        moved,
        wrong,
    )


@lru_cache
def compiled(family: Family, name: str | None) -> Callable:
    """The run that `ensemble` vectorises; one object for each, so that it compiles once."""
    return nearby(family) if name is None else both_steps(family, SCHEMES[name])


def print_row(row: Row) -> None:
    said = ", ".join(f"{np.sum(row.status == code)} {Status(int(code)).name}" for code in np.unique(row.status) if code)
    bad = row.bad()
    worst = [np.max(np.where(row.fine, x, -np.inf)) for x in (row.gain, row.loss, row.separation, row.moved, row.wrong)]
    told = "".join(f"{value:10.1e}{which.size:6d}" for value, which in zip(worst, bad.values(), strict=True))
    print(f"{row.family:15}{row.scheme:20}{row.status.size:7d}{np.sum(row.status == 0):7d}{told}  {said}", flush=True)


def main(arguments: list[str] | None = None) -> list[Row]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="32 worlds of one family")
    parser.add_argument("--worlds", type=int, default=10_000, help="in all, for each scheme")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--families", nargs="*", help="beginnings of their names")
    parser.add_argument("--schemes", nargs="*", help="their names")
    options = parser.parse_args(arguments)
    chosen = [f for f in FAMILIES if not options.families or f.name.startswith(tuple(options.families))]
    if options.smoke:
        chosen, options.worlds = [FAMILIES[0]], 32
    plan = {f: [n for n in schemes_for(f) if not options.schemes or n in options.schemes] for f in chosen}
    families_of = {name: sum(name in names for names in plan.values()) for name in SCHEMES}
    kinds = "".join(f"{kind:>10}{'n':>6}" for kind in ("gain", "loss", "separates", "moved", "wrong"))
    print(f"{'family':15}{'scheme':20}{'worlds':>7}{'fine':>7}{kinds}  other statuses")
    rows = []
    for family, names in plan.items():
        # What nearby starts do is the same for all schemes with the same e: it is found once.
        for still in (False, True):
            group = [name for name in names if SCHEMES[name].inelastic == still]
            if not group:
                continue
            share = {name: -(-options.worlds // families_of[name]) for name in group}
            batch = worlds(family, max(share.values()), options.seed + FAMILIES.index(family))
            batch = inelastic(batch) if still else batch
            truth = dc.ensemble(compiled(family, None), batch, chunk=CHUNK)
            for name in group:
                first = partial(jax.tree.map, lambda leaf, n=share[name]: leaf[:n])
                rows.append(study(family, name, first(batch), first(truth)))
                print_row(rows[-1])
    return rows


if __name__ == "__main__":
    main()
