"""A rod that falls on its end and bounces, under each of the laws of impact: states and Jacobians by events."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from routh import ROD, routh

import diffcontact as dc

pytestmark = pytest.mark.full

# A rod's end that falls on the floor and bounces once; half a metre from its centre, of mass 1.
LENGTH, GRAVITY, END = 0.5, 9.81, 0.6
# e, mu, height of the centre, its velocity, leaning and spin.
THROWS = np.array(
    [[0.6, 0.9, 1.0, 0.3, 0.6, 0.4], [0.6, 0.3, 1.0, 2.6, 0.6, 0.4], [0.6, 0.2, 1.0, -9.0, 0.6, 0.4]],
)


@cache
def falling_rod(law):
    system = dc.System(
        gap=lambda t, q, p: q[1:2] - LENGTH * jnp.sin(q[2:]),
        force=lambda t, q, u, p: jnp.array([0.0, -GRAVITY, 0.0]),
        mass=lambda q, p: jnp.array([1.0, 1.0, ROD]),
        restitution=lambda p: p[0],
        slip=lambda t, q, u, p: (u[0] + LENGTH * jnp.sin(q[2]) * u[2])[None, None],
        friction=lambda p: p[1],
        impact_law=law,
    )

    def end(theta, substeps):
        _, _, height, speed, angle, spin = theta
        q0, u0 = jnp.stack([0.0 * height, height, angle]), jnp.stack([speed, 0.0 * speed, spin])
        motion = dc.simulate(system, theta, q0, u0, jnp.array([0.0, END]), substeps=substeps)
        return jnp.concatenate([motion.q[-1], motion.u[-1]]), motion.status

    both = jax.jacfwd(lambda theta, n: (lambda state, status: (state, (state, status)))(*end(theta, n)), has_aux=True)
    return jax.jit(jax.vmap(both, in_axes=(0, None)))


def fallen(theta, law):
    """The state at END, event by event; of complex numbers, too."""
    e, mu, height, speed, angle, spin = theta
    t = 0.3
    for _ in range(50):
        gap = height - GRAVITY * t * t / 2 - LENGTH * np.sin(angle + spin * t)
        t = t + gap / (GRAVITY * t + LENGTH * spin * np.cos(angle + spin * t))
    lean = angle + spin * t
    rows = np.array([[0, 1, -LENGTH * np.cos(lean)], [1, 0, LENGTH * np.sin(lean)]])
    u = np.array([speed, -GRAVITY * t, spin])
    mobility = rows.T / np.array([1, 1, ROD])[:, None]
    r, case = routh(rows @ mobility, rows @ u, mu, e, law)
    q = np.array([speed * t, height - GRAVITY * t * t / 2, lean])
    u, left = u + mobility @ r, END - t
    q = q + left * u - [0, GRAVITY * left**2 / 2, 0]
    return np.concatenate([q, u - [0, GRAVITY * left, 0]]), case


@pytest.mark.parametrize("law", ["poisson", "stronge"])
def test_a_rod_that_falls_on_its_end(law):
    """Constant forces: exact at every step length, state and Jacobian."""
    cases = []
    for count in (6, 60):
        jacobian, (state, status) = falling_rod(law)(jnp.asarray(THROWS), jnp.array(count))
        assert not status.any()
        for i, theta in enumerate(THROWS):
            exact, case = fallen(theta, law)
            steps = theta + 1e-30j * np.eye(6)
            slopes = np.imag([fallen(step, law)[0] for step in steps]).T / 1e-30
            np.testing.assert_allclose(state[i], exact, rtol=1e-11, atol=1e-11)
            np.testing.assert_allclose(jacobian[i], slopes, rtol=1e-9, atol=1e-9)
            cases.append(case)
    assert cases[:3] == ["C-sticking", "R-reversed", "sliding"]
