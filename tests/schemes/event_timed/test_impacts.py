"""Bounces that a step leaves out, and what they do to the impacts after them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffcontact as dc

pytestmark = pytest.mark.full

LINE = dc.systems.balls(3, 1, box=(0.0, 2.0))
TIMES = np.linspace(0.0, 1.0, 41)
# The second ball still bounces, 1 mm high, when the third one falls on it: a ball that rests passes a blow on to the
# floor at once, one that is a hair above it does not.
STRUCK = {
    "mass": np.array([0.4564, 2.006, 1.9813]),
    "radius": np.array([0.2264, 0.1078, 0.1059]),
    "gravity": np.array([-9.8527]),
    "restitution": 0.3842,
}
START = np.array([1.2907, 0.2471, 0.9]), np.array([-0.4266, -1.3835, -0.2792])
# The first ball bounces on the third, which lies on the floor; 18 ms after its last bounce but infinitely many the
# second one falls on it. Its next flight takes 20 ms: the floor holds the third ball, so that they close with g.
PILE = {
    "mass": np.array([1.588, 0.3955, 2.306]),
    "radius": np.array([0.10991237, 0.22619759, 0.1100035]),
    "gravity": np.array([-4.02985455]),
    "restitution": 0.37726881,
}
FALLING = np.array([0.75830765, 1.68328672, 0.15079573]), np.array([-0.58103123, 0.71715695, -0.51547966])


def _upright(x):
    """The same heights in a plane, where balls may spin."""
    return np.stack([np.zeros(3), x, np.zeros(3)], axis=1).ravel()


# The same, and something else that is pushed away from its wall with 10 km/s^2.
BESIDE = dc.System(
    gap=lambda t, q, p: jnp.append(LINE.gap(t, q[:3], p), q[3] + 1),
    force=lambda t, q, u, p: jnp.append(LINE.force(t, q[:3], u[:3], p), 1e4),
    mass=lambda q, p: jnp.append(LINE.mass(q[:3], p), 1.0),
    restitution=LINE.restitution,
)
DISCS = dc.systems.balls(3, 2, spin=True, planes=lambda t, p: (jnp.array([[0.0, 1.0]]), jnp.zeros(1)))
UPRIGHT = PILE | {"gravity": np.array([0.0, -4.02985455]), "friction": 0.3}
# System, parameters, start, which coordinates are the heights.
SCENES = {
    "struck": (LINE, STRUCK, START, slice(3)),
    "struck beside what accelerates": (BESIDE, STRUCK, [np.append(x, 0.0) for x in START], slice(3)),
    "a pile": (LINE, PILE, FALLING, slice(3)),
    "a pile that rubs": (DISCS, UPRIGHT, [_upright(x) for x in FALLING], slice(1, None, 3)),
}


@pytest.mark.parametrize("name", SCENES)
def test_a_ball_struck_while_its_bounces_are_left_out_is_right_or_told(name):
    """Steps of one event and of three leave bounces out, of 3 and 9 cm on the way of the first scene."""
    system, params, start, heights = SCENES[name]
    exact = dc.simulate(LINE, *((PILE, *FALLING) if "pile" in name else (STRUCK, *START)), TIMES, substeps=32)
    assert exact.status == 0
    for events in (1, 3, 8):
        run = dc.simulate(system, params, *start, TIMES, scheme=dc.EventTimed(events=events))
        told = run.status in (dc.Status.TOO_COARSE, dc.Status.TOO_MANY_EVENTS)
        # Bounces that are left out are g h^2 / 8 high at most.
        assert told or np.max(np.abs(run.q[:, heights] - exact.q)) < 9.8527 / 8 / 40**2
        assert told or events > 1


def test_a_ball_struck_after_its_last_bounce_is_not():
    """The second ball lies still when the first one falls on it."""
    box = dc.systems.balls(2, 1, box=(0.0, 10.0))
    params = {"mass": jnp.ones(2), "radius": jnp.full(2, 0.1), "gravity": jnp.array([-9.81]), "restitution": 0.5}
    run = dc.simulate(box, params, [0.15, 5.0], [0.0, 0.0], np.linspace(0.0, 1.1, 111))
    # Down 4.7 m in 0.979 s, and then up with half the speed: all of it goes through the lower ball to the floor.
    speed = np.sqrt(2 * 9.81 * 4.7)
    assert run.status == 0
    np.testing.assert_allclose(run.u[-1], [0.0, speed / 2 - 9.81 * (1.1 - speed / 9.81)], atol=1e-9)


def test_what_is_pulled_into_a_corner_does_not_depend_on_a_restitution_that_grows_from_zero():
    """Bounces of e = 0 that begin to grow are over at once, on the way of three discs into a corner that pulls them."""
    discs = dc.systems.balls(3, 2, box=(0.0, 2.0))
    params = {"mass": np.array([2.155, 2.38, 1.544]), "radius": np.array([0.224, 0.141, 0.105])}
    params["gravity"] = np.array([-4.909, 3.716])
    q0, u0 = (
        np.array([0.739, 1.027, 0.807, 0.307, 1.427, 1.124]),
        np.array([-0.711, -0.487, -0.608, -0.076, 0.39, -0.124]),
    )

    def end(e):
        run = dc.simulate(discs, params | {"restitution": e}, q0, u0, np.linspace(0.0, 1.0, 41))
        return jnp.concatenate([run.q[-1], run.u[-1]]), run.status

    found, slope, status = jax.jvp(end, (0.0,), (1.0,), has_aux=True)
    assert status == dc.Status.OK
    # As they are with bounces that are left out.
    np.testing.assert_allclose(end(1e-4)[0], found, atol=1e-12)
    np.testing.assert_allclose(slope, 0.0, atol=1e-11)
