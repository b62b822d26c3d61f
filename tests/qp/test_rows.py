"""`qp.BodyRows`, two small normals per row, gives what the same rows give when they are spread out."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from heaps import spread
from qp_problems import assert_differences, assert_transposed, derivatives, optimality, run, with_neighbours

from diffcontact import qp
from diffcontact.qp.rows import (
    delassus,
    dense,
    magnitudes,
    product,
    squares,
    transposed_magnitudes,
    transposed_product,
    whitened,
)
from diffcontact.qp.working_set import candidate_count, reduced_candidate_count
from diffcontact.status import Status

COUNT, M, ROWS = 6, 2, 60
D = COUNT * M


def _bodies(rng):
    """Sixty rows between six bodies in the plane and with walls, as many as are compacted."""
    bodies = np.array([rng.choice(COUNT, 2, replace=False) for _ in range(ROWS)])
    bodies[::5, 1] = -1
    return bodies


@pytest.mark.parametrize("sides", [2, 1])
def test_products(rng, sides):
    bodies, normals = _bodies(rng), rng.normal(size=(ROWS, sides, M))
    mass, v, x = rng.uniform(0.5, 2, D), rng.normal(size=D), rng.normal(size=ROWS)

    @jax.jit
    def products(normals, mass, v, x):
        G = qp.BodyRows(bodies, normals, COUNT)
        one_sided = transposed_product(G, x), transposed_magnitudes(G, x)
        unit = delassus(whitened(mass**0.5, G))
        return dense(G), product(G, v), squares(G, mass), magnitudes(G, v), *one_sided, unit

    G = spread(qp.BodyRows(bodies, normals, COUNT))
    expected = G, G @ v, G**2 @ mass, np.abs(G) @ np.abs(v), G.T @ x, np.abs(G).T @ np.abs(x), G / mass @ G.T
    for one, other in zip(products(normals, mass, v, x), expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-13)


@pytest.mark.usefixtures("kernel")
def test_projections(rng):
    """Few rows violated and many, so that few candidates do and do not; values and derivatives; held rows."""
    bodies, rows, asked = _bodies(rng), {}, set()
    normals, mass, b = rng.normal(size=(ROWS, 2, M)), rng.uniform(0.5, 2, D), rng.uniform(0.5, 1.5, ROWS)
    push, active = rng.normal(size=D), np.arange(ROWS) < 5
    for speed in (0.4, 0.6, 1.5, 30.0):
        problem = mass, normals, b, speed * push
        tangents = tuple(rng.normal(size=x.shape) for x in problem)
        rows[f"speed {speed}"] = problem, (), tangents, rng.normal(size=2 * (ROWS + D))

    def solved(problem):
        mass, normals, b, v = problem
        G = qp.BodyRows(bodies, normals, COUNT)
        both = qp.project(mass, G, b, v), qp.hold(mass, G, b, v, active)
        return jnp.concatenate([x for found in both for x in (found.u, found.multipliers)]), both

    rows = with_neighbours(rows)
    found = run(jax.jit(jax.vmap(derivatives(solved))), rows)
    for name in rows:
        (mass, normals, b, v), (projected, held) = rows[name][0], found[name][0]
        G = spread(qp.BodyRows(bodies, normals, COUNT))
        assert projected.status == held.status == Status.OK
        assert optimality((mass, G, b, v), projected) < 1e-11, name
        np.testing.assert_allclose((G @ held.u + b)[active], 0, atol=1e-12 * (1 + np.abs(v).max()))
        np.testing.assert_allclose(mass * (held.u - v), G.T @ held.multipliers, atol=1e-11 * (1 + np.abs(v).max()))
        if name[-2] not in "+-":
            assert_differences(found, name, 1e-5)
            assert_transposed(rows, found, name)
            violated = np.sum(G @ v + b < 0)
            asked.add(bool(violated > reduced_candidate_count(candidate_count(ROWS, D))[1]))
            assert violated
    assert asked == {False, True}
