"""Four kinds of error bars on one measurement through impacts, where they should agree."""

import numpy as np
import pytest
from bouncing import BALL_FREE, BALL_START, ball_problem

from diffcontact.identify import bootstrap, fit, posterior, profile

SIMULATED, pytestmark = True, pytest.mark.full


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
