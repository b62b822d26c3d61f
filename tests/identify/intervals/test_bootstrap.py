"""Fits on other data than the fit's own: replicas, and the bootstrap that is made of them."""

import jax.numpy as jnp
import numpy as np
import pytest
from bouncing import BALL_FREE, BALL_START, ball_problem
from falling import SCHEME, TIMES, fall, fitted, positions

import diffcontact as dc
from diffcontact.identify import Normal, Observations, Positive, Problem, Real, bootstrap, fit, fit_replicas

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


@pytest.mark.parametrize(
    "options",
    [{}, {"priors": {"g": Normal(9.75, 0.03)}}, {"noise": "estimated", "priors": {"u0": Normal([0.4], 0.005)}}],
)
def test_the_bootstrap_of_a_linear_model_is_what_its_fit_says(rng, options):
    result = fitted(fall(rng), FREE, **options)
    boot = bootstrap(result, replicas=100)
    # A standard deviation of 100 has an error of 7 %: three of them.
    np.testing.assert_allclose(boot.stderr, np.sqrt(np.diag(result.covariance)), rtol=0.21)
    assert np.all(np.abs(boot.bias) < 0.3 * boot.stderr)
    assert np.all(boot.interval95[:, 0] < result.estimate)
    assert np.all(boot.interval95[:, 1] > result.estimate)
    assert boot.unconverged == 0


def test_what_only_a_prior_knows_is_as_uncertain_as_the_prior(rng):
    pulled = dc.System(
        gap=lambda t, q, p: q + 100.0,
        force=lambda t, q, u, p: p["weight"] * jnp.ones(1),
        mass=lambda q, p: p["mass"] * jnp.ones(1),
        restitution=lambda p: 0.0,
    )
    seen = (3.0 / 1.5 * TIMES**2 / 2 + 1e-3 * rng.normal(size=TIMES.size))[:, None]
    run = Problem(pulled, Observations(TIMES, seen, 1e-3, positions), lambda p: (jnp.zeros(1), jnp.zeros(1)), SCHEME, 1)
    free = {"mass": Positive(), "weight": Positive()}
    result = fit(run, {"mass": 1.4, "weight": 2.9}, free, priors={"mass": Normal(1.5, 0.01)})
    boot = bootstrap(result, replicas=100)
    np.testing.assert_allclose(boot.stderr, np.sqrt(np.diag(result.covariance)), rtol=0.21)  # as above
    low, high = dc.identify.profile(result, "weight").interval95
    # Data and prior together know the weight to 0.7 %; the interval is that of the fit but for 0.04 standard errors.
    np.testing.assert_allclose([low, high], result.interval95["weight"], atol=0.06 * result.stderr["weight"])


def test_the_bootstrap_agrees_with_the_curvature(result):
    boot = bootstrap(result, replicas=40)
    stderr = np.sqrt(np.diag(result.covariance))
    # A standard deviation of 40 has an error of 11 %: three of them.
    np.testing.assert_allclose(boot.stderr, stderr, rtol=0.35)
    assert np.all(np.abs(boot.bias) < stderr)
    assert np.all(boot.interval95[:, 0] < boot.interval95[:, 1])


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
