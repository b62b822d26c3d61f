"""Two particles on springs with dry friction, a belt and percussions, by one program."""

import numpy as np
import pytest
import references
import zoo
from programs import run

import diffcontact as dc
from diffcontact import Status

# Neither springs nor loads: friction gamma nu = 2 and 1 N on 1 and 0.5 kg, 2 m/s^2 on either.
FREE = {"damping": 0.0, "stiffness": 0.0, "load": 0.0, "percussion": 0.0, "normal": [10.0, 5.0], "mass": [1.0, 0.5]}
# Name -> (row, end by hand).
CLOSED_FORMS = {
    "slides to rest": (FREE | {"u0": [1.0, -0.5]}, [0.35, -0.1125, 0, 0]),
    # It has the belt's speed after 0.25 s.
    "is carried": (FREE | {"u0": 0.0, "belt": 0.5}, [0.1 + 0.4375, -0.05 + 0.4375, 0.5, 0.5]),
    # Percussions a at 0.1, 0.25 and 0.3 s take gamma nu a / m = 2 a off the speed: 0.2 m/s at 0.3 s.
    "is struck while it slides": (
        FREE | {"u0": [3.0, 3.0], "percussion": [0.0, 0.0, 0.1], "end": 0.5},
        [0.1 + 1.5 - 0.25 - 0.04, -0.05 + 1.5 - 0.25 - 0.04, 1.8, 1.8],
    ),
    # A percussion on the belt speeds up what is slower: 0.2 m/s become 0.3, and 0.5 after 0.1 s more.
    "is struck on the belt": (
        FREE | {"u0": 0.0, "belt": 0.5, "percussion": [0.05, 0.0, 0.0]},
        [0.1 + 0.45, -0.05 + 0.45, 0.5, 0.5],
    ),
    "sticks when struck": (
        FREE | {"u0": [0.6, 0.6], "percussion": [0.0, 0.1, 0.0], "end": 0.5},
        [0.1 + 0.15 - 0.0625, -0.05 + 0.15 - 0.0625, 0.0, 0.0],
    ),
    # A spring of 4 N/m on 1 kg holds 0.5 m with 2 N.
    "friction holds the spring": (
        FREE | {"stiffness": 4.0, "mass": [1.0, 1.0], "normal": [10.0, 10.0], "q0": [0.1, 0.2], "u0": 0.0},
        [0.1, 0.2, 0, 0],
    ),
}


@pytest.fixture(scope="module")
def motions():
    return run(zoo.CHAIN, {name: row for name, (row, _) in CLOSED_FORMS.items()})


@pytest.mark.parametrize("name", references.of(zoo.CHAIN))
def test_states_and_derivatives_are_the_exact_ones(reference, name):
    references.check(reference, name)


@pytest.mark.parametrize("name", CLOSED_FORMS)
def test_the_end_is_that_by_hand(motions, name):
    assert motions[name].status == Status.OK
    np.testing.assert_allclose(motions[name].end, CLOSED_FORMS[name][1], atol=1e-12)


@pytest.mark.parametrize("name", CLOSED_FORMS)
def test_impulses_account_for_the_momentum(motions, name):
    motion = motions[name]
    spring = motion.params["stiffness"] * np.array([[2.0, -1.0], [-1.0, 1.0]])
    given = motion.impulse - np.diff(motion.t)[:, None] * motion.q[:-1] @ spring
    np.testing.assert_allclose(np.diff(motion.u, axis=0) * motion.params["mass"], given, atol=1e-12)


def test_derivatives_by_hand(motions):
    # x = u0^2 / (2 gamma nu / m): of speed, friction and the normal force.
    stops = motions["slides to rest"].jacobian("u0", "friction", "normal", "mass")
    np.testing.assert_allclose(stops[0], [0.5, 0, -0.25 / 0.2, -0.025, 0, 0.25, 0], atol=1e-11)
    # t = b / 2: x = b T - b^2 / 4.
    carried = motions["is carried"].jacobian("belt", "friction")
    np.testing.assert_allclose(carried[0], [1 - 0.25, 0.0625 / 0.2], rtol=1e-11)
    struck = motions["is struck while it slides"].jacobian("percussion")
    np.testing.assert_allclose(struck[[0, 2]], [[-0.8, -0.5, -0.4], [-2, -2, -2]], rtol=1e-11)


@pytest.mark.full
def test_single_precision(motions):
    found = run(zoo.CHAIN, {name: row for name, (row, _) in CLOSED_FORMS.items()}, derivative=False, single=True)
    for name, motion in found.items():
        assert motion.q.dtype == np.float32
        assert motion.status == Status.OK, name
        # Some hundred roundings of 1e-7, of ways of a metre.
        np.testing.assert_allclose(motion.end, motions[name].end, atol=2e-5, err_msg=name)


@pytest.mark.full
def test_springs_too_stiff_for_the_step_are_told_and_the_implicit_scheme_takes_them():
    row = {"stiffness": 1e10, "damping": 1e5, "load": 0.0, "percussion": 0.0, "q0": 0.0, "u0": [0.1, -0.2]}
    told, rests = (run(zoo.CHAIN, {"stiff": row}, scheme)["stiff"] for scheme in (None, dc.PercussionFriction()))
    assert told.status != Status.OK
    # Springs of 1e10 N/m: everything is over at once, up to the 3 N / 1e10 N/m that friction can hold.
    np.testing.assert_allclose(rests.end, 0.0, atol=1e-8)
