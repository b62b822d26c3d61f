"""Measurements that are fitted in studies: who moves, what is sought, and what is seen of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import jax.numpy as jnp
import numpy as np

import diffcontact as dc
from diffcontact.identify import FitResult

NOISE = 0.01


def positions(trajectory, params):
    return trajectory.q


def state(params):
    return params["q0"], params["u0"]


@dataclass(frozen=True)
class Case:
    """What is measured, and what is sought."""

    system: Any  # system, truth, times: who moves, its parameters and the times of the samples
    truth: dict
    times: np.ndarray
    free: dict  # domains
    tied: dict = field(default_factory=dict)  # parameters that follow from others
    seen: int | None = None  # how many coordinates are, the first ones; None: all
    noise: float = NOISE  # one standard deviation
    overlaps: Callable[[dict], bool] = lambda start: False  # whether bodies overlap in a start

    def positions(self, **really) -> np.ndarray:
        """(n, k) the true motion, as far as it is seen; `really`: what else is true."""
        params = self.truth | really
        params |= {name: tie(params) for name, tie in self.tied.items()}
        return np.asarray(dc.simulate(self.system, params, *state(params), self.times).q)[:, : self.seen]

    def problem(self, q: np.ndarray, **options) -> dc.Problem:
        observe = positions if self.seen is None else lambda trajectory, params: trajectory.q[:, : self.seen]
        return dc.Problem(self.system, dc.Observations(self.times, q, self.noise, observe), state, **options)

    def fit(self, q: np.ndarray, **options) -> FitResult:
        return dc.fit(self.problem(q), self.truth, self.free, tied=self.tied, **options)

    def measured(self, seed: int) -> dc.Problem:
        """With white noise."""
        q = self.positions()
        return self.problem(q + self.noise * np.random.default_rng(seed).normal(size=q.shape))

    def start(self, rng: np.random.Generator, off: float, e: Callable[[float], float]) -> dict:
        """Everything off by up to that share, and e(truth) in place of the restitution; without overlaps."""
        while True:
            moved = {n: self.truth[n] * rng.uniform(1 - off, 1 + off, np.shape(self.truth[n])) for n in self.free}
            start = self.truth | moved | {"e": e(self.truth["e"])}
            if not self.overlaps(start):
                return start


UNIT = dc.Interval(0.0, 1.0)
BALL = dc.System(
    gap=lambda t, q, p: q,
    force=lambda t, q, u, p: -p["g"] * jnp.ones(1),
    mass=lambda q, p: jnp.ones(1),
    restitution=lambda p: p["e"],
)
TRIO, RADIUS = dc.systems.balls(3, 2, box=(0.0, 1.0)), 0.08
LAPLACIAN = np.array([[2.0, -1.0, 0.0], [-1.0, 2.0, -1.0], [0.0, -1.0, 1.0]])
CHAIN = dc.ParticleLine(
    mass=lambda p: jnp.ones(3),
    damping=lambda p: p["c"] * LAPLACIAN,
    stiffness=lambda p: p["k"] * LAPLACIAN,
    load=lambda t, p: jnp.zeros(3),
    friction=lambda p: p["gamma"],
    normal=lambda t, p: 9.81 * jnp.ones(3),
    percussion_times=[],
    percussions=lambda p: jnp.zeros(0),
)


def floor(t, params):
    return jnp.array([[0.0, 1.0]]), jnp.zeros(1)


def _falling(restitution: float, friction: float, q0, u0, **more) -> dict:
    """Parameters of a body of 1 kg that falls onto the floor and rubs there."""
    common = {"mass": np.ones(1), "gravity": np.array([0.0, -9.81]), "q0": np.array(q0), "u0": np.array(u0)}
    return {"restitution": restitution, "friction": friction, **common, **more}


_ANY, _RUBS = {"q0": dc.Real(), "u0": dc.Real()}, {"restitution": UNIT, "friction": UNIT, "u0": dc.Real()}
CASES: dict[str, Case] = {
    # Six bounces; g and the initial state are sought besides e.
    "ball": Case(
        BALL,
        {"e": 0.8, "g": 9.81, "q0": np.array([1.0]), "u0": np.array([0.3])},
        np.linspace(0.0, 2.0, 201),
        {"e": UNIT, "g": dc.Positive(), **_ANY},
    ),
    "carts": Case(
        dc.systems.carts(),
        {"restitution": 0.8, "mass_ratio": 1.3, "q0": np.array([0.2, 1.0]), "u0": np.array([0.6, -0.2])}
        | {"distance": 0.1, "tilt": 0.0, "sag": 0.0, "drag": 0.0},
        np.linspace(0.0, 2.0, 201),
        {"restitution": UNIT, "mass_ratio": dc.Positive(log=True), **_ANY},
    ),
    # Three balls in a box, eight impacts: one e, two mass ratios.
    "box": Case(
        TRIO,
        {
            "e": 0.9,
            "ratio": np.array([1.3, 0.7]),
            "q0": np.array([0.2, 0.25, 0.7, 0.3, 0.45, 0.75]),
            "u0": np.array([-0.59, -0.48, 0.5, -0.44, -0.03, 0.96]),
            "radius": np.full(3, RADIUS),
            "gravity": np.zeros(2),
        },
        np.linspace(0.0, 1.5, 151),
        {"e": UNIT, "ratio": dc.Positive(log=True), **_ANY},
        {"mass": lambda p: jnp.concatenate([jnp.asarray(p["ratio"]), jnp.ones(1)]), "restitution": lambda p: p["e"]},
        overlaps=lambda start: bool(np.min(TRIO.gap(0.0, jnp.asarray(start["q0"]), start)) < 0),
    ),
    # Three particles that slide and stick.
    "chain": Case(
        CHAIN,
        {"gamma": 0.05, "k": 20.0, "c": 0.3, "q0": np.array([0.5, 1.0, 1.0]), "u0": np.zeros(3)},
        np.linspace(0.0, 4.0, 201),
        {"gamma": dc.Positive(), "k": dc.Positive(), "c": dc.Positive()},
    ),
    # Topspin, two bounces, of which only the centre is seen: the disc slips, which shows mu, then grips.
    "disc": Case(
        dc.systems.balls(1, 2, planes=floor, spin=True),
        _falling(0.8, 0.2, [0.0, 1.0, 0.0], [2.0, 0.0, 40.0], radius=np.array([0.1])),
        np.linspace(0.0, 1.6, 161),
        _RUBS,
        seen=2,
    ),
    # Thrown with spin, a box strikes with one corner, then with the next; of it only the centre is seen, too.
    "toss": Case(
        dc.systems.bodies(dc.shapes.Box(0.4, 0.2), 2, floor),
        _falling(0.6, 0.3, [0.0, 1.0, 0.6], [2.5, 0.0, 8.0]),
        np.linspace(0.0, 1.0, 101),
        _RUBS,
        seen=2,
    ),
}
# Searches start far off: their domains end somewhere.
BOUNDED = {
    "ball": replace(
        CASES["ball"],
        times=np.linspace(0.0, 3.0, 101),
        free={"e": UNIT, "g": dc.Interval(1.0, 30.0), "q0": dc.Interval(0.0, 3.0), "u0": dc.Interval(-5.0, 5.0)},
    ),
    "box": replace(
        CASES["box"],
        times=np.linspace(0.0, 1.5, 76),
        free={"e": UNIT, "ratio": dc.Interval(0.2, 5.0, log=True)}
        | {"q0": dc.Interval(RADIUS, 1.0 - RADIUS), "u0": dc.Interval(-3.0, 3.0)},
    ),
}
