# %% [markdown]
# # Do the error bars tell the truth?
#
# 200 replicas of a measurement, each with other noise, each fitted: 95 % intervals should hold the truth in 92 to 98 %
# of them (the standard error of the count is 1.5 %), and the median estimate should be unbiased. Noise: 1 % of 1 m,
# white or with a correlation of 0.9 between neighbouring samples.
#
# - ball: a bouncing ball; e, g, its initial height and velocity.
# - carts: two carts collide; e, the mass ratio, the initial state.
# - box: three balls in a box, eight impacts; one e, two mass ratios, the initial state.
# - chain: three particles with springs, dashpots and dry friction, sliding and sticking; gamma, k, c.
# - disc: a disc with topspin bounces twice, of which only the centre is seen: it slips, which shows mu, then grips,
#   which shows the spin; e, mu, velocity and spin at the beginning.
# - toss: a box that is thrown with spin strikes the floor with one corner, then with the next; of it only the centre is
#   seen, too; e, mu, velocity and spin at the beginning. Found in 200 replicas, white noise: e 95.0, mu 94.0, velocity
#   92.5 and 95.5, spin 96.0 %; correlated: 94.5, 93.0, 89.5 and 92.5, 91.0 %, so that of 101 samples that follow each
#   other so closely the intervals of velocity and spin are a little too short.
#
# Run it: `python experiments/interval_coverage.py [--case NAME]` (some minutes a case), or with `--smoke`.

# %%
from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np
from scipy.signal import lfilter
from starts import BALL, TIED, TRIO, positions, state

import diffcontact as dc
from diffcontact.host.progress import shown
from diffcontact.identify import FitResult, fit_replicas

jax.config.update("jax_enable_x64", True)

NOISE = 0.01


@dataclass(frozen=True)
class Case:
    """What is measured, and what is sought.

    Attributes:
        system: a System or ParticleLine.
        truth: parameters.
        times: of the samples.
        free: domains.
        tied: parameters that follow from others.
        seen: how many coordinates are, the first ones; None: all.
    """

    system: object
    truth: dict
    times: np.ndarray
    free: dict
    tied: dict = field(default_factory=dict)
    seen: int | None = None

    def positions(self) -> np.ndarray:
        """(n, k) the true motion, as far as it is seen."""
        params = self.truth | {name: tie(self.truth) for name, tie in self.tied.items()}
        return np.asarray(dc.simulate(self.system, params, *state(params), self.times).q)[:, : self.seen]

    def fit(self, q: np.ndarray) -> FitResult:
        observe = positions if self.seen is None else lambda trajectory, params: trajectory.q[:, : self.seen]
        problem = dc.Problem(self.system, dc.Observations(self.times, q, NOISE, observe), state)
        return dc.fit(problem, self.truth, self.free, tied=self.tied)


# %% [markdown]
# ## The cases


# %%
def ball() -> Case:
    truth = {"e": 0.8, "g": 9.81, "q0": np.array([1.0]), "u0": np.array([0.3])}
    free = {"e": dc.Interval(0.0, 1.0), "g": dc.Positive(), "q0": dc.Real(), "u0": dc.Real()}
    return Case(BALL, truth, np.linspace(0.0, 2.0, 201), free)


def carts() -> Case:
    truth = {
        "restitution": 0.8,
        "mass_ratio": 1.3,
        "q0": np.array([0.2, 1.0]),
        "u0": np.array([0.6, -0.2]),
        "distance": 0.1,
        "tilt": 0.0,
        "sag": 0.0,
        "drag": 0.0,
    }
    free = {
        "restitution": dc.Interval(0.0, 1.0),
        "mass_ratio": dc.Positive(log=True),
        "q0": dc.Real(),
        "u0": dc.Real(),
    }
    return Case(dc.systems.carts(), truth, np.linspace(0.0, 2.0, 201), free)


def box() -> Case:
    truth = {
        "e": 0.9,
        "ratio": np.array([1.3, 0.7]),
        "q0": np.array([0.2, 0.25, 0.7, 0.3, 0.45, 0.75]),
        "u0": np.array([-0.59, -0.48, 0.5, -0.44, -0.03, 0.96]),
        "radius": np.full(3, 0.08),
        "gravity": np.zeros(2),
    }
    free = {"e": dc.Interval(0.0, 1.0), "ratio": dc.Positive(log=True), "q0": dc.Real(), "u0": dc.Real()}
    return Case(TRIO, truth, np.linspace(0.0, 1.5, 151), free, TIED)


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


def chain() -> Case:
    truth = {"gamma": 0.05, "k": 20.0, "c": 0.3, "q0": np.array([0.5, 1.0, 1.0]), "u0": np.zeros(3)}
    free = {"gamma": dc.Positive(), "k": dc.Positive(), "c": dc.Positive()}
    return Case(CHAIN, truth, np.linspace(0.0, 4.0, 201), free)


DISC = dc.systems.balls(1, 2, planes=lambda t, p: (jnp.array([[0.0, 1.0]]), jnp.zeros(1)), spin=True)


def disc() -> Case:
    truth = {
        "restitution": 0.8,
        "friction": 0.2,
        "q0": np.array([0.0, 1.0, 0.0]),
        "u0": np.array([2.0, 0.0, 40.0]),
        "mass": np.ones(1),
        "radius": np.array([0.1]),
        "gravity": np.array([0.0, -9.81]),
    }
    free = {"restitution": dc.Interval(0.0, 1.0), "friction": dc.Interval(0.0, 1.0), "u0": dc.Real()}
    return Case(DISC, truth, np.linspace(0.0, 1.6, 161), free, seen=2)


TOSSED = dc.systems.bodies(dc.shapes.Box(0.4, 0.2), 2, lambda t, p: (jnp.array([[0.0, 1.0]]), jnp.zeros(1)))


def toss() -> Case:
    truth = {
        "restitution": 0.6,
        "friction": 0.3,
        "q0": np.array([0.0, 1.0, 0.6]),
        "u0": np.array([2.5, 0.0, 8.0]),
        "mass": np.ones(1),
        "gravity": np.array([0.0, -9.81]),
    }
    free = {"restitution": dc.Interval(0.0, 1.0), "friction": dc.Interval(0.0, 1.0), "u0": dc.Real()}
    return Case(TOSSED, truth, np.linspace(0.0, 1.0, 101), free, seen=2)


CASES: dict[str, Callable[[], Case]] = {
    "ball": ball,
    "carts": carts,
    "box": box,
    "chain": chain,
    "disc": disc,
    "toss": toss,
}


# %% [markdown]
# ## Coverage and bias


# %%
@dataclass(frozen=True)
class Coverage:
    """Of one case under one kind of noise.

    Attributes:
        names: (P,) parameters.
        covered: (P,) part of the replicas whose 95 % interval holds the truth.
        bias: (P,) median estimate minus truth, in standard errors of the median.
    """

    names: tuple[str, ...]
    covered: np.ndarray
    bias: np.ndarray


def noise(rng: np.random.Generator, shape: tuple[int, ...], phi: float) -> np.ndarray:
    """Standard deviation NOISE, correlation phi between neighbours along axis 1."""
    warm = 200
    white = rng.normal(size=(shape[0], shape[1] + warm, *shape[2:])) * np.sqrt(1 - phi**2)
    return NOISE * np.asarray(lfilter([1.0], [1.0, -phi], white, axis=1))[:, warm:]


def cover(case: Case, phi: float, replicas: int, seed: int = 0) -> Coverage:
    """Measure so many times, fit each, count."""
    q = case.positions()
    truth = np.concatenate([np.ravel(case.truth[name]) for name in case.free])
    # Where nothing is noise the truth is the estimate, from which every replica starts.
    fits = fit_replicas(case.fit(q), [q + noise(np.random.default_rng(seed), (replicas, *q.shape), phi)])
    estimates = np.stack([fit.estimate for fit in fits])
    intervals = np.stack([np.concatenate([np.reshape(b, (-1, 2)) for b in fit.interval95.values()]) for fit in fits])
    covered = np.mean((intervals[..., 0] <= truth) & (truth <= intervals[..., 1]), axis=0)
    # A median scatters by sqrt(pi / 2) times what a mean does.
    scatter = np.sqrt(np.pi / 2) * estimates.std(axis=0, ddof=1) / np.sqrt(replicas)
    return Coverage(fits[0].names, covered, (np.median(estimates, axis=0) - truth) / scatter)


def main(arguments: list[str] | None = None) -> dict[tuple[str, float], Coverage]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="ten replicas of the ball")
    parser.add_argument("--case", choices=CASES, help="only this one")
    parser.add_argument("--replicas", type=int, default=200)
    options = parser.parse_args(arguments)
    names = ["ball"] if options.smoke else [options.case] if options.case else list(CASES)
    found = {}
    for name in names:
        for phi in (0.0, 0.9):
            result = cover(CASES[name](), phi, 10 if options.smoke else options.replicas)
            found[name, phi] = result
            print(f"\n{name}, correlation {phi}: all parameters together {100 * result.covered.mean():.1f} %")
            for parameter, covered, bias in zip(result.names, result.covered, result.bias, strict=True):
                print(
                    f"    {parameter:14} {100 * covered:5.1f} % covered, bias {bias:+5.1f} standard errors", flush=True
                )
    return found


if __name__ == "__main__":
    with shown():
        main()
