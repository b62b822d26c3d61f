"""Balls in a row over a floor, by one program: who hits whom, in which order, and how a stack comes to rest."""

import numpy as np
import pytest
import references
import zoo
from programs import run

from diffcontact import Status

AWAY = [500.0, 900.0]
DROPPED = {"gravity": -9.81, "restitution": 0.3, "q0": [0.5, 0.9, 1.5, 900.0], "end": 3.0, "substeps": 15}
# Name -> (row, velocities of the end by hand). Balls are of radius 0.1.
VELOCITIES = {
    "two exchange": ({"q0": [1.0, 1.52, *AWAY], "u0": [1.0, 0, 0, 0]}, [0, 1, 0, 0]),
    # Nimble, issue 143: the ball at the wall is squeezed between it and the ball that arrives.
    "squeezed at the wall": ({"q0": [0.11, 0.32, *AWAY], "u0": [0, -2.0, 0, 0], "end": 0.5}, [0, 2, 0, 0]),
    "a blow goes through": ({"q0": [1.0, 1.5, 1.701, 1.902], "u0": [1.0, 0, 0, 0]}, [0, 0, 0, 1]),
    # Proj of (1, 0, 0) on nondecreasing velocities is (1, 1, 1) / 3; u+ = -e u- + (1 + e) Proj.
    "those that touch": (
        {"q0": [1.0, 1.5, 1.7, 900.0], "u0": [1.0, 0, 0, 0], "restitution": 0.5},
        [0, 0.5, 0.5, 0],
    ),
    # At the end of one step it would be clear of the ball that it ran through.
    "none passes through another": (
        {"q0": [1.0, 1.5, *AWAY], "u0": [20.0, 0, 0, 0], "restitution": 0.0},
        [10, 10, 0, 0],
    ),
    "masses share momentum and energy": (
        {"q0": [1.0, 1.5, *AWAY], "u0": [3.0, 0, 0, 0], "mass": [1.0, 2.0, 1.0, 1.0]},
        [-1, 2, 0, 0],
    ),
    "a dropped stack rests": (DROPPED, [0, 0, 0, -3 * 9.81]),
    # From gaps of 0.4 m at 1 m/s, after eight of twenty steps.
    "impacts on grid times in separate places": (
        {"q0": [0.5, 1.3, 500.0, 500.6], "u0": [-1.0, 0, 1.0, 0], "restitution": 0.8},
        [0.8, 0, 0.1, 0.9],
    ),
}


@pytest.fixture(scope="module")
def motions():
    return run(zoo.ROW, {name: row for name, (row, _) in VELOCITIES.items()})


@pytest.mark.parametrize("name", references.of(zoo.ROW))
def test_states_and_derivatives_are_the_exact_ones(reference, name):
    references.check(reference, name)


@pytest.mark.parametrize("name", VELOCITIES)
def test_velocities_of_the_end_by_hand(motions, name):
    assert motions[name].status == Status.OK
    np.testing.assert_allclose(motions[name].u[-1], VELOCITIES[name][1], atol=1e-12)


@pytest.mark.parametrize("name", VELOCITIES)
def test_momentum_energy_and_gaps(motions, name):
    """What impulses give, what restitution leaves, and that nothing overlaps."""
    motion, mass = motions[name], motions[name].params["mass"]
    low, high, pairs = motion.impulse[:, :4], motion.impulse[:, 4:8], motion.impulse[:, 8:]
    first, second = np.triu_indices(4, 1)
    got = low - high
    np.subtract.at(got, (slice(None), first), pairs)
    np.add.at(got, (slice(None), second), pairs)
    weight = mass * motion.params["gravity"] * np.diff(motion.t)[:, None]
    # Velocities of up to 30 m/s, rounded in 300 steps.
    np.testing.assert_allclose(np.diff(motion.u, axis=0) * mass, got + weight, atol=1e-11)
    energy = (0.5 * motion.u**2 - motion.q * motion.params["gravity"]) @ mass
    assert np.all(np.diff(energy) < 1e-9 * np.max(np.abs(energy)))
    if motion.params["restitution"] == 1.0:
        np.testing.assert_allclose(energy, energy[0], rtol=1e-13)
    assert np.min(np.diff(motion.q, axis=1)) > 0.2 - 1e-12
    assert np.min(motion.q[:, 0]) > 0.1 - 1e-12
    assert np.min(motion.impulse) >= 0


def test_a_grid_time_at_an_impact_has_what_is_right_of_it(motions):
    motion = motions["impacts on grid times in separate places"]
    np.testing.assert_allclose(motion.u[8], motion.u[-1], atol=1e-13)
    np.testing.assert_allclose(motion.impulse[7, [0, 13]], [1.8, 0.9], atol=1e-13)
    # q(1) = 0.1 + e (gap - u) with the gap of q0 - r, so that dq/dq0 = -e, dq/du0 = -e, dq/dr = 1 + e, dq/de = 0.6.
    found = motion.jacobian("q0", "u0", "radius", "restitution")[0]
    exact = np.zeros(13)
    exact[[0, 4]], exact[8], exact[12] = -0.8, 1.8, 0.6
    np.testing.assert_allclose(found, exact, atol=1e-12)


def test_derivatives_go_with_the_velocities(motions):
    # Nimble's issue 97 reports (0.75, 0.25, 0.91, 0.08) here: the second ball leaves as if it were the first.
    by = motions["two exchange"].by
    place = np.concatenate([by["q0"][-1, 1, :2], by["u0"][-1, 1, :2]])
    np.testing.assert_allclose(place, [1.0, 0.0, 1.0, 0.0], atol=1e-13)
    through = motions["a blow goes through"].jacobian("q0", "u0", "radius")
    # All pass on what comes; the last one ahead of it by three diameters, of which it was one of half ones at each end.
    np.testing.assert_allclose(through[3], [1, 0, 0, 0, 1, 0, 0, 0, 1, 2, 2, 1], atol=1e-12)
    # At rest everything is where radii say.
    rests = motions["a dropped stack rests"].jacobian("q0", "u0", "radius", "restitution", "gravity")
    np.testing.assert_allclose(rests[:3, :3], 0.0, atol=1e-12)
    np.testing.assert_allclose(rests[:3, 8:11], [[1, 0, 0], [2, 1, 0], [2, 2, 1]], atol=1e-12)
    np.testing.assert_allclose(rests[:3, 12:], 0.0, atol=1e-12)


def test_what_is_wrong_has_a_status(motions):
    rows = {
        "OK": VELOCITIES["two exchange"][0],
        "OVERLAP": {"q0": [1.0, 1.1, *AWAY]},
        "BAD_INPUT": {"radius": [0.1, -0.1, 0.1, 0.1]},
        "BAD_MASS": {"mass": [1.0, 0.0, 1.0, 1.0]},
        "TOO_MANY_EVENTS": {"q0": [0.1005, 0.302, *AWAY], "u0": [0.0, -50.0, 0.0, 0.0], "mass": [1e-4, 1.0, 1.0, 1.0]},
    }
    found = run(zoo.ROW, rows)
    assert {name: Status(motion.status).name for name, motion in found.items()} == {name: name for name in rows}
    np.testing.assert_array_equal(found["OK"].q, motions["two exchange"].q)
