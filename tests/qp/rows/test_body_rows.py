"""`qp.BodyRows`, two small normals per row, gives what the same rows give when they are spread out."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffcontact import qp
from diffcontact.qp.rows.body_rows import (
    both,
    delassus,
    dense,
    magnitudes,
    product,
    squares,
    transposed_product,
    whitened,
)
from diffcontact.qp.working_set import candidate_count, reduced_candidate_count

COUNT, M = 6, 2


@pytest.fixture(params=[2, 1], ids=["two normals", "one normal"])
def problem(rng, request):
    """Sixty rows between six bodies in the plane and with walls, as many as are compacted, and the room of each."""
    bodies = np.array([rng.choice(COUNT, 2, replace=False) for _ in range(60)])
    bodies[::5, 1] = -1
    rows = qp.BodyRows(jnp.asarray(bodies), jnp.asarray(rng.normal(size=(60, request.param, M))), COUNT)
    return rng.uniform(0.5, 2, COUNT * M), rows, rng.uniform(0.5, 1.5, 60), rng.normal(size=COUNT * M)


def test_products(problem):
    mass, rows, _, v = problem
    spread = np.zeros((60, COUNT, M))
    for i, pair in enumerate(np.asarray(rows.bodies)):
        for body, normal in zip(pair, np.asarray(both(rows).normals[i]), strict=True):
            if body >= 0:
                spread[i, body] += normal
    spread = spread.reshape(60, -1)
    np.testing.assert_array_equal(dense(rows), spread)
    np.testing.assert_allclose(product(rows, v), spread @ v, atol=1e-14)
    np.testing.assert_allclose(squares(rows, mass), spread**2 @ mass, atol=1e-14)
    np.testing.assert_allclose(magnitudes(rows, v), np.abs(spread) @ np.abs(v), atol=1e-14)


def _outcome(mass, normals, b, v, rows, spread_out):
    rows = replace(rows, normals=normals)
    found = qp.project(mass, dense(rows) if spread_out else rows, b, v)
    return jnp.sum(jnp.sin(found.u)) + jnp.sum(found.multipliers**2), found


def test_projection_and_gradient(problem):
    mass, rows, b, v = problem
    differentiated = jax.jit(jax.value_and_grad(_outcome, (0, 1, 2, 3), has_aux=True), static_argnames="spread_out")
    (_, sparse), gradient = differentiated(mass, rows.normals, b, v, rows, spread_out=False)
    (_, full), expected = differentiated(mass, rows.normals, b, v, rows, spread_out=True)
    assert int(sparse.status) == 0
    assert np.sum(sparse.active) >= 3
    np.testing.assert_array_equal(sparse.active, full.active)
    np.testing.assert_allclose(sparse.u, full.u, atol=1e-13)
    for ours, theirs in zip(gradient, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-11 * (1 + np.max(np.abs(theirs))))


def test_hold(problem):
    mass, rows, b, v = problem
    active = np.arange(60) < 5
    held, full = jax.jit(lambda: (qp.hold(mass, rows, b, v, active), qp.hold(mass, dense(rows), b, v, active)))()
    np.testing.assert_allclose(held.u, full.u, atol=1e-13)
    np.testing.assert_allclose(product(rows, held.u)[:5], -b[:5], atol=1e-12)


def test_shapes_that_do_not_fit(problem):
    mass, rows, b, v = problem
    with pytest.raises(ValueError, match=r"G.normals has the shape \(60, 2\); expected \(c, 2, m\)"):
        qp.project(mass, replace(rows, normals=rows.normals[:, 0]), b, v)
    with pytest.raises(ValueError, match=r"G.bodies has the shape \(59, 2\); expected \(60, 2\)"):
        qp.project(mass, replace(rows, bodies=rows.bodies[1:]), b, v)
    with pytest.raises(ValueError, match="rows between bodies need a diagonal"):
        qp.project(jnp.diag(mass), rows, b, v)


def test_few_or_many_rows_violated(problem):
    """Few candidates do where few rows are violated, and more are taken where these turn out to be too few."""
    mass, rows, b, v = problem
    solve = jax.jit(lambda push: qp.project(mass, rows, b, push))
    asked = set()
    for size in (0.4, 0.6, 1.5, 30.0):
        found = solve(size * v)
        _, asking = reduced_candidate_count(candidate_count(60, COUNT * M))
        asked.add(int(jnp.sum(product(rows, size * v) + b < 0)) > asking)
        values = product(rows, found.u) + b
        assert int(found.status) == 0
        assert np.min(values) > -1e-12 * size
        np.testing.assert_allclose(found.multipliers * values, 0, atol=1e-11 * size**2)
        np.testing.assert_allclose(
            mass * (found.u - size * v), transposed_product(rows, found.multipliers), atol=1e-12 * size
        )
    assert asked == {False, True}


def test_products_between_rows(problem):
    mass, rows, *_ = problem
    full = np.asarray(dense(rows))
    np.testing.assert_allclose(delassus(whitened(jnp.sqrt(mass), rows)), full / mass @ full.T, atol=1e-13)
