"""The tosses of two boxes on a hinge: states of flights in closed form, errors, and which numbers predict best."""

import elbow
import numpy as np
import pytest
from measuring import data
from scipy.spatial.transform import Rotation


def flight(rng, samples=12):
    """A toss (samples, 15) whose place and angle are parabolas and whose spin is constant, and its middle state."""
    times = (np.arange(samples) - elbow.FIRST // 2) / elbow.RATE
    powers, parts = np.vander(times, 3, increasing=True), rng.normal(size=(3, 4))
    spin, turn = rng.normal(size=(2, 3))
    seen = powers @ parts
    orientation = Rotation.from_rotvec(turn) * Rotation.from_rotvec(times[:, None] * spin)
    quaternion = rng.choice([-1.0, 1.0]) * np.roll(orientation.as_quat(), 1, axis=1)
    toss = np.column_stack([quaternion, seen, np.zeros((samples, 7))])
    middle = np.roll(Rotation.from_rotvec(turn).as_quat(), 1)
    return (
        toss,
        np.concatenate([parts[0, :3], middle, parts[0, 3:]]),
        np.concatenate([parts[1, :3], spin, parts[1, 3:]]),
    )


def test_states_are_those_of_parabolas(rng):
    tosses, places, velocities = map(np.stack, zip(*[flight(rng) for _ in range(5)], strict=True))
    q, u = elbow.starts(tosses)
    np.testing.assert_allclose(u, velocities, atol=1e-10)
    # Either quaternion is the orientation.
    q[:, 3:7] *= np.sign(np.sum(q[:, 3:7] * places[:, 3:7], axis=1, keepdims=True))
    np.testing.assert_allclose(q, places, atol=1e-12)


def test_errors_are_those_of_a_prediction_that_is_off_by_known_ways(rng):
    toss, *_ = flight(rng)
    off = np.column_stack([toss[:, 4:7] + [0.03, 0.04, 0.0], toss[:, :4], toss[:, 7] + 2 * np.pi + 0.1])
    half = np.array([np.cos(0.1), np.sin(0.1), 0.0, 0.0])
    turned = (Rotation.from_quat(np.roll(toss[:, :4], -1, axis=1)) * Rotation.from_quat(np.roll(half, -1))).as_quat()
    off[:, 3:7] = np.roll(turned, 1, axis=1)
    errors = elbow.Errors.of(off[None], toss[None], np.array([True]))
    np.testing.assert_allclose([errors.place[0], errors.angle[0], errors.joint[0]], [0.5, *np.degrees([0.2, 0.1])])


def test_the_interval_holds_what_predicts_best_whichever_tosses_are_drawn():
    flat = np.zeros(20)
    tried = {
        (mu, 0.0): elbow.Errors(np.full(20, abs(mu - 0.2)) + noise, flat, flat, flat == 0)
        for mu, noise in ((0.1, flat), (0.2, flat), (0.3, flat))
    }
    assert elbow.interval(tried, 0) == (0.2, 0.2)
    # A toss that another number predicts far better is drawn in two samples of three.
    tried[0.3, 0.0].place[0] = -3.0
    assert elbow.interval(tried, 0) == (0.2, 0.3)


@pytest.mark.studies
def test_measured_tosses_are_predicted():
    if not (data("elbow") / "tosses.npz").is_file():
        pytest.skip("DIFFCONTACT_DATA holds no elbow/tosses.npz")
    pytest.importorskip("mujoco", reason="the URDF is read by MuJoCo, the extra `mujoco`")
    found = elbow.main([str(data("elbow")), "--samples", "30", "--smoke"])
    # In flight, and behind one impact: not by half a box.
    assert set(found) == {"ours", "MuJoCo"}
    assert all(np.all(one.place < 0.5) for one in found.values())
    assert np.all(found["ours"].fine)
