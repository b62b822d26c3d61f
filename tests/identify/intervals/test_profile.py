"""Profiles of linear models, where they are the fit's own intervals whatever it was fitted with; and of a ball."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from bouncing import BALL_FREE, BALL_START, ball_problem
from falling import NOISE, TIMES, fall, fitted
from scipy.signal import lfilter

from diffcontact.identify import Interval, Normal, Positive, Real, fit, profile
from diffcontact.identify.intervals.profile import LowerCostError
from diffcontact.identify.intervals.scan import end_of_interval

pytestmark = pytest.mark.full

FREE = {"g": Positive(), "u0": Real()}
# The module; its function hides it.
FIT = sys.modules["diffcontact.identify.fit"]


def correlated(rng):
    white = rng.normal(size=TIMES.size + 100)
    return NOISE * lfilter([1.0], [1.0, -0.8], white)[100:]


def intervals(result):
    return dict(
        zip(result.names, np.concatenate([np.reshape(b, (-1, 2)) for b in result.interval95.values()]), strict=True)
    )


@pytest.mark.parametrize(
    ("noise", "options"),
    [
        (None, {}),
        (None, {"priors": {"g": Normal(9.7, 0.02)}}),
        (None, {"noise": "estimated"}),
        (None, {"noise": "estimated", "priors": {"g": Normal(9.7, 0.02), "u0": Normal([0.5], 0.01)}}),
        (correlated, {}),
        (correlated, {"noise": "estimated", "priors": {"g": Normal(9.7, 0.02)}}),
    ],
)
def test_the_profile_of_a_linear_model_is_the_interval_of_its_fit(rng, noise, options):
    result = fitted(fall(rng, noise=noise and noise(rng)), FREE, **options)
    errors = np.sqrt(np.diag(result.covariance))
    for name, error in zip(result.names, errors, strict=True):
        # An end is found within 0.02 standard errors, and its level within 2 %, two standard errors from the estimate.
        np.testing.assert_allclose(profile(result, name).interval95, intervals(result)[name], atol=0.04 * error)


def test_a_joint_fit_is_profiled_with_all_of_its_runs(rng):
    runs = [fall(np.random.default_rng(seed), per_run=("u0",)) for seed in range(4)]
    result = fitted(runs, FREE, u0=np.zeros((4, 1)), priors={"g": Normal(9.81, 0.05)})
    assert result.problems == tuple(runs)
    for name in ("g", "u0[2,0]"):
        error = np.sqrt(result.covariance[result.names.index(name)][result.names.index(name)])
        np.testing.assert_allclose(profile(result, name).interval95, intervals(result)[name], atol=0.04 * error)


def test_a_parameter_in_log_scale_has_an_interval_of_ratios(rng):
    result = fitted(fall(rng), {"g": Positive(log=True), "u0": Real()})
    low, high = profile(result, "g").interval95
    # The logarithm bends the cost by the relative error, a few per cent.
    np.testing.assert_allclose([low, high], result.interval95["g"], atol=0.1 * result.stderr["g"])


@pytest.fixture(scope="module")
def ball():
    return fit(ball_problem(np.random.default_rng(0)), BALL_START, BALL_FREE)


@pytest.mark.parametrize("name", ["e", "u0[0]"])
def test_the_profile_of_a_nearly_linear_parameter_is_its_interval(ball, name):
    found, expected = profile(ball, name), intervals(ball)[name]
    # Found within 0.02 standard errors; what it is curved is of second order, a few per cent of the width.
    np.testing.assert_allclose(found.interval95, expected, atol=0.1 * np.diff(expected)[0])
    assert np.all(np.diff(found.values) > 0)
    assert found.rise.min() == pytest.approx(0.0, abs=1e-6)


def test_a_profile_stops_at_a_bound(rng):
    result = fit(ball_problem(rng, e=1.0), BALL_START | {"e": 0.95}, BALL_FREE)
    found = profile(result, "e")
    assert found.interval95[1] == pytest.approx(1.0)
    assert 0.9 < found.interval95[0] < 1.0


def test_an_unknown_element_is_named(ball):
    with pytest.raises(ValueError, match="no element 'mass'; there are e, g"):
        profile(ball, "mass")


STUCK = {"e": 0.87, "g": 7.92, "q0": [1.08], "u0": [0.24]}


def test_an_estimate_in_a_local_minimum_is_not_profiled(monkeypatch):
    """Six bounces, of which single shooting misses some: the cost falls on the way from there."""
    monkeypatch.setattr(FIT, "with_profiles", lambda result: result)
    stuck = fit(ball_problem(np.random.default_rng(0), end=3.0), STUCK, BALL_FREE, shooting="single")
    with pytest.raises(
        LowerCostError, match="lower than at the estimate, so the fit ended in a local minimum"
    ) as lower:
        profile(stuck, "u0[0]")
    assert stuck.objective.cost(lower.value.theta) < stuck.cost


def test_a_fit_goes_on_where_a_profile_has_met_a_lower_cost():
    found = fit(ball_problem(np.random.default_rng(0), end=3.0), STUCK, BALL_FREE, shooting="single")
    assert "a lower minimum of" in found.message
    assert found.lower_elsewhere == ""
    assert abs(found.params["e"] - 0.8) < 4 * found.stderr["e"]


def test_a_fit_that_never_arrives_at_the_lowest_cost_says_so(monkeypatch):
    monkeypatch.setattr(FIT, "_DEEPER", 0)
    found = fit(ball_problem(np.random.default_rng(0), end=3.0), STUCK, BALL_FREE, shooting="single")
    assert "the cost is lower" in found.lower_elsewhere
    assert found.verdict.explains != "yes"
    assert any("local minimum" in reason for reason in found.verdict.reasons)


def test_where_the_bounds_stop_the_search_the_end_is_the_bound(rng):
    result = fitted(fall(rng), {"g": Interval(9.0, 9.8), "u0": Real()})
    assert profile(result, "g").interval95[1] == pytest.approx(9.8)


@pytest.mark.parametrize("stderr", [1e6, 1.0, 0.1])
@pytest.mark.parametrize("cliff", [0.0, 1e4, np.inf])
def test_the_end_is_found_whatever_the_standard_error(stderr, cliff):
    """Nothing depends on a friction that grips, so its standard error is endless; with too little a block slides."""
    asked = []

    def rise(x):
        asked.append(x)
        return 0.0 if x > 0.5 else cliff + 100.0 * (0.5 - x)

    parameters = SimpleNamespace(low=np.zeros(1), high=np.full(1, 10.0), start=np.full(1, 5.0))
    objective = SimpleNamespace(parameters=parameters)
    scan = SimpleNamespace(objective=objective, j=0, stderr=stderr, level=4.0, rise=rise, theta=None)
    low = end_of_interval(scan, -1.0)  # pyright: ignore[reportArgumentType]
    assert low == pytest.approx(0.5 if cliff else 0.46, abs=0.1)
    assert end_of_interval(scan, 1.0) == 10.0  # pyright: ignore[reportArgumentType]
    assert len(set(asked)) < 40
