"""The native searches among very many rows and contacts against the pure ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from heaps import heap

from diffcontact import qp
from diffcontact.qp import native
from diffcontact.qp.matrix_free.anderson import ManyContacts
from diffcontact.qp.matrix_free.conjugate_gradients import Dual
from diffcontact.qp.matrix_free.unit_contacts import UnitContacts
from diffcontact.qp.matrix_free.unit_rows import UnitRows
from diffcontact.qp.rows.body_rows import product, squares
from diffcontact.qp.rows.metric import inverse_length

pytest.importorskip("numba")
pytestmark = pytest.mark.full


@pytest.fixture
def kernel(monkeypatch):
    monkeypatch.setenv(native.VARIABLE, "native")
    assert native.unavailable() is None


def contacts(rng, k, coulomb):
    """Contacts with rows of about length one, reactions to start from, and three quarters of them asked for."""
    mass, normals, tangents, *_, friction, _ = heap(rng, k=k)
    rows = UnitContacts.of((normals, *tangents), jnp.ones((1 + k, normals.shape[0])), mass)
    shape = 1 + k, normals.shape[0]
    free = jnp.asarray(rng.normal(size=shape)).at[0].add(-1)
    start = jnp.asarray(rng.uniform(size=shape))
    return ManyContacts(free, rows, friction, coulomb), start, jnp.asarray(rng.uniform(size=shape[1]) < 0.75)


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("coulomb", [True, False], ids=["coulomb", "convex"])
@pytest.mark.parametrize("k", [1, 2])
def test_it_goes_the_way_of_the_pure_search(rng, k, coulomb):
    from diffcontact.qp.native import crowd

    problem, start, mask = contacts(rng, k, coulomb)
    (there,) = jnp.nonzero(mask)
    begin = problem.admissible(start)
    among, steps = problem.part(there, jnp.ones(there.size, bool)).solved(begin[:, there], 1e-10)
    found, number = crowd.rubbed(problem, begin, mask, 1e-10)
    # The same steps, one after the other: rounding may make one more or less the last one.
    assert abs(int(number) - int(steps)) <= 1
    assert int(steps) > 10
    # The projected step is 1e-10 at both ends; the condition of the rows takes three digits.
    np.testing.assert_allclose(found[:, there], among, atol=1e-7)
    np.testing.assert_array_equal(found[:, ~mask], begin[:, ~mask])


def rows_of(rng, dimension, sides, dtype):
    """The dual of rows between bodies, multipliers to start from, and three quarters of the rows asked for."""
    count, number = 20, 50
    bodies = np.array([rng.choice(count, 2, replace=False) for _ in range(number)])
    bodies[::5, 0] = -1
    G = qp.BodyRows(jnp.asarray(bodies), jnp.asarray(rng.normal(size=(number, sides, dimension)), dtype), count)
    mass, v = rng.uniform(0.1, 1, count * dimension), rng.normal(size=count * dimension)
    scale = inverse_length(squares(G, jnp.asarray(1 / mass, dtype)))
    # Rows G u >= 0, which u = 0 satisfies.
    at_v, unit = scale * product(G, jnp.asarray(v, dtype)), UnitRows.of(G, scale, jnp.asarray(mass, dtype))
    start = jnp.asarray(rng.uniform(size=number) * (rng.uniform(size=number) < 0.5), dtype)
    enough = jnp.asarray(1e-11 if dtype is float else 1e-5, dtype)
    return at_v, unit.bodies, unit.normals, unit.inverse, start, jnp.asarray(rng.uniform(size=number) < 0.75), enough


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("dtype", [float, np.float32])
@pytest.mark.parametrize(("dimension", "sides"), [(3, 2), (3, 1), (2, 2), (1, 1), (6, 2)])
def test_it_finds_what_the_pure_conjugate_gradients_find(rng, dimension, sides, dtype):
    """The rows that are asked for, whatever their layout; the others keep their multipliers."""
    from diffcontact.qp.native import crowd

    def by_kernel(at_v, bodies, normals, inverse, start, mask, enough):
        return crowd.pushed(Dual(at_v, UnitRows(bodies, normals, 0 * inverse, inverse), enough), start, mask)

    def motion(at_v, bodies, normals, inverse, start, mask, enough, x):
        rows = UnitRows(bodies, normals, 0 * inverse, inverse)
        return rows.motion(jnp.where(mask, x, 0)), at_v + rows.product(rows.motion(jnp.where(mask, x, 0)))

    lanes = [jnp.stack(x) for x in zip(*(rows_of(rng, dimension, sides, dtype) for _ in range(20)), strict=True)]
    expected, _ = jax.jit(jax.vmap(crowd._rows_in_jax))(*lanes)
    found, residual = jax.jit(jax.vmap(by_kernel))(*lanes)
    assert found.dtype == residual.dtype == dtype
    *_, start, mask, enough = lanes
    assert np.all(residual <= enough)
    np.testing.assert_array_equal(found[~mask], start[~mask])
    (moved, w), (as_expected, _) = (jax.vmap(motion)(*lanes, x) for x in (found, expected))
    # Both residuals are 1e-11, or 1e-5 in single precision; the condition of the rows takes three digits.
    np.testing.assert_allclose(moved, as_expected, atol=1e-8 if dtype is float else 1e-2)
    # What it claims, recomputed: values are zero where there is a multiplier, and not negative elsewhere. What the
    # rounding of the multipliers makes of them comes on top.
    left = np.abs(np.where(mask, np.minimum(found, w), 0)).max()
    assert left < (1e-10 if dtype is float else 1e-4)
