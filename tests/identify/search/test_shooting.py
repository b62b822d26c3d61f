"""The way from bad starts: a ball with six bounces (the sixth at 2.92 s), of which single shooting sees a thicket."""

import numpy as np
import pytest
from bouncing import BALL_FREE, ball_problem

from diffcontact.identify import Interval, fit
from diffcontact.identify.problem.objective import Objective
from diffcontact.identify.search.trust_region import solve

pytestmark = pytest.mark.full

# From here single shooting ends in a local minimum.
BAD = {"e": 0.87, "g": 7.92, "q0": [1.08], "u0": [0.24]}
TRUTH = {"e": 0.8, "g": 9.81, "q0": 1.0, "u0": 0.3}


@pytest.fixture
def six_bounces(rng):
    return ball_problem(rng, end=3.0)


def test_a_descent_over_all_of_the_motion_gets_stuck_and_a_growing_horizon_does_not(six_bounces):
    objective = Objective.of(six_bounces, BAD, BALL_FREE)
    # Half a chi^2 of 10 per sample.
    assert solve(objective, objective.parameters.start).cost > 5 * objective.joint.samples
    found = fit(six_bounces, BAD, BALL_FREE)
    assert found.chi2_per_dof < 2
    assert "a growing horizon found" in found.message
    for name, truth in TRUTH.items():
        assert np.all(np.abs(found.params[name] - truth) < 4 * found.stderr[name])


def test_the_growing_horizon_can_be_asked_for(six_bounces):
    found = fit(six_bounces, BAD, BALL_FREE, shooting="growing")
    assert found.chi2_per_dof < 2
    assert "by a growing horizon" in found.message
    assert len(found.start_costs) == 1


def test_a_horizon_is_not_grown_where_noise_explains_the_rest(six_bounces):
    assert "horizon" not in fit(six_bounces, TRUTH | {"q0": [1.0], "u0": [0.3]}, BALL_FREE).message


def test_the_waterfall_is_sorted_and_told(six_bounces):
    found = fit(six_bounces, BAD, BALL_FREE, starts=5, shooting="single", seed=3)
    assert len(found.start_costs) == 5
    assert list(found.start_costs) == sorted(found.start_costs)
    assert found.cost == found.start_costs[0]
    assert "of 5 starts end within 1 %" in found.message


def test_many_starts_go_block_by_block_with_a_sign_of_life(six_bounces, monkeypatch):
    seen = []
    call = {"starts": 5, "seed": 3, "shooting": "single", "progress": lambda *at: seen.append(at)}
    at_once = fit(six_bounces, BAD, BALL_FREE, **call)
    monkeypatch.setattr("diffcontact.identify.search.shooting._BLOCK", 2)
    rounds = len(seen)
    in_blocks = fit(six_bounces, BAD, BALL_FREE, **call)
    assert in_blocks.start_costs == at_once.start_costs
    # A word after each round of each block, and at each Jacobian of the last descent.
    assert len(seen) - rounds > rounds > 5
    assert [number for number, _ in seen[:3]] == [0, 1, 2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"shooting": "double"}, "fit\\(shooting\\): 'double' does not exist"),
        ({"shooting": "growing", "method": "adam"}, "goes with method 'lm', not 'adam'"),
    ],
)
def test_bad_input_is_named(six_bounces, arguments, message):
    with pytest.raises(ValueError, match=message):
        fit(six_bounces, BAD, BALL_FREE | {"e": Interval(0.0, 1.0)}, **arguments)
