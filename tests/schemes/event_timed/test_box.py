"""A box over a rough floor that may run as a belt, by one program."""

import numpy as np
import pytest
import references
import zoo
from programs import run

from diffcontact import Status

WEIGHT = 9.81
# Flat on the floor, mu = 0.5, 0.5 s: name -> (row, place and speed along the floor by hand, friction of all corners).
FLAT = {
    "sticks": ({"force": [0.45 * WEIGHT, -WEIGHT]}, 0.0, 0.0, -0.225 * WEIGHT),
    "slides": ({"force": [0.75 * WEIGHT, -WEIGHT]}, WEIGHT / 32, WEIGHT / 8, -0.25 * WEIGHT),
    # It has the belt's speed after 1 / (mu g).
    "is carried": ({"belt": 1.0}, 0.5 - 1 / WEIGHT, 1.0, 1.0),
}


@pytest.fixture(scope="module")
def motions():
    return run(zoo.BOX, {name: row | {"end": 0.5} for name, (row, *_) in FLAT.items()})


@pytest.mark.parametrize("name", references.of(zoo.BOX))
def test_states_and_derivatives_are_the_exact_ones(reference, name):
    references.check(reference, name)


@pytest.mark.parametrize("name", FLAT)
def test_a_box_that_lies_flat_by_hand(motions, name):
    """Two corners, whose friction depends on each other: they share, and only their sum is the motion's."""
    motion, (_, place, speed, rubbed) = motions[name], FLAT[name]
    assert motion.status == Status.OK
    np.testing.assert_allclose(motion.end, [place, 0.1, 0.0, speed, 0.0, 0.0], atol=1e-13)
    np.testing.assert_allclose(np.sum(motion.friction), rubbed, rtol=1e-11)
    np.testing.assert_allclose(np.sum(motion.impulse, axis=1), WEIGHT * 0.025, rtol=1e-11)
    np.testing.assert_allclose(motion.impulse[:, 2:], 0.0, atol=1e-15)


def test_derivatives_by_hand(motions):
    sticks = motions["sticks"].jacobian("force", "friction", "half")
    np.testing.assert_allclose(sticks[[0, 3]], 0.0, atol=1e-12)
    slides = motions["slides"].jacobian("force", "friction")
    np.testing.assert_allclose(slides[3], [0.5, 0.25, -WEIGHT / 2], rtol=1e-11)
    np.testing.assert_allclose(slides[0], [0.125, 0.0625, -WEIGHT / 8], rtol=1e-11)
    # x = b T - b^2 / (2 mu g).
    carried = motions["is carried"].jacobian("belt", "friction")
    np.testing.assert_allclose(carried[0], [0.5 - 2 / WEIGHT, 2 / WEIGHT], rtol=1e-11)
    np.testing.assert_allclose(carried[3], [1.0, 0.0], atol=1e-11)
    for motion in motions.values():
        np.testing.assert_allclose(motion.jacobian("half")[1], [0.0, 1.0], atol=1e-12)
