"""Fits on other data than the fit's own: replicas, and the bootstrap that is made of them."""

import numpy as np
import pytest
from bouncing import BALL_FREE, BALL_START, ball_problem
from falling import fall, fitted

from diffcontact.identify import (
    Bootstrap,
    Interval,
    Normal,
    Positive,
    Real,
    bootstrap,
    fit,
    fit_replicas,
)
from diffcontact.identify.estimate import missed
from diffcontact.identify.verdict.reasons import Reason, Verdict

FREE = {"g": Positive(), "u0": Real()}


@pytest.fixture(scope="module")
def run():
    return ball_problem(np.random.default_rng(0))


@pytest.fixture(scope="module")
def result(run):
    return fit(run, BALL_START, BALL_FREE)


def test_a_replica_is_fitted_as_if_it_were_alone(run, result):
    other = ball_problem(np.random.default_rng(7))
    first, second = fit_replicas(result, [np.stack([run.observations.values, other.observations.values])])
    alone = fit(other, BALL_START, BALL_FREE)
    assert first.cost != second.cost
    np.testing.assert_allclose(second.estimate, alone.estimate, rtol=1e-7)
    np.testing.assert_allclose(second.covariance, alone.covariance, rtol=1e-5)


def test_replicas_have_the_priors_and_the_noise_of_the_result(rng):
    options = {"noise": "estimated", "priors": {"g": Normal(9.7, 0.02)}}
    run = fall(rng)
    result = fitted(run, FREE, **options)
    values = np.stack([run.observations.values] * 2)
    same, other = fit_replicas(result, [values], np.array([[9.7], [9.75]]))
    # The same measurement again: the same estimate, to what the descent leaves.
    np.testing.assert_allclose(same.estimate, result.estimate, rtol=1e-7)
    assert same.cost == pytest.approx(result.cost)
    assert 9.7 < result.params["g"] < other.params["g"] < result.params["g"] + 0.05


@pytest.mark.parametrize(
    ("values", "means", "message"),
    [((2, 40, 1), None, "values.*expected \\(N, n, k\\)"), ((2, 41, 1), (2, 2), "prior_means.*expected .* \\(2, 0\\)")],
)
def test_replicas_of_another_shape_are_refused(rng, values, means, message):
    with pytest.raises(ValueError, match=f"fit_replicas\\({message}"):
        fit_replicas(fitted(fall(rng), FREE), [np.zeros(values)], means and np.zeros(means))


def test_the_bootstrap_of_a_linear_model_is_what_its_fit_says(rng, monkeypatch):
    run, given = fall(rng), []
    result = fitted(run, FREE, noise="estimated", priors={"g": Normal(9.8, 0.03)})
    monkeypatch.setitem(bootstrap.__globals__, "fit_replicas", lambda *of: given.append(of[1][0]) or fit_replicas(*of))
    boot = bootstrap(result, replicas=40)
    # Replicas scatter about the fit, with none of the data's own residuals: of forty means 0.03, three of that.
    of_data, of_replicas = (values - result.trajectories[0].q for values in (run.observations.values, given[0].mean(0)))
    assert abs(np.nansum(of_replicas * of_data) / np.nansum(of_data**2)) < 0.1
    # A standard deviation of 40 has an error of 11 %: three of them.
    np.testing.assert_allclose(boot.stderr, np.sqrt(np.diag(result.covariance)), rtol=0.35)
    assert np.all(np.abs(boot.bias) < 0.5 * boot.stderr)
    assert np.all(boot.interval95[:, 0] < result.estimate)
    assert np.all(boot.interval95[:, 1] > result.estimate)
    assert boot.unconverged == 0
    assert boot.doubts == ()
    assert str(boot).startswith("explains the data")


@pytest.mark.full
def test_a_joint_fit_is_repeated_with_all_of_its_runs():
    runs = [fall(np.random.default_rng(seed), per_run=("u0",)) for seed in range(2)]
    result = fitted(runs, FREE, u0=np.zeros((2, 1)), priors={"g": Normal(9.81, 0.05)})
    boot = bootstrap(result, replicas=100)
    assert boot.names == ("g", "u0[0,0]", "u0[1,0]")
    np.testing.assert_allclose(boot.stderr, np.sqrt(np.diag(result.covariance)), rtol=0.21)  # as above


def test_a_robust_loss_and_too_few_replicas_are_named(rng):
    with pytest.raises(ValueError, match="bootstrap\\(result\\): loss 'huber' is for outliers"):
        bootstrap(fitted(fall(rng), FREE, loss="huber"))
    with pytest.raises(ValueError, match="bootstrap\\(replicas\\): 1, expected an integer of at least 2"):
        bootstrap(fitted(fall(rng), FREE), replicas=1)


def test_what_speaks_against_the_replicas_is_told(rng):
    estimates = rng.normal(1.0, 0.1, size=(50, 2))
    estimates[3:5, 1] = -4.0
    told = {
        "missed": ({"b": 9.0},),
        "at_bound": {"a": 7},
        "unseen": 3,
        "wider": ("a",),
        "failure": "it overlaps",
        "verdict": Verdict.of([Reason("it moves otherwise", fatal=True)], "that nothing resists"),
    }
    ends = np.percentile(estimates, [2.5, 97.5], axis=0).T
    poor = Bootstrap(("a", "b"), estimates, estimates.std(axis=0), ends, np.zeros(2), 6, **told)
    for part in (
        "6 of 50 replicas did not converge",
        "3 of 50 replicas do not determine",
        "2 of 50 replicas ended far from the others",
        "no replica is near: b = 9; these",
        "times as large: a; it knows",
        "replicas: it overlaps",
    ):
        assert any(part in doubt for doubt in poor.doubts)
        assert part in str(poor)
    assert "7 of 50 at a bound" in str(poor)
    assert "may be elsewhere, too" in str(poor)
    assert "that nothing resists" in str(poor)
    assert str(poor).startswith("does not explain the data: do not use these intervals\n  - it moves otherwise")


def test_replicas_at_a_bound_are_counted(rng):
    """The bound is where the estimate is without it: half of the replicas would be beyond."""
    run = fall(rng)
    bound = fitted(run, FREE).params["g"]
    boot = bootstrap(fitted(run, {"g": Interval(5.0, bound), "u0": Real()}, noise="estimated"), replicas=20)
    # Three standard deviations of a binomial number.
    assert 3 <= boot.at_bound["g"] <= 17
    # A hundredth of a standard error, 3e-4, is at the bound.
    assert boot.at_bound["g"] == np.sum(boot.estimates[:, 0] > bound - 3e-4)
    assert f"{boot.at_bound['g']} of 20 at a bound" in str(boot)


def test_minima_that_no_replica_is_near_are_told(rng):
    """Of a speed that is the square of a parameter the data do not show the sign."""
    tied, free = {"u0": lambda p: p["unused"] ** 2 * np.ones(1)}, {"unused": Interval(-1.0, 1.0)}
    result = fit(fall(rng), {"g": 9.81, "u0": [0.0], "unused": 0.5}, free, tied=tied, starts=4, shooting="single")
    boot = bootstrap(result, replicas=5)
    assert boot.missed == result.elsewhere != ()
    assert "may be elsewhere, too" in str(boot)
    around = result.params["unused"] + 0.01 * rng.normal(size=(4, 100, 1))
    assert missed(result, np.concatenate([around, -around])) == ()


@pytest.mark.full
def test_noise_that_the_replicas_do_not_have_is_told(rng):
    """Ten times as much noise in the last eighth, which says most about g: replicas have the average everywhere."""
    noise = 2e-3 * rng.normal(size=41) * np.where(np.arange(41) > 35, 10.0, 1.0)
    result = fitted(fall(rng, noise=noise), FREE, noise="estimated")
    boot = bootstrap(result, replicas=100)
    narrow = boot.stderr < np.sqrt(np.diag(result.covariance)) / 1.5
    assert narrow.any()
    assert boot.wider == tuple(np.array(boot.names)[narrow])
