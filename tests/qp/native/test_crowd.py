"""The native search among very many contacts against the pure one, and batches of it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from matrix_free.test_coulomb_many import heap

from diffcontact import qp
from diffcontact.qp import native
from diffcontact.qp.matrix_free.anderson import ManyContacts
from diffcontact.qp.matrix_free.unit_contacts import UnitContacts
from diffcontact.status import Status

pytest.importorskip("numba")


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
    found, number = crowd.solved(problem, begin, mask, 1e-10)
    # The same steps, one after the other: rounding may make one more or less the last one.
    assert abs(int(number) - int(steps)) <= 1
    assert int(steps) > 10
    # The projected step is 1e-10 at both ends; the condition of the rows takes three digits.
    np.testing.assert_allclose(found[:, there], among, atol=1e-7)
    np.testing.assert_array_equal(found[:, ~mask], begin[:, ~mask])


@pytest.mark.usefixtures("kernel")
def test_lanes_are_alone(rng):
    """A lane of a batch is what it is alone, beside one that is not finite and one that shares its rows."""
    one, other = heap(rng), heap(rng)
    solve = jax.jit(qp.coulomb_many)
    problems = [one, other, (*one[:6], one[6].at[3].set(jnp.nan))]
    together = jax.jit(jax.vmap(qp.coulomb_many))(*jax.tree.map(lambda *x: jnp.stack(x), *problems))
    for lane, problem in enumerate(problems[:2]):
        alone = solve(*problem)
        assert alone.status == Status.OK
        for whole, part in zip(jax.tree.leaves(together), jax.tree.leaves(alone), strict=True):
            # XLA sums what comes before and after the kernel in another order.
            np.testing.assert_allclose(whole[lane], part, atol=1e-12)
    assert together.status[2] == Status.NOT_FINITE
    shared = jax.vmap(qp.coulomb_many, (*[None] * 6, 0))(*one[:6], jnp.stack([one[6], one[6]]))
    np.testing.assert_allclose(shared.u, np.stack([together.u[0]] * 2), rtol=1e-12)


def test_a_derivative_is_refused_as_in_jax(rng, kernel):
    problem = heap(rng)
    with pytest.raises(NotImplementedError, match="no derivative"):
        jax.grad(lambda v: qp.coulomb_many(*problem[:6], v).u.sum())(problem[6])
