"""Two fits of the same bouncing ball: with the true impact law and with a wrong one."""

from dataclasses import replace

import numpy as np
import pytest
from bouncing import BALL_FREE, BALL_START, ball_problem

from diffcontact.identify import FitResult, Interval, compare, fit

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def run():
    return ball_problem(np.random.default_rng(0))


@pytest.fixture(scope="module")
def result(run):
    return fit(run, BALL_START, BALL_FREE)


def test_the_data_support_the_true_impact_law(run, result):
    elastic = fit(run, BALL_START | {"e": 0.995}, BALL_FREE | {"e": Interval(0.99, 1.0)})
    comparison = compare(elastic, result, ("elastic", "restitution"))
    assert comparison.aic > 10
    assert "the data support restitution strongly" in str(comparison)
    same = compare(result, result)
    assert (same.aic, same.bic) == (0.0, 0.0)
    assert "do not decide" in same.verdict


def test_fits_of_different_data_are_not_compared(result):
    other = fit(ball_problem(np.random.default_rng(1), end=0.4), BALL_START, BALL_FREE)
    other = FitResult(**{**other.__dict__, "residuals": (other.residuals[0][:30],)})
    with pytest.raises(ValueError, match="different data"):
        compare(result, other)


@pytest.mark.parametrize("change", ["loss", "noise", "sigma"])
def test_costs_in_different_units_are_not_compared(run, result, change):
    """The same samples fitted alike, but for the unit of the cost: no data would decide between them."""
    observations = replace(run.observations, noise=0.03)
    other = {
        "loss": lambda: fit(run, BALL_START, BALL_FREE, loss="huber"),
        "noise": lambda: fit(run, BALL_START, BALL_FREE, noise="estimated"),
        "sigma": lambda: fit(replace(run, observations=observations), BALL_START, BALL_FREE),
    }[change]()
    with pytest.raises(
        ValueError, match={"loss": "same loss", "noise": "estimated", "sigma": "two different sigma"}[change]
    ):
        compare(result, other)


def test_what_is_no_fit_is_told_in_one_line(result):
    for one, other, message in (
        (result, 3, r"compare\(second\): expected a FitResult, what fit returns, got int"),
        (None, result, r"compare\(first\): expected a FitResult, what fit returns, got NoneType"),
    ):
        with pytest.raises(ValueError, match=message):
            compare(one, other)
    for labels in ("ab", 3, ("one",)):
        with pytest.raises(ValueError, match=r"compare\(labels\): .*, expected two words"):
            compare(result, result, labels)
