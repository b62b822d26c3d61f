"""Runs that go on by themselves where a joint descent stalls, on residuals whose minima are known without it."""

from types import SimpleNamespace

import numpy as np
import pytest

from diffcontact.identify.problem.normal_equations import NormalEquations
from diffcontact.identify.problem.objective import Objective
from diffcontact.identify.search import run_by_run as module
from diffcontact.identify.search import shooting
from diffcontact.identify.search.run_by_run import rub_for_themselves, run_by_run, stalled
from diffcontact.identify.search.trust_region import solve


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

    def normal_equations(self, theta, weights):
        costs, gradients, curvatures = [], [], []
        for lane in theta:
            f, J = self.evaluate(lane)
            costs, gradients, curvatures = [*costs, f @ f / 2], [*gradients, J.T @ f], [*curvatures, J.T @ J]
        return NormalEquations(np.array(costs), np.array(gradients), np.array(curvatures), weights)

    def told(self, iteration, cost):
        pass


@pytest.fixture(autouse=True)
def without_impacts(monkeypatch):
    monkeypatch.setattr(module, "neighbouring_impacts", lambda *_: None)


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
    assert stalled(objective, alone)
    assert alone.cost > near * least
    # A fit comes to the same.
    assert shooting._solved(objective, theta).cost < near * least


def test_a_run_finds_its_other_minimum_along_what_it_sees_least():
    """(z^2 - 1)^2 / 10 + (z + 1)^2 / 1000 has its lowest at z = -1; a descent from z = 1 stays beside it."""

    def rows(i, theta):
        z = theta[1 + i]
        J = np.zeros((3, 3))
        J[0, 1 + i], J[1, 1 + i], J[2, 0] = 2 * z / np.sqrt(5), 1 / np.sqrt(500), 1.0
        return np.array([(z**2 - 1) / np.sqrt(5), (z + 1) / np.sqrt(500), theta[0] - 2]), J

    objective = Runs(rows, 2, 1)
    start = np.array([0.0, 1.0, 1.0])
    assert solve(objective, start).x[1] > 0.9
    # The step tolerance is 1e-7 of a cost that is 0 there: it ends at the root of it.
    np.testing.assert_allclose(run_by_run(objective, start), [2.0, -1.0, -1.0], atol=1e-3)


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


def test_what_has_arrived_is_not_called_stalled():
    """The same residuals without a kink: f is linear, and its slope at the end is rounding."""
    objective, _, _ = kinked(12, steep=0.0)
    assert not stalled(objective, solve(objective, np.zeros(13)))


def test_one_run_has_nobody_to_wait_for():
    objective, _, _ = kinked(1)
    end = solve(objective, np.zeros(2))
    assert not stalled(objective, end)
