import numpy as np
import pytest
from scipy.linalg import toeplitz
from scipy.signal import lfilter

from diffcontact.identify.autocorrelation import (
    Autoregression,
    _Moments,
    _orthonormal,
    _polynomials,
    autoregression,
    effective_count,
    run_noise,
    score_covariance,
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
    Q = _orthonormal(design(n))
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


def test_score_covariance_is_the_dense_sandwich(rng):
    n = 80
    models = [Autoregression(_polynomials(np.array([k]))[-1], s) for k, s in ((0.8, 1.0), (-0.5, 2.0))]
    J = rng.normal(size=(n, 2, 3))
    r = np.full((n, 2), np.nan)
    r[:40, 0] = r[40:, 1] = 1.0  # never measured together: no correlation between the channels
    dense = sum(J[:, c].T @ toeplitz(model.autocovariance(n)) @ J[:, c] for c, model in enumerate(models))
    np.testing.assert_allclose(score_covariance(models, r, J), dense, rtol=1e-9)


def test_what_the_fit_has_taken_out_is_not_extrapolated():
    walk = Autoregression(np.array([1.0, -0.9999]), 1.0, slowest=np.pi * 4 / 200)
    # flat below 2 oscillations in 200 samples: 1 / |1 - 0.9999 e^(iw)|^2 at w = 0.063, about 1 / w^2 (w^2 / 12 off)
    np.testing.assert_allclose(walk.spectrum(1600)[:17], 1.0 / walk.slowest**2, rtol=1e-3)
    assert walk.spectrum(1600)[20] < walk.spectrum(1600)[0]


def test_channels_that_share_their_noise_are_seen_to(rng):
    e = noise(rng, [1.0, -0.9], 400)
    model = autoregression(e[:, 0], np.zeros((400, 1)))
    J = rng.normal(size=(400, 1, 2))
    twice = score_covariance([model, model], np.hstack([e, e]), np.concatenate([J, J], axis=1))
    np.testing.assert_allclose(twice, 4.0 * score_covariance([model], e, J))


@pytest.mark.parametrize("missing", [0.0, 0.05])
def test_the_bias_of_fitted_residuals_is_undone(rng, missing):
    n, replicas = 150, 30
    J = design(n)
    found = []
    for _ in range(replicas):
        e = noise(rng, [1.0, -0.8], n)[:, 0]
        r = e - J @ np.linalg.lstsq(J, e, rcond=None)[0]
        r[rng.random(n) < missing] = np.nan
        found.append(-autoregression(r, J).polynomial[1:].sum())
    # The plain estimate of phi from residuals is low by about (1 + 3 phi) / n per column of J, here 0.07; the standard
    # error of the mean is 0.6 / sqrt(150 * 30) = 0.01 and the median of a skewed distribution lies close.
    assert abs(np.median(found) - 0.8) < 0.04


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
            for models in (found.models, *(side for pair in found.doubts for side in pair))
        ]
        logarithms.append(powers[0])
        doubted.append(np.sqrt(np.sum(((np.array(powers[1::2]) - powers[2::2]) / 2) ** 2)))
    # The deviation of 60 numbers has a standard error of 9 %, with the order now and then another somewhat more.
    assert np.median(doubted) == pytest.approx(np.std(logarithms), rel=0.4)


def test_a_silent_channel_is_no_trouble(rng):
    r = np.concatenate([noise(rng, [1.0, -0.6], 100), np.zeros((100, 1)), np.full((100, 1), np.nan)], axis=1)
    found = run_noise(r, np.zeros((100, 3, 1)))
    assert [model.sigma for model in found.models[1:]] == [0.0, 0.0]
    assert all(np.isfinite(model.sigma) for pair in found.doubts for side in pair for model in side)


def test_white_residuals_stay_white(rng):
    model = autoregression(rng.normal(size=500), design(500))
    assert model.order == 0
    assert effective_count(model, 500) == pytest.approx(500)


def test_an_exact_fit_has_no_noise():
    model = autoregression(np.zeros(20), design(20))
    assert (model.order, model.sigma) == (0, 0.0)
    assert effective_count(model, 20) == 20.0


def test_few_samples_are_taken_as_independent():
    model = autoregression(np.array([1.0, -1.0, np.nan, 0.5]), design(4))
    assert model.order == 0
    assert np.isfinite(model.sigma)
