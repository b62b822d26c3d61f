"""Balls that resist rolling and pivoting, against closed forms of the motion and of its derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffcontact as dc

pytestmark = pytest.mark.full

# Constant forces and straight ways: exact at every step, but for rounding.
ROUNDING = 1e-11


def slope(t, p):
    """One that rises along x."""
    return jnp.stack([-jnp.sin(p["tilt"]), 0.0 * p["tilt"], jnp.cos(p["tilt"])])[None], jnp.zeros(1)


SPHERE = dc.systems.balls(1, 3, planes=slope, spin=True, resistance=True)
PARAMS = {
    "mass": jnp.array([1.3]),
    "radius": jnp.array([0.1]),
    "gravity": jnp.array([0.0, 0.0, -9.81]),
    "restitution": 0.0,
    "friction": 0.3,
    "rolling_friction": 0.02,
    "pivoting_friction": 0.05,
    "tilt": 0.0,
}
TIMES = np.linspace(0.0, 8.0, 9)
AXIS = jnp.array([0.0, 1.0, 0.0])


def _end(params, speed, turning, pivoting):
    """The way along the slope, the pivoting at 1 s and what else is to be looked at, of a ball that is set on it.

    Args:
        speed: along x, or where the floor is inclined along it [m/s].
        turning: angular velocity about y, pivoting: about the normal [1/s].
    """
    normal, along = slope(0.0, params)[0][0], jnp.stack([jnp.cos(params["tilt"]), 0.0, jnp.sin(params["tilt"])])
    q0 = jnp.concatenate([params["radius"] * normal, jnp.array([1.0, 0, 0, 0])])
    u0 = jnp.concatenate([speed * along, turning * AXIS + pivoting * normal])
    # Half a radian a step: what turns about two axes at once is followed no further.
    run = dc.simulate(SPHERE, params, q0, u0, TIMES, substeps=64)
    return jnp.stack([run.q[-1, :3] @ along, run.u[1, 3:] @ normal]), run


@jax.jit
def _along(given, tangent):
    (told, run), (slopes, _) = jax.jvp(lambda given: _end(*given), (given,), (tangent,))
    return told, slopes, run


def _pivots(params, pivoting, duration):
    """2/5 m r^2 dw/dt = -mu_p r m g cos."""
    load = -params["gravity"][2] * jnp.cos(params["tilt"])
    slowed = params["pivoting_friction"] * load * duration / (0.4 * params["radius"][0])
    return jnp.maximum(pivoting - slowed, 0.0)


def _rolls(params, speed, turning, pivoting):
    """Until v^2 / (2 5/7 mu_r g): with the moment mu_r r m g against it, and the friction that keeps it rolling."""
    del turning
    slowed = 5 / 7 * params["rolling_friction"] * -params["gravity"][2]
    return jnp.stack([speed**2 / (2 * slowed), _pivots(params, pivoting, 1.0)])


def _slips(params, speed, turning, pivoting):
    """Slips at first, when the moment takes a part of what friction turns it with, then rolls until it stops."""
    del turning
    g, r, mu = -params["gravity"][2], params["radius"][0], params["friction"]
    turned = 2.5 * (mu - params["rolling_friction"]) * g / r
    until = speed / (mu * g + r * turned)
    left, way = speed - mu * g * until, speed * until - mu * g * until**2 / 2
    return jnp.stack([way, 0.0]) + _rolls(params, left, None, pivoting)


def _descends(params, speed, turning, pivoting):
    """5/7 g (sin - mu_r cos), from rest."""
    del speed, turning
    g, tilt = -params["gravity"][2], params["tilt"]
    pull = 5 / 7 * g * (jnp.sin(tilt) - params["rolling_friction"] * jnp.cos(tilt))
    return jnp.stack([-pull * TIMES[-1] ** 2 / 2, _pivots(params, pivoting, 1.0)])


def _stays(params, speed, turning, pivoting):
    """Where mu_r is above the slope."""
    del speed, turning
    return jnp.stack([0.0, _pivots(params, pivoting, 1.0)])


@pytest.mark.parametrize(
    ("truth", "params", "start"),
    [
        pytest.param(_rolls, {}, (1.0, 10.0, 30.0), id="rolls"),
        pytest.param(_slips, {}, (1.0, 0.0, -2.0), id="slips, then rolls"),
        pytest.param(_descends, {"tilt": 0.1}, (0.0, 0.0, 30.0), id="rolls down a slope"),
        pytest.param(_stays, {"tilt": 0.015}, (0.0, 0.0, 30.0), id="stays on a slope"),
    ],
)
def test_a_sphere_that_resists_moves_as_in_closed_form(truth, params, start):
    params = PARAMS | params
    tangent = jax.tree.map(jnp.zeros_like, PARAMS)
    tangent |= {"friction": 1.0, "rolling_friction": 0.3, "pivoting_friction": 0.5, "mass": jnp.array([0.4])}
    tangent |= {"gravity": jnp.array([0.0, 0.0, 1.0]), "tilt": 0.2 if params["tilt"] else 0.0}
    # What rolls goes on rolling beside its own motion, too.
    rolls = truth is _rolls
    given, way = (params, *start), (tangent, *((0.7, 7.0) if rolls else (0.7 * start[0], 0.0)), 0.6)
    found, slopes, run = _along(given, way)
    expected, expected_slopes = jax.jvp(lambda given: truth(*given), (given,), (way,))
    assert run.status == dc.Status.OK
    np.testing.assert_allclose(found, expected, atol=ROUNDING)
    np.testing.assert_allclose(slopes, expected_slopes, atol=20 * ROUNDING)
    energy = 0.5 * run.u**2 @ SPHERE.mass(run.q[0], params) + 1.3 * 9.81 * run.q[:, 2]
    assert np.all(np.diff(energy) <= 1e-12)
    if truth in (_rolls, _slips):
        np.testing.assert_allclose(run.u[-1], 0.0, atol=1e-13)


def test_an_impact_has_its_moments():
    """P = (1 + e) m |v_N|; slip and spin keep their signs: B = mu P, and moments mu_r r P and mu_p r P."""
    params = PARAMS | {"restitution": 0.5}
    q, u = jnp.array([0, 0, 0.1, 1, 0, 0, 0.0]), jnp.array([9.0, 0, -2.0, 0, 30.0, 40.0])
    hit = dc.impact(SPHERE, params, 0.0, q, u)
    P, inertia = 1.5 * 1.3 * 2.0, 0.4 * 1.3 * 0.01
    assert hit.status == dc.Status.OK
    np.testing.assert_allclose(hit.impulse, [P], rtol=1e-13)
    np.testing.assert_allclose(hit.friction, [[-0.3 * P, 0.0]], atol=1e-13)
    moments = np.array([0.0, (0.3 - 0.02) * 0.1 * P, -0.05 * 0.1 * P])
    np.testing.assert_allclose(hit.jump, [-0.3 * P / 1.3, 0, 3.0, *(moments / inertia)], atol=1e-12)
    # Without them it is that of a ball that does not resist.
    free = dc.systems.balls(1, 3, planes=slope, spin=True)
    none = params | {"rolling_friction": 0.0, "pivoting_friction": 0.0}
    np.testing.assert_allclose(
        dc.impact(SPHERE, none, 0.0, q, u).jump, dc.impact(free, none, 0.0, q, u).jump, atol=1e-13
    )


def test_an_impact_that_is_asked_for_has_its_moments_whatever_the_gap():
    """A measured position closes no gap."""
    u = jnp.array([9.0, 0, -2.0, 0, 30.0, 40.0])
    there, above = (
        dc.impact(SPHERE, PARAMS, 0.0, jnp.array([0, 0, z, 1, 0, 0, 0.0]), u, closed=True) for z in (0.1, 0.11)
    )
    np.testing.assert_allclose(above.jump, there.jump, rtol=1e-13)


def test_two_balls_roll_by_their_relative_spin():
    """r = r_i r_j / (r_i + r_j) of a pair, r_i on a wall; in space the normal part is the pivoting."""
    system = dc.systems.balls(2, 3, planes=slope, spin=True, resistance=True)
    params = PARAMS | {"mass": jnp.ones(2), "radius": jnp.array([0.1, 0.3])}
    q = jnp.array([0.0, 0, 0.1, 1, 0, 0, 0, 0.4, 0, 0.3, 1, 0, 0, 0])
    u = jnp.array([0.0, 0, 0, 1, 2, 3, 0, 0, 0, 5, 7, 11])
    rolling = system.rolling(0.0, q, u, params)
    np.testing.assert_allclose(rolling[0, :, 0], [0.1 * 1, 0.1 * -3], atol=1e-15)  # towards the floor, along -z
    relative = np.array([1.0, 2, 3]) - np.array([5.0, 7, 11])
    toward = np.array([0.4, 0, 0.2]) / np.sqrt(0.2)
    lever = 0.1 * 0.3 / 0.4
    np.testing.assert_allclose(rolling[2, 1], [lever * relative @ toward, 0.0], atol=1e-14)
    across = np.linalg.norm(np.cross(relative, toward))
    np.testing.assert_allclose(np.linalg.norm(rolling[2, 0]), lever * across, rtol=1e-14)


def test_what_does_not_go_with_resistance_is_refused():
    with pytest.raises(ValueError, match=r"balls\(resistance=True\): expected spin=True, and no cell"):
        dc.systems.balls(1, 2, resistance=True)
    with pytest.raises(ValueError, match="resistance: expected at least 0"):
        dc.simulate(SPHERE, PARAMS | {"rolling_friction": -0.1}, [0, 0, 0.1, 1, 0, 0, 0], np.zeros(6), TIMES)
    with pytest.raises(ValueError, match=r"System\(rolling=...\): expected resistance=... with it"):
        dc.System(SPHERE.gap, SPHERE.force, SPHERE.mass, lambda p: 0.0, rolling=SPHERE.rolling)
    with pytest.raises(ValueError, match=r"certify: expected a System without rolling=\.\.\."):
        dc.certify(SPHERE, PARAMS, [0, 0, 0.1, 1, 0, 0, 0], np.zeros(6), TIMES)
