# %% [markdown]
# # From bad starts to the global optimum
#
# Contact makes the cost of a fit rugged: where the simulation has another number of impacts than the data, or has them
# at other times, it is full of local minima. How many of 100 bad starts reach the global optimum?
#
# - ball: a bouncing ball, six bounces, positions with 1 % noise; e, g, q0 and u0 are sought.
# - box: three balls in a box, eight impacts, positions with 1 % noise; one e, two mass ratios, all positions and
#   velocities are sought, 15 parameters.
#
# Starts: e from anywhere in [0.05, 0.99], every entry of the initial state, g and the mass ratios off by up to 20 %. A
# fit has reached the global optimum when its cost is within 0.1 % of where the fit from the truth ends.
#
# Run it: `python experiments/starts.py` (half an hour on one core), or with `--smoke`.

# %%
from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np

import diffcontact as dc
from diffcontact.host.progress import shown
from diffcontact.identify.problem.objective import Objective
from diffcontact.identify.search.search import search

jax.config.update("jax_enable_x64", True)

NOISE = 0.01
WAYS = {
    "single shooting": {"shooting": "single"},
    "automatic": {},
    "growing horizon": {"shooting": "growing"},
    "16 starts, single": {"shooting": "single", "starts": 16},
}


@dataclass(frozen=True)
class Case:
    """A problem with its truth, its domains, and how to draw a bad start.

    Attributes:
        problem: with noisy positions.
        truth: the parameters behind them.
        free: domains.
        overlaps: whether bodies overlap in a start.
        tied: parameters that follow from others.
    """

    problem: dc.Problem
    truth: dict
    free: dict
    overlaps: Callable[[dict], bool] = lambda start: False
    tied: dict = field(default_factory=dict)

    def start(self, rng: np.random.Generator) -> dict:
        """A bad one."""
        while True:
            off = {name: self.truth[name] * rng.uniform(0.8, 1.2, np.shape(self.truth[name])) for name in self.free}
            start = self.truth | off | {"e": rng.uniform(0.05, 0.99)}
            if not self.overlaps(start):
                return start

    def cost(self, start: dict, starts: int = 1, shooting: str = "auto") -> float:
        """Where the fit ends; `dc.fit` without its error bars."""
        objective = Objective.of(self.problem, start, self.free, tied=self.tied)
        return search(objective, "lm", starts, 0, shooting).end.cost


def positions(trajectory, params):
    return trajectory.q


def state(params):
    return params["q0"], params["u0"]


def measured(system, truth: dict, times: np.ndarray, seed: int, tied: dict | None = None) -> dc.Observations:
    """Positions of the true motion with noise."""
    params = truth | {name: tie(truth) for name, tie in (tied or {}).items()}
    q = np.asarray(dc.simulate(system, params, *state(params), times).q)
    return dc.Observations(times, q + NOISE * np.random.default_rng(seed).normal(size=q.shape), NOISE, positions)


# %% [markdown]
# ## A bouncing ball, six bounces

# %%
BALL = dc.System(
    gap=lambda t, q, p: q,
    force=lambda t, q, u, p: -p["g"] * jnp.ones(1),
    mass=lambda q, p: jnp.ones(1),
    restitution=lambda p: p["e"],
)


def ball(seed: int = 0) -> Case:
    """The drop from 1 m, followed for 3 s."""
    truth = {"e": 0.8, "g": 9.81, "q0": np.array([1.0]), "u0": np.array([0.3])}
    seen = measured(BALL, truth, np.linspace(0.0, 3.0, 101), seed)
    free = {
        "e": dc.Interval(0.0, 1.0),
        "g": dc.Interval(1.0, 30.0),
        "q0": dc.Interval(0.0, 3.0),
        "u0": dc.Interval(-5.0, 5.0),
    }
    return Case(dc.Problem(BALL, seen, state), truth, free)


# %% [markdown]
# ## Three balls in a box, eight impacts

# %%
TRIO = dc.systems.balls(3, 2, box=(0.0, 1.0))
RADIUS = 0.08


TIED = {
    "mass": lambda p: jnp.concatenate([jnp.asarray(p["ratio"]), jnp.ones(1)]),
    "restitution": lambda p: p["e"],
}


def box(seed: int = 0) -> Case:
    """Three discs, each of which collides with the others or the walls, followed for 1.5 s."""
    truth = {
        "e": 0.9,
        "ratio": np.array([1.3, 0.7]),
        "q0": np.array([0.2, 0.25, 0.7, 0.3, 0.45, 0.75]),
        "u0": np.array([-0.59, -0.48, 0.5, -0.44, -0.03, 0.96]),
        "radius": np.full(3, RADIUS),
        "gravity": np.zeros(2),
    }
    seen = measured(TRIO, truth, np.linspace(0.0, 1.5, 76), seed, TIED)
    free = {
        "e": dc.Interval(0.0, 1.0),
        "ratio": dc.Interval(0.2, 5.0, log=True),
        "q0": dc.Interval(RADIUS, 1.0 - RADIUS),
        "u0": dc.Interval(-3.0, 3.0),
    }

    def overlaps(start):
        return bool(np.min(TRIO.gap(0.0, jnp.asarray(start["q0"]), start)) < 0)

    return Case(dc.Problem(TRIO, seen, state), truth, free, overlaps, TIED)


# %% [markdown]
# ## How many arrive


# %%
def study(name: str, case: Case, ways: dict[str, dict], starts: int, seed: int = 1) -> dict[str, tuple[int, float]]:
    """Per way: how many of the starts reach the global optimum, and the mean time of a fit [s]; printed as it comes."""
    best = case.cost(case.truth, shooting="single")
    rng = np.random.default_rng(seed)
    points = [case.start(rng) for _ in range(starts)]
    found = {}
    for way, options in ways.items():
        begin = time.perf_counter()
        costs = np.array([case.cost(point, **options) for point in points])
        # A start may find a better minimum than the truth leads to: that is the global one then.
        best = min(best, costs.min())
        arrived, seconds = int(np.sum(costs <= 1.001 * best)), (time.perf_counter() - begin) / starts
        found[way] = arrived, seconds
        print(f"{name:5} {way:18} {arrived:4} of {starts} reach the global optimum, {seconds:6.2f} s a fit", flush=True)
    return found


def main(arguments: list[str] | None = None) -> dict[str, dict[str, tuple[int, float]]]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="six starts of the ball")
    parser.add_argument("--case", choices=("ball", "box"), help="only this one")
    parser.add_argument("--starts", type=int, default=100)
    options = parser.parse_args(arguments)
    cases = {"ball": ball} if options.smoke else {options.case: CASES[options.case]} if options.case else CASES
    starts = 6 if options.smoke else options.starts
    results = {}
    for name, make in cases.items():
        ways = dict(list(WAYS.items())[:2]) if options.smoke else WAYS
        results[name] = study(name, make(), ways, starts)
    return results


CASES = {"ball": ball, "box": box}

if __name__ == "__main__":
    with shown():
        main()
