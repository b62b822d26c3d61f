"""Two discs in a box, by one program: nine impacts in order, and impacts that fall on grid times.

On every commit `test_two_discs.py` has discs that strike, and `test_row.py` impacts on grid times.
"""

import numpy as np
import pytest
import references
import zoo
from programs import run

from diffcontact import Status

pytestmark = pytest.mark.full

CORNER = {"q0": [0.5, 0.5, 0.8, 0.8], "u0": [-1.0, -1.0, 0.0, 0.0], "gravity": 0.0}


@pytest.mark.parametrize("name", references.of(zoo.TWO_BALLS))
def test_states_and_derivatives_are_the_exact_ones(reference, name):
    references.check(reference, name)


def test_impacts_on_grid_times_at_the_same_time_in_separate_places():
    """From a gap of 0.4 m at 1 m/s, in both axes at once: after eight of twenty steps."""
    motion = run(zoo.TWO_BALLS, {"corner": CORNER})["corner"]
    assert motion.status == Status.OK
    # Right limits: the grid point at the impact has the velocity after it.
    np.testing.assert_allclose(motion.u[8], [0.8, 0.8, 0.0, 0.0], atol=1e-13)
    np.testing.assert_allclose(motion.impulse[7, :2], [1.8, 1.8], atol=1e-13)
    # q(1) = 0.1 + e (gap - u) with the gap of q0 - r, so that dq/dq0 = -e, dq/du0 = -e, dq/dr = 1 + e, dq/de = 0.6.
    found = motion.jacobian("q0", "u0", "radius", "restitution")[:2]
    exact = np.zeros((2, 11))
    exact[0, [0, 4]] = exact[1, [1, 5]] = -0.8
    exact[:, 8], exact[:, 10] = 1.8, 0.6
    np.testing.assert_allclose(found, exact, atol=1e-12)
