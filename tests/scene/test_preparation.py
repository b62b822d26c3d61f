import numpy as np
import pytest

from diffcontact.scene.measurements import Measurements
from diffcontact.scene.preparation import CommonLine, Coordinates
from diffcontact.scene.preparation.common_line import knee

FIRST, SECOND = ("x1", "y1", "z1"), ("x2", "y2", "z2")


def approach(times, *, at=1.3, distance=0.05, before=-0.16, after=0.12):
    """Two positions on a line whose distance has a knee; their midpoint drifts."""
    gap = distance + np.where(times < at, before, after) * (times - at)
    middle = 0.3 - 0.05 * times
    return np.stack([middle - gap / 2, middle + gap / 2], axis=1)


def measured(times, along, direction, lost=()):
    points = 1e3 * (along[:, :, None] * direction + np.array([0.2, -0.1, 0.4]))  # mm
    columns = {"t": times}
    for marker, names in enumerate((FIRST, SECOND)):
        for axis, name in enumerate(names):
            columns[name] = points[:, marker, axis].copy()
            for row in lost:
                columns[name][row] = np.nan
    return Measurements("run.csv", columns, "0")


@pytest.fixture
def times():
    return np.linspace(0.0, 3.0, 301)


@pytest.mark.parametrize("direction", [(0.6, 0.8, 0.0), (-0.6, -0.8, 0.0), (-0.48, 0.64, 0.6)])
def test_the_common_line_keeps_distances_and_points_from_first_to_second(times, direction):
    along = approach(times)
    (run,) = CommonLine(FIRST, SECOND, 1e-3, 0.0)(times, measured(times, along, np.array(direction)))
    # Rounding of an SVD of positions of order one.
    np.testing.assert_allclose(np.diff(run.values, axis=1), np.diff(along, axis=1), atol=1e-13)
    np.testing.assert_allclose(np.diff(run.values, axis=0), np.diff(along, axis=0), atol=1e-13)


def test_starting_values_come_from_the_data(times, rng):
    along = approach(times)
    noisy = along + 1e-5 * rng.normal(size=along.shape)
    (run,) = CommonLine(FIRST, SECOND, 1e-3, 0.0)(times, measured(times, noisy, np.array([1.0, 0.0, 0.0])))
    # 1e-5 m of noise in a hundred samples over a second: 1e-5 is ten standard errors of a position, 1e-4 of a slope.
    np.testing.assert_allclose(run.start["q0"], along[0] + 0.2, atol=1e-5)
    np.testing.assert_allclose(run.start["u0"], [-0.05 + 0.08, -0.05 - 0.08], atol=1e-4)
    np.testing.assert_allclose(run.start["distance"], 0.05, atol=3e-5)
    np.testing.assert_allclose(run.start["restitution"], 0.12 / 0.16, atol=2e-3)


def test_samples_about_the_impact_are_left_out(times):
    (run,) = CommonLine(FIRST, SECOND, 1e-3, 0.105)(times, measured(times, approach(times), np.array([1.0, 0.0, 0.0])))
    np.testing.assert_array_equal(np.isnan(run.values[:, 0]), np.abs(times - 1.3) < 0.105)


def test_samples_far_from_the_impact_are_left_out(times):
    line = CommonLine(FIRST, SECOND, 1e-3, 0.0, around_contact=0.505)
    (run,) = line(times, measured(times, approach(times), np.array([1.0, 0.0, 0.0])))
    assert (run.times[0], run.times[-1]) == (times[80], times[180])
    # The run begins there, and so does its state.
    np.testing.assert_allclose(run.start["q0"], run.values[0], atol=1e-9)


def test_lost_markers_stay_lost_and_rows_without_any_at_the_ends_go(times):
    lost = [0, 1, 2, 50, 300]
    (run,) = CommonLine(FIRST, SECOND, 1e-3, 0.0)(
        times, measured(times, approach(times), np.array([0.0, 1.0, 0.0]), lost=lost)
    )
    assert run.times[0] == times[3]
    assert run.times[-1] == times[299]
    assert np.flatnonzero(np.isnan(run.values[:, 1])).tolist() == [47]


def test_without_an_impact_there_is_nothing_to_prepare(times):
    apart = approach(times, before=0.1, after=0.1)
    with pytest.raises(ValueError, match=r"run\.csv: the distance changes at .* expected an approach and an impact"):
        CommonLine(FIRST, SECOND, 1e-3, 0.0)(times, measured(times, apart, np.array([1.0, 0.0, 0.0])))


def test_too_few_samples_are_refused(times):
    lost = range(5, 301)
    with pytest.raises(ValueError, match="both markers are seen in 5 rows, expected at least 8"):
        CommonLine(FIRST, SECOND, 1e-3, 0.0)(
            times, measured(times, approach(times), np.array([1.0, 0.0, 0.0]), lost=lost)
        )


@pytest.mark.parametrize("after", [0.12, 0.0, -0.05])
def test_the_knee_is_found_whether_the_bodies_part_or_stay_together(times, rng, after):
    y = np.diff(approach(times, after=after), axis=1)[:, 0] + 1e-5 * rng.normal(size=times.size)
    # Two lines of slopes that differ by 0.1 m/s and more, each known to a few 1e-6 m: they meet within 1e-4 s.
    assert abs(knee(times, y).time - 1.3) < 3e-4


def test_the_knee_is_found_on_lines_that_bend():
    t = np.linspace(0.0, 5.0, 1001)
    bent = 0.05 + 0.16 * np.abs(t - 0.9) - 0.008 * (t - 0.9) ** 2 * (t > 0.9)
    # Without looking nearer, the longer branch's bend would pull it 20 ms away.
    assert abs(knee(t, bent).time - 0.9) < 5e-3


def test_coordinates_take_columns_as_they_are(times):
    columns = {"x": 1e3 * (1.0 + 0.5 * times), "y": np.where(times < 0.5, np.nan, 2.0)}
    (run,) = Coordinates(("x", "y"), 1e-3, 10)(times, Measurements("run.csv", columns, "0"))
    np.testing.assert_allclose(run.start["q0"], [1.0, 2e-3], rtol=1e-12)
    np.testing.assert_allclose(run.start["u0"], [0.5, 0.0], atol=1e-12)
    with pytest.raises(ValueError, match=r"run\.csv: column 'x' has fewer than 2 numbers"):
        Coordinates(("x",), 1.0, 10)(times, Measurements("run.csv", {"x": np.full(301, np.nan)}, "0"))
