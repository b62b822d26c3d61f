"""The way from bad starts: a ball with six bounces (the sixth at 2.92 s), of which single shooting sees a thicket."""

import numpy as np
import pytest
from bouncing import BALL_FREE, BALL_TRUTH, ball_problem

from diffcontact.identify import Interval, fit
from diffcontact.identify.problem.objective import Objective
from diffcontact.identify.search import solve

# From here single shooting ends in a local minimum.
BAD = {"e": 0.87, "g": 7.92, "q0": [1.08], "u0": [0.24]}
START = BALL_TRUTH | {"q0": np.ones(1), "u0": np.full(1, 0.3)}


@pytest.fixture
def six_bounces(rng):
    return ball_problem(rng, end=3.0)


def test_a_descent_over_all_of_the_motion_gets_stuck_and_other_ways_do_not(six_bounces):
    objective = Objective.of(six_bounces, BAD, BALL_FREE)
    # Half a chi^2 of 10 per sample.
    assert solve(objective, objective.parameters.start).cost > 5 * objective.joint.samples
    for way, told in (
        ("auto", "a growing horizon found"),
        ("growing", "by a growing horizon"),
    ):
        found = fit(six_bounces, BAD, BALL_FREE, shooting=way)
        assert found.chi2_per_dof < 2
        assert told in found.message
        assert len(found.start_costs) == 1
        for name, truth in BALL_TRUTH.items():
            assert np.all(np.abs(found.params[name] - truth) < 4 * found.stderr[name])


def test_nothing_else_is_tried_where_noise_explains_the_rest(six_bounces):
    assert "horizon" not in fit(six_bounces, START, BALL_FREE).message


def test_the_waterfall_is_sorted_and_told(six_bounces):
    seen = []
    call = {"starts": 5, "seed": 3, "shooting": "single", "progress": lambda *at: seen.append(at)}
    found = fit(six_bounces, BAD, BALL_FREE, **call)
    assert len(found.start_costs) == 5
    assert list(found.start_costs) == sorted(found.start_costs)
    assert found.cost == found.start_costs[0]
    assert "of 5 starts end within 1 %" in found.message
    # A word at each Jacobian of each start.
    assert [number for number, _ in seen].count(0) == 6


def test_more_starts_find_what_one_misses(rng):
    start = {"e": 0.1, "g": 9.1, "q0": [0.91], "u0": [0.59]}
    result = fit(ball_problem(rng), start, BALL_FREE | {"e": Interval(0.05, 0.99)}, starts=8, seed=1)
    assert len(result.start_costs) == 8
    assert result.cost == min(result.start_costs)
    assert abs(result.params["e"] - 0.8) < 4 * result.stderr["e"]
