import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffcontact as dc

pytestmark = pytest.mark.full

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


def _parabolas(theta, times):
    """A ball without drag in closed form, with its first two bounces: positions (n,), NaN from the third on."""
    e, later, gravity, floor, drift, y, u = theta
    begin, position = 0.0, np.full(times.shape, np.nan)
    for restitution in (e, later, None):
        # floor + drift t = y + u s + gravity s^2 / 2, s = t - begin
        speed = u - drift
        s = (-speed + np.sqrt(speed**2 + 2 * gravity * (floor + drift * begin - y))) / gravity
        here = (times >= begin) & (times < begin + s)
        t = times[here] - begin
        position[here] = y + u * t + gravity * t**2 / 2
        if restitution is None:
            return position
        y, u, begin = floor + drift * (begin + s), drift - restitution * (speed + gravity * s), begin + s
    return position


@pytest.mark.parametrize("substeps", [1, 2])
def test_floors_that_come_and_go_are_struck_where_they_are(rng, substeps):
    """The gap of a floor that is not there has a kink where the ball strikes the other one: no cubic tells of it."""
    ball = dc.systems.bouncing_ball(2)
    times = np.arange(0.0, 38.0)
    middle = np.array([0.78, 0.72, 10.4, 930.0, -1.16, 220.0, 29.0])
    thetas = middle * (1 + np.array([0.1, 0.1, 0.1, 0.02, 0.5, 0.05, 0.1]) * rng.uniform(-1, 1, (200, 7)))

    def positions(theta):
        names = ("restitution", "later_restitution", "gravity", "floor", "floor_drift")
        params = dict(zip(names, theta, strict=False)) | {"drag": 0.0, "apexes": jnp.array([18.6])}
        params["later_restitution"] = theta[1:2]
        run = dc.simulate(ball, params, theta[5:6], theta[6:7], times, substeps=substeps)
        return run.q[:, 0], run.status

    found, status = jax.jit(jax.vmap(positions))(thetas)
    exact = np.stack([_parabolas(theta, times) for theta in thetas])
    assert not np.any(status)
    assert np.mean(np.isfinite(exact)) > 0.8
    # Constant forces: exact to rounding, which two bounces and 40 s amplify, of positions of 1000 px.
    assert np.nanmax(np.abs(found - exact)) < 1e-8
