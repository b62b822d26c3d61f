"""Two rough discs that meet, by one program; and the references of two in a box, nine impacts in order.

On every commit `test_impact.py` has their impact, `test_spinning_balls.py` their slip, `test_disc.py` what friction
does in time, and `test_row.py` impacts on grid times.
"""

import numpy as np
import pytest
import references
import zoo
from programs import run

from diffcontact import Status

pytestmark = pytest.mark.full

MEETS = {"radius": 0.25, "q0": [-1.0, 0.0, 0.0, 0.0, 0.0, 0.0], "restitution": 0.5}
# Name -> (row, velocities by hand): discs of r = 0.25 that meet head on at 2 m/s, P = 1.5; with a slip of s at the
# contact friction is the lesser of mu P and s / 6 (two bodies, each 1 / m + r^2 / I = 3).
VELOCITIES = {
    "head on": (MEETS | {"u0": [2.0, 0, 0, 0, 0, 0]}, [0.5, 0, 0, 1.5, 0, 0]),
    # The first one turns to the left, its rim goes up, and friction pushes it down: s = r (w1 + w2) = 0.6 < 6 mu P,
    # which takes 0.1 N s, and r 0.1 / I = 0.8 of spin.
    "gears": (MEETS | {"u0": [2.0, 0, 2.4, 0, 0, 0]}, [0.5, -0.1, 1.6, 1.5, 0.1, -0.8]),
    "slips": (MEETS | {"u0": [2.0, 0, 2.4, 0, 0, 0], "friction": 0.04}, [0.5, -0.06, 1.92, 1.5, 0.06, -0.48]),
    "springs back": (
        MEETS | {"u0": [2.0, 0, 2.4, 0, 0, 0], "tangential_restitution": 0.5},
        [0.5, -0.15, 1.2, 1.5, 0.15, -1.2],
    ),
}


@pytest.mark.parametrize("name", [*references.of(zoo.TWO_DISCS), *references.of(zoo.TWO_BALLS)])
def test_states_and_derivatives_are_the_exact_ones(reference, name):
    references.check(reference, name)


@pytest.fixture(scope="module")
def motions():
    return run(zoo.TWO_DISCS, {name: row for name, (row, _) in VELOCITIES.items()})


@pytest.mark.parametrize("name", VELOCITIES)
def test_velocities_of_the_end_by_hand(motions, name):
    assert motions[name].status == Status.OK
    np.testing.assert_allclose(motions[name].u[-1], VELOCITIES[name][1], atol=1e-12)


@pytest.mark.parametrize("name", VELOCITIES)
def test_momentum_and_angular_momentum_are_kept(motions, name):
    motion = motions[name]
    velocity, place = motion.u.reshape(21, 2, 3), motion.q.reshape(21, 2, 3)
    np.testing.assert_allclose(velocity[:, :, :2].sum(axis=1), np.tile([2.0, 0.0], (21, 1)), atol=1e-12)
    (x, y, _), (u, v, spin) = np.moveaxis(place, 2, 0), np.moveaxis(velocity, 2, 0)
    turning = np.sum(x * v - y * u + spin * 0.25**2 / 2, axis=1)
    np.testing.assert_allclose(turning, turning[0], atol=1e-12)
