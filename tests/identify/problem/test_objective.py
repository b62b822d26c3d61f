"""What is minimised, at one place after the other."""

import numpy as np
import pytest
from falling import fall

from diffcontact.identify import Positive, Real
from diffcontact.identify.problem.objective import Objective, negligible_columns

EPS = float(np.finfo(float).eps)


def test_values_and_slopes_are_those_of_the_place_that_was_asked_for(rng):
    at = Objective.of(fall(rng), {"g": 9.0, "u0": [0.0]}, {"g": Positive(), "u0": Real()})
    here, there = at.parameters.start, at.parameters.start + 0.5
    f, J = at.evaluate(here)
    g, _ = at.evaluate(there)
    # The model is linear.
    np.testing.assert_allclose(g @ g, np.sum((f + J @ (there - here)) ** 2), rtol=1e-9)
    np.testing.assert_array_equal(at.evaluate(here)[0], f)


def test_a_cost_is_remembered_for_its_place_and_no_other(rng, monkeypatch):
    at = Objective.of(fall(rng), {"g": 9.0, "u0": [0.0]}, {"g": Positive(), "u0": Real()})
    places = at.parameters.start, at.parameters.start + 0.5
    costs = [0.5 * np.sum(at.evaluate(place)[0] ** 2) for place in places]
    np.testing.assert_allclose([at.cost(place) for place in places], costs, rtol=1e-12)
    monkeypatch.setattr(at, "evaluate", lambda theta: pytest.fail("asked for again"))
    np.testing.assert_allclose([at.cost(place) for place in reversed(places)], costs[::-1], rtol=1e-12)


def test_rounding_is_no_information(rng):
    J = rng.normal(size=(50, 2)) * [1.0, 1e-15]
    assert negligible_columns(J, np.array([1.0, 2.0]), 100.0, EPS).tolist() == [False, True]
