"""What data can determine, before any fit."""

from dataclasses import replace

import jax.numpy as jnp
import pytest
from bouncing import BALL_FREE, BALL_START, ball_problem

from diffcontact.identify import Interval, Normal, check, fit

pytestmark = pytest.mark.full


def test_a_start_without_an_impact_is_not_without_hope_but_data_without_one_are(rng):
    # Thrown up so fast that it is still in the air at the end of the record; other points of the bounds are not.
    bounds = BALL_FREE | {"u0": Interval(0.0, 20.0)}
    thrown = BALL_START | {"u0": [15.0]}
    assert not check(ball_problem(rng), thrown, bounds).hopeless
    assert check(ball_problem(rng), thrown, bounds, points=1).hints == ("e needs an impact: none in these data",)
    short = ball_problem(rng, end=0.1)
    assert "all of e, g, q0[0], u0[0] can be seen" not in str(check(short, BALL_START, BALL_FREE))
    with pytest.raises(ValueError, match="fit\\(check\\): e needs an impact: none in these data; expected other data"):
        fit(short, BALL_START, BALL_FREE, check=True)
    assert not check(short, BALL_START, BALL_FREE, priors={"e": Normal(0.8, 0.1)}).hopeless


def test_a_fit_of_nothing_that_the_data_show_is_refused_unless_told_to(rng):
    short, free = ball_problem(rng, end=0.1), {"e": Interval(0.0, 1.0)}
    with pytest.raises(ValueError, match=r"fit\(check\): e needs an impact: none in these data.*check=False fits"):
        fit(short, BALL_START, free)
    told = fit(short, BALL_START, free, check=False)
    assert (told.unidentifiable, told.error_bars) == ([{"e": 1.0}], "none: the data determine no parameter")
    # With a prior there is something to find out; with g free as well, what it is is found and e is named.
    assert fit(short, BALL_START, free, priors={"e": Normal(0.8, 0.1)}).params["e"] == pytest.approx(0.8)
    assert fit(short, BALL_START, BALL_FREE).unidentifiable == [{"e": 1.0}]


def test_identifiability_of_what_can_be_seen(rng):
    seen = check(ball_problem(rng), BALL_START, BALL_FREE)
    assert not seen.hopeless
    assert seen.singular_values.shape == (4,)
    assert 0 < seen.singular_values[-1] < seen.singular_values[0]
    assert "all of e, g, q0[0], u0[0] can be seen" in str(seen)


def test_a_simulation_that_was_refused_is_not_taken_for_one_without_impacts(rng):
    jumping = replace(ball_problem(rng), clock=lambda t, p: jnp.where(t > 0.7, t - 0.1, t))
    told = "the simulation of run 0 cannot be trusted: times that do not increase"
    assert check(jumping, BALL_START, {"e": Interval(0.0, 1.0)}).hints[0].startswith(told)
    for strict in (None, True):
        with pytest.raises(ValueError, match=rf"fit\(check\): {told}.*; expected a simulation with status 0"):
            fit(jumping, BALL_START, {"e": Interval(0.0, 1.0)}, check=strict)
