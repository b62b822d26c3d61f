"""`qp.box`: optimality, derivatives, and bounds that are infinite, equal or the wrong way round."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

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


@jax.jit
def _solve(problem):
    return qp.box(*problem)


@jax.jit
def _derivatives(problem, tangents, cotangent):
    def x(*arguments):
        return qp.box(*arguments).x

    value, forward = jax.jvp(x, problem, tangents)
    return value, forward, jax.vjp(x, *problem)[1](cotangent)


def test_optimality(rng):
    for _ in range(20):
        A, b, lower, upper = problem = _problem(rng)
        found = _solve(problem)
        assert int(found.status) == Status.OK
        x = np.asarray(found.x)
        assert np.all((x >= lower) & (x <= upper))
        # The fixed point of the projected gradient: zero exactly at the minimiser.
        residual = x - np.clip(x - (A @ x + b), lower, upper)
        assert np.abs(residual).max() < 1e-12 * (1 + np.abs(A).max() * np.abs(x).max())


def test_derivatives(rng):
    problem = _problem(rng)
    lower, upper = problem[2:]
    tangents = [rng.normal(size=x.shape) for x in problem]
    tangents[0] = tangents[0] + tangents[0].T
    # Bounds that coincide move together, infinite ones stay.
    tangents[3][2] = tangents[2][2]
    for bound, tangent in ((lower, tangents[2]), (upper, tangents[3])):
        tangent[~np.isfinite(bound)] = 0
    cotangent = rng.normal(size=N)
    _, forward, backward = _derivatives(problem, tuple(tangents), cotangent)
    step = 1e-6
    up, down = (
        _derivatives(tuple(x + s * y for x, y in zip(problem, tangents, strict=True)), tuple(tangents), cotangent)[0]
        for s in (step, -step)
    )
    np.testing.assert_allclose(forward, (up - down) / (2 * step), atol=1e-7)
    through = sum(np.sum(x * y) for x, y in zip(backward, tangents, strict=True))
    np.testing.assert_allclose(through, cotangent @ forward, rtol=1e-12)


def test_batched_in_single_precision(rng):
    problems = [_problem(rng) for _ in range(4)]
    stacked = tuple(np.stack(x) for x in zip(*problems, strict=True))
    single = jax.jit(jax.vmap(qp.box))(*(x.astype(np.float32) for x in stacked))
    for lane, problem in enumerate(problems):
        # A thousand roundings of single precision, with the condition of A.
        condition = np.linalg.cond(problem[0])
        np.testing.assert_allclose(single.x[lane], _solve(problem).x, atol=1e-5 * max(condition, 10))


def test_bounds_the_wrong_way_round(rng):
    A, b, *_ = _problem(rng)
    found = _solve((A, b, np.full(N, 1.0), np.full(N, -2.0)))
    assert int(found.status) == Status.INFEASIBLE
    np.testing.assert_allclose(found.x, -0.5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_equal_bounds_are_held_where_the_free_minimiser_lies_on_them(dtype):
    A, there = np.array([[2.0, 1.0], [1.0, 2.0]]), np.array([1.0, 0.5])
    lower, upper = np.array([1.0, -3.0]), np.array([1.0, 3.0])
    problem = tuple(x.astype(dtype) for x in (A, -A @ there, lower, upper))
    assert int(_solve(problem).status) == Status.OK
    # x_0 = lower_0 is given, and 2 x_1 = -b_1 - x_0.
    by_b, by_lower, by_upper = jax.jacfwd(lambda *x: qp.box(*x).x, argnums=(1, 2, 3))(*problem)
    np.testing.assert_allclose(by_b, [[0, 0], [0, -0.5]], atol=1e-6)
    np.testing.assert_allclose(by_lower + by_upper, [[1, 0], [-0.5, 0]], atol=1e-6)


def test_only_the_symmetric_part_of_a_matrix_counts(rng):
    A, *rest = _problem(rng)
    skew = rng.normal(size=(N, N))
    skew = skew - skew.T
    found, expected = _solve((A + skew, *rest)), _solve((A, *rest))
    assert int(found.status) == int(expected.status) == Status.OK
    # Rounding, with the condition of A.
    np.testing.assert_allclose(found.x, expected.x, atol=1e-13 * np.linalg.cond(A))
    along = jax.jvp(lambda A: qp.box(A, *rest).x, (A,), (skew,))[1]
    np.testing.assert_allclose(along, 0, atol=1e-13 * np.linalg.cond(A))


def test_a_shape_that_does_not_fit():
    with pytest.raises(ValueError, match=r"upper has the shape \(3,\); expected \(2,\)"):
        qp.box(jnp.eye(2), jnp.ones(2), -jnp.ones(2), jnp.ones(3))
