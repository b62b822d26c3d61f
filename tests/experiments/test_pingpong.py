"""The table-tennis scene: on flights that were integrated without the library, and on measured ones."""

import numpy as np
import pingpong
import pytest
from fitting import fitted, measured, write_csv

from diffcontact.scene import read_study

RATE, RADIUS = 144.45, 0.02
GRAVITY = np.array([0.0, 0.0, -9.81])


def acceleration(v, w):
    speed = np.linalg.norm(v)
    side = 0.0057 * np.cross(w, v) / (1 + 0.041 * np.linalg.norm(w) / speed)
    return GRAVITY - 0.14 * speed * v + side


def moved(x, v, w, h):
    """A step of the classical fourth-order method."""
    k1 = acceleration(v, w)
    k2 = acceleration(v + h / 2 * k1, w)
    k3 = acceleration(v + h / 2 * k2, w)
    k4 = acceleration(v + h * k3, w)
    return x + h * v + h**2 / 6 * (k1 + k2 + k3), v + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def kicked(v, w, e, mu):
    """Coulomb's law for a hollow ball, inertia 2/3 m r^2: it grips, or slips all through."""
    arm = np.array([0.0, 0.0, -RADIUS])
    slip = (v + np.cross(w, arm)) * [1, 1, 0]
    normal = -(1 + e) * v[2]
    rub = -slip * min(0.4, mu * normal / np.linalg.norm(slip))
    return v + rub + [0, 0, normal], w + np.cross(arm, rub) / (2 / 3 * RADIUS**2)


def track(path, rng, spin, e=0.9, mu=0.25):
    """52 frames at `RATE`, two without a row, times to the millisecond, positions with 1 mm of noise; its spin."""
    x, v, w = np.array([0.1, 0.8, 0.2]), np.array([0.3, -7.0, -1.0]), np.array(spin, float)
    rows, fine = [x], 200
    for _ in range(51 * fine):
        after, speed = moved(x, v, w, 1 / RATE / fine)
        if after[2] < 0 and v[2] < 0:
            v, w = kicked(v, w, e, mu)
            after, speed = moved(x, v, w, 1 / RATE / fine)
        x, v = after, speed
        rows.append(x)
    frames = np.delete(np.arange(52), [9, 40])
    seen = np.array(rows)[::fine][frames] + 1e-3 * rng.normal(size=(50, 3)) + [0, 0, -0.005]
    return write_csv(path, "time [s],x [m],y [m],z [m]", np.round(frames / RATE, 3), *seen.T)


SPINS = (-120.0, 40.0, 60.0), (60.0, -90.0, -100.0), (0.0, 60.0, 120.0)


@pytest.fixture
def tracks(tmp_path, rng):
    return [track(tmp_path / f"{i}.csv", rng, spin) for i, spin in enumerate(SPINS)]


def test_the_flight_before_the_bounce_gives_a_start(tracks):
    study = read_study(pingpong.SCENE, tracks)
    for run, found, spin in zip(study.runs, study.start["spin0"], SPINS, strict=True):
        assert 26 <= run.times.size <= 31
        # 1 mm in 15 samples leaves 5 m/s^2 of the curve open, 200 rad/s; what is along the flight it cannot show.
        assert np.linalg.norm((found - spin)[[0, 2]]) < 3 * 200
        # Frames, not milliseconds: whole multiples of 1 / RATE.
        steps = np.diff(run.times) * RATE
        np.testing.assert_allclose(steps, np.round(steps), atol=1e-9)


def test_restitution_friction_and_unseen_spins_are_found(tracks, tmp_path):
    found = fitted("pingpong.toml", tracks, tmp_path / "out")
    # One draw of the noise: within four standard errors.
    for i, spin in enumerate(SPINS):
        for name, truth in (("restitution", 0.9), ("friction", 0.25)):
            entry = found[f"{name}[{i}]"]
            assert abs(entry["value"] - truth) < 4 * entry["stderr"]
            # Of a ball that grips no more is known of its friction than beforehand.
            assert entry["stderr"] <= 0.051
        for k, truth in enumerate(spin):
            entry = found[f"spin0[{i},{k}]"]
            assert abs(entry["value"] - truth) < 4 * entry["stderr"]
            # Half of what is known beforehand: of one bounce with a friction of its own no more is sure.
            assert entry["stderr"] < 100


def test_what_is_held_is_counted():
    interval = np.array([[[0.0, 2.0], [0.0, 2.0], [0.0, 2.0]]])
    beside = pingpong.Comparison(np.ones((1, 3)), interval, np.array([[1.0, 3.0, 1.0]]))
    assert beside.held == pytest.approx(2 / 3)
    assert beside.error == 2.0
    assert beside.told() == "67% held, median error 2 of 3 rad/s   (x 100%, 0 rad/s   y 0%, 2 rad/s   z 100%, 0 rad/s)"
    assert beside.of([0]).held == beside.held


def test_the_frame_of_the_spins_is_turned_and_not_mirrored(tmp_path):
    assert np.linalg.det(pingpong.CAMERA) == 1.0
    (tmp_path / "index.csv").write_text("track,x,y,z\n000,1,2,3\n")
    np.testing.assert_array_equal(pingpong.measured_spins(tmp_path)["000"], [1, 3, -2])
    names = [pingpong.listed_as(track) for track in ("054", "057", "096", "099", "105", "108", "213", "216")]
    assert names == ["054", "060", "099", None, None, "108", "213", None]


def test_what_tracks_share_has_the_error_of_their_scatter(rng):
    """Without errors of their own, mean and t s / sqrt(n); with large ones, no scatter is seen."""
    values = rng.normal(size=9)
    mean, half, scatter = pingpong.over_tracks(values, np.full(9, 1e-6))
    assert mean == pytest.approx(values.mean(), rel=1e-6)
    assert scatter == pytest.approx(values.std(ddof=1), rel=1e-6)
    assert half == pytest.approx(2.306 * scatter / 3, rel=1e-3)  # t of eight degrees of freedom
    assert pingpong.over_tracks(values, np.full(9, 100.0))[2] == 0.0


def test_measured_tracks_with_a_bounce(data):
    folder = measured(data, "pingpong_spin", "index.csv").parent
    names = [file.stem for file in pingpong.tracks_with_a_bounce(folder)]
    assert {"000", "006", "033", "108", "291"} <= set(names)
    # These fly on without one.
    assert not {"003", "042", "120"} & set(names)


def test_measured_tracks(data, tmp_path):
    files = [measured(data, "pingpong_spin", f"{name}.csv") for name in ("006", "066", "108")]
    found = fitted("pingpong.toml", files, tmp_path)
    for i in range(3):
        assert 0.8 < found[f"restitution[{i}]"]["value"] <= 1
        assert 0.15 < found[f"friction[{i}]"]["value"] < 0.4
    # Backspin, weak and strong: the ball in 006 and 108 is carried, as the dots on it say.
    assert found["spin0[0,0]"]["value"] < -20
    assert found["spin0[2,0]"]["value"] < -20
