"""Newton's cradle of boxes: faces that meet with two corners at once pass the momentum on as points would."""

from itertools import pairwise

import jax.numpy as jnp
import numpy as np
import pytest

import diffcontact as dc
from diffcontact.systems import poses

COUNT, SIDE, HEIGHT, APART, SPEED = 3, 0.1, 0.06, 0.02, 2.0
CORNERS = jnp.array([[-SIDE, -HEIGHT], [-SIDE, HEIGHT]]) / 2


def faces(t, q, p):
    """(2 (COUNT - 1),) how far the two left corners of each box are in front of the right face of the one before."""
    boxes = poses.of_bodies(q, 2)
    gaps = []
    for left, right in pairwise(boxes):
        along = poses.rotation(left)[:, 0]
        gaps.append(jnp.sum((poses.placed(CORNERS, right) - left[None, :2]) * along[None], axis=1) - SIDE / 2)
    return jnp.concatenate(gaps)


CRADLE = dc.System(
    gap=faces,
    force=lambda t, q, u, p: jnp.zeros_like(u),
    mass=lambda q, p: jnp.tile(jnp.array([1.0, 1.0, (SIDE**2 + HEIGHT**2) / 12]), COUNT),
    restitution=lambda p: p["e"],
)


@pytest.mark.parametrize("e", [1.0, 0.9, 0.5])
def test_the_last_box_leaves_as_the_closed_form_says(e):
    """Each box is struck in its turn, through the gap before it: v_i = ((1 + e)/2)^i v, and what it keeps of that."""
    q0 = np.zeros((COUNT, 3))
    q0[:, 0] = np.arange(COUNT) * (SIDE + APART)
    u0 = np.zeros((COUNT, 3))
    u0[0, 0] = SPEED
    passed = ((1 + e) / 2) ** np.arange(COUNT) * SPEED
    arrival = np.cumsum(APART / passed[:-1])
    kept = (1 - e) / 2 * passed
    kept[-1] = passed[-1]
    # Soon enough that none of those that were left behind is caught up by a faster one.
    times = jnp.linspace(0.0, arrival[-1] + 1e-3, 8)
    run = dc.simulate(CRADLE, {"e": jnp.asarray(e)}, q0.ravel(), u0.ravel(), times)
    assert run.status == 0
    found = run.u[-1].reshape(COUNT, 3)
    np.testing.assert_allclose(found[:, 0], kept, atol=1e-12)
    np.testing.assert_allclose(found[:, 1:], 0.0, atol=1e-12)
    np.testing.assert_allclose(found[:, 0].sum(), SPEED, rtol=1e-13)
    # Of the two corners of a face each takes its half: nothing turns.
    impulse = np.asarray(run.impulse).sum(axis=0).reshape(-1, 2)
    np.testing.assert_allclose(impulse.sum(axis=1), passed[1:], rtol=1e-12)
    np.testing.assert_allclose(impulse[:, 0], impulse[:, 1], rtol=1e-9)
