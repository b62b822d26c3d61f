"""Draws from posteriors that are known otherwise: nearly normal ones, and one cut at a bound."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from falling import fall, fitted
from scipy.stats import truncnorm

from diffcontact.identify import Interval, Normal, Positive, Real, posterior
from diffcontact.identify.covariance import error_bars as bars_module
from diffcontact.identify.intervals.posterior import _diagnostics, _Sphere
from diffcontact.identify.result import resumed


def test_a_robust_loss_and_bad_numbers_are_named(rng):
    run, free = fall(rng), {"g": Positive(), "u0": Real()}
    result = fitted(run, free)
    with pytest.raises(ValueError, match="posterior\\(draws\\): 0, expected an integer"):
        posterior(result, draws=0)
    with pytest.raises(ValueError, match="loss 'huber' is no log-density"):
        posterior(fitted(run, free, loss="huber"))


@pytest.fixture
def _even(monkeypatch):
    """Error bars that take a channel's noise as equally large everywhere, as the posterior does."""
    monkeypatch.setattr(bars_module, "uneven", lambda runs, models, bread: (np.ones(len(bread)), np.zeros(len(bread))))


@pytest.mark.usefixtures("_even")
@pytest.mark.parametrize("priors", [{}, {"g": Normal(9.78, 0.02)}, {"u0": Normal([0.5], 0.005)}])
def test_the_density_has_the_priors_and_the_noise_of_the_fit(rng, priors):
    result = fitted(fall(rng), {"g": Real(), "u0": Real()}, noise="estimated", priors=priors)
    sphere = _Sphere(resumed(result, "test"), result)
    points = np.array([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0], [2.0, 2.0], [-2.0, -2.0]])
    density = np.asarray(jax.vmap(sphere.log_density)(jnp.asarray(points)))
    # A linear model: a normal distribution around the estimate, as wide as its covariance. Noise and prior weigh here
    # as in the fit but for the last hundredth of the noise, which is where its rounds stop.
    np.testing.assert_allclose(density - density[0], -0.5 * np.sum(points**2, axis=1), atol=0.1)
    wide = np.sqrt(np.sum(np.asarray(sphere.spread) ** 2, axis=1))
    np.testing.assert_allclose(wide, np.sqrt(np.diag(result.covariance)), rtol=0.1)


def test_a_single_parameter_has_diagnostics(rng):
    pytest.importorskip("blackjax", reason="the extra 'posterior' is not installed")
    r_hat, effective = _diagnostics(rng.normal(size=(4, 500, 1)))
    assert r_hat.shape == effective.shape == (1,)
    # Independent draws of one distribution: each counts, up to the scatter of the estimate.
    assert r_hat[0] < 1.01
    assert 1500 < effective[0] < 3000


@pytest.mark.slow
@pytest.mark.usefixtures("_even")
def test_where_the_model_is_linear_the_posterior_is_what_the_fit_says(rng):
    pytest.importorskip("blackjax", reason="the extra 'posterior' is not installed")
    result = fitted(fall(rng), {"g": Positive(), "u0": Real()})
    found = posterior(result)
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
    free_fit = fitted(run, {"g": Positive(), "u0": Real()})
    g, error = float(free_fit.params["g"]), float(free_fit.stderr["g"])
    priors = {"g": Normal(g, error)}
    result = fitted(run, {"g": Interval(1.0, g - 0.5 * error), "u0": Real()}, priors=priors)
    assert result.at_bound == ("g",)
    found = posterior(result)
    assert found.draws[..., 0].max() < g - 0.5 * error
    # Data and prior together: normal around g, narrower by sqrt 2, cut half an error below.
    narrow = error / np.sqrt(2)
    expected = truncnorm(-np.inf, -0.5 * error / narrow, g, narrow)
    np.testing.assert_allclose(found.mean[0], expected.mean(), atol=0.15 * expected.std())
    np.testing.assert_allclose(found.stderr[0], expected.std(), rtol=0.15)
