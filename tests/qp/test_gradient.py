"""The projection onto many rows: against the exact one, from any start, to the residual it names."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffcontact import qp
from diffcontact.qp.bodies import dense
from diffcontact.status import Status


def _chain(rng, count=20, dtype=float):
    """Rows between random pairs of bodies and walls; feasible, since u = 0 is, and with redundant ones."""
    rows = 40
    bodies = np.array([rng.choice(count, 2, replace=False) for _ in range(rows)])
    normals = rng.normal(size=(rows, 2, 3))
    normals[:, 0] = -normals[:, 1]
    bodies[:5, 1] = -1
    bodies[5], normals[5] = bodies[6], normals[6]
    G = qp.BodyRows(jnp.asarray(bodies), jnp.asarray(normals, dtype), count)
    b = jnp.asarray(np.where(rng.uniform(size=rows) < 0.9, rng.uniform(0.0, 0.3, rows), np.inf), dtype)
    mass = jnp.asarray(np.repeat(rng.uniform(0.5, 5.0, count), 3), dtype)
    return mass, G, b.at[5].set(b[6]), jnp.asarray(rng.normal(size=3 * count), dtype)


def test_it_agrees_with_the_exact_projection(rng):
    mass, G, b, v = _chain(rng)
    exact = qp.project(mass, dense(G), b, v)
    many = qp.project_many(mass, G, b, v, tolerance=1e-12)
    assert many.status == Status.OK
    # The residual is relative to a violation of some units; the condition of the rows takes two digits more.
    np.testing.assert_allclose(many.u, exact.u, atol=1e-9)
    assert np.count_nonzero(many.active) > 5
    # Of two equal rows either may carry the load.
    np.testing.assert_allclose(dense(G).T @ many.multipliers, mass * (many.u - v), atol=1e-12)
    assert np.all(many.multipliers >= 0)


def test_a_start_changes_the_way_and_not_the_end(rng):
    mass, G, b, v = _chain(rng)
    cold = qp.project_many(mass, G, b, v, tolerance=1e-12)
    warm = qp.project_many(mass, G, b, v, loads=cold.multipliers * 1.1 + 0.1, tolerance=1e-12)
    np.testing.assert_allclose(warm.u, cold.u, atol=1e-9)


@pytest.mark.parametrize("argument", range(4))
def test_its_derivative_is_the_exact_ones_in_both_modes(rng, argument):
    mass, G, b, v = _chain(rng)
    given = [mass, G.normals, b, v]
    tangent = jnp.asarray(rng.normal(size=given[argument].shape))

    def of(project, rows):
        def u(x):
            m, n, o, w = (*given[:argument], x, *given[argument + 1 :])
            return project(m, rows(qp.BodyRows(G.bodies, n, G.count)), o, w).u

        return u

    many = of(lambda *a: qp.project_many(*a, tolerance=1e-12), lambda G: G)
    _, slope = jax.jvp(of(qp.project, dense), (given[argument],), (tangent,))
    u, ours = jax.jvp(many, (given[argument],), (tangent,))
    if argument != 1:
        # By the normals, two equal rows that move apart are no longer equal; the exact one holds the first of them.
        np.testing.assert_allclose(ours, slope, atol=1e-7 * np.max(np.abs(slope)))
    weight = jnp.asarray(rng.normal(size=u.shape))
    back = jax.vjp(many, given[argument])[1](weight)[0]
    np.testing.assert_allclose(jnp.vdot(back, tangent), weight @ ours, rtol=1e-9)


def test_single_precision(rng):
    mass, G, b, v = _chain(rng, dtype=np.float32)
    many = qp.project_many(mass, G, b, v)
    assert many.u.dtype == jnp.float32
    assert many.status == Status.OK
    violated = jnp.where(jnp.isfinite(b), dense(G) @ many.u + b, 0.0)
    # 64 eps of violations of some units.
    assert float(jnp.min(violated)) > -1e-4


def test_bad_input_is_refused_by_name(rng):
    mass, G, b, v = _chain(rng)
    with pytest.raises(ValueError, match="G: expected BodyRows"):
        qp.project_many(mass, dense(G), b, v)
    with pytest.raises(ValueError, match="b has the shape"):
        qp.project_many(mass, G, b[1:], v)
    with pytest.raises(ValueError, match="loads has the shape"):
        qp.project_many(mass, G, b, v, loads=b[1:])


def test_no_residual_is_claimed_that_was_not_reached():
    # Two walls that leave no room: the multipliers grow for ever.
    G = qp.BodyRows(jnp.array([[0, -1], [0, -1]]), jnp.array([[[1.0], [0.0]], [[-1.0], [0.0]]]), 1)
    shut = qp.project_many(jnp.ones(1), G, jnp.array([-1.0, -1.0]), jnp.zeros(1))
    assert shut.status == Status.ITERATION_LIMIT
    assert np.all(np.isfinite(shut.u))
