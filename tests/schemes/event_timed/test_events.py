"""Events on the way of a step: touches that leave no trace at its end, and bodies that are fast."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import zoo

import diffcontact as dc

pytestmark = pytest.mark.full

# A point that flies past a disc of radius 1, e = 1.
PASSING = zoo.system(gap=lambda t, q, p: (jnp.linalg.norm(q) - 1.0)[None], restitution=1.0)


def _reflected(height, start, duration):
    """Position and velocity after a straight flight along x at 1 m/s, one elastic hit of the disc, and flight."""
    foot = -jnp.sqrt(1 - height**2)
    normal, u = jnp.stack([foot, height]), jnp.array([1.0, 0.0])
    after = u - 2 * (u @ normal) * normal
    return jnp.concatenate([normal + after * (duration - (foot - start)), after])


@pytest.mark.parametrize("h", [0.1, 0.01])
def test_a_touch_too_shallow_for_a_cubic_is_seen(h):
    """A gap along the way is no cubic: it is lower, by some 3e-5 m at h = 0.1, than the cubic through a step's ends."""
    steps = round(2 / h)
    times = jnp.linspace(0.0, 2.0, steps + 1)

    def end(height, start):
        run = dc.simulate(PASSING, None, jnp.stack([start, height]), jnp.array([1.0, 0.0]), times)
        return jnp.concatenate([run.q[-1], run.u[-1]]), run.status

    seen = jax.jit(jax.vmap(end))
    depths, starts = np.meshgrid([1e-2, 1e-3, 1e-4, 3e-5, 1e-6, 1e-8], -1.0 + h * np.linspace(0, 1, 7))
    heights, starts = 1.0 - depths.ravel(), starts.ravel()
    state, status = seen(heights, starts)
    exact = jax.vmap(lambda height, start: _reflected(height, start, 2.0))(heights, starts)
    assert not np.any(status)
    # The velocity's error is the normal's: the rounding of the gap over its rate, sqrt(2 depth).
    rounding = 100 * np.finfo(float).eps / np.sqrt(2 * depths.ravel())
    assert np.all(np.max(np.abs(state - exact), axis=1) < 1e-13 + rounding)


def test_a_near_miss_stays_one():
    times = jnp.linspace(0.0, 2.0, 21)
    run = dc.simulate(PASSING, None, [-1.03, 1.0 + 1e-8], [1.0, 0.0], times, percussions=1)
    np.testing.assert_allclose(run.u, np.tile([1.0, 0.0], (21, 1)), atol=0)
    assert run.status == 0
    assert run.percussions.contact[0] == -1


def test_of_a_system_without_contacts_no_impact_is_listed():
    flight = dc.simulate(
        dc.systems.balls(1, 1),
        {"mass": jnp.ones(1), "radius": jnp.zeros(1), "gravity": jnp.array([-10.0]), "restitution": 0.5},
        [1.0],
        [2.0],
        jnp.linspace(0.0, 1.0, 5),
        percussions=3,
    )
    assert flight.status == 0
    np.testing.assert_array_equal(flight.percussions.contact, [-1, -1, -1])
    np.testing.assert_allclose(flight.q[:, 0], 1.0 + 2.0 * flight.t - 5.0 * flight.t**2, atol=1e-14)


# Balls that fly many times their size in a step.
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


def test_so_they_are_where_they_rub():
    disks = zoo.system(
        gap=lambda t, q, p: (jnp.linalg.norm(q[:2] - q[2:]) - 2 * RADIUS)[None],
        restitution=lambda p: p["restitution"],
        slip=lambda t, q, u, p: ((u[:2] - u[2:]) @ jnp.array([q[3] - q[1], q[0] - q[2]]))[None, None],
        friction=lambda p: 0.0,
    )
    run = jax.jit(jax.vmap(lambda x: _flight(disks, x, 0.0, 12.0)))(np.linspace(0.1, 1.5, 40))
    assert np.all(run.status == 0)
    # Central: the first keeps (1 - e) / 2 of its speed.
    np.testing.assert_allclose(run.u[:, -1], np.tile([1.2, 0.0, 10.8, 0.0], (40, 1)), atol=1e-9)
