"""Balls: the order of the gaps, and gradients where centres coincide."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffcontact as dc


def test_gaps_are_ordered_low_walls_high_walls_pairs():
    system = dc.systems.balls(3, 2, box=((0.0, -1.0), (2.0, 3.0)))
    q = jnp.array([0.5, 0.0, 1.0, 1.0, 1.5, 2.0])
    params = {"radius": jnp.array([0.1, 0.2, 0.3])}
    low = [0.4, 0.9, 0.8, 1.8, 1.2, 2.7]
    high = [1.4, 2.9, 0.8, 1.8, 0.2, 0.7]
    pairs = [np.sqrt(1.25) - 0.3, np.sqrt(5.0) - 0.4, np.sqrt(1.25) - 0.5]
    np.testing.assert_allclose(system.gap(0.0, q, params), [*low, *high, *pairs], atol=1e-15)


def test_equal_arguments_return_the_same_system():
    assert dc.systems.balls(2, 2, box=(0.0, 1.0)) is dc.systems.balls(2, 2, box=([0.0, 0.0], [1.0, 1.0]))


def test_gradients_are_finite_where_centres_coincide():
    system = dc.systems.balls(2, 2)
    jacobian = jax.jacrev(system.gap, argnums=1)(0.0, jnp.zeros(4), {"radius": jnp.ones(2)})
    assert np.all(np.isfinite(jacobian))


def test_a_side_may_be_open():
    system = dc.systems.balls(1, 1, box=(0.0, np.inf))
    params = {"mass": jnp.ones(1), "radius": jnp.zeros(1), "gravity": jnp.array([-1.0]), "restitution": 1.0}
    run = dc.simulate(system, params, [0.5], [0.0], [0.0, 1.0, 2.0])
    # Falls for one second, rises for one.
    np.testing.assert_allclose(run.q[:, 0], [0.5, 0.0, 0.5], atol=1e-13)
    assert run.status == 0


@pytest.mark.parametrize("call", [{"count": 0}, {"dimension": 0}, {"box": (1.0, 0.0)}, {"box": ((0, 0, 0), (1, 1, 1))}])
def test_bad_input_is_refused_by_name(call):
    with pytest.raises(ValueError, match=next(iter(call))):
        dc.systems.balls(**{"count": 1, "dimension": 2, **call})
