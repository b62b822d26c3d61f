"""`qp.box`: optimality, derivatives, and bounds that are infinite, equal or the wrong way round, as lanes."""

import jax
import numpy as np
import pytest
from qp_problems import assert_differences, assert_transposed, derivatives, run, with_neighbours

from diffcontact import qp
from diffcontact.status import Status

N = 6


def _problem(rng):
    """With a component without a lower bound, one without an upper bound, and one whose bounds coincide."""
    factor = rng.normal(size=(N, N))
    A = factor @ factor.T + 0.1 * np.eye(N)
    lower, upper = -rng.uniform(0, 1, N), rng.uniform(0, 1, N)
    lower[0], upper[1], upper[2] = -np.inf, np.inf, lower[2]
    return A, 3 * rng.normal(size=N), lower, upper


def _row(rng, problem):
    tangents = [rng.normal(size=x.shape) * np.isfinite(x) for x in problem]
    tangents[0] = tangents[0] + tangents[0].T
    # Bounds that coincide move together.
    tangents[3][2] = tangents[2][2]
    return problem, (), tuple(tangents), rng.normal(size=N)


def _solved(problem):
    found = qp.box(*problem)
    return found.x, found


# 1/2 x^T A x + b^T x is least at (1, 1/2), where the bounds of the first component are: 2 x_1 = -b_1 - x_0.
EQUAL = np.eye(N), np.zeros(N), np.full(N, -1.0), np.ones(N)
EQUAL[0][:2, :2] = [[2, 1], [1, 2]]
EQUAL[1][:2], EQUAL[2][:2], EQUAL[3][:2] = [-2.5, -2], [1, -3], [1, 3]


def _table():
    rng = np.random.default_rng(0)
    rows = with_neighbours({f"random {i}": _row(rng, _problem(rng)) for i in range(20)})
    A, b, lower, upper = problem = rows["random 0"][0]
    rows["crossed"] = _row(rng, (A, b, np.full(N, 1.0), np.full(N, -2.0)))
    still = tuple(np.zeros_like(x) for x in problem)
    rows["equal, by b"] = EQUAL, (), (still[0], np.eye(N)[1], *still[2:]), np.ones(N)
    rows["equal, by both bounds"] = EQUAL, (), (*still[:2], np.eye(N)[0], np.eye(N)[0]), np.ones(N)
    skew = rng.normal(size=(N, N))
    skew = skew - skew.T
    rows["skew"] = (A + skew, b, lower, upper), (), (skew, *still[1:]), np.ones(N)
    return rows


@pytest.fixture(scope="module")
def table():
    rows = _table()
    return rows, run(jax.jit(jax.vmap(derivatives(_solved))), rows)


def test_optimality_and_derivatives(table):
    rows, found = table
    for i in range(20):
        name = f"random {i}"
        (A, b, lower, upper), solution = rows[name][0], found[name][0]
        assert solution.status == Status.OK, name
        x = solution.x
        assert np.all((x >= lower) & (x <= upper)), name
        # The fixed point of the projected gradient: zero exactly at the minimiser.
        residual = x - np.clip(x - (A @ x + b), lower, upper)
        assert np.abs(residual).max() < 1e-12 * (1 + np.abs(A).max() * np.abs(x).max()), name
        assert_differences(found, name, 1e-7 * np.linalg.cond(A))
        assert_transposed(rows, found, name, 1e-13 * np.linalg.cond(A))


def test_bounds_the_wrong_way_round(table):
    found = table[1]["crossed"][0]
    assert found.status == Status.INFEASIBLE
    np.testing.assert_allclose(found.x, -0.5)


@pytest.mark.parametrize(("name", "along"), [("equal, by b", [0, -0.5]), ("equal, by both bounds", [1, -0.5])])
def test_equal_bounds_are_held_where_the_free_minimiser_lies_on_them(table, name, along):
    found, x, forward, _ = table[1][name]
    assert found.status == Status.OK
    np.testing.assert_allclose(x[:2], [1, 0.5], atol=1e-15)
    np.testing.assert_allclose(forward[:2], along, atol=1e-14)


def test_only_the_symmetric_part_of_a_matrix_counts(table):
    rows, found = table
    # Rounding, with the condition of A.
    atol = 1e-13 * np.linalg.cond(rows["random 0"][0][0])
    np.testing.assert_allclose(found["skew"][1], found["random 0"][1], atol=atol)
    np.testing.assert_allclose(found["skew"][2], 0, atol=atol)


def test_in_single_precision(table):
    rows, exact = table
    found = run(
        jax.jit(jax.vmap(lambda problem: qp.box(*problem))), {name: row[:1] for name, row in rows.items()}, "f4"
    )
    for i in range(20):
        # A thousand roundings of single precision, with the condition of A.
        condition = np.linalg.cond(rows[f"random {i}"][0][0])
        np.testing.assert_allclose(found[f"random {i}"].x, exact[f"random {i}"][1], atol=1e-5 * max(condition, 10))


def test_a_shape_that_does_not_fit():
    with pytest.raises(ValueError, match=r"upper has the shape \(3,\); expected \(2,\)"):
        qp.box(np.eye(2), np.ones(2), -np.ones(2), np.ones(3))
