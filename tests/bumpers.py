"""Ten runs of carts whose bumpers follow a law of impact, as the tests of laws share them."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

import diffcontact as dc
from diffcontact.identify import FitResult, Interval, Observations, Positive, Problem, Real, fit

RUNS, SAMPLES, NOISE = 10, 40, 1e-4
# Between runs e scatters by this much for reasons of its own.
SCATTER = 0.016
TIMES = np.linspace(0.0, 2.5, SAMPLES)
FIXED = {"distance": 0.1, "tilt": 0.0, "sag": 0.0, "drag": 0.02}
FREE = {"restitution": Interval(0.0, 1.0), "mass_ratio": Positive(), "q0": Real(), "u0": Real()}
SPEEDS = np.linspace(0.08, 0.2, RUNS)


def _initial(params):
    return params["q0"], params["u0"]


def _positions(trajectory, params):
    return trajectory.q


@cache
def _runs():
    def one(e, q0, u0):
        params = FIXED | {"restitution": e, "mass_ratio": 1.3}
        return dc.simulate(dc.systems.carts(), params, q0, u0, jnp.asarray(TIMES)).q

    return jax.jit(jax.vmap(one))


def falling(speeds):
    """0.39 at 80 mm/s, 0.10 at 200 mm/s."""
    return 0.39 * (speeds / 0.08) ** (np.log(0.10 / 0.39) / np.log(0.2 / 0.08))


def experiment(e, rng, free=tuple(FREE)) -> FitResult:
    """A fit of ten runs with these coefficients, by one constant."""
    q0 = np.stack([np.zeros(RUNS), 0.1 + SPEEDS * 1.0], axis=1)
    u0 = np.stack([SPEEDS, 0.0 * SPEEDS], axis=1)
    seen = np.asarray(_runs()(jnp.asarray(np.clip(e, 0, 1)), jnp.asarray(q0), jnp.asarray(u0)))
    seen = seen + NOISE * rng.normal(size=seen.shape)
    problems = [
        Problem(dc.systems.carts(), Observations(TIMES, y, NOISE, _positions), _initial, None, 1, ("q0", "u0"))
        for y in seen
    ]
    start = FIXED | {"restitution": float(np.mean(e)), "mass_ratio": 1.3, "q0": q0, "u0": u0}
    return fit(problems, start, {name: FREE[name] for name in free}, shooting="single", check=False)
