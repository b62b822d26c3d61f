"""A cuboid in space: how it turns in flight, and how it falls on a rough floor, by one program.

On every commit `test_bodies.py` has gaps, slips and torques of bodies, `test_box.py` a box that falls on its corners,
and `test_sphere.py` friction in space.
"""

import numpy as np
import pytest
import zoo
from programs import run

from diffcontact import Status

pytestmark = pytest.mark.full

SIDES = np.array([0.1, 0.15, 0.2])
MOMENTS = np.array([SIDES[1] ** 2 + SIDES[2] ** 2, SIDES[0] ** 2 + SIDES[2] ** 2, SIDES[0] ** 2 + SIDES[1] ** 2]) / 12
FLIES = {"gravity": 0.0, "q0": [0, 0, 5.0, 0.5, 0.5, -0.5, 0.5], "u0": [1.0, 0, 0, 3.0, 4.0, -5.0], "end": 0.5}
ROWS = {
    "flies": FLIES | {"substeps": 4},
    "flies at longer steps": FLIES,
    "lies": {"q0": [0, 0, 0.1, 1.0, 0, 0, 0], "end": 0.2},
    # mu g until it stops, after u0 / (mu g) = 0.34 s.
    "slides flat": {"q0": [0, 0, 0.1, 1.0, 0, 0, 0], "u0": [0.6, 0.8, 0, 0, 0, 0], "end": 0.2, "restitution": 0.0},
    "falls on a corner": {
        "q0": [0, 0, 0.3, 0.9, 0.3, 0.3, 0.1],
        "u0": [0.3, 0, 0, 1.0, 0, 2.0],
        "end": 0.3,
        "substeps": 5,
    },
}
for _row in ROWS.values():
    _row["q0"] = np.concatenate([_row["q0"][:3], _row["q0"][3:] / np.linalg.norm(_row["q0"][3:])])


@pytest.fixture(scope="module")
def motions():
    return run(zoo.CUBOID, ROWS, derivative=False)


def _turn(quaternion):
    """(n, 3, 3) matrices of unit quaternions (n, 4): w x y z."""
    w, x, y, z = quaternion.T
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.moveaxis(np.array(rows), 2, 0)


def _energy(motion):
    turn, spin = _turn(motion.q[:, 3:]), motion.u[:, 3:]
    own = np.einsum("nji,nj->ni", turn, spin)
    return np.sum(motion.u[:, :3] ** 2, axis=1) / 2 + own**2 @ MOMENTS / 2 - motion.q[:, :3] @ motion.params["gravity"]


@pytest.mark.parametrize("name", ROWS)
def test_statuses_quaternions_and_energy(motions, name):
    motion = motions[name]
    assert motion.status == Status.OK
    np.testing.assert_allclose(np.linalg.norm(motion.q[:, 3:], axis=1), 1.0, atol=1e-14)
    # Of second order in the step where it turns.
    assert np.max(np.diff(_energy(motion))) < 1e-4 * np.max(np.abs(_energy(motion)))
    # No corner below the floor: halves of the sides along the vertical.
    lowest = motion.q[:, 2] - np.abs(_turn(motion.q[:, 3:])[:, 2]) @ SIDES / 2
    assert np.min(lowest) > -1e-10


def test_angular_momentum_is_kept_in_flight_to_second_order(motions):
    def drift(motion):
        turn = _turn(motion.q[:, 3:])
        kept = np.einsum("nij,j,nkj,nk->ni", turn, MOMENTS, turn, motion.u[:, 3:])
        return np.max(np.abs(kept - kept[0])) / np.linalg.norm(kept[0])

    coarse, fine = drift(motions["flies at longer steps"]), drift(motions["flies"])
    assert fine < 1e-4
    assert fine < coarse / 10
    np.testing.assert_allclose(motions["flies"].q[-1, :3], [0.5, 0.0, 5.0], atol=1e-14)


def test_on_its_face_it_lies_and_slides(motions):
    lies, slides = motions["lies"], motions["slides flat"]
    np.testing.assert_allclose(lies.q, np.tile(lies.q[0], (21, 1)), atol=1e-12)
    np.testing.assert_allclose(np.sum(lies.impulse, axis=1), 9.81 * 0.01, rtol=1e-9)
    braked = 0.3 * 9.81
    np.testing.assert_allclose(slides.u[-1, :2], (1 - 0.2 * braked) * np.array([0.6, 0.8]), atol=1e-9)
    np.testing.assert_allclose(slides.q[-1, :2], (0.2 - 0.02 * braked) * np.array([0.6, 0.8]), atol=1e-9)


def test_what_falls_on_a_corner_is_pushed_and_rubbed_within_the_cone(motions):
    motion = motions["falls on a corner"]
    assert np.sum(motion.impulse) > 0.1
    weight = motion.params["gravity"] * np.diff(motion.t)[:, None]
    rub = np.concatenate([np.sum(motion.friction, axis=1), np.zeros((20, 1))], axis=1)
    push = np.sum(motion.impulse, axis=1)[:, None] * [0.0, 0.0, 1.0]
    np.testing.assert_allclose(np.diff(motion.u[:, :3], axis=0), weight + push + rub, atol=1e-11)
    sizes = np.linalg.norm(motion.friction, axis=2)
    assert np.all(sizes <= 0.3 * motion.impulse + 1e-10)
