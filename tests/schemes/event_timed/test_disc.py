"""A disc, or a block, on a rough floor that may lean, run as a belt and be driven, by one program."""

import numpy as np
import pytest
import references
import zoo
from programs import alone, run

from diffcontact import Status

G = 9.81
LIMIT = np.arctan(0.5)
DOWN = G * (np.sin(LIMIT + 1e-3) - 0.5 * np.cos(LIMIT + 1e-3))
UPHILL, DOWNHILL = G * (np.sin(0.9) + 0.5 * np.cos(0.9)), G * (np.sin(0.9) - 0.5 * np.cos(0.9))
BACK = 1.0 - 1.0 / UPHILL
# Walton: a disc of r = 0.1, I = m r^2 / 2 that falls 0.2 m under 10 m/s^2 with 1 m/s across, P = 2 (1 + e).
FALLS = {"gravity": 10.0, "radius": 0.1, "q0": [0.0, 0.3, 0.0], "u0": [1.0, 0.0, 0.0], "restitution": 0.6, "end": 0.4}


def _fallen(friction):
    """(x, y, angle, u) after 0.2 s of free fall, an impact with this impulse of friction, and 0.2 s more."""
    return [0.4 - 0.2 * friction, 0.14, -4.0 * friction, 1.0 - friction, -0.8, -20.0 * friction]


# Name -> (row, end by hand).
CLOSED_FORMS = {
    "slides to rest": ({"u0": [2.0, 0.0, 0.0]}, [4 / G, 0, 0, 0, 0, 0]),
    "holds below its limit angle": ({"slope": LIMIT - 1e-9}, [0, 0, 0, 0, 0, 0]),
    "lets go above it": ({"slope": LIMIT + 1e-3}, [-DOWN / 2, 0, 0, -DOWN, 0, 0]),
    "goes up and slides back": (
        {"slope": 0.9, "u0": [1.0, 0.0, 0.0]},
        [1 / (2 * UPHILL) - DOWNHILL * BACK**2 / 2, 0, 0, -DOWNHILL * BACK, 0, 0],
    ),
    # mu g until it has the belt's speed, then with it.
    "is carried by a belt": ({"belt": 1.0}, [1 - 1 / G, 0, 0, 1, 0, 0]),
    # A push of 0.9 mu g holds, one of 1.5 mu g moves it with 0.5 mu g.
    "is pushed in vain": ({"push": 0.45 * G}, [0, 0, 0, 0, 0, 0]),
    "is pushed along": ({"push": 0.75 * G}, [0.125 * G, 0, 0, 0.25 * G, 0, 0]),
    # Sliding until it rolls: u = 2/3 u0 at (u0 - u) / (mu g).
    "slides and then rolls": (
        {"radius": 0.1, "q0": [0.0, 0.1, 0.0], "u0": [1.5, 0.0, 0.0]},
        [1.0 + 0.5 * 0.5 / (0.5 * G) / 2, 0.1, -10.0 * (1.0 - 1.0 * 0.5 / (0.5 * G) / 2), 1.0, 0.0, -10.0],
    ),
    "slides in a bounce": (FALLS | {"friction": 0.05}, _fallen(0.16)),
    "grips in a bounce": (FALLS | {"friction": 0.3}, _fallen(1 / 3)),
    "grips and springs back": (FALLS | {"friction": 0.3, "tangential_restitution": 0.5}, _fallen(0.5)),
    "bounces without friction": (FALLS | {"friction": 0.0}, _fallen(0.0)),
}


@pytest.fixture(scope="module")
def motions():
    return run(zoo.DISC, {name: row for name, (row, _) in CLOSED_FORMS.items()})


@pytest.mark.parametrize("name", references.of(zoo.DISC))
def test_states_and_derivatives_are_the_exact_ones(reference, name):
    references.check(reference, name)


@pytest.mark.parametrize("name", CLOSED_FORMS)
def test_the_end_is_that_by_hand(motions, name):
    assert motions[name].status == Status.OK
    np.testing.assert_allclose(motions[name].end, CLOSED_FORMS[name][1], atol=1e-12)


@pytest.mark.parametrize("name", CLOSED_FORMS)
def test_impulses_account_for_the_momentum_and_keep_within_the_cone(motions, name):
    motion = motions[name]
    p, h = motion.params, np.diff(motion.t)
    normal, rub = motion.impulse[:, 0], motion.friction[:, 0, 0]
    weight = p["gravity"] * np.array([-np.sin(p["slope"]), -np.cos(p["slope"])])
    given = np.stack([weight[0] * h + p["push"] * h + rub, weight[1] * h + normal, p["radius"] * rub], axis=1)
    np.testing.assert_allclose(np.diff(motion.u, axis=0) * [1.0, 1.0, 0.005], given, atol=1e-12)
    assert np.all(normal >= 0)
    assert np.all(np.abs(rub) <= p["friction"] * normal + 1e-12)


# On every commit `test_simulate.py` has a plain call beside lanes.
@pytest.mark.full
def test_a_row_alone_is_the_lane_that_it_is_among_others(motions):
    motion = alone(zoo.DISC, CLOSED_FORMS["slides and then rolls"][0])
    for name in ("q", "u", "impulse", "friction"):
        expected = getattr(motions["slides and then rolls"], name)
        np.testing.assert_allclose(getattr(motion, name), expected, atol=1e-12, err_msg=name)


def test_what_is_wrong_has_a_status(motions):
    rows = {
        "OK": {"u0": [2.0, 0.0, 0.0]},
        "BAD_INPUT": {"friction": -0.1},
        "OVERLAP": {"q0": [0.0, -0.1, 0.0]},
        "BAD_RESTITUTION": {"restitution": -0.1},
        "TOO_COARSE": {"amplitude": 50.0, "frequency": 300.0},
    }
    found = run(zoo.DISC, rows)
    assert {name: Status(motion.status).name for name, motion in found.items()} == {name: name for name in rows}
    # Lanes leave each other alone to the last bit, derivatives too.
    np.testing.assert_array_equal(found["OK"].q, motions["slides to rest"].q)
    for name, slope in found["OK"].by.items():
        np.testing.assert_array_equal(slope, motions["slides to rest"].by[name], err_msg=name)


# On every commit `test_simulate.py` has an impact in single precision, `test_impact_laws.py` one with friction.
@pytest.mark.full
def test_single_precision(motions):
    found = run(zoo.DISC, {name: row for name, (row, _) in CLOSED_FORMS.items()}, derivative=False, single=True)
    for name, motion in found.items():
        assert motion.q.dtype == motion.impulse.dtype == np.float32
        assert motion.status == Status.OK, name
        # Angular velocities of up to 20 rad/s, at some thousand roundings of 1e-7.
        np.testing.assert_allclose(motion.end, motions[name].end, atol=2e-3, err_msg=name)
