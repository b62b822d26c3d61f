"""Draws from posteriors that are known otherwise: nearly normal ones, and one cut at a bound."""

import jax
import numpy as np
import pytest
from falling import fall, fitted
from scipy.stats import truncnorm

from diffcontact.identify import Interval, Normal, Positive, Posterior, Real, posterior
from diffcontact.identify import error_bars as bars_module
from diffcontact.identify.estimate import resumed
from diffcontact.identify.intervals.posterior import _diagnostics, _failure, _Sphere
from diffcontact.identify.verdict.reasons import Reason, Verdict


def test_a_robust_loss_and_bad_numbers_are_named(rng):
    run, free = fall(rng), {"g": Positive(), "u0": Real()}
    result = fitted(run, free)
    with pytest.raises(ValueError, match="posterior\\(draws\\): 3, expected an integer of at least 4"):
        posterior(result, draws=3)
    with pytest.raises(ValueError, match="loss 'huber' is no log-density"):
        posterior(fitted(run, free, loss="huber"))


@pytest.fixture
def _even(monkeypatch):
    """Error bars that take a channel's noise as equally large everywhere, as the posterior does."""
    monkeypatch.setattr(bars_module, "uneven", lambda runs, models, bread: (np.ones(len(bread)), np.zeros(len(bread))))


@pytest.mark.usefixtures("_even")
@pytest.mark.parametrize("priors", [pytest.param({}, marks=pytest.mark.full), {"g": Normal(9.78, 0.02)}])
def test_the_density_has_the_priors_and_the_noise_of_the_fit(rng, priors):
    result = fitted(fall(rng), {"g": Real(), "u0": Real()}, noise="estimated", priors=priors)
    sphere = _Sphere(resumed(result, "test"), result)
    points = np.array([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0], [2.0, 2.0], [-2.0, -2.0]])
    density = np.asarray(jax.jit(jax.vmap(sphere.log_density))(points))
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


def test_a_single_chain_is_told_by_its_halves(rng):
    pytest.importorskip("blackjax", reason="the extra 'posterior' is not installed")
    still, moving = rng.normal(size=(1, 400, 1)), rng.normal(size=(1, 400, 1)) + np.linspace(0.0, 3.0, 400)[:, None]
    assert _diagnostics(still)[0] < 1.01
    assert _diagnostics(moving)[0] > 1.2
    # Two chains that move the same way have the same mean.
    assert _diagnostics(np.concatenate([moving, moving + 0.01]))[0] > 1.2


def test_what_speaks_against_the_draws_is_told(rng):
    draws = rng.normal(1.0, 0.1, size=(2, 200, 2))
    fine = Posterior(("a", "b"), draws, np.ones(2), np.full(2, 300.0), 1)
    assert fine.doubts == ()
    no = Verdict.of([Reason("it moves otherwise", fatal=True)], "that nothing resists")
    told = {"missed": ({"b": -1.0},), "failure": "it overlaps"}
    poor = Posterior(("a", "b"), draws, np.ones(2), np.array([300.0, 40.0]), 20, no, **told)
    assert not poor.mixed
    for part in (
        "more warmup and draws",
        "no draw is near: b = -1; these",
        "many draws diverged",
        "draws: it overlaps",
    ):
        assert any(part in doubt for doubt in poor.doubts)
        assert part in str(poor)
    assert "40 effective draws, may be elsewhere, too" in str(poor)
    assert str(poor).startswith("does not explain the data: do not use these intervals\n  - it moves otherwise\n\n")
    assert "within this run: another run may differ" in str(poor)
    assert "that nothing resists" in str(poor)
    assert "95 % interval" not in str(poor)


def test_draws_whose_motions_cannot_be_trusted_are_told(rng):
    result = fitted(fall(rng), {"g": Positive(), "u0": Real()})
    objective, theta = resumed(result, "test"), resumed(result, "test").parameters.start
    assert _failure(objective, np.tile(theta, (10, 1))) == ""
    assert "not finite" in _failure(objective, np.vstack([np.tile(theta, (9, 1)), [np.nan, 0.0]]))


@pytest.mark.full
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
