"""Noise of channels as autoregressive processes: each by itself, what channels share, what it means for a fit."""

import numpy as np
import pytest
from scipy.linalg import toeplitz
from scipy.signal import lfilter

from diffcontact.identify.noise import (
    Autoregression,
    _Moments,
    _polynomials,
    autoregression,
    effective_count,
    orthonormal,
    run_noise,
    score_covariance,
    whitening,
)

KAPPA = np.array([0.9, -0.5, 0.3])


def design(n):
    t = np.linspace(0.0, 1.0, n)
    return np.stack([np.ones(n), t, t**2], axis=1)


def noise(rng, polynomial, n, channels=1):
    return lfilter([1.0], polynomial, rng.normal(size=(n + 400, channels)), axis=0)[400:]


def test_autocovariance_solves_the_yule_walker_equations():
    model = Autoregression(_polynomials(KAPPA)[-1], 0.7)
    gamma = model.autocovariance(50)
    a = model.polynomial
    # sum_i a_i gamma_{tau - i} = sigma^2 at tau = 0, zero after; 400 samples hold all of the correlation
    for tau in range(10):
        expected = 0.49 if tau == 0 else 0.0
        assert abs(sum(a[i] * gamma[abs(tau - i)] for i in range(4)) - expected) < 1e-8


def test_restricted_likelihood_is_the_dense_one(rng):
    n = 60
    r = noise(rng, _polynomials(KAPPA)[-1], n)[:, 0]
    Q = orthonormal(design(n))
    moments = _Moments(np.column_stack([Q, r]), np.ones(n, bool), 3)
    differences = []
    for kappa in (KAPPA, np.array([0.5, 0.1, -0.2]), np.zeros(3)):
        S = toeplitz(Autoregression(_polynomials(kappa)[-1], 1.0).autocovariance(n))
        Si = np.linalg.inv(S)
        G = Q.T @ Si @ Q
        rss = r @ (Si - Si @ Q @ np.linalg.solve(G, Q.T @ Si)) @ r
        dense = (n - 3) * np.log(rss / (n - 3)) + np.linalg.slogdet(S)[1] + np.linalg.slogdet(G)[1]
        differences.append(moments.deviance(kappa)[0] - dense)
    np.testing.assert_allclose(differences, 0.0, atol=1e-7)  # dense inverse of a matrix of condition 1e4


def test_what_the_fit_has_taken_out_is_not_extrapolated():
    walk = Autoregression(np.array([1.0, -0.9999]), 1.0, slowest=np.pi * 4 / 200)
    # flat below 2 oscillations in 200 samples: 1 / |1 - 0.9999 e^(iw)|^2 at w = 0.063, about 1 / w^2 (w^2 / 12 off)
    np.testing.assert_allclose(walk.spectrum(1600)[:17], 1.0 / walk.slowest**2, rtol=1e-3)
    assert walk.spectrum(1600)[20] < walk.spectrum(1600)[0]


def test_the_bias_of_fitted_residuals_is_undone(rng):
    n, replicas = 150, 14
    J = design(n)
    found = []
    for _ in range(replicas):
        e = noise(rng, [1.0, -0.8], n)[:, 0]
        r = e - J @ np.linalg.lstsq(J, e, rcond=None)[0]
        r[rng.random(n) < 0.05] = np.nan
        found.append(-autoregression(r, J).polynomial[1:].sum())
    # The plain estimate of phi from residuals is low by about (1 + 3 phi) / n per column of J, here 0.07; the standard
    # error of the mean is 0.6 / sqrt(150 * 14) = 0.013 and the median of a skewed distribution lies close.
    assert abs(np.median(found) - 0.8) < 0.04


def test_white_residuals_stay_white(rng):
    model = autoregression(rng.normal(size=500), design(500))
    assert model.order == 0
    assert effective_count(model, 500) == pytest.approx(500)


def test_an_exact_fit_has_no_noise():
    model = autoregression(np.zeros(20), design(20))
    assert (model.order, model.sigma) == (0, 0.0)
    assert effective_count(model, 20) == 20.0


def test_residuals_that_are_rounding_are_noise_of_their_own_size():
    """A fit without noise leaves the last bit of each number: the same one for a while, then none."""
    r = np.zeros(81)
    r[:24], r[60] = -1e-14, 1e-14
    J = np.where(np.arange(81)[:, None] < 24, 1.0, np.arange(81)[:, None] == 60) * [[1.0, 0.0]] + design(81)[:, :2]
    for columns in (J, np.stack([r != 0, np.arange(81) < 24], axis=1).astype(float)):
        model = autoregression(r, columns)
        assert 1e-9 * 1e-14 < model.sigma < 1e-13, model.sigma


def test_few_samples_are_taken_as_independent():
    model = autoregression(np.array([1.0, -1.0, np.nan, 0.5]), design(4))
    assert model.order == 0
    assert np.isfinite(model.sigma)


def test_whitened_noise_is_white(rng):
    n, model = 40, Autoregression(np.array([1.0, -1.1, 0.5]), 0.3)
    index = np.arange(n)
    covariance = model.autocovariance(n)[np.abs(index[:, None] - index)]
    W, filters = np.zeros((n, n)), whitening(model, np.ones(n, bool))
    for lag in range(3):
        W[index[lag:], index[: n - lag]] = filters[lag:, lag]
    # The autocovariance comes from a transform that is long enough for its tail to have died.
    np.testing.assert_allclose(W @ covariance @ W.T, np.eye(n), atol=1e-8)


def test_a_channel_with_every_third_sample_has_the_model_of_those(rng):
    n, every, J = 200, 3, design(200)
    e = noise(rng, [1.0, -0.8], n)[:, 0]
    r = e - J @ np.linalg.lstsq(J, e, rcond=None)[0]
    apart, columns = np.full(every * n, np.nan), np.zeros((every * n, 3))
    apart[::every], columns[::every] = r, J
    own, found = autoregression(r, J), autoregression(apart, columns)
    # The same likelihood, of the same numbers; rounding moves where the search for its maximum stops, by 1e-7.
    assert (found.order, found.every) == (own.order, every)
    np.testing.assert_allclose(found.polynomial[::every], own.polynomial, rtol=1e-5)
    np.testing.assert_allclose(found.autocovariance(every * n)[:60:every], own.autocovariance(n)[:20], rtol=1e-4)
    filters = whitening(found, ~np.isnan(apart))
    np.testing.assert_allclose(filters[::every, ::every], whitening(own, np.ones(n, bool)), rtol=1e-5)
    assert np.all(filters[1::every] == 0.0)


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
    n, replicas = 200, 24
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
    # The deviation of 24 numbers has a standard error of 14 %, with the order now and then another somewhat more.
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
