"""Steps halved until the motion stays the same, and what the grid of times may not decide in silence."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffcontact as dc

pytestmark = pytest.mark.full


def test_the_error_is_one():
    # Second order: the change of the last halving is three times what is left, so the true error is below it.
    spring = dc.System(
        gap=lambda t, q, p: q + 5.0,
        force=lambda t, q, u, p: -4 * q,
        mass=lambda q, p: jnp.ones(1),
        restitution=lambda p: 0.5,
    )
    run = dc.simulate(spring, None, [1.0], [0.0], [0.0, 1.5, 3.0], substeps="auto", tolerance=1e-4)
    assert run.status == 0
    miss = np.max(np.abs(np.concatenate([run.q[:, 0] - np.cos(2 * run.t), run.u[:, 0] + 2 * np.sin(2 * run.t)])))
    assert 0 < miss <= run.error <= 1e-4


CONTROLLED = dc.System(
    gap=lambda t, q, p: q + 50.0,
    force=lambda t, q, u, p: p["U"][jnp.clip((t * 10).astype(int), 0, 9)] * jnp.ones(1),
    mass=lambda q, p: jnp.ones(1),
    restitution=lambda p: 0.5,
)
CONTROL = np.array([1.0, -3.0, 2.0, 5.0, -4.0, 0.0, 1.0, 1.0, 2.0, 3.0])


@pytest.mark.parametrize("times", [np.linspace(0, 1, 11), np.array([0.0, 0.37, 1.0])])
def test_breaks_make_a_switched_force_exact(times):
    def end(control):
        run = dc.simulate(CONTROLLED, {"U": control}, [0.0], [0.0], times, breaks=np.arange(11) / 10)
        return jnp.concatenate([run.q[-1], run.u[-1]]), run

    (state, run), jacobian = jax.jit(lambda u: (end(u), jax.jacrev(lambda u: end(u)[0])(u)))(CONTROL)
    # u = sum U / 10; q = sum of U / 10 times the time left from the middle of its piece.
    left = 0.95 - 0.1 * np.arange(10)
    np.testing.assert_allclose(state, [np.sum(CONTROL * left) / 10, np.sum(CONTROL) / 10], atol=1e-14)
    np.testing.assert_allclose(jacobian, np.stack([left / 10, np.full(10, 0.1)]), atol=1e-14)
    assert run.impulse.shape == (times.size - 1, 1)
    assert run.status == 0
