"""Error bars on linear models r = y - S beta - O eta, where every claim can be checked by brute force."""

import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.stats import t as student

from diffcontact.identify.covariance.error_bars import RunResidual, error_bars


def least_squares(y, X):
    return np.linalg.lstsq(X, y, rcond=None)[0]


def joint_fit(runs):
    """Fit y_g = S_g beta + O_g eta_g; return estimates and the runs as `error_bars` wants them."""
    shared, own = runs[0][1].shape[1], runs[0][2].shape[1]
    X = np.zeros((sum(y.size for y, _, _ in runs), shared + own * len(runs)))
    begin = 0
    for g, (y, S, O) in enumerate(runs):  # noqa: E741
        X[begin : begin + y.size, :shared] = S
        X[begin : begin + y.size, shared + own * g : shared + own * (g + 1)] = O
        begin += y.size
    theta = least_squares(np.concatenate([y for y, _, _ in runs]), X)
    residuals = []
    for g, (y, S, O) in enumerate(runs):  # noqa: E741
        index = np.r_[:shared, shared + own * g : shared + own * (g + 1)]
        J = np.hstack([S, O])
        residuals.append(RunResidual((y - J @ theta[index])[:, None], -J[:, None, :], index))
    return theta, residuals


def six_runs(rng, count=6):
    runs = []
    for _ in range(count):
        n = int(rng.integers(20, 40))
        S, O = rng.normal(size=(n, 2)), np.stack([np.ones(n), np.arange(n) / n], axis=1)  # noqa: E741
        y = S @ (np.array([0.7, 1.0]) + 0.1 * rng.normal(size=2)) + O @ rng.normal(size=2) + 0.01 * rng.normal(size=n)
        runs.append((y, S, O))
    return runs


def test_jackknife_is_the_delete_one_run_refit(rng):
    runs = six_runs(rng)
    theta, residuals = joint_fit(runs)
    bars = error_bars(residuals, theta.size)
    moved = np.array([joint_fit(runs[:g] + runs[g + 1 :])[0][:2] - theta[:2] for g in range(6)])
    # The model is linear, so the linearised jackknife is the jackknife.
    np.testing.assert_allclose(bars.covariance[:2, :2], 5 / 6 * moved.T @ moved, rtol=1e-8)
    np.testing.assert_allclose(bars.quantile[:2], student.ppf(0.975, 5))
    assert "between runs: jackknife over the 6 runs" in bars.explanation
    # These runs differ by far more than their residuals tell.
    assert np.all(bars.covariance.diagonal()[:2] > 4 * bars.plain.diagonal()[:2])


def test_own_parameters_have_their_error_within_the_run_and_what_the_shared_ones_pass_on(rng):
    theta, residuals = joint_fit(six_runs(rng))
    bars = error_bars(residuals, theta.size)
    _, J = residuals[0].rows
    S, O = J[:, :2], J[:, 2:]  # noqa: E741
    bread = np.linalg.inv(O.T @ O)
    passed = bread @ O.T @ S
    shared = passed @ bars.covariance[:2, :2] @ passed.T
    np.testing.assert_allclose(bars.covariance[:2, 2:4], -bars.covariance[:2, :2] @ passed.T)
    assert np.all(bars.covariance[2:4, 2:4].diagonal() > shared.diagonal())
    assert np.all(np.linalg.eigvalsh(bars.covariance) > 0)
    assert np.all(np.isfinite(bars.quantile))


def test_jackknife_covers_where_the_runs_differ(rng):
    inside = np.zeros(2)
    for _ in range(60):
        theta, residuals = joint_fit(six_runs(rng, 4))
        bars = error_bars(residuals, theta.size)
        stderr = np.sqrt(bars.covariance.diagonal()[:2])
        inside += np.abs(theta[:2] - [0.7, 1.0]) < bars.quantile[:2] * stderr
    # 60 x 0.95 = 57 +- 1.7; four standard deviations
    assert np.all(inside >= 50)


def test_two_runs_cannot_show_their_scatter(rng):
    theta, residuals = joint_fit(six_runs(rng, 2))
    assert "2 runs, too few to compare" in error_bars(residuals, theta.size).explanation


def test_without_spare_samples_the_stated_noise_is_all_there_is(rng):
    J = rng.normal(size=(3, 1, 3))
    bars = error_bars([RunResidual(np.zeros((3, 1)), J, np.arange(3))], 3)
    np.testing.assert_allclose(bars.covariance, np.linalg.inv(J[:, 0].T @ J[:, 0]))
    assert bars.explanation.startswith("stated noise")


@pytest.mark.parametrize("phi", [0.0, 0.9])
def test_one_run_with_correlated_noise_is_covered(rng, phi):
    n, replicas = 150, 60
    t = np.linspace(0.0, 1.0, n)
    # A parabola and a kink: q0, u0, g, and the velocity after a bounce half way.
    J = np.stack([np.ones(n), t, t**2, np.maximum(t - 0.5, 0.0)], axis=1)
    inside, inside_plain = np.zeros(4), np.zeros(4)
    for _ in range(replicas):
        e = lfilter([1.0], [1.0, -phi], rng.normal(size=n + 400))[400:]
        theta = least_squares(e, J)
        bars = error_bars([RunResidual((e - J @ theta)[:, None], -J[:, None, :], np.arange(4))], 4)
        inside += np.abs(theta) < bars.quantile * np.sqrt(bars.covariance.diagonal())
        inside_plain += np.abs(theta) < 1.96 * np.sqrt(bars.plain.diagonal())
    # 4 x 60 intervals, not independent: 0.95 +- 0.02
    assert inside.mean() / replicas > 0.88
    if phi:
        assert inside_plain.mean() / replicas < 0.7
