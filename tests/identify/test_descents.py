"""Descents: on residuals whose minima are known without them, and of a ball with six bounces from bad starts."""

from copy import copy
from types import SimpleNamespace

import numpy as np
import pytest
from bouncing import BALL_FREE, BALL_TRUTH, ball_problem

from diffcontact.identify import Interval, fit, search
from diffcontact.identify.objective import Objective
from diffcontact.identify.parameters import starting_points
from diffcontact.identify.search import solve


class Rows:
    """f(theta) and J(theta) as an objective, with a count of how often it was asked."""

    def __init__(self, f, J, low, high):
        self.f, self.J, self.eps, self.asked = f, J, np.finfo(float).eps, 0
        self.parameters = SimpleNamespace(low=np.array(low), high=np.array(high))

    def evaluate(self, theta):
        self.asked += 1
        return self.f(theta), self.J(theta)

    def told(self, iteration, cost):
        pass


@pytest.mark.parametrize("truth", [1e-12, 1e16])
def test_the_unit_of_a_parameter_changes_nothing(truth):
    """An inertia of 1e-12 kg m^2 is not at its bound of 0; a stiffness of 1e16 N/m is not found because 1 is nothing
    beside it."""
    tried = []

    def f(theta):
        tried.append(float(theta[0]))
        return np.array([np.log(theta[0] / truth)])

    end = solve(Rows(f, lambda theta: np.array([[1 / theta[0]]]), [0.0], [np.inf]), np.array([0.5 * truth]))
    assert end.x[0] == pytest.approx(truth, rel=1e-9)
    assert end.active_mask.tolist() == [0]
    # What scipy's bounds are kept by is rounding.
    assert min(tried) == pytest.approx(0.5 * truth, rel=1e-9)
    assert max(tried) < 2 * truth
    # The curvature by the parameter itself.
    np.testing.assert_allclose(end.jac, [[1 / truth]], rtol=1e-9)


class Runs:
    """Residuals (f, J) = row(theta) of each run as an objective; theta is what they share, then one element of each."""

    exact = Objective.exact

    def __init__(self, rows, count, shared, start, chosen=None):
        size = shared + count
        self.rows, self.chosen, self.rounding, self.eps = rows, range(count) if chosen is None else chosen, 1e-14, 2e-16
        self.parameters = SimpleNamespace(
            low=np.full(size, -np.inf),
            high=np.full(size, np.inf),
            log=np.zeros(size, bool),
            names=[f"x[{j}]" for j in range(size)],
            runs=count,
            own=np.arange(size) >= shared,
            start=start,
        )
        self.joint = SimpleNamespace(
            runs=[SimpleNamespace(index=np.r_[:shared, shared + i]) for i in range(count)], rubs=False
        )

    def of_run(self, i):
        alone = copy(self)
        alone.chosen = [i]
        return alone

    def evaluate(self, theta):
        f, J = zip(*(self.rows(i, theta) for i in self.chosen), strict=True)
        return np.concatenate(f), np.concatenate(J)

    def told(self, iteration, cost):
        pass


@pytest.mark.parametrize(("begin", "end"), [(0.1, 0.4), (0.4, 0.1)])
def test_a_run_tries_other_frictions_of_its_own(monkeypatch, begin, end):
    """1e3 (z - 0.1) (z - 0.4) and z - end: two minima, steep ones, a factor of four apart."""

    def rows(i, theta):
        z = theta[1 + i]
        J = np.zeros((3, 3))
        J[0, 1 + i], J[1, 1 + i], J[2, 0] = 1e3 * (2 * z - 0.5), 1.0, 1.0
        return np.array([1e3 * (z - 0.1) * (z - 0.4), z - end, theta[0] - 2]), J

    start = np.array([0.0, begin, begin])
    objective = Runs(rows, 2, 1, start)
    np.testing.assert_allclose(search._solved(objective, start).x, [2.0, begin, begin], atol=1e-3)
    # What is not below zero may be a friction; whether it is one says the system.
    monkeypatch.setattr(search, "role", lambda objective, theta, name: "friction")
    objective.joint.rubs, objective.parameters.low, objective.parameters.high = True, np.zeros(3), np.full(3, 3.0)
    np.testing.assert_allclose(search._solved(objective, start).x, [2.0, end, end], atol=1e-3)


class Layout:
    start, log = np.array([0.5, 4.0, 0.0, np.log(3.0)]), np.array([False, False, False, True])
    low, high = np.array([0.0, 0.0, -np.inf, -np.inf]), np.array([1.0, np.inf, np.inf, np.inf])


def points_of(starts):
    return starting_points(Layout, starts, 0)  # pyright: ignore[reportArgumentType]


def test_starts_fill_the_bounds_and_keep_to_one_sided_ones():
    points = np.array([*points_of(65)])
    np.testing.assert_array_equal(points[0], Layout.start)
    low, high = points[1:].min(axis=0), points[1:].max(axis=0)
    # 64 points of a Sobol set: one in each 64th of every axis.
    edges = np.array([[0.0, 2.0, -1.0, np.log(1.5)], [1.0, 8.0, 1.0, np.log(6.0)]])
    assert np.all(low >= edges[0])
    assert np.all(high <= edges[1])
    assert np.all(high - low > (edges[1] - edges[0]) * 62 / 64)


# Of six bounces, the sixth at 2.92 s, single shooting sees a thicket: from here it ends in a local minimum.
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
