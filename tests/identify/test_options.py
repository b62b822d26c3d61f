"""Options of a fit: scales, ties, clocks, losses, priors, noise that is estimated, samples that do not count."""

import jax.numpy as jnp
import numpy as np
import pytest
from dragged import DRAGGED, FREE, NOISE, SCHEME, START, TIMES, TRUTH, inside, motion, positions, problem
from dragged import start_of as started

from diffcontact.identify import Normal, Observations, Positive, Problem, Real, fit
from diffcontact.identify.error_bars import under_loss
from diffcontact.identify.objective import JointResidual, Objective


def test_log_scale_changes_the_path_and_not_the_end(rng):
    plain = fit(problem(rng), START, FREE)
    log = fit(problem(np.random.default_rng(0)), START, {"drag": Positive(log=True), "u0": Real()})
    np.testing.assert_allclose(log.params["drag"], plain.params["drag"], rtol=1e-7)
    # The standard error of an estimate 0.5 % wide is the same in both scales to second order.
    np.testing.assert_allclose(log.stderr["drag"], plain.stderr["drag"], rtol=1e-3)
    for name in ("covariance", "covariance_plain"):
        np.testing.assert_allclose(getattr(log, name), getattr(plain, name), rtol=1e-3)
    low, high = log.interval95["drag"]
    np.testing.assert_allclose(low * high, log.params["drag"] ** 2)  # symmetric as a ratio


def test_the_check_before_a_fit_costs_it_nothing(rng, monkeypatch):
    evaluated, compressed = [], JointResidual.compressed
    monkeypatch.setattr(
        JointResidual, "compressed", lambda self, *arguments: evaluated.append(1) or compressed(self, *arguments)
    )
    fit(problem(rng), START, FREE, check=False)
    unchecked = len(evaluated)
    fit(problem(np.random.default_rng(0)), START, FREE)
    assert len(evaluated) == 2 * unchecked > 0


@pytest.mark.parametrize("loss", ["soft_l1", "huber", "cauchy"])
def test_outliers_do_not_spoil_a_robust_fit(rng, loss):
    run = problem(rng)
    values = run.observations.values.copy()
    values[45::5] += 0.3  # 300 standard deviations
    spoilt = Problem(DRAGGED, Observations(TIMES, values, NOISE, positions), started, SCHEME, 1)
    assert abs(fit(spoilt, START, FREE).params["drag"] - 0.8) > 0.05
    robust = fit(spoilt, START, FREE, loss=loss)
    assert inside(robust, "drag", 0.8)
    assert robust.stderr["drag"] < 0.02
    clean = fit(run, START, FREE, loss=loss)
    np.testing.assert_allclose(clean.stderr["drag"], fit(run, START, FREE).stderr["drag"], rtol=0.3)
    # The derivative of the pull sum psi J by theta is sum psi' J J^T: Huber's sandwich, of psi and the mean of psi'.
    objective = clean.objective
    (at,), (used,) = objective.joint.linearise(clean.estimate), under_loss(objective.first_order(), objective.loss)
    psi, slope = (np.asarray(part) for part in objective.loss.influence(at.r))
    np.testing.assert_allclose(used.r * np.sqrt(np.mean(slope)), psi, rtol=1e-12)
    np.testing.assert_allclose(used.J, np.sqrt(np.mean(slope)) * at.J, rtol=1e-12)


def test_a_prior_is_a_measurement_more(rng):
    run = problem(rng)
    alone = fit(run, START, FREE)
    sigma = float(alone.stderr["drag"])
    both = fit(run, START, FREE, priors={"drag": Normal(alone.params["drag"] + sigma, sigma)})
    # Two equally good measurements: their mean, with an error smaller by sqrt 2. The fit weighs the samples by the
    # stated noise, the error bars by the residuals' own, which differ by 8 % in 81 samples: three of that.
    np.testing.assert_allclose(both.params["drag"], alone.params["drag"] + sigma / 2, atol=0.25 * sigma)
    np.testing.assert_allclose(both.stderr["drag"], sigma / np.sqrt(2), rtol=0.25)
    assert both.dof == alone.dof + 1


def test_a_prior_resolves_what_the_data_cannot_see(rng):
    free = {"mass": Positive(), "drag": Positive(), "weight": Positive(), "u0": Real()}
    run = problem(rng)
    assert fit(run, START, free).unidentifiable
    resolved = fit(run, START, free, priors={"mass": Normal(1.5, 0.01)})
    assert resolved.unidentifiable == []
    assert "prior" not in resolved.verdict.codes
    for name in ("mass", "drag", "weight"):
        assert inside(resolved, name, TRUTH[name])
    # The mass comes from the prior alone.
    np.testing.assert_allclose([resolved.params["mass"], resolved.stderr["mass"]], [1.5, 0.01], rtol=1e-3)


def both(trajectory, params):
    return jnp.concatenate([trajectory.q, trajectory.q], axis=1)


def seen_twice(true, stated, seed=0, unit=1.0):
    """The same coordinate with two noises, stated as these."""
    noise = true * np.random.default_rng(seed).normal(size=(TIMES.size, 2))
    seen = Observations(TIMES, unit * (motion(TIMES) + noise), stated, lambda *of: unit * both(*of))
    return Problem(DRAGGED, seen, started, SCHEME, 1)


def test_the_noise_of_each_channel_settles_where_it_is():
    # Stated as equally good; the second camera is twenty times worse.
    true = np.array([1e-3, 2e-2])
    run = seen_twice(true, 5e-3)
    plain, weighted = fit(run, START, FREE), fit(run, START, FREE, noise="estimated")
    # A standard deviation of 81 samples is known to 8 %: three of them.
    np.testing.assert_allclose(weighted.noise_factors[0] * 5e-3, true, rtol=0.25)
    assert weighted.chi2_per_dof == pytest.approx(1.0, abs=0.03)
    assert weighted.stderr["drag"] < plain.stderr["drag"] / 5
    assert inside(weighted, "drag", 0.8)
    assert "noise of each channel estimated" in weighted.message
    assert plain.noise_factors == ()


@pytest.mark.parametrize("unit", [1.0, 1e6])
def test_the_noise_of_a_channel_does_not_depend_on_its_unit(unit):
    """Stated as one unit of length, whichever that is; in metres 50 nm are 5e-8 of it, and no rounding."""
    true = np.array([5e-8, 5e-7])
    found = fit(seen_twice(true, 1.0, 1, unit), START, FREE, noise="estimated")
    np.testing.assert_allclose(found.noise_factors[0], unit * true, rtol=0.25)


def test_a_channel_that_is_fitted_to_rounding_keeps_its_noise():
    found = fit(seen_twice(np.array([0.0, 1e-3]), [1e-10, 1e-3], 1), START, FREE, noise="estimated")
    assert found.noise_factors[0][0] == 1.0


def test_an_objective_is_started_and_held_where_it_is_told(rng):
    objective = Objective.of(problem(rng), START, FREE, priors={"drag": Normal(0.7, 0.1)})
    theta = np.array([0.75, 0.4])
    f, J = objective.evaluate(theta)
    # The prior's row is a residual in its own errors.
    assert f[-1] ** 2 == pytest.approx(0.25)
    assert J[-1].tolist() == [pytest.approx(np.sign(f[-1]) * 10.0), 0.0]
    assert objective.cost(theta) == pytest.approx(0.5 * f @ f)
    # The samples of the first half, and how far the motion follows the data behind them.
    f, J = objective.evaluate(theta, 0.5)
    assert 0.5 * f @ f < 0.7 * objective.cost(theta)
    assert 0.5 < objective.reach(theta, 0.5) <= 1.0
