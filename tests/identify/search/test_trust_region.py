"""The descent that every fit ends with, on residuals whose minima are known without it."""

from types import SimpleNamespace

import numpy as np
import pytest

from diffcontact.identify.search import trust_region
from diffcontact.identify.search.trust_region import solve


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


def bent(part, low=(-np.inf, -np.inf), high=(np.inf, np.inf)):
    """Residuals x, y and 1 - part y^2 / 2: by symmetry least at (0, 0), where H = diag(1, 1 - part) and J^T J = 1.

    Gauss and Newton's method leaves `part` of the distance at every step, as S = H - J^T J says.
    """
    return Rows(
        lambda z: np.array([z[0], z[1], 1 - part * z[1] ** 2 / 2]),
        lambda z: np.array([[1.0, 0.0], [0.0, 1.0], [0.0, -part * z[1]]]),
        low,
        high,
    )


def test_newton_ends_what_gauss_and_newton_would_go_on_with():
    """At 0.97 each step leaves 97 %: the descent has 4 % of its way before it after 75 evaluations alone."""
    rows = bent(0.97)
    end = solve(rows, np.array([1.0, 0.5]))
    assert end.status == 2
    # The cost is flat to (1 - part) y^2 / 2: tolerance 1.8e-12 of 1/2 leaves y within 1e-5.
    np.testing.assert_allclose(end.x, 0.0, atol=1e-5)
    assert end.cost == pytest.approx(0.5, abs=1e-12)
    assert end.nfev <= trust_region.MAX_EVALUATIONS


def test_it_ends_at_a_bound_where_the_minimum_lies_beyond():
    rows = bent(0.97, low=(-1.0, 0.1))
    end = solve(rows, np.array([0.5, 0.9]))
    np.testing.assert_allclose(end.x, [0.0, 0.1], atol=1e-6)


def test_a_saddle_is_not_called_an_end(monkeypatch):
    """Beyond 1 the origin is a saddle, and the minima are at y^2 = 2 (part - 1) / part^2."""
    monkeypatch.setattr(trust_region, "_ROUND", 2)
    end = solve(bent(1.05), np.array([1.0, 1e-3]))
    assert abs(end.x[1]) == pytest.approx(np.sqrt(2 * 0.05) / 1.05, abs=1e-5)
    flat = trust_region._newton(bent(1.05), _at(bent(1.05), np.zeros(2)), 1e-12, 10)
    assert flat is None


def test_many_parameters_are_not_worth_more_than_the_descent_itself():
    rows = bent(0.97)
    end = _at(rows, np.array([0.1, 0.1]))
    asked = rows.asked
    assert trust_region._newton(rows, end, 1e-12, 1) is None
    assert rows.asked == asked


def _at(rows, theta):
    """A descent that has come to theta."""
    f, J = rows.evaluate(theta)
    return trust_region.OptimizeResult(x=theta, cost=0.5 * f @ f, fun=f, jac=J, grad=J.T @ f, nfev=1, njev=1, status=0)


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
