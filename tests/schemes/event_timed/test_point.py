"""A point among walls that stand, lean, shake and are round, by one program: references, closed forms, bad values."""

import numpy as np
import pytest
import references
import zoo
from programs import in_one_batch, run

from diffcontact import Status

G = 9.81
FREE = {"floor": -zoo.FAR, "gravity": [0.0, 0.0]}
FALL = np.sqrt(2 / G)
# Each row's end [q, u] by hand.
CLOSED_FORMS = {
    "flies": ({"u0": [2.0, 3.0], "end": 0.5}, [1.0, 1.0 + 1.5 - G / 8, 2.0, 3.0 - G / 2]),
    "lands and stays": ({"u0": [2.0, 0.0], "restitution": 0.0}, [2.0, 0.0, 2.0, 0.0]),
    "bounces once": (
        {"restitution": 0.5, "end": 1.5 * FALL},
        [0.0, 0.5 * FALL * G / 2 * FALL - G * FALL**2 / 8, 0.0, 0.0],
    ),
    # e = 0.5: it rests after 3 FALL, the sum of all bounces.
    "rests behind all bounces": ({"restitution": 0.5, "end": 4 * FALL, "substeps": 4}, [0.0, 0.0, 0.0, 0.0]),
    # M is not diagonal: the floor pushes along M^-1 grad g.
    "is pushed aside": (
        FREE
        | {"floor": 0.0, "q0": [0.0, 0.5], "u0": [0.0, -1.0], "restitution": 1.0, "mass": [[2.0, 1.0], [1.0, 2.0]]},
        [-0.5, 0.5, -1.0, 1.0],
    ),
    # Drag alone: u e^-t, at a step where the second order leaves 1e-6.
    "is dragged": (
        FREE | {"u0": [1.0, 0.0], "drag": 1.0, "substeps": 20},
        [1 - np.exp(-1), 1.0, np.exp(-1), 0.0],
    ),
    # Between floor and ceiling, 1 m apart, at 4 m/s with e = 1: four times over and back.
    "goes to and fro": (
        FREE | {"floor": 0.0, "ceiling": 1.0, "q0": [0.0, 0.25], "u0": [0.0, 4.0], "restitution": 1.0},
        [0.0, 0.25, 0.0, 4.0],
    ),
    # A disc that grows by 1 m/s hits the point at rest: u+ = (1 + e) 1 m/s.
    "is hit by what grows": (
        FREE | {"centre": [0.0, 0.0], "radius": 0.5, "growth": 1.0, "restitution": 0.5},
        [0.0, 1.0 + 1.5 * 0.5, 0.0, 1.5],
    ),
}


@pytest.fixture(scope="module")
def motions():
    return run(zoo.POINT, {name: row for name, (row, _) in CLOSED_FORMS.items()})


@pytest.mark.parametrize("name", references.of(zoo.POINT))
def test_states_and_derivatives_are_the_exact_ones(reference, name):
    references.check(reference, name)


@pytest.mark.parametrize("name", CLOSED_FORMS)
def test_the_end_is_that_by_hand(motions, name):
    assert motions[name].status == Status.OK
    atol = 1e-4 if name == "is dragged" else 1e-12
    np.testing.assert_allclose(motions[name].end, CLOSED_FORMS[name][1], atol=atol)


@pytest.mark.parametrize("name", CLOSED_FORMS)
def test_impulses_account_for_the_momentum(motions, name):
    """M (u' - u) is what gravity and drag gave, and the impulses along the gaps' gradients, interval by interval."""
    motion = motions[name]
    p, h = motion.params, np.diff(motion.t)[:, None]
    way = motion.q[1:] - p["centre"]
    normals = np.stack([np.broadcast_to([0.0, 1.0], way.shape), np.broadcast_to([0.0, -1.0], way.shape), way], axis=1)
    normals[:, 2] /= np.linalg.norm(way, axis=1)[:, None]
    given = h * p["gravity"] @ p["mass"] - p["drag"] * np.diff(motion.q, axis=0)
    pushed = np.einsum("nc,ncd->nd", motion.impulse, normals)
    np.testing.assert_allclose(np.diff(motion.u, axis=0) @ p["mass"], given + pushed, atol=1e-4 if p["drag"] else 1e-12)


BAD = {
    Status.OVERLAP: {"q0": [0.0, -0.1]},
    Status.NOT_FINITE: {"gravity": [0.0, np.nan]},
    Status.BAD_MASS: {"mass": [[1.0, 2.0], [2.0, 1.0]]},
    Status.BAD_RESTITUTION: {"restitution": [1.2, 0.0, 0.0]},
    Status.BAD_TIMES: {"times": np.r_[0.0, np.linspace(0.0, 1.0, 20)]},
    Status.TOO_COARSE: {"stiffness": 1000.0},
    # The point is between walls 2 mm apart: hundreds of impacts in a step.
    Status.TOO_MANY_EVENTS: FREE
    | {"ceiling": 1e-3, "floor": 0.0, "q0": [0.0, 5e-4], "u0": [0.0, 5.0], "restitution": 1.0},
}


@pytest.mark.parametrize("runs", [run, pytest.param(in_one_batch, marks=pytest.mark.full)])
def test_what_is_wrong_has_a_status_and_leaves_the_other_lanes_alone(motions, runs):
    found = runs(zoo.POINT, {"flies": CLOSED_FORMS["flies"][0]} | {status.name: row for status, row in BAD.items()})
    np.testing.assert_allclose(found.pop("flies").q, motions["flies"].q, atol=1e-13)
    assert {name: Status(motion.status).name for name, motion in found.items()} == {name: name for name in found}
    # What cannot be simulated stays where it starts; what can be is finite throughout.
    for name, motion in found.items():
        assert name in ("BAD_TIMES", "NOT_FINITE") or np.all(np.isfinite(motion.q)), name
    np.testing.assert_array_equal(found["BAD_MASS"].q, np.tile([0.0, 1.0], (21, 1)))
