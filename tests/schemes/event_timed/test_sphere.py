"""A sphere with spin over a rough floor, by one program: what slides, rolls and bounces in space."""

import numpy as np
import pytest
import references
import zoo
from programs import run

from diffcontact import Status

R, G = 0.02, 9.81
# From 0.2 m under 10 m/s^2: P = 2 (1 + e) = 3.4, and 2/7 of the slip's momentum make it roll.
FALLS = {"gravity": [0.0, 0.0, -10.0], "q0": [0.0, 0.0, 0.2 + R], "end": 0.3}
LIES = {"q0": [0.0, 0.0, R], "restitution": 0.0}
ALONG = np.array([0.6, 0.8])


def _bounced(rub, turns=0.0):
    """(u, w) after a bounce in which friction took `rub` along ALONG."""
    spin = rub * R / (0.4 * R**2) * np.array([-ALONG[1], ALONG[0]])
    return [*(1 - rub) * ALONG, 1.4 - 1.0, *spin, turns]


# Name -> (row, velocities of the end by hand).
VELOCITIES = {
    "slides and then rolls": (
        LIES | {"u0": [*ALONG, 0, 0, 0, 0]},
        [*5 / 7 * ALONG, 0, *5 / 7 / R * ALONG[::-1] * [-1, 1], 0],
    ),
    "rolls on": (LIES | {"u0": [1.0, 0, 0, 0, 1 / R, 0]}, [1.0, 0, 0, 0, 1 / R, 0]),
    "slides all the while": (
        LIES | {"u0": [*ALONG, 0, 0, 0, 5.0], "friction": 0.01},
        [*(1 - 0.01 * G) * ALONG, 0, *2.5 / R * 0.01 * G * ALONG[::-1] * [-1, 1], 5.0],
    ),
    "is drawn back": (LIES | {"u0": [1.0, 0, 0, 0, -4 / R, 0], "end": 2.0}, [-0.6 / 1.4, 0, 0, 0, -0.6 / 1.4 / R, 0]),
    "slides in a bounce": (FALLS | {"u0": [*ALONG, 0, 0, 0, 0], "friction": 0.05}, _bounced(0.17)),
    "grips in a bounce": (FALLS | {"u0": [*ALONG, 0, 0, 0, 3.0], "friction": 0.3}, _bounced(2 / 7, 3.0)),
    "springs back": (
        FALLS | {"u0": [*ALONG, 0, 0, 0, 0], "friction": 0.3, "tangential_restitution": 0.5},
        _bounced(3 / 7),
    ),
}


@pytest.fixture(scope="module")
def motions():
    return run(zoo.SPHERE, {name: row for name, (row, _) in VELOCITIES.items()})


@pytest.mark.parametrize("name", references.of(zoo.SPHERE))
def test_states_and_derivatives_are_the_exact_ones(reference, name):
    references.check(reference, name)


@pytest.mark.parametrize("name", VELOCITIES)
def test_velocities_of_the_end_by_hand(motions, name):
    assert motions[name].status == Status.OK
    # Angular velocities are of size 1 / R.
    np.testing.assert_allclose(motions[name].u[-1], VELOCITIES[name][1], atol=1e-10)


@pytest.mark.parametrize("name", VELOCITIES)
def test_impulses_turn_and_push(motions, name):
    """m (u' - u) = weight + normal + friction, and J (w' - w) = -r e_z x friction, interval by interval."""
    motion = motions[name]
    rub = np.append(motion.friction[:, 0], np.zeros((20, 1)), axis=1)
    push = np.append(np.zeros((20, 2)), motion.impulse, axis=1)
    weight = motion.params["gravity"] * np.diff(motion.t)[:, None]
    np.testing.assert_allclose(np.diff(motion.u[:, :3], axis=0), weight + push + rub, atol=1e-12)
    torque = np.cross([0.0, 0.0, -R], rub)
    np.testing.assert_allclose(np.diff(motion.u[:, 3:], axis=0) * 0.4 * R**2, torque, atol=1e-13)
    assert np.all(np.linalg.norm(rub, axis=1) <= motion.params["friction"] * motion.impulse[:, 0] + 1e-12)
