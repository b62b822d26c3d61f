"""The way from bad starts: a ball with six bounces (the sixth at 2.92 s), of which single shooting sees a thicket."""

from dataclasses import replace

import numpy as np
import pytest
from bouncing import BALL_FREE, BALL_TRUTH, SAMPLES, ball_problem

from diffcontact.identify import Interval, fit
from diffcontact.identify.problem.objective import Objective
from diffcontact.identify.search import shooting
from diffcontact.identify.search.growing_horizon import grow
from diffcontact.identify.search.neighbouring_impacts import neighbouring_impacts
from diffcontact.identify.search.trust_region import solve

# From here single shooting ends in a local minimum.
BAD = {"e": 0.87, "g": 7.92, "q0": [1.08], "u0": [0.24]}
START = BALL_TRUTH | {"q0": np.ones(1), "u0": np.full(1, 0.3)}
SPACING = 1.5 / (SAMPLES - 1)


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


def test_nothing_else_is_tried_where_noise_explains_the_rest(six_bounces, rng):
    assert "horizon" not in fit(six_bounces, START, BALL_FREE).message
    assert "other side" not in fit(ball_problem(rng), START, BALL_FREE).message


def test_lanes_grow_side_by_side_as_they_do_alone(six_bounces):
    objective = Objective.of(six_bounces, BAD, BALL_FREE)
    points = np.stack([objective.parameters.start, [0.5, 9.0, 1.1, 0.2]])
    np.testing.assert_allclose(grow(objective, points)[1], grow(objective, points[1:])[0], rtol=1e-12)


def test_the_waterfall_is_sorted_and_told_block_by_block(six_bounces, monkeypatch):
    seen = []
    call = {"starts": 5, "seed": 3, "shooting": "single", "progress": lambda *at: seen.append(at)}
    at_once = fit(six_bounces, BAD, BALL_FREE, **call)
    assert len(at_once.start_costs) == 5
    assert list(at_once.start_costs) == sorted(at_once.start_costs)
    assert at_once.cost == at_once.start_costs[0]
    assert "of 5 starts end within 1 %" in at_once.message
    monkeypatch.setattr(shooting, "_BLOCK", 2)
    rounds = len(seen)
    in_blocks = fit(six_bounces, BAD, BALL_FREE, **call)
    assert in_blocks.start_costs == at_once.start_costs
    # A word after each round of each block, and at each Jacobian of the last descent.
    assert len(seen) - rounds > rounds > 5
    assert [number for number, _ in seen[:3]] == [0, 1, 2]


def test_more_starts_find_what_one_misses(rng):
    start = {"e": 0.1, "g": 9.1, "q0": [0.91], "u0": [0.59]}
    result = fit(ball_problem(rng), start, BALL_FREE | {"e": Interval(0.05, 0.99)}, starts=8, seed=1)
    assert len(result.start_costs) == 8
    assert result.cost == min(result.start_costs)
    assert abs(result.params["e"] - 0.8) < 4 * result.stderr["e"]


def impact_times(e, g, q, u, count):
    """The first so many of them."""
    times, now = [], 0.0
    for _ in range(count):
        now += (u + np.sqrt(u * u + 2 * g * q)) / g
        times.append(now)
        q, u = 0.0, e * np.sqrt(u * u + 2 * g * q)
    return np.array(times)


def test_each_impact_is_moved_by_one_sample_to_either_side(rng):
    objective = Objective.of(ball_problem(rng), START, BALL_FREE)
    theta = np.array([0.8, 9.81, 1.0, 0.3])
    here = impact_times(*theta, 3)
    count = int(np.sum(here < 1.5))
    places = neighbouring_impacts(objective, theta)
    assert places.shape == (2 * count, 4)
    for k in range(count):
        for place, side in zip(places[2 * k : 2 * k + 2], (-1.0, 1.0), strict=True):
            moved = impact_times(*place, count)[k] - here[k]
            # The move is linear, and a sample is 25 ms of a flight of half a second.
            assert moved == pytest.approx(side * SPACING, rel=0.15)
    # Many impacts and many runs are left alone.
    many = Objective.of([replace(ball_problem(rng), per_run=("q0",))] * 4, START | {"q0": np.ones((4, 1))}, BALL_FREE)
    assert neighbouring_impacts(many, many.parameters.start) is None


def test_a_search_goes_on_from_next_door_where_noise_might_not_explain_its_end(rng):
    objective = Objective.of(ball_problem(rng), START, BALL_FREE)
    right = shooting.search(objective, "lm", 1, 0, "auto")
    # An end that is no minimum, as if the descent had stuck there: 5 % off in gravity.
    stuck = np.array([0.8, 10.3, 1.0, 0.3])
    f, J = objective.evaluate(stuck)
    end = type(right.end)(right.end | {"x": stuck, "cost": 0.5 * float(f @ f), "jac": J, "grad": J.T @ f})
    found = shooting._next_door(objective, replace(right, end=end))
    assert found.end.cost == pytest.approx(right.end.cost, rel=1e-6)
    assert "with an impact on the other side of a sample" in found.story
