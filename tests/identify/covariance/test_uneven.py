"""Noise that is larger where it matters, on linear models whose noise is known."""

import numpy as np
import pytest
from scipy.stats import t as student

from diffcontact.identify.covariance import error_bars as bars_module
from diffcontact.identify.covariance.autoregression import Autoregression
from diffcontact.identify.covariance.error_bars import error_bars
from diffcontact.identify.covariance.jackknife import RunResidual
from diffcontact.identify.covariance.run_noise import RunNoise
from diffcontact.identify.covariance.uneven import uneven

WHITE = Autoregression(np.ones(1), 1.0)


def kinked(n):
    """(n, 3) a place, a speed, and the speed after a bounce half way, which rests on the later half."""
    t = np.linspace(0.0, 1.0, n)
    return np.stack([np.ones(n), t, np.maximum(t - 0.5, 0.0)], axis=1)


def residuals(y, J):
    theta = np.linalg.lstsq(J, y, rcond=None)[0]
    return theta, RunResidual((y - J @ theta)[:, None], -J[:, None], np.arange(J.shape[1]))


def test_noise_alike_everywhere_leaves_most_variances_as_they_are(rng):
    J = kinked(60)
    bread = np.linalg.inv(J.T @ J)
    factors = np.array([uneven([residuals(rng.normal(size=60), J)[1]], [[WHITE]], bread)[0] for _ in range(400)])
    assert factors.min() == 1.0
    # Half a standard error above its mean a normal number is in 31 %; +- 2.3 % of 400.
    np.testing.assert_allclose(np.mean(factors > 1.0, axis=0), 0.28, atol=0.1)
    assert np.mean(np.sqrt(factors)) < 1.05


def test_factor_is_that_of_the_variances(rng):
    """theta rests on samples of variance sigma_t^2 by a_t^2: its variance over that of even noise is known."""
    n, J = 4000, kinked(4000)
    sigma = np.where(np.arange(n) < n // 2, 1.5, 0.67)
    bread = np.linalg.inv(J.T @ J)
    a = J @ bread
    exact = (sigma**2 @ a**2) / (np.mean(sigma**2) * np.sum(a**2, axis=0))
    factor, unsure = uneven([residuals(sigma * rng.normal(size=n), J)[1]], [[WHITE]], bread)
    # Squares of some thousand samples scatter by 2^(1/2) / 1000^(1/2), 5 %.
    np.testing.assert_allclose(factor, np.maximum(exact, 1.0), rtol=0.12)
    assert exact.max() > 1.4
    assert unsure.max() < 0.01


def test_channels_of_different_noise_are_not_uneven(rng):
    """Each channel has a scale of its own in the noise model; only what changes within one is uneven."""
    J = np.repeat(kinked(2000)[:, None], 2, axis=1)
    r = rng.normal(size=(2000, 2)) * [1.5, 0.67]
    models = [Autoregression(np.ones(1), 1.5), Autoregression(np.ones(1), 0.67)]
    flat = J.reshape(-1, 3)
    factor, _ = uneven([RunResidual(r, J, np.arange(3))], [models], np.linalg.inv(flat.T @ flat))
    np.testing.assert_allclose(factor, 1.0, atol=0.12)


def test_innovations_of_correlated_noise_are_compared(rng):
    """Gaps, and noise of a correlation of 0.8 whose innovations are twice as large in the later half."""
    n, model = 6000, Autoregression(np.array([1.0, -0.8]), 1.0)
    eta = rng.normal(size=n) * np.where(np.arange(n) < n // 2, 1.0, 2.0)
    noise = np.zeros(n)
    for i in range(1, n):
        noise[i] = 0.8 * noise[i - 1] + eta[i]
    J = np.kron(np.eye(2), np.ones((n // 2, 1)))
    noise[100::7] = np.nan
    run = RunResidual(noise[:, None], np.where(np.isnan(noise)[:, None], 0.0, J)[:, None], np.arange(2))
    factor, _ = uneven([run], [[model]], np.linalg.inv(J.T @ J))
    # 4 / 2.5, of some thousand innovations.
    np.testing.assert_allclose(factor, [1.0, 1.6], rtol=0.1)


def test_a_gross_misfit_is_no_noise():
    run = RunResidual(
        np.repeat([[0.1], [30.0]], 50, axis=0), np.kron(np.eye(2), np.ones((50, 1)))[:, None], np.arange(2)
    )
    assert uneven([run], [[WHITE]], np.eye(2) / 50)[0].tolist() == [1.0, 1.0]


def test_channels_without_noise_or_samples_change_nothing():
    run = RunResidual(np.stack([np.zeros(5), np.full(5, np.nan)], axis=1), np.ones((5, 2, 1)), np.arange(1))
    factor, unsure = uneven([run], [[Autoregression(np.ones(1), 0.0), WHITE]], np.eye(1))
    assert factor.tolist() == [1.0]
    assert unsure.tolist() == [0.0]


def test_what_a_prior_says_is_no_noisier(rng, monkeypatch):
    """Of two means the one in the noisier half has a prior, which says nothing, or all there is to know."""
    monkeypatch.setattr(bars_module, "run_noise", lambda r, J: RunNoise([WHITE], []))
    J = np.kron(np.eye(2), np.ones((50, 1)))
    _, run = residuals(rng.normal(size=100) * np.repeat([0.5, 2.0], 50), J)
    factor = uneven([run], [[WHITE]], np.eye(2) / 50)[0][1]
    bare, told = (error_bars([run], 2, np.array([0.0, prior])).covariance[1, 1] for prior in (0.0, 1e6))
    assert factor > 1.3
    assert bare > 1.3 * (run.r[:, 0] @ run.r[:, 0]) / 98 / 50
    # The samples add a ten-thousandth to it.
    assert told == pytest.approx(1e-6, rel=1e-3)


@pytest.mark.parametrize("sigmas", [(1.0, 1.0), (1.5, 0.67), (0.67, 1.5)])
def test_intervals_cover_whichever_half_is_noisier(rng, monkeypatch, sigmas):
    def white(r, J):
        model = Autoregression(np.ones(1), float(np.sqrt(np.sum(r**2) / (r.size - J.shape[2]))), freedom=r.size - 3.0)
        return RunNoise([model], [])

    # Finding that the noise is white takes most of the time, and is tested elsewhere.
    monkeypatch.setattr(bars_module, "run_noise", white)
    n, J = 40, kinked(40)
    sigma = np.where(np.arange(n) < n // 2, *sigmas)
    inside, without = np.zeros(3), np.zeros(3)
    for _ in range(600):
        theta, run = residuals(sigma * rng.normal(size=n), J)
        bars = error_bars([run], 3)
        half = np.maximum(bars.quantile, student.ppf(0.975, n - 3)) * np.sqrt(bars.covariance.diagonal())
        inside += np.abs(theta) < half
        without += np.abs(theta) < student.ppf(0.975, n - 3) * np.sqrt(bars.plain.diagonal())
    # 95 % of 600, +- 0.9 % each; of noise alike everywhere 96 %. Taken as even, a noisier first half costs 7 %.
    assert np.all(inside / 600 > 0.925)
    if sigmas[0] > sigmas[1]:
        assert np.min(without / 600) < 0.9
