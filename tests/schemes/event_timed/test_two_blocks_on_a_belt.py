"""Two blocks on a belt between stops, five contacts of which two rub: side by side with their derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffcontact as dc

pytestmark = pytest.mark.full

# q = (x, y) of the first block, then of the second, which is at rest 1 m to the right on a spring of its own.
BLOCKS = dc.System(
    gap=lambda t, q, p: jnp.stack([q[1], q[3], q[0] + p["stop"], q[2] - q[0], p["stop"] + 1 - q[2]]),
    force=lambda t, q, u, p: jnp.stack([-p["stiffness"] * q[0], -9.81, -p["stiffness"] * (q[2] - 1), -9.81]),
    mass=lambda q, p: np.array([1.0, 1.0, 2.0, 2.0]),
    restitution=lambda p: np.array([0.0, 0.0, 1.0, 1.0, 1.0]) * p["restitution"],
    slip=lambda t, q, u, p: jnp.stack([u[0] - p["belt"], u[2] - p["belt"], *np.zeros(3)])[:, None],
    friction=lambda p: np.array([1.0, 1.0, 0.0, 0.0, 0.0]) * p["friction"],
)


@pytest.fixture(scope="module")
def program():
    """The end and its derivative by the first velocity, of 16 lanes, for any number of steps: lowered and compiled."""
    rng = np.random.default_rng(0)
    params = {
        "stop": rng.uniform(0.05, 0.2, 16),
        "stiffness": rng.uniform(20, 150, 16),
        "restitution": rng.choice([0.0, 0.5, 0.9], 16),
        "friction": rng.uniform(0.1, 0.7, 16),
        "belt": rng.uniform(-0.3, 0.5, 16),
    }

    def moved(params, speed, steps):
        def end(speed):
            u0 = jnp.stack([speed, 0.0, -speed, 0.0])
            run = dc.simulate(
                BLOCKS, params, np.array([0.0, 0.0, 1.0, 0.0]), u0, np.array([0.0, 0.5, 1.5]), substeps=steps
            )
            return jnp.concatenate([run.q[-1], run.u[-1]]), run.status

        return jax.jvp(end, (speed,), (jnp.ones_like(speed),), has_aux=True)

    given = params, rng.uniform(-0.5, 0.5, 16)
    lowered = jax.jit(jax.vmap(moved, (0, 0, None))).lower(*given, np.array(1))
    compiled = lowered.compile()
    return lowered, lambda steps: jax.tree.map(np.asarray, compiled(*given, jnp.array(steps)))


def test_the_program_is_no_longer_than_a_step_asks_for(program):
    """11 100 lines; with the search inside the derivative it did not compile within 400 s."""
    assert program[0].as_text().count("\n") < 13_000


def test_states_and_derivatives_converge_to_fourth_order(program):
    (coarse, coarse_slope, status), (half, half_slope, _), (fine, fine_slope, _) = (
        program[1](n) for n in (50, 100, 400)
    )
    assert np.all(status == 0)
    for rough, finer, truth in ((coarse, half, fine), (coarse_slope, half_slope, fine_slope)):
        size = np.max(np.abs(truth), axis=1, keepdims=True)
        errors = [np.max(np.abs(x - truth) / size) for x in (rough, finer)]
        # (w h)^4 of steps of 20 ms and w = 12 is 3e-3, of which a method of fourth order leaves a hundredth a radian.
        assert errors[0] < 1e-3
        # A sixteenth at half the step; 10 leaves room for the times of impacts.
        assert errors[1] < errors[0] / 10
