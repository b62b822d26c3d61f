"""What no residual can show, and moves an estimate all the same, is said with how little of it does."""

import re

import jax.numpy as jnp
import numpy as np
from falling import FALLING, SCHEME, fall, fitted, start_of

from diffcontact.identify import FitResult, Normal, Observations, Problem, Real

FREE = {"g": Real(), "u0": Real()}
G = 9.81


def fell(free, **options) -> FitResult:
    return fitted(fall(None, noise=1e-3 * np.random.default_rng(2).normal(size=41)), free, **options)


def percent(taken: str, fault: str, name: str) -> float:
    """How large an error of this fault the sentence says to be enough for a parameter."""
    (told,) = re.findall(rf"{fault} \(([^)]*)\)", taken)
    return float(re.findall(rf"of ([0-9.e-]+) % (?:moves )?{name}", told)[0])


def test_gravity_is_as_right_as_scale_and_clock():
    """h = u0 t - g t^2 / 2: a scale s changes g and u0 by s of themselves, a clock changes g by 2 s."""
    result = fell(FREE)
    halves = {name: float(np.ptp(result.interval95[name])) / 2 for name in FREE}
    for fault, power in (("scale of channel 0", 1), ("rate of the clock", 2)):
        # Two digits are printed.
        off = percent(result.verdict.taken, fault, "g")
        np.testing.assert_allclose(off, 100 * halves["g"] / (power * G), rtol=0.06)
    # In steps of first order u0 is not the 0.4 m/s of the exact fall, but it is scaled alike.
    u0 = float(result.params["u0"][0])
    off = percent(result.verdict.taken, "scale of channel 0", "u0")
    np.testing.assert_allclose(off, 100 * halves["u0"] / u0, rtol=0.06)
    assert result.verdict.taken in str(result)
    assert FitResult.from_dict(result.to_dict()).verdict.taken == result.verdict.taken


def test_where_gravity_is_known_a_scale_would_show():
    assert fell(FREE, priors={"g": Normal(G, 1e-4)}).verdict.taken == ""


def test_an_axis_that_two_bodies_share_is_looked_at_as_one():
    """Two marks of one body: a scale of either alone would show, one of both changes g by as much."""
    once = fall(None, noise=1e-3 * np.random.default_rng(2).normal(size=41)).observations
    values = np.column_stack([once.values, 2.0 * once.values])
    seen = Observations(once.times, values, once.sigma[0, 0], lambda run, params: run.q @ jnp.array([[1.0, 2.0]]))
    result = fitted(Problem(FALLING, seen, start_of, SCHEME, 1), FREE)
    off = percent(result.verdict.taken, "scale of channels 0 and 1", "g")
    np.testing.assert_allclose(off, 100 * float(np.ptp(result.interval95["g"])) / 2 / G, rtol=0.06)
    assert "scale of channel " not in result.verdict.taken
