"""A die in a thousand copies, each thrown in another way: what must hold of every one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffcontact as dc
from diffcontact import shapes
from diffcontact.systems import poses

pytestmark = pytest.mark.full

SIDE, MASS, G = 0.016, 0.005, 9.81
FLOOR = lambda t, p: (jnp.array([[0.0, 0.0, 1.0]]), jnp.zeros(1))  # noqa: E731
DIE = dc.systems.bodies(shapes.Box(SIDE, SIDE, SIDE), 3, FLOOR)
# The fastest of the throws below, at 1.7 m/s, slides until 0.84 s.
TIMES = np.linspace(0.0, 1.0, 26)


@jax.jit
def thrown(starts):
    """Status, lowest gap, largest rise of the energy (of the first one), and the state at the end, of each die."""
    params = {"mass": jnp.array([MASS]), "gravity": jnp.array([0.0, 0.0, -G]), "restitution": 0.3, "friction": 0.3}

    def one(start):
        run = dc.simulate(DIE, params, *start, TIMES, substeps=20)
        lowest = jnp.min(jax.vmap(lambda t, q: DIE.gap(t, q, params))(run.t, run.q))
        turning = MASS * SIDE**2 / 6 * jnp.sum(run.u[:, 3:] ** 2, axis=1)
        energy = (MASS * jnp.sum(run.u[:, :3] ** 2, axis=1) + turning) / 2 + MASS * G * run.q[:, 2]
        return run.status, lowest, jnp.max(jnp.diff(energy)) / energy[0], run.q[-1], run.u[-1]

    # One after the other: each search for an event ends by itself.
    return jax.lax.map(one, starts)


def throws(count, rng):
    """Some 4 cm above the floor, turned in any way, at half a metre and two turns a second and more."""
    turned = rng.normal(size=(count, 4))
    turned /= np.linalg.norm(turned, axis=1, keepdims=True)
    place = np.tile([0.0, 0.0, 0.04], (count, 1))
    speed = np.column_stack([0.5 * rng.normal(size=(count, 3)), 20 * rng.normal(size=(count, 3))])
    return np.column_stack([place, turned]), speed


def test_a_thousand_dice_come_to_rest():
    told, rng = [], np.random.default_rng(0)
    for _ in range(20):
        status, lowest, rise, q, u = map(np.asarray, thrown(throws(50, rng)))
        told.extend(status.tolist())
        assert np.all(np.isfinite(q))
        assert np.all(np.isfinite(u))
        # Not through the floor.
        assert np.min(lowest) > -1e-12
        # What is resolved gains no energy but rounding, one of each of 500 steps; what is told gains what second order
        # leaves on the way over an edge: the worst of 50 throws 3.0e-6, 7.5e-7 and 1.9e-7 with steps of 2, 1, 0.5 ms.
        assert np.max(rise[status == 0]) < 500 * np.finfo(float).eps
        assert np.max(rise) < 1e-4
        # At rest, on a face.
        np.testing.assert_allclose(u, 0, atol=1e-9)
        up = np.abs(np.asarray(poses.rotation(q))[:, 2])
        np.testing.assert_allclose(np.max(up, axis=1), 1, atol=1e-9)
        np.testing.assert_allclose(q[:, 2], SIDE / 2, atol=1e-10)
    # What was resolved is told from what was not: measured 43 % of 100 such throws at 2 ms, and 40 % or more now that a
    # blow to a die is told whose bounce changes it by an eighth. Of the first 50, 23 had status 0, all but one within
    # 4.6e-5 m of steps of 0.25 ms and that one off by 3.3e-4 m; six land on a face while an edge of it rattles,
    # which is told, and yet end within 1.3e-5 m; of the other 21 the worst is off by 3.6e-4 m.
    assert set(told) <= {dc.Status.OK, dc.Status.TOO_COARSE, dc.Status.TOO_MANY_EVENTS}
    assert told.count(0) > 0.4 * len(told)
