"""Steps too long for the forces: EventTimed says so itself, and does not where they are short enough."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import zoo

import diffcontact as dc
from diffcontact.status import Status

pytestmark = pytest.mark.full

# sin'' = -sin, from (0, 1): a period is 2 pi, the way of a period 4, and the wall is never reached.
OSCILLATOR = zoo.system(gap=lambda t, q, p: q + 10.0, force=lambda t, q, u, p: -q, restitution=0.5)


@pytest.mark.parametrize("order", [2, 4])
def test_an_oscillation_is_resolved_or_says_that_it_is_not(order):
    """Status 0: off by less than a tenth of the way of the amplitude in each of two periods; enough steps have it."""
    seen = set()
    for steps in (4, 8, 12, 16, 24, 32, 48, 64):
        times = jnp.linspace(0.0, 4 * jnp.pi, steps + 1)
        run = dc.simulate(OSCILLATOR, {}, [0.0], [1.0], times, scheme=dc.EventTimed(order=order))
        error = np.max(np.abs(run.q[:, 0] - jnp.sin(times)))
        seen.add(int(run.status))
        assert run.status == Status.TOO_COARSE or error < 0.2
        # Thirty steps a period are enough for second order, fifteen for fourth.
        assert run.status == (Status.OK if steps >= (64 if order == 2 else 32) else run.status)
    assert seen == {Status.OK, Status.TOO_COARSE}


def test_a_motion_may_begin_from_rest():
    """q'' = t: the first step does not move at all, which is its whole way; the motion is right all the same."""
    ramp = zoo.system(gap=lambda t, q, p: q + 10.0, force=lambda t, q, u, p: jnp.full(1, t), restitution=0.5)
    run = dc.simulate(ramp, {}, [0.0], [0.0], jnp.linspace(0.0, 1.0, 21))
    assert run.status == Status.OK
    # A cubic: fourth order has it.
    np.testing.assert_allclose(run.q[-1], 1 / 6, rtol=1e-12)


@pytest.mark.parametrize(("substeps", "told"), [(1, True), (2, None), (16, False)])
def test_a_stiff_spring_on_a_long_way_is_resolved_or_told(substeps, told):
    """A ball falls 2 m on a spring that stops it within two steps and throws it back: little of its way, all of its
    speed."""
    stiff = zoo.system(gap=lambda t, q, p: q + 10.0, force=lambda t, q, u, p: -10.0 - 150.0**2 * jnp.minimum(q, 0.0))
    run = dc.simulate(stiff, {}, [2.0], [0.0], jnp.linspace(0.0, 1.0, 101), substeps=substeps)
    # It is thrown back as high as it fell.
    error = abs(run.u[-1, 0] ** 2 / 20 + run.q[-1, 0] - 2.0)
    assert run.status == Status.TOO_COARSE or error < 0.2
    assert told is None or told == (run.status == Status.TOO_COARSE)


def test_rounding_is_no_truncation_in_single_precision():
    """A box that slides on a floor moves across it by rounding alone, and stops after u^2 / (2 mu g)."""
    box = dc.systems.bodies(dc.shapes.Box(1.0, 0.2), 2, lambda t, p: (jnp.array([[0.0, 1.0]]), jnp.zeros(1)))
    params = {"mass": jnp.ones(1), "gravity": jnp.array([0.0, -9.81]), "restitution": 0.3, "friction": 0.3}
    q0, u0, times = (jnp.array(x, jnp.float32) for x in ([0.0, 0.1, 0.0], [1.0, 0.0, 0.0], np.linspace(0, 1, 101)))
    run = dc.simulate(box, params, q0, u0, times)
    assert run.status == Status.OK
    np.testing.assert_allclose(run.q[-1, 0], 1 / (2 * 0.3 * 9.81), rtol=1e-5)


@pytest.mark.parametrize("speed", [1.0, 1e3])
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_a_fast_body_elsewhere_hides_no_truncation(speed, dtype):
    """An oscillator of 1 cm with five steps a period, beside something heavy that flies by."""
    rate = 2 * jnp.pi * 20.0
    both = zoo.system(
        gap=lambda t, q, p: q[:1] + 10.0,
        force=lambda t, q, u, p: jnp.stack([-(rate**2) * q[0], 0.0 * q[1]]),
        mass=lambda q, p: jnp.array([1.0, 100.0]),
        restitution=0.5,
    )
    times = jnp.linspace(0.0, 0.5, 51, dtype=dtype)
    run = dc.simulate(both, {}, jnp.array([0.01, 0.0], dtype), jnp.array([0.0, speed], dtype), times)
    assert np.max(np.abs(run.q[:, 0] - 0.01 * jnp.cos(rate * times))) > 0.005
    assert run.status == Status.TOO_COARSE


@pytest.mark.parametrize("speed", [0.0, 1e6])
def test_a_body_that_tumbles_in_fast_flight_is_resolved_or_told(speed):
    """Its quaternion moves by one, and its centre by a thousand kilometres."""
    box = dc.systems.bodies(dc.shapes.Box([0.3, 0.2, 0.1]), 3)
    params = {"mass": jnp.ones(1), "gravity": jnp.zeros(3), "restitution": 0.5, "friction": 0.2}
    q0, u0 = [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0], [speed, 0.0, 0.0, 1.0, 50.0, 0.5]
    coarse, fine = (
        dc.simulate(box, params, q0, u0, np.linspace(0, 0.5, 26), scheme=dc.EventTimed(order=4), substeps=substeps)
        for substeps in (1, 32)
    )
    assert np.max(np.abs(coarse.q[:, 3:] - fine.q[:, 3:])) > 0.5
    assert coarse.status == Status.TOO_COARSE
    assert fine.status == Status.OK


@pytest.mark.parametrize("turns", [False, True])
def test_steps_too_short_for_single_precision_are_told(turns):
    """Status 0: within 1/32 of the way. A step far from the origin moves a ball by less than its place rounds."""

    def turning(q, u, p):
        # What lies behind a velocity is the place itself, but for a second angle that it does not know of.
        return jnp.concatenate([u, u])

    system = zoo.system(
        gap=lambda t, q, p: q[:1] + 1e4,
        force=lambda t, q, u, p: -p * jnp.ones(1),
        mass=lambda q, p: jnp.ones(1),
        restitution=0.5,
        rate=turning if turns else None,
    )

    @jax.jit
    def end(place, speed, g, end, count):
        q0 = jnp.stack([place] * (1 + turns))
        run = dc.simulate(system, g, q0, speed[None], jnp.stack([0 * end, end]), substeps=count)
        return run.q[-1, 0], run.status

    seen = []
    for place, speed, g, time, count in (
        *((1e3, 1.0, 0.0, 1.0, count) for count in (100, 3_000, 10_000, 100_000)),
        *((1e3, 0.0, 10.0, 1.0, count) for count in (100, 1_000, 100_000)),
        (0.0, 100.0, 1.0, 1.0, 1_000),
    ):
        found, status = end(*(jnp.float32(x) for x in (place, speed, g, time)), jnp.array(count))
        way = speed * time - g * time**2 / 2
        seen.append(int(status))
        assert status in (Status.OK, Status.ILL_CONDITIONED)
        # What the way is measured from rounds by itself.
        assert status or abs(found - place - way) < abs(way) / 32 + 1e-4
    assert 3 <= seen.count(Status.OK) <= 6


@pytest.mark.parametrize("times", [100, 10_000])
def test_rest_in_single_precision_is_no_lost_motion(times):
    """Three balls on each other and one beside them: all that moves is rounding."""
    pile = dc.systems.balls(4, 2, box=((0.0, 0.0), (1.0, 1.0)))
    params = {"mass": jnp.ones(4), "radius": jnp.full(4, 0.05), "gravity": jnp.array([0.0, -9.81]), "restitution": 0.5}
    q0 = jnp.array([0.5, 0.05, 0.5, 0.15, 0.5, 0.25, 0.8, 0.05])
    given = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), (params, q0, jnp.zeros(8), jnp.array([0.0, 1.0])))
    run = dc.simulate(pile, *given, substeps=jnp.array(times))
    assert run.status == Status.OK
    np.testing.assert_allclose(run.q[-1], q0, atol=1e-6)
