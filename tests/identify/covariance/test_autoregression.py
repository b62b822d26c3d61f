import numpy as np
import pytest
from scipy.linalg import toeplitz
from scipy.signal import lfilter

from diffcontact.identify.covariance.autoregression import (
    Autoregression,
    _Moments,
    _polynomials,
    autoregression,
    effective_count,
    orthonormal,
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
