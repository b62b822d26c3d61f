"""Error bars on linear models r = y - S beta - O eta, where every claim can be checked by brute force.

The last tests are of noise that is larger where it matters.
"""

import numpy as np
import pytest
from scipy.stats import t as student

from diffcontact.identify import error_bars as bars_module
from diffcontact.identify import linearised
from diffcontact.identify.error_bars import prediction_errors, uneven
from diffcontact.identify.linearised import LinearisedFit
from diffcontact.identify.linearised import LinearisedRun as RunResidual
from diffcontact.identify.noise import Autoregression, RunNoise

WHITE = Autoregression(np.ones(1), 1.0)


def fitted(runs, P, prior=None):
    return LinearisedFit(tuple(runs), np.zeros(P) if prior is None else prior)


def error_bars(*fit):
    return bars_module.error_bars(fitted(*fit))


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


def six_runs(rng, count=6, unequal=0.0):
    """Runs whose slopes scatter by 0.1; `unequal` is how much the logarithm of their columns' sizes scatters."""
    runs = []
    for _ in range(count):
        n = int(rng.integers(20, 40))
        S = rng.normal(size=(n, 2)) * np.exp(unequal * rng.normal(size=2))
        O = np.stack([np.ones(n), np.arange(n) / n], axis=1)  # noqa: E741
        y = S @ (np.array([0.7, 1.0]) + 0.1 * rng.normal(size=2)) + O @ rng.normal(size=2) + 0.01 * rng.normal(size=n)
        runs.append((y, S, O))
    return runs


def test_jackknife_is_the_delete_one_run_refit(rng):
    runs = six_runs(rng)
    theta, residuals = joint_fit(runs)
    bars = error_bars(residuals, theta.size)
    moved = np.array([joint_fit(runs[:g] + runs[g + 1 :])[0][:2] - theta[:2] for g in range(6)])
    # The model is linear, so the linearised jackknife is the jackknife, but for one factor per parameter.
    scatter = 5 / 6 * moved.T @ moved
    factor = np.sqrt(np.diag(bars.covariance)[:2] / np.diag(scatter))
    np.testing.assert_allclose(bars.covariance[:2, :2], scatter * np.outer(factor, factor), rtol=1e-8)
    # Runs of 20 to 39 samples weigh nearly the same.
    np.testing.assert_allclose(factor, 1.0, atol=0.2)
    assert np.all(bars.quantile[:2] >= student.ppf(0.975, 5))
    assert np.all(bars.quantile[:2] <= student.ppf(0.975, 3))
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


@pytest.fixture
def _white(monkeypatch):
    """The noise is white, and need not be found to be so in hundreds of runs."""

    def white(r, J):
        model = Autoregression(np.ones(1), float(np.sqrt(np.sum(r**2) / (r.size - J.shape[2]))))
        return RunNoise([model] * r.shape[1], [])

    monkeypatch.setattr(linearised, "run_noise", white)


@pytest.mark.usefixtures("_white")
@pytest.mark.parametrize(
    ("count", "unequal"), [*(pytest.param(3, unequal, marks=pytest.mark.full) for unequal in (0.0, 0.7)), (6, 0.7)]
)
def test_jackknife_covers_where_the_runs_differ(rng, count, unequal):
    inside = np.zeros(2)
    for _ in range(150):
        theta, residuals = joint_fit(six_runs(rng, count, unequal))
        bars = error_bars(residuals, theta.size)
        inside += np.abs(theta[:2] - [0.7, 1.0]) < bars.quantile[:2] * np.sqrt(bars.covariance.diagonal()[:2])
    # 95 % of 300 intervals, +- 1.3 %; plain CR3 with t(G-1) has 89 % where six runs are so unequal.
    assert inside.sum() / 300 > 0.915


@pytest.mark.usefixtures("_white")
@pytest.mark.parametrize("count", [4, pytest.param(8, marks=pytest.mark.full)])
def test_what_a_run_has_of_its_own_is_covered_where_runs_depart_from_what_they_share(rng, count):
    """Slopes of 1 +- 0.1 are fitted as one, by samples far to one side: each run's offset makes up for its own."""
    held = []
    for _ in range(60):
        S, O = 5.0 + rng.normal(size=(count, 30, 1)), np.ones((30, 1))  # noqa: E741
        slopes = 1 + 0.1 * rng.normal(size=count)
        runs = [(x[:, 0] * slope + 0.3 + 0.05 * rng.normal(size=30), x, O) for x, slope in zip(S, slopes, strict=True)]
        theta, residuals = joint_fit(runs)
        bars = error_bars(residuals, theta.size)
        held.append(np.abs(theta - 0.3)[1:] < (bars.quantile * np.sqrt(bars.covariance.diagonal()))[1:])
    # Of 240 and 480 offsets 99.8 and 99.0 % (of twenty runs 96.9 %); without the departures 74 and 56 % (38 %).
    assert np.mean(held) > 0.93


def test_each_run_is_predicted_from_the_others(rng):
    """The root mean square of a run under the estimate of the others, what it has of its own fitted to it."""
    runs = six_runs(rng)
    theta, residuals = joint_fit(runs)
    for g, error in enumerate(prediction_errors(fitted(residuals, theta.size))):
        y, S, O = runs[g]  # noqa: E741
        left = y - S @ joint_fit(runs[:g] + runs[g + 1 :])[0][:2]
        left -= O @ least_squares(left, O)
        assert error == pytest.approx(np.sqrt(np.mean(left**2)), rel=1e-8)


def test_two_runs_cannot_show_their_scatter(rng):
    theta, residuals = joint_fit(six_runs(rng, 2))
    assert "2 runs, too few to compare" in error_bars(residuals, theta.size).explanation


def test_without_spare_samples_the_stated_noise_is_all_there_is(rng):
    J = rng.normal(size=(3, 1, 3))
    bars = error_bars([RunResidual(np.zeros((3, 1)), J, np.arange(3))], 3)
    np.testing.assert_allclose(bars.covariance, np.linalg.inv(J[:, 0].T @ J[:, 0]))
    assert bars.explanation.startswith("stated noise")


def test_chance_makes_no_error_bar_smaller_than_independent_samples_have(rng):
    """Of white records some look as if neighbours had opposite signs; a constant would seem better known by that."""
    J = np.ones((60, 1, 1))
    seen = []
    for _ in range(20):
        e = rng.normal(size=60)
        bars = error_bars([RunResidual((e - e.mean())[:, None], -J, np.arange(1))], 1)
        assert bars.covariance[0, 0] >= bars.plain[0, 0] * (1 - 1e-12)
        seen.append(float(np.mean(e[1:] * e[:-1])))
    assert min(seen) < -0.15  # such a record is among them


@pytest.mark.usefixtures("_white")
@pytest.mark.parametrize("prior", [np.zeros(2), np.array([0.0, 50.0])])
def test_covariances_of_one_run_are_their_definitions(rng, prior):
    """B (s^2 J^T J + Q) B, of which the textbook form differs only by how s^2 is taken."""
    J, r = rng.normal(size=(40, 2)), rng.normal(size=40)
    r -= J @ least_squares(r, J)
    bars = error_bars([RunResidual(r[:, None], -J[:, None], np.arange(2))], 2, prior)
    B, Q = np.linalg.inv(J.T @ J + np.diag(prior)), np.diag(prior)
    spare = 40 + np.sum(prior > 0) - 2
    np.testing.assert_allclose(bars.plain, B @ (J.T @ J * (r @ r) / spare + Q) @ B, rtol=1e-9)
    # What is uneven in forty samples by chance makes a variance larger at most.
    assert np.all(np.diag(bars.covariance) >= np.diag(B @ (J.T @ J * (r @ r) / 38 + Q) @ B) * (1 - 1e-9))
    assert bars.effective == 40


def test_noise_that_follows_itself_is_in_the_error_bars(rng, monkeypatch):
    """B J^T C J B with the covariance C of an autoregressive noise, in full; a mean is known less well by far."""
    n, model = 80, Autoregression(np.array([1.0, -0.8]), 0.5)
    monkeypatch.setattr(linearised, "run_noise", lambda r, J: RunNoise([model], []))
    monkeypatch.setattr(bars_module, "uneven", lambda runs, models, bread: (np.ones(len(bread)), np.zeros(len(bread))))
    J = np.stack([np.ones(n), np.arange(n) / n], axis=1)
    bars = error_bars([RunResidual(0.1 * rng.normal(size=(n, 1)), J[:, None], np.arange(2))], 2)
    C = 0.25 * 0.8 ** np.abs(np.subtract.outer(np.arange(n), np.arange(n))) / (1 - 0.64)
    B = np.linalg.inv(J.T @ J)
    np.testing.assert_allclose(bars.covariance, B @ J.T @ C @ J @ B, rtol=1e-6)
    # n (1 - phi) / (1 + phi) for a mean; of squares phi^2 takes the place of phi.
    assert bars.effective == pytest.approx(n * (1 - 0.64) / (1 + 0.64), rel=0.1)


def test_runs_without_any_residual_have_finite_error_bars(rng):
    S, O = rng.normal(size=(20, 1)), np.ones((20, 1))  # noqa: E741
    _, residuals = joint_fit([(0.7 * S[:, 0], S, O)] * 3)
    exact = [RunResidual(np.zeros_like(run.r), run.J, run.index) for run in residuals]
    bars = error_bars(exact, 4)
    assert np.all(bars.covariance == 0.0)
    assert np.all(np.isfinite(bars.quantile))


def test_what_only_a_prior_knows_has_the_priors_error(rng):
    """Four runs with a parameter of their own each, of which the third run shows nothing."""
    runs = []
    for g in range(4):
        J = rng.normal(size=(30, 1, 2))
        J[:, :, 1] *= g != 2
        run = RunResidual(rng.normal(size=(30, 1)), J, np.array([0, 1 + g]))
        runs.append(run.restricted(np.ones(5, bool)))
    prior = np.array([0.0, 0.01, 0.01, 0.01, 0.01])
    bars = error_bars(runs, 5, prior)
    assert bars.explanation.startswith("between runs")
    assert np.sqrt(bars.covariance[3, 3]) == pytest.approx(10.0)
    assert bars.quantile[3] == pytest.approx(1.96, abs=1e-3)


def kinked(n):
    """(n, 3) a place, a speed, and the speed after a bounce half way, which rests on the later half."""
    t = np.linspace(0.0, 1.0, n)
    return np.stack([np.ones(n), t, np.maximum(t - 0.5, 0.0)], axis=1)


def fitted_to(y, J):
    theta = np.linalg.lstsq(J, y, rcond=None)[0]
    return theta, RunResidual((y - J @ theta)[:, None], -J[:, None], np.arange(J.shape[1]))


def test_factor_is_that_of_the_variances(rng):
    """theta rests on samples of variance sigma_t^2 by a_t^2: its variance over that of even noise is known."""
    n, J = 4000, kinked(4000)
    sigma = np.where(np.arange(n) < n // 2, 1.5, 0.67)
    bread = np.linalg.inv(J.T @ J)
    a = J @ bread
    exact = (sigma**2 @ a**2) / (np.mean(sigma**2) * np.sum(a**2, axis=0))
    factor, unsure = uneven([fitted_to(sigma * rng.normal(size=n), J)[1]], [[WHITE]], bread)
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
    monkeypatch.setattr(linearised, "run_noise", lambda r, J: RunNoise([WHITE], []))
    J = np.kron(np.eye(2), np.ones((50, 1)))
    _, run = fitted_to(rng.normal(size=100) * np.repeat([0.5, 2.0], 50), J)
    factor = uneven([run], [[WHITE]], np.eye(2) / 50)[0][1]
    bare, told = (error_bars([run], 2, np.array([0.0, prior])).covariance[1, 1] for prior in (0.0, 1e6))
    assert factor > 1.3
    assert bare > 1.3 * (run.r[:, 0] @ run.r[:, 0]) / 98 / 50
    # The samples add a ten-thousandth to it.
    assert told == pytest.approx(1e-6, rel=1e-3)
