import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffcontact as dc

PARAMS = {
    "restitution": jnp.asarray(0.8),
    "later_restitution": jnp.array([0.6]),
    "gravity": jnp.asarray(10.0),
    "drag": jnp.asarray(0.0),
    "floor": jnp.asarray(5.0),
    "floor_drift": jnp.asarray(0.5),
    "apexes": jnp.array([2.0]),
}
TIMES = np.linspace(0.0, 4.0, 41)


def end(params):
    return dc.simulate(dc.systems.bouncing_ball(2), params, jnp.zeros(1), jnp.zeros(1), jnp.asarray(TIMES)).q[:, 0]


def flights(params):
    """Parabolas between impacts with the moving floor, in closed form: the first bounce and two later ones."""
    g, floor, drift = (float(params[name]) for name in ("gravity", "floor", "floor_drift"))
    t, y, u = 0.0, 0.0, 0.0
    found = np.full(TIMES.size, np.nan)
    e, later = float(params["restitution"]), float(params["later_restitution"][0])
    while t < TIMES[-1]:
        since = TIMES - t
        found[since >= 0] = (y + u * since + g / 2 * since**2)[since >= 0]
        relative = u - drift
        s = (-relative + np.sqrt(relative**2 + 2 * g * (floor + drift * t - y))) / g
        t, y, u = t + s, y + u * s + g / 2 * s**2, drift - e * (u + g * s - drift)
        e = later
    return found


def test_each_bounce_follows_its_own_law_on_the_moving_floor():
    # Constant forces: exact to rounding.
    np.testing.assert_allclose(end(PARAMS), flights(PARAMS), atol=1e-11)


def test_the_derivative_by_each_parameter_is_that_of_the_parabolas():
    found = jax.jacfwd(end)(PARAMS)
    for name in ("restitution", "later_restitution", "gravity", "floor", "floor_drift"):
        step = 1e-6
        up, down = (flights(PARAMS | {name: PARAMS[name] + sign * step}) for sign in (1, -1))
        # Central differences of the closed form: rounding 1e-15 / 1e-6 and curvature of the order of 1e-12.
        np.testing.assert_allclose(np.ravel(found[name]), (up - down) / (2 * step), atol=1e-7, err_msg=name)


def test_drag_slows_down():
    slowed = np.asarray(end(PARAMS | {"drag": jnp.asarray(0.02)}))
    assert slowed[8] < np.asarray(end(PARAMS))[8]


@pytest.mark.parametrize("bounces", [0, 2.0])
def test_a_number_of_bounces_that_is_none_is_refused(bounces):
    with pytest.raises(ValueError, match=r"bouncing_ball\(bounces=.*expected an integer of at least 1"):
        dc.systems.bouncing_ball(bounces)
