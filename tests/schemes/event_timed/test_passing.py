"""Bodies that fly many times their size in a step are seen to meet."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffcontact as dc

pytestmark = pytest.mark.full

RADIUS, RATE, E = 0.01, 60.0, 0.8


def _flight(system, offset, aside, speed):
    params = {"mass": jnp.ones(2), "radius": jnp.full(2, RADIUS), "gravity": jnp.zeros(2), "restitution": E}
    start = jnp.stack([0.0, 0.0, offset, aside]), jnp.stack([speed, 0.0, 0.0, 0.0])
    return dc.simulate(system, params, *start, jnp.arange(11) / RATE)


@pytest.mark.parametrize("sizes", [10, 40, 200])
def test_no_ball_passes_through_another(rng, sizes):
    """One ball flies at another, `sizes` times the sum of the radii in a step, anywhere and at any distance aside."""
    speed, count = sizes * 2 * RADIUS * RATE, 500
    offset = rng.uniform(2.5 * RADIUS, 9 / RATE * speed - 2 * RADIUS, count)
    aside = 2 * RADIUS * rng.uniform(-0.999, 0.999, count)
    run = jax.jit(jax.vmap(lambda x, b: _flight(dc.systems.balls(2, 2), x, b, speed)))(offset, aside)
    # Where the line of flight meets the circle of both radii the normal is (n_x, aside / 2 R).
    across = np.sqrt(4 * RADIUS**2 - aside**2)
    normal = np.stack([across, aside], axis=1) / (2 * RADIUS)
    after = np.array([speed, 0.0]) - (1 + E) / 2 * speed * normal[:, :1] * normal
    assert np.all(run.status == 0)
    # The time of a glancing hit is known to the root of the rounding of the gap.
    np.testing.assert_allclose(run.u[:, -1, :2], after, atol=1e-6 * speed)


def test_a_near_miss_of_a_fast_ball_stays_one():
    aside = 2 * RADIUS * 1.001
    run = _flight(dc.systems.balls(2, 2), 0.3, aside, 24.0)
    assert run.status == 0
    np.testing.assert_array_equal(run.u[-1], [24.0, 0.0, 0.0, 0.0])


def test_so_they_are_where_they_rub():
    disks = dc.System(
        gap=lambda t, q, p: (jnp.linalg.norm(q[:2] - q[2:]) - 2 * RADIUS)[None],
        force=lambda t, q, u, p: jnp.zeros(4),
        mass=lambda q, p: jnp.ones(4),
        restitution=lambda p: p["restitution"],
        slip=lambda t, q, u, p: ((u[:2] - u[2:]) @ jnp.array([q[3] - q[1], q[0] - q[2]]))[None, None],
        friction=lambda p: 0.0,
    )
    run = jax.jit(jax.vmap(lambda x: _flight(disks, x, 0.0, 12.0)))(np.linspace(0.1, 1.5, 40))
    assert np.all(run.status == 0)
    # Central: the first keeps (1 - e) / 2 of its speed.
    np.testing.assert_allclose(run.u[:, -1], np.tile([1.2, 0.0, 10.8, 0.0], (40, 1)), atol=1e-9)
