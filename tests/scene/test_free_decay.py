import jax
import numpy as np
import pytest
from preparing import prepared

from diffcontact.scene.preparation.free_decay import angular_frequency

CURVATURE = 4.0  # a of y = a x^2 [1/m]


TIMES = np.linspace(0.0, 12.0, 1201)
X = 0.2 * np.exp(-0.25 * TIMES) * np.cos(6.0 * TIMES)
# A swing that dies away in a parabola whose lowest point is at x = 0.02.
ROLLED = {"x": X + 0.02, "y": CURVATURE * X**2 - 0.5}
TRACK = {"kind": "track", "along": "x", "height": "y"}
OSCILLATION = {"kind": "oscillation", "column": "y"}


def runs(table, columns=ROLLED, times=TIMES):
    return prepared({"kind": "particle line"}, table, times, columns)


def test_the_way_along_the_track_is_the_length_of_the_parabola():
    (run,) = runs(TRACK | {"steepest": 100})
    x = np.linspace(0.0, 0.2, 20001)
    # The polygon's length is off by h^2 times a curvature of 8/m: 1e-9.
    length = np.sum(np.hypot(np.diff(x), np.diff(CURVATURE * x**2)))
    np.testing.assert_allclose(run.values[0, 0], length, atol=1e-8)


def test_the_ball_is_drawn_where_it_was_filmed_and_lies_on_its_track():
    (run,) = runs(TRACK | {"steepest": 100})
    draw = jax.jit(lambda t, q: run.draw(t, q, {}))
    for row in (0, 25, 52, 400):
        ball, line = draw(TIMES[row], run.values[row])
        # The parabola through all positions is exact to rounding.
        np.testing.assert_allclose(ball.centre, [X[row], CURVATURE * X[row] ** 2], atol=1e-9)
        away = np.linalg.norm(np.asarray(line.points) - np.asarray(ball.centre), axis=1).min()
        # The line's points are 8 mm apart, so that the nearest is up to 4 mm beside the foot.
        assert ball.radius <= away + 1e-12 <= np.hypot(ball.radius, 5e-3)


def test_the_run_begins_where_the_track_stays_flat():
    (run,) = runs(TRACK | {"steepest": 0.4})
    begin = TIMES.searchsorted(run.times[0])
    assert np.all(np.abs(2 * CURVATURE * X[begin:]) <= 0.4)
    assert np.abs(2 * CURVATURE * X[begin - 1]) > 0.4
    assert run.notes["first sample"].endswith(f"{begin} before it left out")


def test_one_false_reading_does_not_move_the_beginning():
    false = 0.2 * (np.arange(TIMES.size) == 900)
    wrong = {"x": ROLLED["x"] + false, "y": ROLLED["y"] + CURVATURE * false**2}
    (expected,), (found,) = (runs(TRACK | {"steepest": 0.4}, columns) for columns in (ROLLED, wrong))
    assert found.times[0] == expected.times[0]


def test_a_record_is_cut_into_stretches_that_start_by_themselves():
    y = 0.4 + (0.03 - 0.001 * TIMES) * np.sin(9.0 * TIMES)
    stretches = runs(OSCILLATION | {"periods": 4, "unit": "mm"}, {"y": 1e3 * y})
    # 12 s hold 17.2 periods.
    assert [run.part for run in stretches] == [f"stretch {i} of 4" for i in (1, 2, 3, 4)]
    np.testing.assert_array_equal(np.concatenate([run.times for run in stretches]), TIMES)
    np.testing.assert_allclose(np.concatenate([run.values[:, 0] for run in stretches]), y, rtol=1e-12)
    for run in stretches:
        t = run.times[0]
        slope = 9.0 * (0.03 - 0.001 * t) * np.cos(9.0 * t) - 0.001 * np.sin(9.0 * t)
        # Starting values: to a hundredth of the amplitude, 0.03, and of the speed, 0.27, is far more than is needed.
        np.testing.assert_allclose(run.start["angular_frequency"], 9.0, rtol=2e-3)
        np.testing.assert_allclose(run.start["rest"], 0.4, atol=3e-4)
        np.testing.assert_allclose(run.start["q0"], y[TIMES.searchsorted(t)], atol=3e-4)
        np.testing.assert_allclose(run.start["u0"], slope, atol=2.7e-3)


def test_the_frequency_is_found_in_noise_and_with_samples_missing(rng):
    y = np.exp(-0.1 * TIMES) * np.cos(6.2 * TIMES) + 0.1 * rng.normal(size=TIMES.size)
    keep = rng.random(TIMES.size) > 0.3
    found = angular_frequency(TIMES[keep], y[keep])
    # 840 samples of 0.1 over 12 s: sigma(omega) = sqrt(24 / 840) 0.1 / (amplitude of about 0.5) / 12 s = 3e-3.
    assert abs(found - 6.2) < 0.012


FIFTY, EVEN = np.linspace(-1, 1, 50), np.arange(50.0)


@pytest.mark.parametrize(
    ("table", "columns", "message"),
    [
        (TRACK, {"x": FIFTY, "y": -(FIFTY**2)}, "a track that opens"),
        (TRACK, {"x": np.full(50, np.nan), "y": np.zeros(50)}, "0 positions in the track"),
        (TRACK | {"steepest": 1e-6}, {"x": np.sin(EVEN), "y": np.sin(EVEN) ** 2}, "0 samples that"),
        (OSCILLATION, {"y": np.full(50, np.nan)}, "column 'y' is empty"),
        (OSCILLATION, {"y": np.ones(50)}, "expected an oscillation"),
        (OSCILLATION, {"y": np.sin(0.1 * EVEN)}, "1.6 half periods, expected at least 3"),
    ],
)
def test_what_does_not_oscillate_is_refused(table, columns, message):
    with pytest.raises(ValueError, match=message) as caught:
        runs(table, columns, EVEN)
    assert str(caught.value).startswith("run.csv: ")
