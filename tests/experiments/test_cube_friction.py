"""Friction of a cube from its track alone: on tracks that were made by hand."""

import cube_friction
import numpy as np
import pytest
from fitting import measured

from diffcontact.systems import poses

TIMES = np.arange(40) / cube_friction.RATE


def track(x, y, z, quaternion=(1.0, 0.0, 0.0, 0.0)):
    return np.column_stack([np.broadcast_to(part, TIMES.shape) for part in (x, y, z, *quaternion)])


def test_a_cube_that_slides_on_its_face_has_the_friction_that_stops_it():
    """A parabola, of which differences are exact but for rounding: 1e-9 of 1e-16 m over the square of the time."""
    v, mu = np.array([0.6, -0.3]), 0.2
    way = TIMES - mu * cube_friction.GRAVITY * TIMES**2 / 2 / np.linalg.norm(v)
    (found,) = cube_friction.slides(track(v[0] * way, v[1] * way, cube_friction.HALF_SIDE))
    assert found == pytest.approx(mu, abs=1e-9)
    # In the air nothing slides.
    assert cube_friction.slides(track(v[0] * way, v[1] * way, 0.1)) == []


@pytest.mark.parametrize("spin", [0.0, 60.0])
def test_an_impact_takes_mu_of_what_it_gives(spin):
    """A free flight whose velocity jumps by (-mu, 0, 1) v_N: exact. A corner that turns round has slipped both ways."""
    mu, v_n, hit = 0.15, 1.2, 19.5 / cube_friction.RATE
    t = TIMES - hit
    x = 1.5 * t - mu * v_n * np.maximum(t, 0)
    z = 0.2 - 0.8 * t + v_n * np.maximum(t, 0) - cube_friction.GRAVITY / 2 * t**2
    # About y, turned on an edge at the impact; the corners then move along x by spin times the height.
    angle = np.pi / 4 + spin * np.maximum(t, 0)
    found = cube_friction.impacts(track(x, 0.0, z, (np.cos(angle / 2), 0.0, np.sin(angle / 2), 0.0)))
    if spin:
        assert found == []
        return
    ((ratio, push, slip),) = found
    assert (ratio, push) == pytest.approx((mu, v_n), abs=1e-9)
    assert slip == pytest.approx(1.5 - mu * v_n / 2, abs=1e-9)


def test_corners_are_turned_by_the_quaternion(rng):
    quaternion = rng.normal(size=4)
    quaternion /= np.linalg.norm(quaternion)
    turned = cube_friction.corners(np.array([[1.0, 2.0, 3.0, *quaternion]]))[0] - [1.0, 2.0, 3.0]
    exact = poses.placed(cube_friction._CORNERS, np.array([0.0, 0.0, 0.0, *quaternion]))
    np.testing.assert_allclose(turned, exact, atol=1e-14)  # rounding of the places, of a few metres


def test_what_falls_with_what(rng):
    x, y = rng.normal(size=(2, 30))
    found, error = cube_friction.falls(0.2 - 0.1 * x + 0.3 * y, x, y)
    np.testing.assert_allclose(found, [0.2, -0.1, 0.3], atol=1e-12)
    assert np.all(error < 1e-12)


def test_without_data_it_says_so(tmp_path, capsys):
    assert cube_friction.main([str(tmp_path / "absent.npz")]) is None
    assert "absent: nothing to do" in capsys.readouterr().out


def test_measured_slides_and_impacts_do_not_agree(data):
    """The friction of slides is that of the hand, 0.211 to 0.229; hard impacts have less."""
    found = cube_friction.main([str(measured(data, "contactnets_cube", "tosses.npz"))])
    assert found is not None
    sliding, hit = found
    assert 0.21 < np.median(sliding) < 0.235
    hard = hit[hit[:, 1] > 0.9]
    assert np.median(hard[:, 0]) < 0.18
