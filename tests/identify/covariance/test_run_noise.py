"""Several channels: what they have in common, how far the models may be wrong, what they mean for a fit."""

import numpy as np
import pytest
from scipy.linalg import toeplitz
from scipy.signal import lfilter

from diffcontact.identify.covariance.autoregression import Autoregression, autoregression
from diffcontact.identify.covariance.run_noise import run_noise, score_covariance


def design(n):
    t = np.linspace(0.0, 1.0, n)
    return np.stack([np.ones(n), t, t**2], axis=1)


def noise(rng, polynomial, n):
    return lfilter([1.0], polynomial, rng.normal(size=(n + 400, 1)), axis=0)[400:]


def test_score_covariance_is_the_dense_sandwich(rng):
    n = 80
    models = [Autoregression(np.array([1.0, -k]), s) for k, s in ((0.8, 1.0), (-0.5, 2.0))]
    J = rng.normal(size=(n, 2, 3))
    r = np.full((n, 2), np.nan)
    r[:40, 0] = r[40:, 1] = 1.0  # never measured together: no correlation between the channels
    dense = sum(J[:, c].T @ toeplitz(model.autocovariance(n)) @ J[:, c] for c, model in enumerate(models))
    np.testing.assert_allclose(score_covariance(models, r, J), dense, rtol=1e-9)


def test_channels_that_share_their_noise_are_seen_to(rng):
    e = noise(rng, [1.0, -0.9], 400)
    model = autoregression(e[:, 0], np.zeros((400, 1)))
    J = rng.normal(size=(400, 1, 2))
    twice = score_covariance([model, model], np.hstack([e, e]), np.concatenate([J, J], axis=1))
    np.testing.assert_allclose(twice, 4.0 * score_covariance([model], e, J))


def two_channels(rng, second):
    """Residuals of a parabola fitted to each of two channels with three parameters each, the second 5 times as loud."""
    n = 150
    J = np.zeros((n, 2, 6))
    J[:, 0, :3] = J[:, 1, 3:] = design(n)
    e = np.stack([noise(rng, [1.0, -0.8], n)[:, 0], 5 * noise(rng, second, n)[:, 0]], axis=1)
    A = J.reshape(-1, 6)
    return (e.ravel() - A @ np.linalg.lstsq(A, e.ravel(), rcond=None)[0]).reshape(n, 2), J


def test_channels_of_one_kind_are_given_one_polynomial_and_others_are_not(rng):
    alike = run_noise(*two_channels(rng, [1.0, -0.8])).models
    np.testing.assert_array_equal(alike[0].polynomial, alike[1].polynomial)
    # Innovations of deviation 5 to 1; the standard error of their ratio is sqrt(1 / 150) = 8 %.
    assert alike[1].sigma / alike[0].sigma == pytest.approx(5.0, rel=0.3)
    first, second = run_noise(*two_channels(rng, [1.0, 0.8])).models
    assert first.polynomial[1] < -0.5
    assert second.polynomial[1] > 0.5


def test_doubts_are_as_large_as_the_scatter(rng):
    n, replicas = 200, 60
    logarithms, doubted = [], []
    for _ in range(replicas):
        r = noise(rng, [1.0, -0.6], n)
        found = run_noise(r, np.zeros((n, 1, 1)))
        constant = np.ones((n, 1, 1))
        powers = [
            np.log(score_covariance(models, r, constant)[0, 0])
            for models in (found.models, *(side for pair in found.perturbations for side in pair))
        ]
        logarithms.append(powers[0])
        doubted.append(np.sqrt(np.sum(((np.array(powers[1::2]) - powers[2::2]) / 2) ** 2)))
    # The deviation of 60 numbers has a standard error of 9 %, with the order now and then another somewhat more.
    assert np.median(doubted) == pytest.approx(np.std(logarithms), rel=0.4)


def test_a_silent_channel_is_no_trouble(rng):
    r = np.concatenate([noise(rng, [1.0, -0.6], 100), np.zeros((100, 1)), np.full((100, 1), np.nan)], axis=1)
    found = run_noise(r, np.zeros((100, 3, 1)))
    assert [model.sigma for model in found.models[1:]] == [0.0, 0.0]
    assert all(np.isfinite(model.sigma) for pair in found.perturbations for side in pair for model in side)


def test_channels_that_take_turns_are_given_the_polynomial_of_their_own_samples(rng):
    r, J = two_channels(rng, [1.0, -0.8])
    turns, columns = np.full((2 * len(r), 2), np.nan), np.zeros((2 * len(r), *J.shape[1:]))
    for c in range(2):
        turns[c::2, c], columns[c::2, c] = r[:, c], J[:, c]
    own, found = run_noise(r, J).models, run_noise(turns, columns).models
    for mine, other in zip(own, found, strict=True):
        # Between channels the gap is wider or narrower than a step, but no step leads across it.
        np.testing.assert_allclose(other.polynomial[::2], mine.polynomial, rtol=1e-6)
        np.testing.assert_allclose(other.sigma, mine.sigma, rtol=1e-6)
