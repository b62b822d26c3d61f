"""A restitution near zero: what is seen of it goes with its square, so that standard errors say nothing."""

import numpy as np
import pytest
from bouncing import BALL_FREE, SAMPLES, ball_problem, bounces

from diffcontact.identify import fit
from diffcontact.identify.intervals.parabola import misjudged

TIMES = np.linspace(0.0, 1.5, SAMPLES)
START = {"e": 0.1, "g": 9.81, "q0": np.ones(1), "u0": np.full(1, 0.3)}


def near_zero(e, seed):
    run = ball_problem(np.random.default_rng(seed))
    # After ten bounces of so little it lies.
    seen = np.maximum(bounces(e, 9.81, 1.0, 0.3, TIMES), 0.0)
    run.observations.values.setflags(write=True)
    run.observations.values[:] = (seen + 0.01 * np.random.default_rng(seed).normal(size=SAMPLES))[:, None]
    return run


@pytest.mark.parametrize("e", [0.0, 0.02])
def test_intervals_near_zero_are_those_of_profiles_and_hold_the_truth(e):
    results = [fit(near_zero(e, seed), START, BALL_FREE) for seed in range(6)]
    low, high = np.array([result.interval95["e"] for result in results]).T
    # One of six may miss; with standard errors two do, by far.
    assert np.sum((low <= e) & (e <= high)) >= 5
    assert np.all(high < 0.2)
    assert sum("e" in result.profiled for result in results) >= 4
    for result in results:
        for along in result.profiles:
            np.testing.assert_array_equal(along.interval95, result.interval95[along.name])
        assert misjudged(result, result.objective) == []
        assert result.verdict.explains == "yes"


def test_where_the_cost_is_lower_nearby_the_fit_goes_on_from_there():
    results = [fit(near_zero(0.0, seed), START, BALL_FREE) for seed in range(6)]
    again = [result for result in results if "a lower minimum of" in result.message]
    assert again
    for result in again:
        assert result.params["e"] < 0.09  # the other minimum lies at 0.094


def test_where_the_cost_is_a_parabola_intervals_are_left_alone():
    run = ball_problem(np.random.default_rng(0))
    result = fit(run, START | {"e": 0.8}, BALL_FREE)
    assert result.profiled == ()
    half = result.quantile["e"] * result.stderr["e"]
    np.testing.assert_allclose(result.interval95["e"], [result.params["e"] - half, result.params["e"] + half])
