"""Descents on residuals whose minima are known without them: of one start, and run by run."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from diffcontact.identify.problem.objective import Objective
from diffcontact.identify.problem.parameters import starting_points
from diffcontact.identify.search import run_by_run as module
from diffcontact.identify.search.descents import solve
from diffcontact.identify.search.run_by_run import rub_for_themselves, run_by_run


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

    def __init__(self, rows, count, shared, chosen=None):
        size = shared + count
        self.rows, self.chosen, self.rounding = rows, range(count) if chosen is None else chosen, 1e-14
        self.eps = 2e-16
        self.parameters = SimpleNamespace(
            low=np.full(size, -np.inf),
            high=np.full(size, np.inf),
            log=np.zeros(size, bool),
            names=[f"x[{j}]" for j in range(size)],
            runs=count,
            own=np.arange(size) >= shared,
        )
        self.joint = SimpleNamespace(
            runs=[SimpleNamespace(index=np.r_[:shared, shared + i]) for i in range(count)], rubs=False
        )

    def of_run(self, i):
        return Runs(self.rows, self.parameters.runs, self.parameters.low.size - self.parameters.runs, [i])

    def evaluate(self, theta):
        f, J = zip(*(self.rows(i, theta) for i in self.chosen), strict=True)
        return np.concatenate(f), np.concatenate(J)

    def told(self, iteration, cost):
        pass


def test_linear_residuals_end_at_their_least_squares(rng):
    """By the normal equations of all runs at once, which the reduced ones are the Schur complement of."""
    count, shared, rows = 5, 2, 4
    B, y = rng.normal(size=(count, rows, shared + count)), rng.normal(size=(count, rows))
    for i in range(count):
        B[i][:, np.setdiff1d(np.arange(shared, shared + count), shared + i)] = 0.0
    objective = Runs(lambda i, theta: (B[i] @ theta - y[i], B[i]), count, shared)
    exact = np.linalg.lstsq(np.concatenate(B), np.concatenate(y))[0]
    found = run_by_run(objective, np.zeros(shared + count))
    # It ends where a step gains less than 1e-4 of the cost; damping fades tenfold a step.
    f, best = objective.evaluate(found)[0], objective.evaluate(exact)[0]
    assert f @ f == pytest.approx(best @ best, rel=1e-4)


def kinked(count, steep=3.0, far=3.0):
    """Each run has 1 + steep |z + s - k|, z - a and 0.3 (s - far): least at its kink z = k - s, where s is near.

    Returns:
        objective, the least cost, and the shared s there.
    """
    k, a = np.linspace(0.5, 1.5, count), np.linspace(0.2, -0.2, count)

    def rows(i, theta):
        x = theta[0] + theta[1 + i] - k[i]
        J = np.zeros((3, 1 + count))
        J[0, [0, 1 + i]] = steep * np.sign(x)
        J[1, 1 + i], J[2, 0] = 1.0, 0.3
        return np.array([1 + steep * abs(x), theta[1 + i] - a[i], 0.3 * (theta[0] - far)]), J

    s = np.sum(k - a + 0.09 * far) / (1.09 * count)
    return Runs(rows, count, 1), 0.5 * np.sum(1 + (k - s - a) ** 2 + 0.09 * (s - far) ** 2), s


@pytest.mark.parametrize("start", [0.0, 1.0])
def test_runs_that_stand_before_their_kinks_do_not_hold_the_others(start):
    """Away from s the kinks tell nothing of it: they move along, and only what lies behind them draws."""
    objective, least, s = kinked(12)
    theta = np.r_[start, np.zeros(12)]
    alone, found = solve(objective, theta), run_by_run(objective, theta)
    f = objective.evaluate(found)[0]
    # The last round gains less than 1e-3, which leaves ten such; the cost is least to second order, so that s is off by
    # its root.
    near = 1 + 1e-2
    assert least <= f @ f / 2 < near * least
    assert found[0] == pytest.approx(s, abs=np.sqrt(2e-2 * least / (1.09 * 12)))
    assert alone.cost > near * least


@pytest.mark.parametrize(("begin", "end"), [(0.1, 0.4), (0.4, 0.1)])
def test_a_run_tries_other_frictions_of_its_own(monkeypatch, begin, end):
    """1e3 (z - 0.1) (z - 0.4) and z - end: two minima, steep ones, a factor of four apart."""

    def rows(i, theta):
        z = theta[1 + i]
        J = np.zeros((3, 3))
        J[0, 1 + i], J[1, 1 + i], J[2, 0] = 1e3 * (2 * z - 0.5), 1.0, 1.0
        return np.array([1e3 * (z - 0.1) * (z - 0.4), z - end, theta[0] - 2]), J

    objective, start = Runs(rows, 2, 1), np.array([0.0, begin, begin])
    found = run_by_run(objective, start)
    np.testing.assert_allclose(found, [2.0, begin, begin], atol=1e-3)
    assert not rub_for_themselves(objective, start)
    # What is not below zero may be a friction; whether it is one says the system.
    monkeypatch.setattr(module, "role", lambda objective, theta, name: "friction")
    of_run = Runs.of_run

    def rubbing(self, i):
        alone = of_run(self, i)
        alone.joint.rubs, alone.parameters.low = True, np.zeros(3)
        alone.parameters.high, alone.parameters.start = np.ones(3), start
        return alone

    monkeypatch.setattr(Runs, "of_run", rubbing)
    found = run_by_run(objective, start)
    np.testing.assert_allclose(found[1:], [end, end], atol=1e-3)
    assert rub_for_themselves(objective, start)


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


def test_a_fit_from_its_start_alone_waits_for_no_other(monkeypatch):
    """scipy.stats, which draws them, takes half a second to import."""
    monkeypatch.setitem(sys.modules, "scipy.stats", None)
    for points in (points_of(1), points_of(65)):
        np.testing.assert_array_equal(next(points), Layout.start)
    assert not [*points_of(1)][1:]
    with pytest.raises(ImportError):
        next(points)
