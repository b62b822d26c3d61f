import jax
import numpy as np
import pytest

from diffcontact.scene.measurements import Measurements
from diffcontact.scene.preparation import Oscillation, Track
from diffcontact.scene.preparation.free_decay import angular_frequency

CURVATURE = 4.0  # a of y = a x^2 [1/m]


@pytest.fixture
def times():
    return np.linspace(0.0, 12.0, 1201)


def rolled(times, *, at_rest=0.0):
    """A swing that dies away in a parabola whose lowest point is at x = 0.02."""
    x = at_rest + 0.2 * np.exp(-0.25 * times) * np.cos(6.0 * times)
    return Measurements("roll.csv", {"x": x + 0.02, "y": CURVATURE * x**2 - 0.5}, "0")


def test_the_way_along_the_track_is_the_length_of_the_parabola(times):
    (run,) = Track("x", "y", 1.0, np.inf)(times, rolled(times))
    x = np.linspace(0.0, 0.2, 20001)
    # The polygon's length is off by h^2 times a curvature of 8/m: 1e-9.
    length = np.sum(np.hypot(np.diff(x), np.diff(CURVATURE * x**2)))
    np.testing.assert_allclose(run.values[0, 0], length, atol=1e-8)


def test_the_ball_is_drawn_where_it_was_filmed_and_lies_on_its_track(times):
    (run,) = Track("x", "y", 1.0, np.inf)(times, rolled(times))
    x = 0.2 * np.exp(-0.25 * times) * np.cos(6.0 * times)
    draw = jax.jit(lambda t, q: run.draw(t, q, {}))
    for row in (0, 25, 52, 400):
        ball, line = draw(times[row], run.values[row])
        # The parabola through all positions is exact to rounding.
        np.testing.assert_allclose(ball.centre, [x[row], CURVATURE * x[row] ** 2], atol=1e-9)
        away = np.linalg.norm(np.asarray(line.points) - np.asarray(ball.centre), axis=1).min()
        # The line's points are 8 mm apart, so that the nearest is up to 4 mm beside the foot.
        assert ball.radius <= away + 1e-12 <= np.hypot(ball.radius, 5e-3)


def test_the_run_begins_where_the_track_stays_flat(times):
    (run,) = Track("x", "y", 1.0, 0.4)(times, rolled(times))
    x = 0.2 * np.exp(-0.25 * times) * np.cos(6.0 * times)
    begin = times.searchsorted(run.times[0])
    assert np.all(np.abs(2 * CURVATURE * x[begin:]) <= 0.4)
    assert np.abs(2 * CURVATURE * x[begin - 1]) > 0.4
    assert run.notes["first sample"].endswith(f"{begin} before it left out")


def test_one_false_reading_does_not_move_the_beginning(times):
    measured = rolled(times)
    (expected,) = Track("x", "y", 1.0, 0.4)(times, measured)
    measured.columns["x"][900] += 0.2
    measured.columns["y"][900] += CURVATURE * 0.2**2
    (found,) = Track("x", "y", 1.0, 0.4)(times, measured)
    assert found.times[0] == expected.times[0]


def test_a_record_is_cut_into_stretches_that_start_by_themselves(times):
    y = 0.4 + (0.03 - 0.001 * times) * np.sin(9.0 * times)
    runs = Oscillation("y", 1e-3, 4.0)(times, Measurements("hang.csv", {"y": 1e3 * y}, "0"))
    # 12 s hold 17.2 periods.
    assert [run.part for run in runs] == [f"stretch {i} of 4" for i in (1, 2, 3, 4)]
    np.testing.assert_array_equal(np.concatenate([run.times for run in runs]), times)
    np.testing.assert_allclose(np.concatenate([run.values[:, 0] for run in runs]), y, rtol=1e-12)
    for run in runs:
        t = run.times[0]
        slope = 9.0 * (0.03 - 0.001 * t) * np.cos(9.0 * t) - 0.001 * np.sin(9.0 * t)
        # Starting values: to a hundredth of the amplitude, 0.03, and of the speed, 0.27, is far more than is needed.
        np.testing.assert_allclose(run.start["angular_frequency"], 9.0, rtol=2e-3)
        np.testing.assert_allclose(run.start["rest"], 0.4, atol=3e-4)
        np.testing.assert_allclose(run.start["q0"], y[times.searchsorted(t)], atol=3e-4)
        np.testing.assert_allclose(run.start["u0"], slope, atol=2.7e-3)


def test_the_frequency_is_found_in_noise_and_with_samples_missing(times, rng):
    y = np.exp(-0.1 * times) * np.cos(6.2 * times) + 0.1 * rng.normal(size=times.size)
    keep = rng.random(times.size) > 0.3
    found = angular_frequency(times[keep], y[keep])
    # 840 samples of 0.1 over 12 s: sigma(omega) = sqrt(24 / 840) 0.1 / (amplitude of about 0.5) / 12 s = 3e-3.
    assert abs(found - 6.2) < 0.012


@pytest.mark.parametrize(
    ("prepare", "columns", "message"),
    [
        (
            Track("x", "y", 1.0, 0.3),
            {"x": np.linspace(-1, 1, 50), "y": -(np.linspace(-1, 1, 50) ** 2)},
            "a track that opens",
        ),
        (Track("x", "y", 1.0, 0.3), {"x": np.full(50, np.nan), "y": np.zeros(50)}, "0 positions in the track"),
        (Track("x", "y", 1.0, 1e-6), {"x": np.sin(np.arange(50)), "y": np.sin(np.arange(50)) ** 2}, "0 samples that"),
        (Oscillation("y", 1.0, 10.0), {"y": np.full(50, np.nan)}, "column 'y' is empty"),
        (Oscillation("y", 1.0, 10.0), {"y": np.ones(50)}, "expected an oscillation"),
        (Oscillation("y", 1.0, 10.0), {"y": np.sin(0.1 * np.arange(50))}, "1.6 half periods, expected at least 3"),
    ],
)
def test_what_does_not_oscillate_is_refused(prepare, columns, message):
    with pytest.raises(ValueError, match=message) as caught:
        prepare(np.arange(50.0), Measurements("run.csv", columns, "0"))
    assert str(caught.value).startswith("run.csv")
