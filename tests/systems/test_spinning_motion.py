"""Balls that spin in motion, against closed forms of the state and of its derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffcontact as dc
from diffcontact.status import Status

pytestmark = pytest.mark.full

# Constant forces and straight contacts: exact at every step, but for rounding.
ROUNDING = 1e-12

FLOOR = dc.systems.balls(1, 3, planes=lambda t, p: (jnp.array([[0.0, 0.0, 1.0]]), jnp.zeros(1)), spin=True)
SPHERE = {
    "mass": jnp.array([1.3]),
    "radius": jnp.array([0.1]),
    "gravity": jnp.array([0.0, 0.0, -9.81]),
    "restitution": 0.8,
    "friction": 0.3,
    "tangential_restitution": 0.0,
}
U0 = jnp.array([1.0, 0.5, 0.0, 3.0, -2.0, 7.0])
TIMES = jnp.linspace(0.0, 0.8, 9)


def _simulated(params, q0, u0):
    run = dc.simulate(FLOOR, params, q0, u0, TIMES.astype(q0.dtype))
    return jnp.concatenate([run.q[-1, :3], run.u[-1]]), (run.q[-1, 3:], run.friction, run.status)


def _along(given, tangent):
    """The end of a simulation, what else it tells, and the derivative of both."""
    return jax.jvp(lambda given: _simulated(*given), (given,), (tangent,))


_simulated, _along = jax.jit(_simulated), jax.jit(_along)


def _at(height):
    return jnp.array([0.0, 0.0, height, 1.0, 0.0, 0.0, 0.0])


def _pushed(params, v, w, impulse):
    """Velocities of a sphere after this impulse (2,) at its lowest point."""
    m, r = params["mass"][0], params["radius"][0]
    turn = jnp.array([impulse[1], -impulse[0]]) / (0.4 * m * r)
    return v + impulse / m, w.at[:2].add(turn)


def _slip(params, u0):
    """Size and direction of the slip on the floor."""
    r = params["radius"][0]
    slip = jnp.stack([u0[0] - r * u0[4], u0[1] + r * u0[3]])
    size = jnp.sqrt(slip @ slip)
    return size, slip / size


def _bounced(params, q0, u0):
    """Falls, is hit by P = (1 + e) m |v_N| and min(mu P, (1 + e_t) 2/7 m |v_T|), and flies."""
    (size, along), r, m = _slip(params, u0), params["radius"][0], params["mass"][0]
    g, e, end = -params["gravity"][2], params["restitution"], TIMES[-1]
    fall = jnp.sqrt(2 * (q0[2] - r) / g)
    most = params["friction"] * (1 + e) * m * g * fall
    v, w = _pushed(
        params,
        u0[:2],
        u0[3:],
        -along * jnp.minimum(most, (1 + params["tangential_restitution"]) * 2 / 7 * m * size),
    )
    after, rise = end - fall, e * g * fall
    place = u0[:2] * fall + v * after
    flight = jnp.stack([r + rise * after - g * after**2 / 2, rise - g * after])
    return jnp.concatenate([place, flight[:1], v, flight[1:], w])


def test_single_precision_has_its_own_rounding():
    params = SPHERE | {"tangential_restitution": 0.6}
    given = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), (params, _at(0.6), U0))
    state, (_, _, status) = _simulated(*given)
    assert status == Status.OK
    assert state.dtype == jnp.float32
    # Some ten operations a step on numbers of order 10.
    np.testing.assert_allclose(state, _bounced(params, _at(0.6), U0), atol=1e-4)


def test_a_cell_list_leads_to_the_motion_of_all_pairs():
    params = {
        "mass": jnp.array([1.0, 1.2, 0.9]),
        "radius": 0.1 * jnp.ones(3),
        "gravity": jnp.array([0.0, 0.0, -9.81]),
        "restitution": 0.0,
        "friction": 0.15,
    }
    q0 = (
        jnp.zeros((3, 7))
        .at[:, 3]
        .set(1.0)
        .at[:, :3]
        .set(jnp.array([[0.0, 0.0, 0.1], [0.5, 0.05, 0.1], [0.9, -0.2, 0.1]]))
    )
    u0 = jnp.zeros((3, 6)).at[0].set(jnp.array([2.0, 0.0, 0.0, 3.0, -30.0, 0.0])).at[2, 5].set(5.0)

    def end(cell):
        system = dc.systems.balls(3, 3, planes=FLOOR.surfaces.planes, spin=True, cell=cell)
        return dc.simulate(system, params, q0.ravel(), u0.ravel(), jnp.linspace(0.0, 0.6, 31))

    every, listed = end(None), end(0.25)
    assert every.status == listed.status == Status.OK
    # The cue ball has reached the second one.
    assert every.u[-1, 6] > 0.5
    np.testing.assert_allclose(listed.q, every.q, atol=ROUNDING)
    np.testing.assert_allclose(listed.u, every.u, atol=ROUNDING)


# Balls are of material 0, the cloth is of 1: balls bounce and do not rub on each other.
TABLE = dc.systems.balls(
    2, 3, planes=lambda t, p: (jnp.array([[0.0, 0.0, 1.0]]), jnp.zeros(1)), materials=[0, 0, 1], spin=True
)


def _shot(cloth, e, speed, spin):
    """A cue ball of radius 1/10 at `speed` and `spin`, head on at a ball 0.3 m ahead; no slip ends on the way."""
    tables = {
        "restitution": jnp.array([[1.0, 0.0], [0.0, 0.0]]) * e,
        "friction": jnp.array([[0.0, 1.0], [1.0, 0.0]]) * cloth,
    }
    params = tables | {"mass": jnp.ones(2), "radius": 0.1 * jnp.ones(2), "gravity": jnp.array([0.0, 0.0, -9.81])}
    still = jnp.array([1.0, 0.0, 0.0, 0.0])
    q0 = jnp.concatenate([jnp.array([0.0, 0.0, 0.1]), still, jnp.array([0.5, 0.0, 0.1]), still])
    u0 = jnp.zeros(12).at[0].set(speed).at[4].set(spin)
    run = dc.simulate(TABLE, params, q0, u0, jnp.linspace(0.0, 1.5, 16))
    return jnp.stack([run.q[-1, 0], run.u[-1, 0], run.q[-1, 7], run.u[-1, 6]]), run.status


def _slips_then_rolls(place, v, spin, cloth, seconds):
    """Place and velocity after so many seconds on the cloth."""
    push = cloth * 9.81
    slip = v - 0.1 * spin
    until, along = 2 * jnp.abs(slip) / (7 * push), jnp.sign(slip)
    rolls = v - along * push * until
    return place + v * until - along * push * until**2 / 2 + rolls * (seconds - until), rolls


@jax.jit
def _shot_along(given, tangent):
    return jax.jvp(_shot, given, tangent)


@pytest.mark.parametrize(("spin", "name"), [(20.0, "follow"), (-40.0, "draw")])
def test_follow_and_draw(spin, name):
    def truth(cloth, e, speed, spin):
        # Decelerated up to the ball; there the normal velocities are exchanged, the spins are not.
        push = cloth * 9.81 * jnp.sign(speed - 0.1 * spin)
        meet = (speed - jnp.sqrt(speed**2 - 2 * push * 0.3)) / push
        v, w = speed - push * meet, spin + 2.5 * push / 0.1 * meet
        mean, half = v / 2, e * v / 2
        cue = _slips_then_rolls(0.3, mean - half, w, cloth, 1.5 - meet)
        ball = _slips_then_rolls(0.5, mean + half, 0.0, cloth, 1.5 - meet)
        return jnp.stack([*cue, *ball])

    given, tangent = (0.2, 0.9, 3.0, spin), (1.0, 0.7, 0.5, 2.0)
    (state, status), (slope, _) = _shot_along(given, tangent)
    expected, expected_slope = jax.jvp(truth, given, tangent)
    assert status == Status.OK
    np.testing.assert_allclose(state, expected, atol=ROUNDING)
    np.testing.assert_allclose(slope, expected_slope, atol=10 * ROUNDING)
    assert (state[1] > 0) == (name == "follow")


def test_sensitivities_of_spheres_have_the_rows_of_positions_and_of_velocities():
    params = SPHERE | {"friction": 0.05}
    found = dc.sensitivity(FLOOR, params, _at(0.6), U0, TIMES, wrt=["friction", "u0"], substeps=1)
    assert found.trajectory.status == Status.OK
    assert found.dq["u0"].shape == (9, 7, 6)
    assert found.du["u0"].shape == (9, 6, 6)
    by_friction, by_speed = jax.jacfwd(lambda mu, u0: _bounced(params | {"friction": mu}, _at(0.6), u0), (0, 1))(
        0.05, U0
    )
    state = np.concatenate([found.dq["friction"][-1, :3], found.du["friction"][-1]])
    np.testing.assert_allclose(state, by_friction, atol=ROUNDING)
    # The fall begins at rest.
    level = [0, 1, 3, 4, 5]
    slope = np.concatenate([found.dq["u0"][-1, :3], found.du["u0"][-1]])
    np.testing.assert_allclose(slope[:, level], by_speed[:, level], atol=ROUNDING)


@pytest.mark.parametrize("scheme", [dc.EventTimed(), dc.VelocityProjection()])
def test_a_flying_sphere_turns_exactly_however_fast(scheme):
    """Four radians in a step: the quaternion of the rotation about w by |w| t, and its derivative by w."""
    w, times = jnp.array([200.0, -100.0, 330.0]), jnp.linspace(0.0, 0.1, 11)
    params = {**SPHERE, "gravity": jnp.zeros(3), "restitution": 0.0}

    def end(w):
        run = dc.simulate(FLOOR, params, _at(1.0), jnp.concatenate([jnp.zeros(3), w]), times, scheme=scheme)
        return run.q[-1, 3:], run.status

    def exact(w):
        half = jnp.linalg.norm(w) * times[-1] / 2
        return jnp.concatenate([jnp.cos(half)[None], jnp.sin(half) * w / jnp.linalg.norm(w)])

    derivative, status = jax.jacfwd(end, has_aux=True)(w)
    assert status == Status.OK
    np.testing.assert_allclose(end(w)[0], exact(w), atol=ROUNDING)
    np.testing.assert_allclose(derivative, jax.jacfwd(exact)(w), atol=ROUNDING)


@pytest.mark.parametrize(("steps", "told"), [(5, Status.TOO_COARSE), (200, Status.OK)])
def test_a_rate_of_ones_own_that_turns_too_far_in_a_step_is_told(steps, told):
    """A clock's hand (cos, sin), turned by u: 100 rad in steps of 20 rad, or of half a radian."""
    hand = dc.System(
        gap=lambda t, q, p: q[:1] + 10.0,
        force=lambda t, q, u, p: jnp.zeros(1),
        mass=lambda q, p: jnp.ones(1),
        restitution=lambda p: 0.0,
        rate=lambda q, u, p: u[0] * jnp.stack([-q[1], q[0]]),
    )
    run = dc.simulate(hand, {}, [1.0, 0.0], [100.0], jnp.linspace(0.0, 1.0, steps + 1))
    assert run.status == told
    if told == Status.OK:
        # Runge and Kutta: (h w)^5/120 a step.
        np.testing.assert_allclose(run.q[-1], [np.cos(100), np.sin(100)], atol=steps * 0.5**5 / 120)
