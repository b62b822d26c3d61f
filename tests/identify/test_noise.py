"""Noise of channels: autoregressive processes, what channels share, what it means for a fit; and the roughness."""

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
    roughness,
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


def test_of_nothing_and_of_few_samples_no_process_is_made():
    exact, few = autoregression(np.zeros(20), design(20)), autoregression(np.array([1.0, -1.0, np.nan, 0.5]), design(4))
    assert (exact.order, exact.sigma, few.order) == (0, 0.0, 0)
    assert effective_count(exact, 20) == 20.0
    assert np.isfinite(few.sigma)


def test_residuals_that_are_rounding_are_noise_of_their_own_size():
    """A fit without noise leaves the last bit of each number: the same one for a while, then none."""
    r = np.zeros(81)
    r[:24], r[60] = -1e-14, 1e-14
    J = np.where(np.arange(81)[:, None] < 24, 1.0, np.arange(81)[:, None] == 60) * [[1.0, 0.0]] + design(81)[:, :2]
    for columns in (J, np.stack([r != 0, np.arange(81) < 24], axis=1).astype(float)):
        model = autoregression(r, columns)
        assert 1e-9 * 1e-14 < model.sigma < 1e-13, model.sigma


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


TIMES = np.arange(3000) / 500
MOTION = 200 * np.sin(3 * TIMES) + 80 * np.abs(TIMES - 2.2)
NOISE = 0.05


ROW = np.arange(TIMES.size)
SPOILT = {
    "untouched": lambda y: y,
    "lost": lambda y: np.where(ROW % 7 < 2, np.nan, y),
    "false": lambda y: np.where(ROW % 50 == 3, 0.0, y),
    "every fifth repeated": lambda y: y[np.sort(np.concatenate([ROW, ROW[3::4]]))],
    "each twice": lambda y: np.repeat(y, 2),
}


@pytest.mark.parametrize("how", SPOILT)
def test_the_noise_is_found_whatever_is_lost_false_or_repeated(rng, how):
    seen = SPOILT[how](MOTION + NOISE * rng.normal(size=TIMES.size))
    # A median of 3000 third differences is right to 3 %, of the 900 that two lost in seven leave to 5 %.
    np.testing.assert_allclose(roughness(seen), NOISE, rtol=0.15)


@pytest.mark.parametrize("digit", [0.5, 0.2])
def test_rounding_counts_as_noise(rng, digit):
    """Of a motion through many digits it is uniform, with a standard deviation of 1 / sqrt(12) of one."""
    seen = digit * np.round((MOTION + NOISE * rng.normal(size=TIMES.size)) / digit)
    # Third differences are whole digits, too, so that their median is off by half of one, a sixth of a digit of noise.
    np.testing.assert_allclose(roughness(seen), np.hypot(NOISE, digit / np.sqrt(12.0)), atol=digit / 6)


def test_a_body_at_rest_is_as_rough_as_its_last_digit():
    seen = np.where(np.arange(200) % 9 == 4, 0.1, 0.0)
    assert roughness(seen) == pytest.approx(0.1 / np.sqrt(12.0))


def test_of_seven_samples_nothing_is_known():
    assert roughness(np.array([1.0, np.nan, 2.0, 4.0, 3.0, 5.0, 2.0, 6.0])) == np.inf
