"""Newton's cradle of boxes, through gaps of one's own: bodies meet only balls by themselves."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffcontact as dc
from diffcontact import shapes
from diffcontact.systems import poses

pytestmark = pytest.mark.full

COUNT, WIDTH, HEIGHT, APART = 3, 0.1, 0.06, 0.002
CORNERS = np.array([[-WIDTH / 2, -HEIGHT / 2], [-WIDTH / 2, HEIGHT / 2]])


def _gap(t, q, params):
    """(2 (COUNT - 1),) how far the left corners of each box are from the right face of the one before."""
    pose = poses.of_bodies(q, 2)
    corner = poses.placed(CORNERS, pose[1:])
    outwards = poses.rotation(pose[:-1])[:, :, 0]
    from_centre = corner - pose[:-1, None, :2]
    return (jnp.einsum("bkm,bm->bk", from_centre, outwards) - WIDTH / 2).ravel()


def _mass(q, params):
    turning = params["mass"] * shapes.Box(WIDTH, HEIGHT).inertia(2)
    return jnp.stack([params["mass"], params["mass"], turning], axis=1).ravel()


BOXES = dc.System(_gap, lambda t, q, u, params: jnp.zeros_like(u), _mass, lambda params: params["restitution"])


@jax.jit
def _pushed(mass, restitution, times):
    """The first of a row of boxes at rest comes at 1 m/s; faces meet faces, at two corners at once."""
    q0 = jnp.zeros((COUNT, 3)).at[:, 0].set(jnp.arange(COUNT) * (WIDTH + APART))
    u0 = jnp.zeros((COUNT, 3)).at[0, 0].set(1.0)
    run = dc.simulate(BOXES, {"mass": mass, "restitution": restitution}, q0.ravel(), u0.ravel(), times)
    return run.q.reshape(-1, COUNT, 3), run.u.reshape(-1, COUNT, 3), run.status


def test_the_last_box_leaves_as_the_first_one_came():
    times = np.linspace(0.0, 0.05, 14)
    q, u, status = map(np.asarray, _pushed(jnp.ones(COUNT), 1.0, times))
    assert status == 0
    # One moves at a time, for 2 ms.
    for k in range(COUNT):
        begin = 0.002 * k
        moved = np.clip(times - begin, 0, APART if k < COUNT - 1 else np.inf)
        np.testing.assert_allclose(q[:, k, 0], k * (WIDTH + APART) + moved, atol=1e-13)
    np.testing.assert_allclose(u[-1, :, 0], [0, 0, 1], atol=1e-12)
    # Corners share the push, so that nothing turns or leaves the line.
    np.testing.assert_allclose(q[:, :, 1:], 0, atol=1e-13)
    # Its derivative by the restitution: each impact passes on (1 + e) / 2 of the speed.
    slope = jax.jit(jax.jacfwd(lambda e: _pushed(jnp.ones(COUNT), e, times)[1][-1, -1, 0]))(0.9)
    np.testing.assert_allclose(slope, (COUNT - 1) / 2 * 0.95 ** (COUNT - 2), rtol=1e-10)


def test_heavy_and_light_boxes_exchange_momentum_two_by_two():
    mass, e = np.array([3.0, 1.0, 2.0]), 0.8
    _, u, status = map(np.asarray, _pushed(jnp.asarray(mass), e, np.linspace(0.0, 0.02, 9)))
    assert status == 0
    v, at = np.array([1.0, 0, 0]), np.arange(COUNT) * APART
    now = 0.0
    # Event by event, on the line.
    while True:
        closing, gaps = v[:-1] - v[1:], np.diff(at)
        wait = np.where(closing > 1e-12, np.maximum(gaps, 0) / np.where(closing > 1e-12, closing, 1), np.inf)
        k = int(np.argmin(wait))
        if now + wait[k] > 0.02:
            break
        now, at = now + wait[k], at + v * wait[k]
        m = mass[k : k + 2]
        impulse = (1 + e) * closing[k] * m[0] * m[1] / m.sum()
        v[k : k + 2] += np.array([-impulse, impulse]) / m
    np.testing.assert_allclose(u[-1, :, 0], v, atol=1e-12)
    np.testing.assert_allclose(u[-1, :, 1:], 0, atol=1e-12)
