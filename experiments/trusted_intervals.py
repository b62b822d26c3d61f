# %% [markdown]
# # Where a verdict lets intervals be used, do they hold the truth?
#
# Replicas of measurements that the model does not describe, or that were recorded wrongly, each fitted and judged. A
# verdict is worth what its intervals hold: where it is "yes" or "partly" 95 % intervals of what is sought should hold
# the truth, where it is "no" they need not. Where no data could show what is wrong the verdict is "yes", and a sentence
# below it says what was taken as right.
#
# The table of twenty replicas each is among the site's claims.
#
# Run it: `python experiments/trusted_intervals.py [--replicas N] [--only NAME ...]` (some minutes), or with `--smoke`.

# %%
from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from interval_coverage import CASES
from scipy.integrate import solve_ivp
from starts import BALL, positions, state

import diffcontact as dc
from diffcontact.host.progress import shown
from diffcontact.identify import FitResult, fit_replicas

jax.config.update("jax_enable_x64", True)

NOISE = 1e-3
ANSWERS = ("yes", "partly", "no")


# %%
@dataclass(frozen=True)
class Family:
    """A fit, and recordings that it does not suit.

    Attributes:
        base: what the replicas repeat.
        seen: per run, (n, k) what is measured but for the noise.
        sought: name of a parameter -> what it is in truth.
    """

    base: FitResult
    seen: Sequence[np.ndarray]
    sought: Mapping[str, float]


@dataclass(frozen=True)
class Count:
    """Of the replicas of a family.

    Attributes:
        explains: how many verdicts are "yes", "partly" and "no".
        held: per parameter, of how many of these the interval holds the truth.
        taken: in how many "yes" a sentence says what was taken as right.
    """

    explains: tuple[int, ...]
    held: Mapping[str, tuple[int, ...]]
    taken: int


def count(family: Family, replicas: int, seed: int = 0) -> Count:
    """Fit, judge and compare."""
    rng = np.random.default_rng(seed)
    values = [q + NOISE * rng.normal(size=(replicas, *q.shape)) for q in family.seen]
    results = fit_replicas(family.base, values)
    verdicts = [result.verdict for result in results]

    def holds(result: FitResult, name: str, truth: float) -> bool:
        low, high = np.ravel(result.interval95[name])[:2]
        return bool(low <= truth <= high)

    return Count(
        tuple(sum(v.explains == answer for v in verdicts) for answer in ANSWERS),
        {
            name: tuple(
                sum(v.explains == answer and holds(r, name, truth) for v, r in zip(verdicts, results, strict=True))
                for answer in ANSWERS
            )
            for name, truth in family.sought.items()
        },
        sum(v.explains == "yes" and bool(v.taken) for v in verdicts),
    )


# %% [markdown]
# ## Pucks on a table


# %%
def _gap(t, q, params):
    return (jnp.linalg.norm(q[2:] - q[:2]) - params["distance"])[None]


def _mass(q, params):
    return jnp.repeat(jnp.stack([params["mass_ratio"], 1.0]), 2)


def _brake(t, q, u, params):
    speed = jnp.linalg.norm(u.reshape(2, 2), axis=1)
    slowed = params["damping"] + params["friction"] / jnp.maximum(speed, 1e-6)
    return -_mass(q, params) * jnp.repeat(slowed, 2) * u


PUCKS = dc.System(
    gap=_gap, force=_brake, mass=_mass, restitution=lambda params: jnp.reshape(params["restitution"], (1,))
)
PUCKS_TRUTH = {
    "restitution": 0.85,
    "mass_ratio": 1.2,
    "q0": np.array([0.1, 0.2, 0.5, 0.23]),
    "u0": np.array([0.6, 0.05, 0.1, -0.02]),
    "distance": 0.08,
    "damping": 0.0,
    "friction": 0.0,
}
PUCKS_FREE = {
    "restitution": dc.Interval(0.0, 1.0),
    "mass_ratio": dc.Positive(log=True),
    "q0": dc.Real(),
    "u0": dc.Real(),
}
PUCKS_TIMES = np.linspace(0.0, 1.5, 151)


def motion(system, truth: dict, times: np.ndarray, seen: int | None = None) -> np.ndarray:
    """(n, k) coordinates."""
    return np.asarray(dc.simulate(system, truth, *state(truth), times).q)[:, :seen]


def in_perspective(q: np.ndarray, share: float, centre: float = 0.5) -> np.ndarray:
    """What a camera that looks slightly along the track sees: its scale changes by that share over a metre."""
    return centre + (q - centre) / (1 + share * (q - centre))


def pucks(change=lambda q: q, free: Mapping = PUCKS_FREE, **really) -> Family:
    q = change(motion(PUCKS, PUCKS_TRUTH | really, PUCKS_TIMES))
    observations = dc.Observations(PUCKS_TIMES, q, NOISE, positions)
    base = dc.fit(dc.Problem(PUCKS, observations, state), PUCKS_TRUTH, free)
    return Family(base, [q], {name: PUCKS_TRUTH[name] for name in ("restitution", "mass_ratio")})


def turned(q: np.ndarray) -> np.ndarray:
    """Two coordinates of each puck in a picture whose scale changes by 1 % over a metre across it."""
    q = q.reshape(-1, 2, 2)
    return (0.4 + (q - 0.4) / (1 + 0.01 * (q[..., :1] - 0.4))).reshape(-1, 4)


# %% [markdown]
# ## Carts on a rail


# %%
CARTS = CASES["carts"]()


def carts(q: np.ndarray, truth: Mapping | None = None, start: Mapping | None = None, times=CARTS.times) -> Family:
    observations = dc.Observations(times, q, NOISE, positions)
    base = dc.fit(dc.Problem(CARTS.system, observations, state), {**CARTS.truth, **(start or {})}, CARTS.free)
    sought = {name: CARTS.truth[name] for name in ("restitution", "mass_ratio")}
    return Family(base, [q], sought | dict(truth or {}))


def softly(lasting: float, loss: float = 0.2) -> tuple[np.ndarray, float]:
    """Carts whose bumpers are springs with dashpots: where they are, and the restitution that comes of it."""
    ratio, distance = CARTS.truth["mass_ratio"], CARTS.truth["distance"]
    reduced = ratio / (1 + ratio)
    k = reduced * (np.pi / lasting) ** 2
    c = 2 * loss * 0.36 * np.sqrt(k * reduced)

    def slope(t, y):
        x, v = y[:2], y[2:]
        depth = distance - (x[1] - x[0])
        push = max(k * depth + c * (v[0] - v[1]), 0.0) if depth > 0 else 0.0
        return np.array([*v, -push / ratio, push])

    y0 = np.concatenate([CARTS.truth["q0"], CARTS.truth["u0"]])
    run = solve_ivp(slope, (0.0, CARTS.times[-1]), y0, t_eval=CARTS.times, max_step=1e-3, rtol=1e-9, atol=1e-12)
    v = run.y[2:]
    return run.y[:2].T, float((v[1, -1] - v[0, -1]) / (v[0, 0] - v[1, 0]))


def soft(lasting: float) -> Family:
    q, e = softly(lasting)
    return carts(q, {"restitution": e})


# %% [markdown]
# ## A ball on a floor, in one picture after the other


# %%
BALL_TIMES = np.linspace(0.0, 2.0, 121)
BALL_TRUTH = {"e": 0.8, "g": 9.81, "q0": np.ones(1), "u0": np.full(1, 0.3)}
BALL_FREE = {"e": dc.Interval(0.0, 1.0), "g": dc.Positive(), "q0": dc.Real(), "u0": dc.Real()}


def ball(
    change=lambda q: q, held: Sequence[str] = (), start: Mapping | None = None, at=lambda t: t, times=BALL_TIMES
) -> Family:
    """`at` are the times at which the pictures said to be taken at `times` were."""
    late = at(times)
    exact = motion(BALL, BALL_TRUTH, np.unique(np.concatenate([[0.0], late])))
    rows = np.searchsorted(np.unique(np.concatenate([[0.0], late])), late)
    q = change(exact[rows])
    free = {name: domain for name, domain in BALL_FREE.items() if name not in held}
    observations = dc.Observations(times, q, NOISE, positions)
    base = dc.fit(dc.Problem(BALL, observations, state, substeps=1), BALL_TRUTH | dict(start or {}), free)
    return Family(base, [q], {"e": 0.8} | ({} if "g" in held else {"g": 9.81}))


def dropped(t: np.ndarray, at: int = 50, pictures: int = 1) -> np.ndarray:
    """A film from which pictures have fallen out, played at its nominal rate."""
    step = t[1] - t[0]
    return t + step * pictures * (np.arange(t.size) >= at)


def repeated(t: np.ndarray, every: int = 10) -> np.ndarray:
    """Of so many pictures each last one shows what the one before did."""
    rows = np.arange(t.size)
    return t[np.where(rows % every == every - 1, rows - 1, rows)]


# %% [markdown]
# ## A ball that is thrown with spin


# %%
def floor(t, params):
    return jnp.array([[0.0, 1.0]]), jnp.zeros(1)


SPINNING = dc.systems.balls(1, 2, spin=True, air=True, planes=floor)
THROWN = dc.systems.balls(1, 2, air=True, planes=floor)
THROWN_TRUTH = {
    "restitution": 0.8,
    "drag": 0.02,
    "q0": np.array([0.0, 1.0]),
    "u0": np.array([3.0, 1.0]),
    "mass": np.ones(1),
    "radius": np.array([0.03]),
    "gravity": np.array([0.0, -9.81]),
}


def thrown(magnus: float, spin: float = 60.0, friction: float = 0.0) -> Family:
    times = np.linspace(0.0, 1.2, 121)
    truth = THROWN_TRUTH | {
        "friction": friction,
        "magnus": magnus,
        "q0": np.append(THROWN_TRUTH["q0"], 0.0),
        "u0": np.append(THROWN_TRUTH["u0"], spin),
    }
    q = motion(SPINNING, truth, times, 2)
    free = {"restitution": dc.Interval(0.0, 1.0), "drag": dc.Real(), "q0": dc.Real(), "u0": dc.Real()}
    base = dc.fit(dc.Problem(THROWN, dc.Observations(times, q, NOISE, positions), state), THROWN_TRUTH, free)
    return Family(base, [q], {"restitution": 0.8, "drag": 0.02})


# %% [markdown]
# ## What swings: a spring, a half-pipe

# %%
SWING = dc.ParticleLine(
    mass=lambda p: jnp.ones(1),
    damping=lambda p: p["c"] * jnp.ones((1, 1)),
    stiffness=lambda p: p["k"] * jnp.ones((1, 1)),
    load=lambda t, p: p["k"] * p["rest"] * jnp.ones(1),
    friction=lambda p: p["gamma"],
    normal=lambda t, p: jnp.ones(1),
    percussion_times=[],
    percussions=lambda p: jnp.zeros(0),
)
SWING_TRUTH = {"gamma": 0.05, "k": 20.0, "c": 0.1, "rest": 0.0, "q0": np.array([0.3]), "u0": np.zeros(1)}


def swing(
    free: Sequence[str] = ("gamma", "k", "c"),
    sought=("gamma", "k"),
    cubic=0.0,
    sideways=0.0,
    at=lambda t: t,
    change=lambda q: q,
    **really: float,
) -> Family:
    """`cubic`: by which share the pull back falls short at 1 m, squared; `sideways`: the drift of the camera [m/s]."""
    truth = SWING_TRUTH | really
    times = np.linspace(0.0, 4.0, 201)

    def slope(t, y):
        pull = -truth["k"] * y[0] * (1 - cubic * y[0] ** 2) - truth["c"] * y[1]
        return [y[1], pull - truth["gamma"] * np.tanh(y[1] / 1e-3)]

    late = at(times)
    q = solve_ivp(slope, (0, late[-1] + 1e-9), [0.3, 0.0], t_eval=late, method="LSODA", rtol=1e-8, atol=1e-10).y[:1].T
    q = change(q + sideways * times[:, None])
    domains = {name: dc.Positive() for name in free}
    domains |= {"q0": dc.Real(), "u0": dc.Real(), "rest": dc.Real()}
    start = SWING_TRUTH | {name: 0.0 for name in ("c", "gamma") if name not in free}
    base = dc.fit(dc.Problem(SWING, dc.Observations(times, q, NOISE, positions), state), start, domains)
    return Family(base, [q], {name: truth[name] for name in sought})


# %% [markdown]
# ## All of them

# %%
FAMILIES: dict[str, Callable[[], Family]] = {
    "clean: pucks": pucks,
    "clean: swing": swing,
    "clean: film of a ball": ball,
    "pucks: film of air left out, 0.1/s": lambda: pucks(damping=0.1),
    "pucks: film of air left out, 0.02/s": lambda: pucks(damping=0.02),
    "pucks: friction left out, 0.05 m/s2": lambda: pucks(friction=0.05),
    "pucks: friction left out, 0.01 m/s2": lambda: pucks(friction=0.01),
    "pucks: friction taken for a film": lambda: pucks(friction=0.05, free={**PUCKS_FREE, "damping": dc.Real()}),
    "pucks: perspective 1 %": lambda: pucks(turned),
    "carts: perspective 1 %": lambda: carts(in_perspective(CARTS.positions(), 0.01)),
    "carts: perspective 5 %": lambda: carts(in_perspective(CARTS.positions(), 0.05)),
    "carts: bumpers push for 10 ms": lambda: soft(0.01),
    "carts: bumpers push for 40 ms": lambda: soft(0.04),
    "carts: a ruler that grew by 1 %": lambda: carts(1.01 * CARTS.positions()),
    "carts: mm taken for cm": lambda: carts(
        10 * CARTS.positions(), start={"q0": 10 * CARTS.truth["q0"], "u0": 10 * CARTS.truth["u0"]}
    ),
    "ball: mm taken for cm, g held": lambda: ball(
        lambda q: 10 * q, ("g",), {"q0": np.full(1, 10.0), "u0": np.full(1, 3.0)}
    ),
    "ball: mm taken for cm": lambda: ball(
        lambda q: 10 * q, (), {"q0": np.full(1, 10.0), "u0": np.full(1, 3.0), "g": 98.1}
    ),
    "ball: 240 pictures/s taken for 30, g held": lambda: ball(
        held=("g",), times=8 * BALL_TIMES, at=lambda t: t / 8, start={"u0": np.full(1, 0.3 / 8)}
    ),
    "ball: 240 pictures/s taken for 30": lambda: ball(
        times=8 * BALL_TIMES, at=lambda t: t / 8, start={"u0": np.full(1, 0.3 / 8), "g": 9.81 / 64}
    ),
    "ball: clock 0.1 % off, g held": lambda: ball(at=lambda t: 1.001 * t, held=("g",)),
    "ball: clock 0.1 % off": lambda: ball(at=lambda t: 1.001 * t),
    "ball: a picture dropped, g held": lambda: ball(at=dropped, held=("g",)),
    "ball: a picture dropped": lambda: ball(at=dropped),
    "ball: a picture in ten repeated": lambda: ball(at=repeated),
    "ball: camera sways by 3 mm": lambda: ball(lambda q: q + 3e-3 * np.sin(9 * BALL_TIMES)[:, None]),
    "thrown ball: friction and spin unseen": lambda: thrown(0.0, 60.0, 0.01),
    "thrown ball: side force unseen": lambda: thrown(0.003),
    "thrown ball: weak side force unseen": lambda: thrown(0.0005),
    "swing: friction for damping": lambda: swing(("gamma", "k"), ("k", "gamma")),
    "swing: damping for friction": lambda: swing(("c", "k"), ("k", "c")),
    "swing: pull not linear": lambda: swing(cubic=0.5),
    "swing: camera turns": lambda: swing(sideways=2e-3),
    "swing: a picture dropped": lambda: swing(at=dropped),
    "swing: clock 0.1 % off": lambda: swing(at=lambda t: 1.001 * t),
}


def main(arguments: list[str] | None = None) -> dict[str, Count]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="three replicas of two")
    parser.add_argument("--replicas", type=int, default=20)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="families whose name begins so")
    options = parser.parse_args(arguments)
    chosen = ["clean: film of a ball", "ball: camera sways by 3 mm"] if options.smoke else options.only or [""]
    replicas = 3 if options.smoke else options.replicas
    print(f"{'':42}{'yes':>5}{'partly':>8}{'no':>5}   held of these")
    found = {}
    for name, make in FAMILIES.items():
        if not name.startswith(tuple(chosen)):
            continue
        counted = found[name] = count(make(), replicas)
        yes, partly, no = counted.explains
        held = ", ".join(f"{parameter} {'/'.join(map(str, of))}" for parameter, of in counted.held.items())
        print(f"{name:42}{yes:5}{partly:8}{no:5}   {held}; taken {counted.taken}", flush=True)
    return found


if __name__ == "__main__":
    with shown():
        main()
