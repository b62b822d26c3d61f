"""Intervals through impacts: four kinds that agree, and where the data do not tell what slipped and what gripped."""

import numpy as np
import pytest
from bouncing import BALL_FREE, BALL_START, ball_problem

import diffcontact as dc
from diffcontact.identify import Interval, Observations, Positive, Problem, Real, bootstrap, fit, posterior, profile

SIMULATED, pytestmark = True, pytest.mark.full
DISC = dc.systems.balls(1, 2, planes=lambda t, p: (np.array([[0.0, 1.0]]), np.zeros(1)), spin=True)
BOUNCES = {
    "mass": np.ones(1),
    "radius": np.array([0.1]),
    "gravity": np.array([0.0, -9.81]),
    "restitution": 0.7,
    "q0": np.array([0.0, 1.0, 0.0]),
}
PUCKS = dc.systems.balls(2, 2, spin=True)
MEET = {
    "mass": np.ones(2),
    "radius": np.full(2, 0.05),
    "gravity": np.zeros(2),
    "restitution": 0.8,
    "q0": np.array([-0.3, 0.0, 0.0, 0.1, 0.03, 0.0]),
}
GRIPS = MEET | {"friction": 0.3, "u0": np.array([0.7, 0.0, 3.0, -0.1, 0.0, 2.0])}


def places(motion, params):
    """Where the centres are; how far the bodies have turned is not seen."""
    return motion.q.reshape(len(motion.q), -1, 3)[..., :2].reshape(len(motion.q), -1)


def state(params):
    return params["q0"], params["u0"]


def filmed(system, truth, times, noise, seed, start, free):
    motion = dc.simulate(system, truth, *state(truth), times)
    assert motion.status == 0
    seen = np.asarray(places(motion, truth))
    seen = seen + noise * np.random.default_rng(seed).normal(size=seen.shape)
    return fit(Problem(system, Observations(times, seen, noise, places), state), truth | start, free)


@pytest.mark.parametrize("friction", [0.2, 0.6])
def test_a_friction_that_grips_is_bounded_from_below_wherever_the_fit_begins(friction):
    """(1 + e) P mu at least is what grip takes: u0 + r w = 3.2 m/s of slip, of which a third, over 1.7 * 4.43 m/s."""
    truth = BOUNCES | {"friction": friction, "u0": np.array([-0.3, 0.0, -29.0])}
    edge = (0.3 + 2.9) / 3 / (1.7 * np.sqrt(2 * 9.81 * 0.9))
    free = {"restitution": Interval(0.0, 1.0), "friction": Interval(0.0, 1.0), "u0": Real()}
    found = filmed(DISC, truth, np.linspace(0.0, 1.2, 81), 2e-3, 1, {"friction": 0.25}, free)
    assert found.gripped == ("friction",)
    low, high = found.interval95["friction"]
    # 2e-3 m over sqrt(40) samples after the bounce, 0.8 s long, leave 1 mm/s of the 1.07 m/s that it takes.
    assert 0.97 * edge < low < 1.001 * edge
    assert high == np.inf
    assert any("it gripped" in reason for reason in found.verdict.reasons)


@pytest.mark.parametrize(("seed", "along"), [(1, 0.0), (0, 5e6)])
def test_a_spin_that_grips_may_have_slipped_with_a_smaller_friction(seed, along):
    """One bounce, at which it slips with mu = 0.12: a spin of -15.7 rad/s that grips does the same to the centre.

    And so it does anywhere along the plane: there places are stored to 1e-9 m, and noise of 3 mm is none of that.
    """
    truth = BOUNCES | {"friction": 0.12, "q0": np.array([along, 1.0, 0.0]), "u0": np.array([-1.0, 0.0, -28.0])}
    free = {"restitution": Interval(0.0, 1.0), "friction": Interval(0.0, 1.0), "u0": Real()}
    start = {"friction": 0.4, "u0": np.array([-1.0, 0.0, -15.0])}
    found = filmed(DISC, truth, np.linspace(0.0, 0.95, 81), 3e-3, seed, start, free)
    assert abs(found.params["u0"][2] + 15.7) < 0.5
    low, high = found.interval95["u0"][2]
    assert low < -28.0
    assert high < -15.0
    assert found.interval95["friction"][0] < 0.12
    assert any("u0[2] may also be far from" in reason for reason in found.verdict.reasons)


@pytest.mark.parametrize("slips", [False, True])
def test_a_friction_between_pucks_whose_spin_is_not_seen_may_be_larger(slips):
    """Started where they slip with spins far from the truth: the fit finds a friction, and says that it may grip."""
    start = {"friction": 0.02, "u0": GRIPS["u0"] + np.array([0, 0, 60.0, 0, 0, 60.0])} if slips else {}
    free = {"restitution": Interval(0.0, 1.0), "friction": Positive(), "u0": Real()}
    found = filmed(PUCKS, GRIPS, np.linspace(0.0, 1.2, 81), 2e-4, 0, start, free)
    low, high = found.interval95["friction"]
    assert low < GRIPS["friction"] < high
    assert found.verdict.explains == "partly"
    if slips:
        assert found.params["friction"] < 0.1
        assert any("friction may also be far from" in reason for reason in found.verdict.reasons)
    else:
        assert found.gripped == ("friction",)


def test_covariance_profile_bootstrap_and_posterior_agree_through_impacts(rng):
    """A ball with 1 % noise, two impacts: the cost is nearly a parabola as far as the errors reach."""
    pytest.importorskip("blackjax")
    problem = ball_problem(rng)
    result = fit(problem, BALL_START, BALL_FREE)
    stderr = np.sqrt(np.diag(result.covariance))
    replicas = bootstrap(result, replicas=200)
    # The deviation of 200 numbers has a standard error of 5 %, the noise of 60 samples it is made of one of 9 %.
    np.testing.assert_allclose(replicas.stderr, stderr, rtol=0.25)
    draws = posterior(result, chains=2, draws=400, warmup=300)
    assert np.all(draws.r_hat < 1.05)
    # Some hundred independent draws: 7 %.
    np.testing.assert_allclose(draws.stderr, stderr, rtol=0.25)
    estimate = np.concatenate([np.ravel(result.params[name]) for name in ("e", "g", "q0", "u0")])
    assert np.all(np.abs(draws.mean - estimate) < 0.3 * stderr)
    quantile = np.concatenate([np.ravel(q) for q in result.quantile.values()])
    for j, name in enumerate(result.names):
        low, high = profile(result, name).interval95
        # Nonlinear by the square of the relative error of the velocities, some per cent.
        np.testing.assert_allclose([estimate[j] - low, high - estimate[j]], quantile[j] * stderr[j], rtol=0.15)
