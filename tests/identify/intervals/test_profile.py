"""Profiles, which of linear models are the intervals of a fit; near zero and at bounds; minima elsewhere."""

import sys
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from bouncing import BALL_FREE, BALL_START, SAMPLES, ball_problem, bounces
from falling import NOISE, TIMES, fall, fitted
from scipy.optimize import minimize
from scipy.signal import lfilter

from diffcontact.identify import Interval, Normal, Positive, Real, fit, profile
from diffcontact.identify.error_bars import beside_bounds
from diffcontact.identify.intervals.posterior import Unbounded
from diffcontact.identify.intervals.profile import LowerCostError, end_of_interval, misjudged
from diffcontact.numerics.least_squares import inverse_diagonal

FREE = {"g": Positive(), "u0": Real()}
# The module; its function hides it.
FIT = sys.modules["diffcontact.identify.fit"]


def correlated(rng):
    white = rng.normal(size=TIMES.size + 100)
    return NOISE * lfilter([1.0], [1.0, -0.8], white)[100:]


def intervals(result):
    ends = np.concatenate([np.reshape(b, (-1, 2)) for b in result.interval95.values()])
    return dict(zip(result.names, ends, strict=True))


@pytest.mark.parametrize(
    ("noise", "options"),
    [
        (None, {}),
        (None, {"noise": "estimated", "priors": {"g": Normal(9.7, 0.02), "u0": Normal([0.5], 0.01)}}),
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
    with pytest.raises(ValueError, match="no element 'mass'; there are e, g"):
        profile(ball, "mass")


def test_a_profile_stops_at_a_bound(rng):
    found = profile(fit(ball_problem(rng, e=1.0), BALL_START | {"e": 0.95}, BALL_FREE), "e")
    assert found.interval95[1] == pytest.approx(1.0)
    assert 0.9 < found.interval95[0] < 1.0
    short = fitted(fall(np.random.default_rng(0)), {"g": Interval(9.0, 9.8), "u0": Real()})
    assert profile(short, "g").interval95[1] == pytest.approx(9.8)


STUCK = {"e": 0.87, "g": 7.92, "q0": [1.08], "u0": [0.24]}


def stuck():
    """Six bounces, of which single shooting misses some: the cost falls on the way from there."""
    return fit(ball_problem(np.random.default_rng(0), end=3.0), STUCK, BALL_FREE, shooting="single")


def test_an_estimate_in_a_local_minimum_is_not_profiled(monkeypatch):
    monkeypatch.setattr(FIT, "widened", lambda result, ends: result)
    result = stuck()
    with pytest.raises(LowerCostError, match="lower than at the estimate, so the fit ended in a local minimum") as low:
        profile(result, "u0[0]")
    assert result.objective.cost(low.value.theta) < result.cost


def test_a_fit_goes_on_where_a_profile_has_met_a_lower_cost_or_says_so(monkeypatch):
    found = stuck()
    assert "a lower minimum of" in found.message
    assert found.lower_elsewhere == ""
    assert abs(found.params["e"] - 0.8) < 4 * found.stderr["e"]
    monkeypatch.setattr(FIT, "_DEEPER", 0)
    found = stuck()
    assert "the cost is lower" in found.lower_elsewhere
    assert found.verdict.explains != "yes"
    assert any("local minimum" in reason for reason in found.verdict.reasons)


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


def near_zero(seed):
    """A ball that, after ten bounces of so little, lies: what is seen of e goes with its square."""
    run, times = ball_problem(np.random.default_rng(seed)), np.linspace(0.0, 1.5, SAMPLES)
    seen = np.maximum(bounces(0.0, 9.81, 1.0, 0.3, times), 0.0)
    run.observations.values.setflags(write=True)
    run.observations.values[:] = (seen + 0.01 * np.random.default_rng(seed).normal(size=SAMPLES))[:, None]
    return fit(run, {"e": 0.1, "g": 9.81, "q0": np.ones(1), "u0": np.full(1, 0.3)}, BALL_FREE)


def test_intervals_near_zero_are_those_of_profiles_and_hold_the_truth():
    results = [near_zero(seed) for seed in range(4)]
    # Where the cost is lower nearby the fit goes on from there; the other minimum lies at 0.094.
    again = [result for result in results if "a lower minimum of" in result.message]
    assert again
    assert all(result.params["e"] < 0.09 for result in again)
    low, high = np.array([result.interval95["e"] for result in results]).T
    # One may miss; with standard errors some do, by far.
    assert np.sum(low == 0.0) >= 3
    assert np.all(high < 0.2)
    assert sum("e" in result.profiled for result in results) >= 3
    for result in results:
        for along in result.profiles:
            np.testing.assert_array_equal(along.interval95, result.interval95[along.name])
        assert misjudged(result, result.objective) == []
        # One of them may have arrived at zero, which is said.
        assert result.verdict.explains == ("partly" if result.at_bound else "yes")


def test_where_the_cost_is_a_parabola_intervals_are_left_alone(ball):
    assert ball.profiled == ()
    half = ball.quantile["e"] * ball.stderr["e"]
    np.testing.assert_allclose(ball.interval95["e"], [ball.params["e"] - half, ball.params["e"] + half])


@pytest.mark.parametrize("least", [0.2, 2.0])
def test_beside_a_bound_the_profile_of_a_linear_model_is_the_interval_of_its_fit(rng, least):
    """The speed of a fall is held at its bound, and its weight would be larger were it faster."""
    run = fall(rng)
    alone = fitted(run, FREE)
    bound = alone.params["u0"] + least * alone.stderr["u0"]
    result = fitted(run, {"g": Positive(), "u0": Interval(bound, np.inf)}, u0=bound + 1.0)
    assert result.at_bound == ("u0[0]",)
    assert result.profiled == ()
    for name in result.names:
        # The profile takes the noise, and whether it is correlated, from the fit with the speed held, the interval from
        # the fit with the speed free: of a hundred samples that is a tenth.
        width = np.diff(intervals(result)[name])[0]
        np.testing.assert_allclose(profile(result, name).interval95, intervals(result)[name], atol=0.15 * width)
    # On the side of the bound it ends as with the speed held, on the other side much further away.
    half = float(result.quantile["g"] * result.stderr["g"])
    low, high = result.interval95["g"] - result.params["g"]
    assert -low == pytest.approx(half, rel=0.15)
    assert high > (1.5 if least < 1 else 1.1) * half


def test_beside_several_bounds_the_interval_ends_where_the_constrained_profile_does(rng):
    J = rng.normal(size=(40, 5)) @ rng.normal(size=(5, 5))
    r, covariance = rng.normal(size=40), np.linalg.inv(J.T @ J)
    bound = np.array([0, 1, 2])
    at = minimize(lambda x: 0.5 * np.sum((r + J @ x) ** 2), np.zeros(5), bounds=[(0, None)] * 3 + [(None, None)] * 2).x
    inwards = np.where(np.isin(np.arange(5), bound) & (at < 1e-6), 1.0, 0.0)
    assert inwards.any()
    gradient = J.T @ (r + J @ at)
    down, up = beside_bounds(covariance, covariance, gradient * inwards, inwards, np.full(5, 2.0))
    for j in range(5):
        assert (down[j] == np.inf) == (inwards[j] > 0)
        for side, reach in ((-1.0, down[j]), (1.0, up[j])):
            if not np.isfinite(reach):
                continue
            rise = lambda x: 4.0 - np.sum((r + J @ (at + x)) ** 2) + np.sum((r + J @ at) ** 2)  # noqa: E731
            limits = [(0.0 if inwards[k] else None, None) for k in range(5)]
            start = np.where(inwards > 0, 1e-3, 0.0)
            end = minimize(
                lambda x, j=j, side=side: -side * x[j],
                start,
                bounds=limits,
                constraints={"type": "ineq", "fun": rise},
                method="SLSQP",
                options={"maxiter": 500, "ftol": 1e-12},
            )
            assert reach == pytest.approx(side * end.x[j], rel=1e-3, abs=1e-3)


def test_the_diagonal_of_an_inverse(rng):
    J = rng.normal(size=(9, 3)) * [1.0, 1e-6, 1e6]
    np.testing.assert_allclose(inverse_diagonal(J), np.diag(np.linalg.inv(J.T @ J)), rtol=1e-6)
    assert inverse_diagonal(np.array([[1.0, 0.0], [1.0, 0.0]])).tolist() == [0.5, 1.0]


def test_bounds_are_respected_and_slopes_are_those_of_the_map():
    low, high = np.array([0.0, 1.0, -np.inf, -np.inf]), np.array([2.0, np.inf, 5.0, np.inf])
    line, y, h = Unbounded(low, high), np.array([0.3, -1.2, 0.7, 4.0]), 1e-6
    at, log_slope = jax.jit(line.theta), jax.jit(line.log_slope)
    theta = np.asarray(at(y))
    assert np.all((theta > low) & (theta < high))
    np.testing.assert_allclose(line.coordinates(theta), y)
    slopes = (np.asarray(at(y + h)) - np.asarray(at(y - h))) / (2 * h)
    np.testing.assert_allclose(log_slope(y), np.log(np.abs(slopes)), atol=1e-8)  # h^2 and eps / h


HELD = {"g": 9.81, "q0": [1.0], "u0": [0.0]}


def test_starts_that_end_elsewhere_at_the_same_cost_are_told(rng):
    """Of a speed that is the square of a parameter the data do not show the sign."""
    free, root = {"root": Interval(-1.0, 1.0)}, np.sqrt(0.3)
    call = {"tied": {"u0": lambda p: p["root"] ** 2 * np.ones(1)}, "shooting": "single"}
    run = ball_problem(rng)
    alone = fit(run, HELD | {"e": 0.8, "root": 0.5}, free, **call)
    several = fit(run, HELD | {"e": 0.8, "root": 0.5}, free, starts=4, **call)
    assert alone.params["root"] == pytest.approx(root, abs=0.02)
    assert (alone.elsewhere, alone.verdict.explains) == ((), "yes")
    assert [abs(other["root"]) for other in several.elsewhere] == pytest.approx([root], abs=0.02)
    assert several.interval95["root"] == pytest.approx([-root, root], abs=0.05)
    assert several.verdict.explains == "partly"
