"""A step does not end at a closed gap with a velocity into it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffcontact as dc
from diffcontact.schemes.monitor import enters_closed
from diffcontact.schemes.scheme import State
from diffcontact.status import Status


def test_chatter_at_a_stop_beside_a_sliding_contact_ends():
    """A belt and a force press a block against a stop: friction brings it back sooner than the force alone would."""
    system = dc.System(
        gap=lambda t, q, p: jnp.stack([q[1], 0.03 - q[0]]),
        force=lambda t, q, u, p: np.array([6.0, -9.81 * 0.9]),
        mass=lambda q, p: 0.9 * np.ones(2),
        restitution=lambda p: jnp.stack([0.0 * p, p]),
        slip=lambda t, q, u, p: jnp.stack([u[0] - 0.3, u[1]])[:, None],
        friction=lambda p: np.array([0.46, 0.0]),
    )

    @jax.jit
    def ends(es, count):
        def end(e):
            run = dc.simulate(system, e, [0.0, 0.0], [0.4, 0.0], [0.0, 0.6, 1.2, 1.8, 2.4], substeps=count)
            return run.q[-1, 0], run.u[-1, 0], run.status

        return jax.lax.map(end, es)

    for count in (50, 100, 400):
        place, speed, status = ends(np.array([0.8, 0.85, 0.9]), np.array(count))
        np.testing.assert_array_equal(status, Status.OK)
        np.testing.assert_allclose(place, 0.03, rtol=1e-12)
        np.testing.assert_allclose(speed, 0.0, atol=1e-12)


def ring(t, q, p):
    """Inside of a circle of 1 m, and a floor that rises."""
    return jnp.stack([1.0 - jnp.hypot(q[0], q[1]), q[1] + 1.0 - 0.2 * t**2])


SYSTEM = dc.System(ring, lambda t, q, u, p: np.zeros(2), lambda q, p: np.ones(2), lambda p: 0.0)
ANGLE, H = 0.05, 0.1


@jax.jit
def enters(begin, end, velocity):
    return enters_closed(SYSTEM, None, 0.0, H, State(begin, velocity), State(end, velocity))


@pytest.mark.parametrize(
    ("begin", "end", "velocity", "told"),
    [
        ((0.0, -1.0), (0.0, -1.0), (0.0, -1e-3), True),
        ((0.0, -1.0), (0.0, -1.0), (1.0, 0.0), False),
        # It comes to the wall with what has brought it there, and has gone that way.
        ((0.0, -0.9), (0.0, -1.0), (0.0, -1.0), False),
        ((0.0, -1.01), (0.0, -1.11), (0.0, -1.0), False),
        # Along a chord of the circle, at whose end the velocity points out of it by half of what the curve takes away.
        ((0.0, -1.0), (np.sin(ANGLE), -np.cos(ANGLE)), (np.sin(ANGLE) / H, (1 - np.cos(ANGLE)) / H), False),
        ((0.0, -1.0), (np.sin(ANGLE), -np.cos(ANGLE)), (np.sin(ANGLE) / H, -0.1), True),
    ],
)
def test_a_velocity_into_a_gap_that_stays_closed_is_told(begin, end, velocity, told):
    found = int(enters(*(np.array(x) for x in (begin, end, velocity))))
    assert found == (Status.TOO_COARSE if told else Status.OK)
