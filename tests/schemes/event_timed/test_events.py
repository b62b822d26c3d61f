"""Events on the way of a step: touches that leave no trace at its end."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

import diffcontact as dc
from diffcontact.schemes.event_timed.events import rounding_of_time, to_event_or_end
from diffcontact.schemes.event_timed.smooth_motion import Tolerance

pytestmark = pytest.mark.full

# A point that flies past a disc of radius 1, e = 1.
PASSING = dc.System(
    gap=lambda t, q, p: (jnp.linalg.norm(q) - 1.0)[None],
    force=lambda t, q, u, p: jnp.zeros_like(q),
    mass=lambda q, p: jnp.ones_like(q),
    restitution=lambda p: 1.0,
)


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


def test_a_gap_that_the_end_of_the_step_keeps_from_closing_has_the_derivative_of_its_time():
    """It is closed to rounding, and its approach doubles in what is missed of the time: Newton's method cannot end."""
    acceleration, late, speed, rounding = 10.0, 1e-6, 1e-5, 2e-11
    left, zero = jnp.array(1e-3), jnp.zeros(())
    tolerance = Tolerance(gap=jnp.array(rounding), velocity=jnp.array(1e-12), slow=jnp.zeros(1))

    class Fall(NamedTuple):
        height: Array

        def advance(self, s, /):
            return s

        def gaps(self, s, _, /):
            behind = s - left
            gap = speed * late + acceleration / 2 * late**2 - speed * behind - acceleration / 2 * behind**2
            return (self.height + gap)[None], -(speed + acceleration * behind)[None]

        def until_overlap(self, s, arrival, /):
            return s, self.gaps(s, arrival)

    def time(height):
        fall = Fall(height)
        found = to_event_or_end(fall, fall.gaps(zero, zero), jnp.array([True]), tolerance, zero, left, zero)
        return found.s, (found.s, found.found, fall.gaps(found.s, zero)[0][0])

    slope, (s, found, missed) = jax.jacfwd(time, has_aux=True)(zero)
    assert found
    assert s == pytest.approx(1e-3, rel=1e-14)
    assert 0 < missed < rounding
    np.testing.assert_allclose(slope, 1 / speed, rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_is_left_of_a_step_by_adding_up_its_pieces_is_rounding(dtype):
    rng = np.random.default_rng(0)
    t, h = (10 ** rng.uniform(*powers, 1000) for powers in ((-3, 3), (-3, 0)))
    t, h = t.astype(dtype), h.astype(dtype)
    # Three events at their own times in the clock of the motion, the third at the end of the step.
    ends = [(t + share * h).astype(dtype) for share in (dtype(0.3), dtype(0.7), dtype(1.0))]
    left, now = h, t
    for end in ends:
        left, now = left - (end - now), end
    assert np.any(left != 0)
    assert np.all(np.abs(left) <= rounding_of_time(now, left, dtype))
    # Of a step that the clock can tell, the thousandth part is a motion.
    told = h > 1e5 * np.finfo(dtype).eps * t
    assert np.all((h / 1000 > rounding_of_time(t, h, dtype))[told])
