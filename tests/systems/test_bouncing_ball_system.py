import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffcontact as dc

pytestmark = pytest.mark.full


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
