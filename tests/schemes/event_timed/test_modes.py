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


def test_friction_of_a_joint_that_the_floor_holds_takes_its_bound(rng):
    """Blocks that land on a guide with dry friction, a given load: the floor stops them, and the slip has no direction.

    The guide is along the floor's normal, so that its row depends on that of the floor, but for rounding.
    """
    cases, bound = 100, 0.01
    turns = np.linalg.qr(rng.normal(size=(cases, 3, 3)))[0]
    arm, no = rng.uniform(0.1, 10.0, cases), np.zeros(2, bool)

    @jax.jit
    @jax.vmap
    def land(turn, arm, slip):
        normal, first, second = turn
        # The fourth velocity is that of the weight which presses the guide.
        pad = lambda x, last=0.0: jnp.append(x, last)  # noqa: E731
        floor = jnp.stack([pad(normal), pad(first), pad(second)])
        guide = jnp.stack([pad(jnp.zeros(3), 1.0), pad(arm * normal), jnp.zeros(4)])
        v = pad(slip[0] * first + slip[1] * second - 2.0 * normal, -bound)
        return choose(
            jnp.ones(4),
            jnp.stack([floor, guide]),
            jnp.zeros((2, 3)),
            v,
            jnp.array([0.3, 1.0]),
            ~no,
            no,
            jnp.zeros((2, 2)),
        )

    slip = rng.normal(size=(cases, 2))
    found, fine = jax.tree.map(np.asarray, land(turns, arm, slip))
    assert np.all(fine)
    np.testing.assert_allclose(found.u[:, :3] @ np.ones(3), np.sum(_slid(found, turns, slip), axis=1), atol=1e-10)
    # Floor and guide stop the block together, the guide by no more than its bound.
    np.testing.assert_allclose(found.z[:, 0, 0] + arm * found.z[:, 1, 1], 2.0, rtol=1e-12)
    assert np.all(np.abs(found.z[:, 1, 1]) <= bound * (1 + 1e-12))


def _slid(found, turns, slip):
    """(cases, 3) velocities of the blocks behind the impact: the slip less what friction takes, mu = 0.3."""
    size = np.linalg.norm(slip, axis=1)
    left = np.maximum(size - 0.3 * found.z[:, 0, 0], 0.0) / size
    return np.einsum("c,ck,ckj->cj", left, slip, turns[:, 1:])


def test_contacts_that_slip_beside_others_that_may_stick(rng):
    """Two bodies on a floor: half of the contacts slip in a direction that is given, of the others it is sought.

    Four corners of a body share its weight as they like, and where they slip unlike the motion depends on that. The
    last cases are a cube that slides, pivots and lands on four corners, of which springs would open one.
    """
    cases, count = 100, 6
    body, known = rng.integers(0, 2, (cases, count)), rng.random((cases, count)) < 0.5
    corners = np.concatenate([0.05 * rng.normal(size=(cases, count, 2)), np.full((cases, count, 1), -0.05)], axis=2)
    axes, on = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]), np.ones((cases, count), bool)
    cube = 0.03 * np.array([[-1.0, -1.0, -1.0], [-1.0, 1.0, -1.0], [1.0, -1.0, -1.0], [1.0, 1.0, -1.0]])
    corners[-3:, :4], body[-3:], known[-3:], on[-3:, 4:] = cube, 0, False, False
    turning = np.cross(corners[:, :, None], axes)
    rows = np.zeros((cases, count, 3, 2, 6))
    for side in range(2):
        rows[..., side, :] = np.where((body == side)[..., None, None], np.concatenate(
            [np.broadcast_to(axes, turning.shape), turning], axis=3), 0.0)  # fmt: skip
    rows = rows.reshape(cases, count, 3, 12)
    mass, mu = np.tile([1.0, 1.0, 1.0, 1e-3, 1e-3, 1e-3], 2), rng.uniform(0.05, 0.4, (cases, count))
    free = 3.0 * rng.normal(size=(cases, 12)) - 10.0 * (np.arange(12) % 6 == 2)
    free[-3:], mu[-3:] = 0.0, 0.2
    free[-3, :6] = -0.4, 0.3, -0.0018, 0.06, 0.0, 1.2
    free[-2, :6] = 0.7, 0.7, -0.0012, 0.0, -0.04, -2.7
    free[-1, :6] = 1.1, -0.9, -0.0012, -0.04, 0.0, -2.7
    along = rng.normal(size=(cases, count, 2))
    along = np.where(known[..., None], along / np.linalg.norm(along, axis=2, keepdims=True), 0.0)
    choose_each = jax.jit(jax.vmap(choose, in_axes=(None, 0, None, 0, 0, 0, 0, 0)))
    found, fine = choose_each(mass, rows, np.zeros((count, 3)), free, mu, on, known, along)
    assert np.mean(fine) >= 0.97
    assert np.all(fine[-3:])
    # Where the motion depends on how rows share their load, a root of the rounding is left of it.
    u, z = (np.asarray(x)[fine] for x in (found.u, found.z))
    rows, known, mu, along = rows[fine], known[fine], mu[fine], along[fine]
    w, bound = np.einsum("nckd,nd->nck", rows, u), (mu * z[..., 0])[..., None]
    np.testing.assert_allclose(mass * (u - free[fine]), np.einsum("nckd,nck->nd", rows, z), atol=1e-7)
    assert np.all(w[..., 0] > -1e-7)
    np.testing.assert_allclose(w[..., 0] * z[..., 0], 0.0, atol=1e-6)
    size = np.linalg.norm(w[..., 1:], axis=2, keepdims=True)
    slips = ~known & (size[..., 0] > 1e-4)
    against = np.where(known[..., None], along, w[..., 1:] / np.where(size > 0, size, 1.0))
    off = np.abs(z[..., 1:] + bound * against)[known | slips]
    np.testing.assert_allclose(off, 0.0, atol=1e-6)
