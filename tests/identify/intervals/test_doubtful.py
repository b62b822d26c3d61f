"""A restitution near zero: what is seen of it goes with its square, so that standard errors say nothing."""

import numpy as np
import pytest
from bouncing import BALL_FREE, SAMPLES, ball_problem, bounces
from falling import fall, fitted

from diffcontact.identify import Interval, Positive, Real, fit
from diffcontact.identify.intervals import doubtful
from diffcontact.identify.intervals.parabola import inverse_diagonal, leaning, misjudged

pytestmark = pytest.mark.full

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


def test_what_leans_on_a_bound_has_an_interval_that_does_not(rng, monkeypatch):
    """The speed of a fall is held at its bound, and its weight would be larger were it faster."""
    run = fall(rng)
    alone = fitted(run, {"g": Positive(), "u0": Real()})
    least = alone.params["u0"] + 0.2 * alone.stderr["u0"]
    free = {"g": Positive(), "u0": Interval(least, np.inf)}
    result = fitted(run, free, u0=least + 1.0)
    assert result.at_bound == ("u0[0]",)
    assert leaning(result, result.objective) == ["g"]
    assert set(result.profiled) == {"g", "u0[0]"}
    low, high = result.interval95["g"]
    half = float(result.quantile["g"] * result.stderr["g"])
    # On the side of the bound it ends as with the speed held; on the other as without a bound, where it is far longer.
    assert low == pytest.approx(result.params["g"] - half, abs=0.05 * half)
    # Each scales the noise by what its own error bars rest on.
    assert high - alone.params["g"] == pytest.approx(alone.interval95["g"][1] - alone.params["g"], rel=0.3)
    assert high > result.params["g"] + 1.5 * half
    # More than can be profiled are told.
    monkeypatch.setattr(doubtful, "_AT_MOST", 1)
    assert any("the intervals of g hold only" in reason for reason in fitted(run, free, u0=least).verdict.reasons)


def test_the_diagonal_of_an_inverse(rng):
    J = rng.normal(size=(9, 3)) * [1.0, 1e-6, 1e6]
    np.testing.assert_allclose(inverse_diagonal(J), np.diag(np.linalg.inv(J.T @ J)), rtol=1e-6)
    assert inverse_diagonal(np.array([[1.0, 0.0], [1.0, 0.0]])).tolist() == [0.5, 1.0]
