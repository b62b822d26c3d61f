"""Places at which one impact happens a sample earlier or later, of a ball whose impacts are known in closed form."""

from dataclasses import replace

import numpy as np
import pytest
from bouncing import BALL_FREE, BALL_TRUTH, SAMPLES, ball_problem

from diffcontact.identify import fit
from diffcontact.identify.problem.objective import Objective
from diffcontact.identify.search import shooting
from diffcontact.identify.search.neighbouring_impacts import neighbouring_impacts
from diffcontact.identify.search.shooting import search

pytestmark = pytest.mark.full

SPACING = 1.5 / (SAMPLES - 1)
START = BALL_TRUTH | {"q0": np.ones(1), "u0": np.full(1, 0.3)}


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


def test_many_impacts_and_many_runs_are_left_alone(rng):
    problem = replace(ball_problem(rng), per_run=("q0",))
    many = Objective.of([problem] * 4, START | {"q0": np.ones((4, 1))}, BALL_FREE)
    assert neighbouring_impacts(many, many.parameters.start) is None


def test_a_search_goes_on_from_next_door_where_noise_might_not_explain_its_end(rng):
    objective = Objective.of(ball_problem(rng), START, BALL_FREE)
    right = search(objective, "lm", 1, 0, "auto")
    # An end that is no minimum, as if the descent had stuck there: 5 % off in gravity.
    stuck = np.array([0.8, 10.3, 1.0, 0.3])
    end = replace_end(right, stuck, objective)
    found = shooting._next_door(objective, end)
    assert found.end.cost == pytest.approx(right.end.cost, rel=1e-6)
    assert "with an impact on the other side of a sample" in found.story


def replace_end(outcome, theta, objective):
    """The outcome at another place."""
    f, J = objective.evaluate(theta)
    end = type(outcome.end)(outcome.end | {"x": theta, "cost": 0.5 * float(f @ f), "jac": J, "grad": J.T @ f})
    return replace(outcome, end=end)


def test_clean_data_are_fitted_as_before(rng):
    result = fit(ball_problem(rng), START, BALL_FREE)
    assert "other side" not in result.message
