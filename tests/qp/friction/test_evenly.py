"""Contacts that share a reaction in more than one way share it evenly, and the derivative is that of even shares."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffcontact import qp


def _lying(corners, velocity, frictions, height=0.5, mass=2.0, inertia=0.3):
    """A plate that lies on its corners (c, 2) and slides and pivots: u = (v_x, v_y, v_z, w_x, w_y, w_z)."""
    arms = np.concatenate([corners, np.full((len(corners), 1), -height)], axis=1)

    def row(direction):
        return np.concatenate([np.tile(direction, (len(arms), 1)), np.cross(arms, direction)], axis=1)

    x, y, z = np.eye(3)
    tangents = np.stack([row(x), row(y)], axis=1)
    metric = np.array([mass] * 3 + [inertia] * 3)
    none = np.zeros(len(arms))
    v = np.array([*velocity[:2], -1.0, 0.0, 0.0, velocity[2]])
    return tuple(map(jnp.asarray, (metric, row(z), tangents, none, np.zeros((len(arms), 2)), frictions, v)))


RECTANGLE = np.array([[1.0, 0.6], [-1.0, 0.6], [-1.0, -0.6], [1.0, -0.6]])


@pytest.mark.parametrize("velocity", [(0.0, 0.0, 0.0), (4.0, 0.0, 0.0), (2.0, 1.0, 3.0), (0.1, 0.0, -4.0)])
def test_a_combination_of_rows_that_is_zero_is_one_of_loads(velocity):
    problem = _lying(RECTANGLE, velocity, np.full(4, 0.3))
    found = qp.coulomb(*problem)
    assert found.status == 0
    assert np.all(found.normal > 0)
    # The diagonals of a rectangle carry alike.
    assert abs(found.normal @ np.array([1.0, -1.0, 1.0, -1.0])) < 1e-14


def test_two_contacts_at_one_place_carry_half_each():
    """mu 0.2 and 0.6 slow down like 0.4, and the derivative is that of 0.4."""

    def end(mu, fall):
        normals, tangents = jnp.tile(jnp.array([[0.0, 1.0]]), (2, 1)), jnp.tile(jnp.array([[[1.0, 0.0]]]), (2, 1, 1))
        return qp.coulomb(jnp.ones(2), normals, tangents, jnp.zeros(2), jnp.zeros((2, 1)), mu, jnp.stack([3.0, -fall]))

    mu = jnp.array([0.2, 0.6])
    found = end(mu, 2.0)
    np.testing.assert_allclose(found.normal, [1.0, 1.0], rtol=1e-14)
    np.testing.assert_allclose(found.u, [3 - 0.8, 0.0], atol=1e-14)
    by_mu, by_fall = jax.jacfwd(lambda *x: end(*x).u[0], argnums=(0, 1))(mu, 2.0)
    np.testing.assert_allclose(by_mu, [-1.0, -1.0], rtol=1e-14)
    np.testing.assert_allclose(by_fall, -0.4, rtol=1e-14)
    np.testing.assert_allclose(jax.jacrev(lambda mu: end(mu, 2.0).u[0])(mu), by_mu, rtol=1e-14)


def test_the_derivative_is_that_of_even_shares(rng):
    """Of a plate that slides and pivots, by its corners, its frictions, its inertia and its velocity."""
    direction = rng.normal(size=4 * 2 + 4 + 3 + 1)

    def end(x):
        way = x * direction
        stretched = RECTANGLE * (1 + 0.1 * way[:2])
        problem = list(_lying(stretched, np.array([2.0, 1.0, 3.0]) + way[2:5], 0.3 + 0.05 * way[5:9]))
        return problem

    def solved(problem):
        found = qp.coulomb(*problem)
        return jnp.concatenate([found.u, found.normal, found.tangential.ravel()])

    width = 1e-5
    before, here, after = (end(x) for x in (-width, 0.0, width))
    along = [(b - a) / (2 * width) for a, b in zip(before, after, strict=True)]
    slope = jax.jvp(lambda *problem: solved(problem), tuple(here), tuple(along))[1]
    # The width squared, and the rounding of reactions of size one over it.
    np.testing.assert_allclose(slope, (solved(after) - solved(before)) / (2 * width), atol=1e-8)
    assert np.max(np.abs(slope)) > 0.1


def test_loads_that_cannot_be_even_obey_the_law():
    """A plate that tips over its edge: even shares would pull at the other one."""
    problem = list(_lying(RECTANGLE, (0.0, 0.0, 0.0), np.full(4, 0.3)))
    problem[-1] = problem[-1] + jnp.array([0.0, 0.0, 0.0, 0.0, 3.0, 0.0])
    found = qp.coulomb(*problem)
    assert found.status == 0
    opening = problem[1] @ found.u
    assert np.min(found.normal) >= 0
    assert np.min(opening) > -1e-13
    assert np.max(np.abs(found.normal * opening)) < 1e-13


@pytest.mark.parametrize(("dtype", "within"), [(np.float64, 1e-12), (np.float32, 1e-4)])
def test_a_wall_that_a_block_in_a_slot_is_not_pressed_against_has_no_share(dtype, within):
    """v = (3, -2) in the slot's directions: u = (3 - 0.5 * 2, 0), and only the lower wall (mu 0.5) rubs."""
    none = jnp.zeros((2, 1), dtype)

    def along_and_across(angle, v):
        """u by v, both in the slot's directions; how the slot lies decides how they round."""
        along, across = jnp.array([[jnp.cos(angle), jnp.sin(angle)], [-jnp.sin(angle), jnp.cos(angle)]])
        walls, tangents = jnp.stack([across, -across]), jnp.stack([along, along])[:, None]
        mu = jnp.array([0.5, 0.3], dtype)
        found = qp.coulomb(jnp.ones(2, dtype), walls, tangents, none[:, 0], none, mu, v[0] * along + v[1] * across)
        return jnp.stack([along, across]) @ found.u, found

    by_v = jax.jit(jax.vmap(jax.jacfwd(along_and_across, argnums=1, has_aux=True), (0, None)))
    slope, found = by_v(jnp.linspace(0, 6, 20, dtype=dtype), jnp.array([3.0, -2.0], dtype))
    np.testing.assert_array_equal(found.status, 0)
    # Roundings of a velocity of 3, some tens of them; a share would change the slope by 0.4.
    np.testing.assert_allclose(found.normal, [[2.0, 0.0]] * 20, atol=within)
    np.testing.assert_allclose(slope, [[[1.0, 0.5], [0.0, 0.0]]] * 20, atol=within)
