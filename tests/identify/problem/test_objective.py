"""What is minimised, at one place after the other."""

from dataclasses import replace

import numpy as np
import pytest
from falling import TIMES, fall

from diffcontact import EventTimed
from diffcontact.identify import Observations, Positive, Real
from diffcontact.identify.objective import Objective, _triangular_factor, white
from diffcontact.identify.residual import are_rounding, negligible_columns, rounding

EPS = float(np.finfo(float).eps)
FREE = {"g": Positive(), "u0": Real(), "q0": Real()}


def far_from_the_origin(origin, noise=0.0):
    """Heights of a falling body, with so much noise, about an origin elsewhere; they are stated to 0.1 m."""
    run = fall(None, noise=noise * np.random.default_rng(0).normal(size=41))
    values = run.observations.values + origin
    values[7:9] = (0.4 * TIMES - 9.81 * TIMES**2 / 2)[7:9, None] + origin
    observed = Observations(TIMES, values, 0.1, lambda trajectory, params: trajectory.q + params["q0"])
    # Forces are constant: this scheme is exact.
    return replace(run, observations=observed, scheme=EventTimed())


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


def test_a_cost_next_to_a_place_is_another():
    at = Objective.of(far_from_the_origin(5e6), {"g": 9.81, "u0": [0.4], "q0": 5e6}, FREE)
    near = at.parameters.start.copy()
    near[at.parameters.names.index("q0")] += 1e-3
    here, there = at.cost(at.parameters.start), at.cost(near)
    # 41 samples that are off by a hundredth of the noise: a model that is right to 1e-9 m.
    assert here < 1e-6
    assert there == pytest.approx(41 / 2 * 1e-4, rel=1e-4)


@pytest.mark.parametrize("origin", [0.0, 5e6])
def test_noise_is_no_rounding_however_far_from_the_origin(origin):
    start = {"g": 9.81, "u0": [0.4], "q0": origin}
    exact = Objective.of(far_from_the_origin(origin), start, FREE)
    assert exact.exact(exact.cost(exact.parameters.start))
    for noise in (3e-3, 3e-4):
        noisy = Objective.of(far_from_the_origin(origin, noise), start, FREE)
        assert not noisy.exact(noisy.cost(noisy.parameters.start))


def test_rounding_is_no_information(rng):
    J = rng.normal(size=(50, 2)) * [1.0, 1e-15]
    assert negligible_columns(J, np.array([1.0, 2.0]), 100.0, EPS).tolist() == [False, True]


@pytest.mark.parametrize(("rows", "columns"), [(3, 5), (40, 5), (5_000, 5), (1_639, 5), (260, 129)])
def test_a_triangular_factor_has_the_products_of_all_rows(rng, rows, columns):
    """In one block or in several, of many rows or of many columns: R^T R = A^T A."""
    A = rng.normal(size=(rows, columns))
    R = _triangular_factor(A)
    assert R.shape == (min(rows, columns), columns)
    # Rounding of sums of as many terms as there are rows, each of order one.
    np.testing.assert_allclose(R.T @ R, A.T @ A, rtol=0, atol=1e-15 * rows * columns**0.5 + 1e-13)


def test_each_channel_has_a_rounding_of_its_own():
    """Metres beside micrometres: what is rounding of the first is none of the second."""
    values = np.array([[1.0, 1e-6], [0.5, np.nan]])
    of = rounding(values, np.ones((2, 2)), ~np.isnan(values), 10)
    np.testing.assert_allclose(of, 5 * np.finfo(float).eps * np.array([[1.0, 1e-6], [1.0, 0.0]]))
    assert are_rounding(np.array([[1e-15, 1e-21], [0.0, 0.0]]), of)
    assert not are_rounding(np.array([[0.0, 1e-15], [0.0, 0.0]]), of)
    assert not are_rounding(np.array([[np.nan, 0.0], [0.0, 0.0]]), of)


def test_a_channel_without_samples_is_no_pattern(rng):
    r = rng.normal(size=(50, 2))
    r[:, 1] = np.nan
    assert white(r)
    r[:, 1] = np.sin(np.arange(50) / 8)
    assert not white(r)
