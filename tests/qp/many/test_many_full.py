"""Many rows and contacts: wedges, repeated rows, walls without room, single precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from friction_problems import residual
from heaps import exactly, heap

from diffcontact import qp
from diffcontact.qp.many import coulomb_many, project_many
from diffcontact.qp.rows import dense
from diffcontact.status import Status

pytestmark = pytest.mark.full


@pytest.fixture(params=[project_many.BROUGHT_TOGETHER_ABOVE, 0], ids=["few", "many"])
def few(request, monkeypatch):
    """From how many rows on those that are off are left out, and single precision is used."""
    monkeypatch.setattr(project_many, "BROUGHT_TOGETHER_ABOVE", request.param)
    monkeypatch.setattr(coulomb_many, "BROUGHT_TOGETHER_ABOVE", request.param)
    monkeypatch.setattr(project_many, "SINGLE_PRECISION_ABOVE", request.param)


@pytest.mark.usefixtures("few")
def test_rows_that_are_there_twice_with_other_offsets(rng):
    """Along what two equal rows share the dual has no curvature, and multipliers no bound but zero."""
    pairs = np.array([(0, 1), (1, 2), (2, 3), (3, -1), (0, -1)])
    bodies, normals = jnp.asarray(np.concatenate([pairs, pairs])), rng.normal(size=(200, 5, 2))
    normals /= np.linalg.norm(normals, axis=2, keepdims=True)
    normals = np.stack([-normals, normals], axis=2)[:, [0, 1, 2, 3, 4, 0, 1, 2, 3, 4]]
    b, v = 0.3 * rng.normal(size=(200, 10)), rng.normal(size=(200, 8))
    mass, tolerance = jnp.ones(8), 1e-10

    def both(normals, b, v):
        G = qp.BodyRows(bodies, normals, 4)
        return qp.project(mass, dense(G), b, v), qp.project_many(mass, G, b, v, tolerance=tolerance)

    exact, many = jax.jit(jax.vmap(both))(normals, b, v)
    assert np.all(np.asarray(exact.status) == Status.OK)
    assert np.all(np.asarray(many.status) == Status.OK)
    # Five rows at random are seldom nearer to depending on each other than by a hundredth.
    np.testing.assert_allclose(many.u, exact.u, atol=100 * tolerance)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(("dtype", "tilt"), [(np.float32, 0.03), (np.float64, 1e-3)])
def test_a_wedge_takes_few_iterations(dtype, tilt, monkeypatch):
    """A ball falls between two others, a little above their line, that walls and floor hold: these press on each other
    with 1 / tilt of its weight, and the dual's least eigenvalue is tilt^2. At 1e-3 Nesterov's method takes thousands of
    iterations."""
    bodies = jnp.array([[0, 1], [0, 2], [-1, 1], [-1, 2], [-1, 1], [-1, 2]])
    entries = [[-np.cos(tilt), -np.sin(tilt)], [np.cos(tilt), -np.sin(tilt)], [1, 0], [-1, 0], [0, 1], [0, 1]]
    G = qp.BodyRows(bodies, jnp.asarray(entries, dtype)[:, None], 3)
    v = jnp.asarray([0.0, -1.0, 0.0, 0.0, 0.0, 0.0], dtype)
    monkeypatch.setattr(project_many, "ITERATIONS", 40)
    wedge = qp.project_many(jnp.ones(6, dtype), G, jnp.zeros(6, dtype), v)
    assert wedge.status == Status.OK
    # All stand still: 2 l sin(tilt) = 1, and l against the walls; to the residual over the eigenvalue.
    error = max(1e-6, 64 * np.finfo(dtype).eps) / tilt
    np.testing.assert_allclose(wedge.u, 0, atol=error)
    np.testing.assert_allclose(wedge.multipliers[:4], 0.5 / np.sin(tilt), rtol=max(error, tilt))


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("k", [1, 2])
def test_it_agrees_with_the_exact_solution(rng, k):
    problem = heap(rng, k=k)
    exact = qp.coulomb(*exactly(*problem))
    many = qp.coulomb_many(*problem, tolerance=1e-11)
    assert exact.status == many.status == Status.OK
    # The residual is relative to an approach of some units; the condition of the rows takes two digits more.
    np.testing.assert_allclose(many.u, exact.u, atol=1e-8)
    assert residual(exactly(*problem), *map(np.asarray, (many.u, many.normal, many.tangential))) < 1e-10
    friction = np.asarray(problem[5])
    assert np.all(np.linalg.norm(many.tangential, axis=1) <= friction * many.normal * (1 + 1e-12))
    assert np.count_nonzero(many.normal) > 5


def test_single_precision(rng):
    problem = heap(rng, dtype=np.float32)
    found = qp.coulomb_many(*problem)
    assert found.u.dtype == jnp.float32
    assert found.status == Status.OK
    # 64 eps, of velocities of some units.
    assert residual(exactly(*problem), *map(np.asarray, (found.u, found.normal, found.tangential))) < 1e-4


def test_one_body_with_many_contacts_makes_the_steps_shorter(rng):
    """A plate on forty balls: the largest eigenvalue is ten times what it is taken for at first."""
    count = 41
    bodies = jnp.asarray([[i, 40] for i in range(40)] + [[-1, i] for i in range(40)])
    up = np.zeros((80, 2, 3))
    up[:, 0, 2], up[:, 1, 2] = -1, 1
    rows = [np.roll(up, shift, axis=2) for shift in (0, 1, 2)]
    normals, *tangents = (qp.BodyRows(bodies, jnp.asarray(x), count) for x in rows)
    v = np.tile([0.1, 0.0, -1.0], count) + 0.01 * rng.normal(size=3 * count)
    found = qp.coulomb_many(
        jnp.ones(123), normals, tuple(tangents), jnp.zeros(80), jnp.zeros((80, 2)), jnp.full(80, 0.5), jnp.asarray(v)
    )
    assert found.status == Status.OK
    # A residual of 1e-6, over the least eigenvalue that is not zero.
    np.testing.assert_allclose(found.u, 0.0, atol=1e-4)
