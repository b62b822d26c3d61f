"""Branches under vmap, and loops that are traced once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.custom_derivatives import SymbolicZero

from diffcontact.numerics.batching import any_lane, entangled, where_wanted

pytestmark = pytest.mark.full


def equations(jaxpr):
    """Of a program and all programs inside it, by name of the operation."""
    names = []
    for equation in jaxpr.eqns:
        names.append(equation.primitive.name)
        for value in jax.tree.leaves(equation.params, is_leaf=lambda x: hasattr(x, "jaxpr") or hasattr(x, "eqns")):
            inner = getattr(value, "jaxpr", value)
            names += equations(inner) if hasattr(inner, "eqns") else []
    return names


def test_a_branch_that_no_lane_wants_is_not_taken():
    """A branch that is a branch leaves its mark: what it would compute is not finite."""

    def lane(wanted, x):
        return where_wanted(wanted, lambda: jnp.log(-x), x)

    x = jnp.array([1.0, 2.0])
    np.testing.assert_array_equal(jax.vmap(lane)(jnp.array([False, False]), x), x)
    mixed = jax.vmap(lane)(jnp.array([False, True]), -x)
    np.testing.assert_array_equal(mixed, [-1.0, jnp.log(2.0)])


@pytest.mark.parametrize("wanted", [False, True])
def test_one_lane_alone_is_as_one_of_many(wanted):
    def lane(wanted, x):
        return where_wanted(wanted, lambda: 3 * x, x)

    alone = lane(jnp.array(wanted), jnp.array(2.0))
    among = jax.vmap(lane)(jnp.array([wanted, not wanted]), jnp.array([2.0, 2.0]))
    nested = jax.vmap(jax.vmap(lane, in_axes=(None, 0)))(jnp.array([wanted, not wanted]), jnp.full((2, 3), 2.0))
    assert alone == among[0] == nested[0, 0]
    assert lane(jnp.array(not wanted), jnp.array(2.0)) == among[1] == nested[1, 2]
    assert jax.grad(lambda x: lane(jnp.array(wanted), x))(2.0) == (3.0 if wanted else 1.0)


def test_any_lane_asks_the_lanes_of_every_vmap():
    asked = jax.vmap(jax.vmap(any_lane, out_axes=None), out_axes=None)(jnp.array([[False, False], [False, True]]))
    assert asked.shape == ()
    assert bool(asked)


def started(x, tied):
    """A loop that carries what the start does not have: the tangent of its second part."""
    start = (x, jnp.zeros_like(x))
    start = entangled(start) if tied else start
    return lax.scan(lambda carry, _: ((carry[0] * carry[0], carry[1] + carry[0]), None), start, None, length=3)[0]


@pytest.mark.parametrize("transformed", [jax.jacfwd, jax.jacrev, jax.vmap, lambda f: jax.vmap(jax.jacfwd(f))])
def test_entangled_values_change_nothing(transformed):
    x = jnp.array([0.5, 0.7])
    found, expected = (transformed(lambda x, tied=tied: started(x, tied))(x) for tied in (True, False))
    jax.tree.map(np.testing.assert_array_equal, found, expected)


def test_tangents_of_entangled_values_are_all_there():
    """The rule is asked where a tangent is there: of what is entangled, not of plain zeros."""
    seen = []

    @jax.custom_jvp
    def looked_at(x):
        return x

    def rule(primals, tangents):
        seen.append(isinstance(tangents[0], SymbolicZero))
        return primals[0], primals[0]

    looked_at.defjvp(rule, symbolic_zeros=True)
    for start in (lambda x: (x, jnp.zeros(2)), lambda x: entangled((x, jnp.zeros(2)))):
        jax.jvp(lambda x, start=start: looked_at(start(x)[1]) + x, (jnp.ones(2),), (jnp.ones(2),))
    assert seen == [False]


def test_infinite_values_entangle_without_nan():
    """An open side of a box is infinitely far: sums with it are not finite, and nothing may depend on them."""
    values = jnp.array([jnp.inf, -jnp.inf, 1.0])
    kept, pullback = jax.vjp(lambda x: entangled((x, jnp.zeros(2))), values)
    np.testing.assert_array_equal(kept[0], values)
    np.testing.assert_array_equal(pullback((jnp.ones(3), jnp.ones(2)))[0], jnp.ones(3))
    np.testing.assert_array_equal(jax.jvp(lambda x: entangled((x, x)), (values,), (jnp.ones(3),))[1][1], jnp.ones(3))


def test_only_what_is_entangled_is_batched():
    shared = jax.vmap(lambda x, y: (entangled(x), y), in_axes=(0, None), out_axes=(0, None))
    assert shared(jnp.ones(3), jnp.ones(2))[1].shape == (2,)
    assert "select_n" in equations(jax.make_jaxpr(entangled)((1.0, 2.0)).jaxpr)
