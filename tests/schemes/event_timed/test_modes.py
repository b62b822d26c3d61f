"""Modes of contacts whose rows depend on each other."""

import jax
import jax.numpy as jnp
import numpy as np

from diffcontact.schemes.event_timed.modes import choose


def test_a_disc_in_a_corner_rests(rng):
    """Floor and wall can carry any thrust without friction; two that stick may share it so that one of them pulls."""
    radius, cases = 0.1, 200
    floor, wall = [[0.0, 1.0, 0.0], [1.0, 0.0, radius]], [[-1.0, 0.0, 0.0], [0.0, 1.0, radius]]
    both, none = np.ones(2, bool), np.zeros((2, 2))

    @jax.jit
    @jax.vmap
    def rest(mu, thrust):
        mass, acceleration = jnp.array([1.0, 1.0, radius**2 / 2]), jnp.append(thrust, 0.0)
        return choose(mass, jnp.array([floor, wall]), none, acceleration, mu * np.ones(2), both, ~both, none[:, :1])

    mu, thrust = rng.uniform(0.0, 0.8, cases), rng.uniform(0.1, 10.0, (cases, 2)) * np.array([1.0, -1.0])
    found, fine = jax.tree.map(np.asarray, rest(mu, thrust))
    assert np.all(fine)
    np.testing.assert_allclose(found.u, 0.0, atol=1e-11)
    normal, rub = found.z[..., 0], np.abs(found.z[..., 1])
    assert np.all(normal >= 0)
    assert np.all(rub <= mu[:, None] * normal + 1e-11)
