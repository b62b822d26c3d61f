"""Discs whose neighbours are found by a cell list, beside all pairs: a program of VelocityProjection for each."""

import numpy as np
import pytest
import zoo
from programs import run, transposed

import diffcontact as dc
from diffcontact import Status

SCHEME = dc.VelocityProjection()
ROWS = {
    "settles": {"restitution": 0.0, "end": 0.8, "substeps": 2},
    "is thrown together": {
        "restitution": 0.0,
        "gravity": 0.0,
        "u0": [1.0, 0.5, -1.0, 0.2, -1.5, 0.0, -2.0, 0.3, 0.5, -1.5, -0.5, -1.0],
        "end": 0.4,
        "mass": [1.0, 2.0, 0.5, 1.5, 1.0, 3.0],
    },
}


@pytest.fixture(scope="module")
def both():
    return run(zoo.LISTED, ROWS, SCHEME), run(zoo.PAIRS, ROWS, SCHEME)


@pytest.mark.parametrize("name", ROWS)
def test_the_motion_and_its_derivatives_are_those_of_all_pairs(both, name):
    listed, dense = (motions[name] for motions in both)
    assert listed.status == dense.status == Status.OK
    # The residual is 1e-6 of the largest violation, at most 2 m/s, and a settling heap multiplies errors.
    np.testing.assert_allclose(listed.q, dense.q, atol=1e-5)
    # Without weight those that stuck together touch without a load, and gravity may part them: a tie.
    names = ["q0", "u0", "radius", "mass", *(["gravity"] if name == "settles" else [])]
    found, truth = listed.jacobian(*names), dense.jacobian(*names)
    # Velocities are worse by 1 / h.
    np.testing.assert_allclose(found, truth, atol=1e-4 * np.max(np.abs(truth)))


@pytest.mark.parametrize("name", ROWS)
def test_impulses_are_each_balls_share(both, name):
    listed, dense = (motions[name].impulse for motions in both)
    share = dense[:, :24].reshape(-1, 2, 6, 2).sum(axis=(1, 3))
    for column, (i, j) in enumerate(zip(*np.triu_indices(6, 1), strict=True)):
        share[:, i] += dense[:, 24 + column]
        share[:, j] += dense[:, 24 + column]
    # Multipliers are less well determined than velocities, not by more than two digits here.
    np.testing.assert_allclose(listed, share, atol=1e-4)
    assert np.max(share) > 0.1


@pytest.mark.full
def test_reverse_mode_is_the_transpose_of_forward_mode(both):
    listed = both[0]["is thrown together"]
    weights = np.cos(np.arange(listed.end.size))
    for name, found in transposed(zoo.LISTED, ROWS["is thrown together"], weights, SCHEME).items():
        ahead = np.tensordot(weights, listed.by[name][-1], axes=1)
        # Compiled apart, the two round differently and may stop an iteration apart in each of the 20 steps.
        np.testing.assert_allclose(found, ahead, atol=2e-5 * max(1.0, np.max(np.abs(ahead))), err_msg=name)


def test_a_lane_that_overlaps_is_told_and_leaves_its_neighbours_alone(both):
    overlaps = {"q0": zoo.LISTED.params["q0"] * 0.8, "restitution": 0.0}
    found = run(zoo.LISTED, {"overlaps": overlaps} | ROWS, SCHEME)
    assert found["overlaps"].status == Status.OVERLAP
    np.testing.assert_array_equal(found["settles"].q, both[0]["settles"].q)
