"""Draws from posteriors that are known otherwise: nearly normal ones, and one cut at a bound."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import truncnorm

import diffcontact as dc
from diffcontact.identify import Interval, Normal, Observations, Positive, Problem, Real, fit, posterior, prepare
from diffcontact.identify.autocorrelation import Autoregression, whitening
from diffcontact.identify.unbounded import Unbounded

# A body that falls and never lands: its height is linear in height, speed and weight.
FALLING = dc.System(
    gap=lambda t, q, p: q + 100.0,
    force=lambda t, q, u, p: -p["g"] * jnp.ones(1),
    mass=lambda q, p: jnp.ones(1),
    restitution=lambda p: 0.0,
)
SCHEME = dc.VelocityProjection()
TIMES = np.linspace(0.0, 1.0, 41)
NOISE = 1e-2


def positions(trajectory, params):
    return trajectory.q


def start_of(params):
    return jnp.zeros(1), params["u0"]


def fall(rng):
    values = (0.4 * TIMES - 9.81 * TIMES**2 / 2 + NOISE * rng.normal(size=41))[:, None]
    values[7:9] = np.nan
    return Problem(FALLING, Observations(TIMES, values, 3.0 * NOISE, positions), start_of, SCHEME)


def fitted(run, free, **options):
    result = fit(run, {"g": 9.0, "u0": [0.0]}, free, **options)
    return prepare(run, result.params, free, **options), result


def test_bounds_are_respected_and_slopes_are_those_of_the_map():
    low, high = np.array([0.0, 1.0, -np.inf, -np.inf]), np.array([2.0, np.inf, 5.0, np.inf])
    line, y, h = Unbounded(low, high), np.array([0.3, -1.2, 0.7, 4.0]), 1e-6
    theta = np.asarray(line.theta(jnp.asarray(y)))
    assert np.all((theta > low) & (theta < high))
    np.testing.assert_allclose(line.coordinates(theta), y)
    slopes = (np.asarray(line.theta(jnp.asarray(y + h))) - np.asarray(line.theta(jnp.asarray(y - h)))) / (2 * h)
    np.testing.assert_allclose(line.log_slope(jnp.asarray(y)), np.log(np.abs(slopes)), atol=1e-8)  # h^2 and eps / h


def test_whitened_noise_is_white(rng):
    n, model = 40, Autoregression(np.array([1.0, -1.1, 0.5]), 0.3)
    index = np.arange(n)
    covariance = model.autocovariance(n)[np.abs(index[:, None] - index)]
    W, filters = np.zeros((n, n)), whitening(model, np.ones(n, bool))
    for lag in range(3):
        W[index[lag:], index[: n - lag]] = filters[lag:, lag]
    # The autocovariance comes from a transform that is long enough for its tail to have died.
    np.testing.assert_allclose(W @ covariance @ W.T, np.eye(n), atol=1e-8)


def test_a_robust_loss_and_bad_numbers_are_named(rng):
    run, free = fall(rng), {"g": Positive(), "u0": Real()}
    objective, result = fitted(run, free)
    with pytest.raises(ValueError, match="posterior\\(draws\\): 0, expected an integer"):
        posterior(objective, result, draws=0)
    with pytest.raises(ValueError, match="loss 'huber' is no log-density"):
        posterior(*fitted(run, free, loss="huber"))


@pytest.mark.slow
def test_where_the_model_is_linear_the_posterior_is_what_the_fit_says(rng):
    pytest.importorskip("blackjax", reason="the extra 'posterior' is not installed")
    objective, result = fitted(fall(rng), {"g": Positive(), "u0": Real()})
    found = posterior(objective, result)
    assert found.mixed
    assert found.divergences == 0
    estimate, stderr = np.array([result.params["g"], *result.params["u0"]]), np.sqrt(np.diag(result.covariance))
    # 2000 draws, 500 of them effective at least: 4.5 % in the mean, 3 % in the deviation; three of that and more.
    assert np.all(found.effective > 500)
    np.testing.assert_allclose((found.mean - estimate) / stderr, 0.0, atol=0.15)
    np.testing.assert_allclose(found.stderr / stderr, 1.0, atol=0.12)
    correlation = [np.corrcoef(found.draws.reshape(-1, 2).T)[0, 1], result.covariance[0, 1] / np.prod(stderr)]
    np.testing.assert_allclose(*correlation, atol=0.05)
    assert "r-hat 1.0" in str(found)


@pytest.mark.slow
def test_a_bound_cuts_the_posterior_and_a_prior_narrows_it(rng):
    pytest.importorskip("blackjax", reason="the extra 'posterior' is not installed")
    run = fall(rng)
    _, free_fit = fitted(run, {"g": Positive(), "u0": Real()})
    g, error = float(free_fit.params["g"]), float(free_fit.stderr["g"])
    priors = {"g": Normal(g, error)}
    objective, result = fitted(run, {"g": Interval(1.0, g - 0.5 * error), "u0": Real()}, priors=priors)
    assert result.at_bound == ("g",)
    found = posterior(objective, result)
    assert found.draws[..., 0].max() < g - 0.5 * error
    # Data and prior together: normal around g, narrower by sqrt 2, cut half an error below.
    narrow = error / np.sqrt(2)
    expected = truncnorm(-np.inf, -0.5 * error / narrow, g, narrow)
    np.testing.assert_allclose(found.mean[0], expected.mean(), atol=0.15 * expected.std())
    np.testing.assert_allclose(found.stderr[0], expected.std(), rtol=0.15)
