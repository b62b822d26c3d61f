"""Two markers, coordinates, slides, oscillations and rebounds: motions in closed form, and their runs."""

import jax
import numpy as np
import pytest
from preparing import preparation, prepared
from tables import cases

from diffcontact.scene.keys import Table
from diffcontact.scene.kinds import KINDS
from diffcontact.scene.preparation.knee import knee
from diffcontact.scene.preparation.lines import angular_frequency

TIMES = np.linspace(0.0, 3.0, 301)
NAMES = ("x1", "y1", "z1", "x2", "y2", "z2")
ALONG_X = np.array([1.0, 0.0, 0.0])


def approach(at=1.3, distance=0.05, before=-0.16, after=0.12):
    """Two positions on a line whose distance has a knee; their midpoint drifts."""
    gap = distance + np.where(at > TIMES, before, after) * (TIMES - at)
    middle = 0.3 - 0.05 * TIMES
    return np.stack([middle - gap / 2, middle + gap / 2], axis=1)


def two_markers(along, direction=ALONG_X, lost=(), **keys):
    """The run of two markers, in mm, that are lost in some rows."""
    points = 1e3 * (along[:, :, None] * np.asarray(direction) + np.array([0.2, -0.1, 0.4]))
    points[list(lost)] = np.nan
    columns = dict(zip(NAMES, points.reshape(-1, 6).T, strict=True))
    keys = {key: {"value": value, "unit": "s"} for key, value in keys.items()}
    table = {"kind": "common line", "first": list(NAMES[:3]), "second": list(NAMES[3:]), "unit": "mm", **keys}
    (run,) = prepared({"kind": "carts"}, table, TIMES, columns)
    return run


@pytest.mark.parametrize("direction", [(0.6, 0.8, 0.0), (-0.6, -0.8, 0.0), (-0.48, 0.64, 0.6)])
def test_the_common_line_keeps_distances_and_points_from_first_to_second(direction):
    along, run = approach(), two_markers(approach(), direction)
    # Rounding of an SVD of positions of order one.
    np.testing.assert_allclose(np.diff(run.values, axis=1), np.diff(along, axis=1), atol=1e-13)
    np.testing.assert_allclose(np.diff(run.values, axis=0), np.diff(along, axis=0), atol=1e-13)


def test_starting_values_come_from_the_data(rng):
    along = approach()
    run = two_markers(along + 1e-5 * rng.normal(size=along.shape))
    # 1e-5 m of noise in a hundred samples over a second: 1e-5 is ten standard errors of a position, 1e-4 of a slope.
    np.testing.assert_allclose(run.start["q0"], along[0] + 0.2, atol=1e-5)
    np.testing.assert_allclose(run.start["u0"], [-0.05 + 0.08, -0.05 - 0.08], atol=1e-4)
    np.testing.assert_allclose(run.start["distance"], 0.05, atol=3e-5)
    np.testing.assert_allclose(run.start["restitution"], 0.12 / 0.16, atol=2e-3)


def test_samples_that_are_near_the_impact_or_far_from_it_or_lost_are_left_out():
    near = two_markers(approach(), exclude_contact=0.105)
    np.testing.assert_array_equal(np.isnan(near.values[:, 0]), np.abs(TIMES - 1.3) < 0.105)
    around = two_markers(approach(), around_contact=0.505)
    assert (around.times[0], around.times[-1]) == (TIMES[80], TIMES[180])
    # The run begins there, and so does its state.
    np.testing.assert_allclose(around.start["q0"], around.values[0], atol=1e-9)
    lost = two_markers(approach(), lost=[0, 1, 2, 50, 300])
    assert (lost.times[0], lost.times[-1]) == (TIMES[3], TIMES[299])
    assert np.flatnonzero(np.isnan(lost.values[:, 1])).tolist() == [47]


@pytest.mark.parametrize("after", [0.12, 0.0, -0.05])
def test_the_knee_is_found_whether_the_bodies_part_or_stay_together(rng, after):
    y = np.diff(approach(after=after), axis=1)[:, 0] + 1e-5 * rng.normal(size=TIMES.size)
    # Two lines of slopes that differ by 0.1 m/s and more, each known to a few 1e-6 m: they meet within 1e-4 s.
    assert abs(knee(TIMES, y).time - 1.3) < 3e-4


def test_the_knee_is_found_on_lines_that_bend():
    t = np.linspace(0.0, 5.0, 1001)
    bent = 0.05 + 0.16 * np.abs(t - 0.9) - 0.008 * (t - 0.9) ** 2 * (t > 0.9)
    # Without looking nearer, the longer branch's bend would pull it 20 ms away.
    assert abs(knee(t, bent).time - 0.9) < 5e-3


def test_coordinates_take_columns_as_they_are():
    system = {"kind": "balls", "count": 1, "dimension": 2}
    columns = {"x": 1e3 * (1.0 + 0.5 * TIMES), "y": np.where(TIMES < 0.5, np.nan, 2.0)}
    table = {"kind": "coordinates", "columns": ["x", "y"], "unit": "mm"}
    (run,) = prepared(system, table, TIMES, columns)
    np.testing.assert_allclose(run.start["q0"], [1.0, 2e-3], rtol=1e-12)
    np.testing.assert_allclose(run.start["u0"], [0.5, 0.0], atol=1e-12)
    with pytest.raises(ValueError, match=r"run\.csv: column 'x' has fewer than 2 numbers"):
        prepared(system, table, TIMES, columns | {"x": np.full(301, np.nan)})


CLOCK = np.arange(160) / 100


def test_samples_about_the_impact_of_two_discs_are_left_out():
    """They meet at 1.3 s, not centrally: their distance falls to 0.05 m and grows again."""
    since = TIMES - 1.3
    columns = dict(
        zip("abcd", 1e3 * np.stack([0 * since, 0 * since, 0.05 + 0.2 * abs(since), 0.02 * since]), strict=True)
    )
    table = {"kind": "coordinates", "columns": list("abcd"), "unit": "mm"}
    table |= {"exclude_contact": {"value": 0.055, "unit": "s"}}
    (run,) = prepared({"kind": "balls", "count": 2, "dimension": 2}, table, TIMES, columns)
    np.testing.assert_array_equal(np.isnan(run.values), np.tile((np.abs(since) < 0.055)[:, None], 4))
    with pytest.raises(ValueError, match="exclude_contact: of a system without two balls, expected none"):
        prepared({"kind": "balls", "count": 1, "dimension": 2}, table, TIMES, columns)
    # Discs that never meet lose no sample.
    apart = columns | {"c": 500 + 100 * since}
    (run,) = prepared({"kind": "balls", "count": 2, "dimension": 2}, table, TIMES, apart)
    assert np.all(np.isfinite(run.values))


def slides(speed=2.0, slower=2.5, begin=0.2):
    """The way of a block that is pushed evenly until `begin`, then slides, and rests."""
    since = np.clip(CLOCK - begin, 0.0, speed / slower)
    pushed = np.clip(CLOCK, 0.0, begin)
    return speed / begin * pushed**2 / 2 + speed * since - slower * since**2 / 2


def slid(*columns):
    values = dict(zip("xyz", (1e3 * column for column in columns), strict=False))
    table = {"kind": "slide", "columns": list(values), "unit": "mm"}
    (run,) = prepared({"kind": "particle line"}, table, CLOCK, values)
    return run


@pytest.mark.parametrize("way", [1.0, -1.0])
@pytest.mark.parametrize("slope", [(1.0,), (0.6, 0.8), (0.48, 0.6, 0.64)])
def test_a_slide_begins_where_the_push_ends(rng, way, slope):
    way = way * slides()
    run = slid(*(0.3 + part * way + 2e-4 * rng.normal(size=160) for part in slope))
    # Speeds are of five samples: the run begins within two of the end of the push, at 0.2 s.
    assert 0.18 <= run.times[0] <= 0.24
    assert run.times[-1] == CLOCK[-1]
    # A parabola through 80 samples of 0.2 mm: half a per cent of its curvature, and what is left of the push.
    assert run.start["deceleration"] == pytest.approx(2.5, rel=0.05)
    assert run.start["u0"][0] == pytest.approx(2.0, rel=0.05)
    assert np.ptp(run.values) == pytest.approx(0.8, rel=0.06)


def test_a_slide_ends_where_the_block_is_moved_again():
    assert slid(slides() + np.where(CLOCK > 1.3, CLOCK - 1.3, 0.0)).times[-1] == pytest.approx(1.28, abs=0.03)


@cases(
    "motion message",
    """
    back | it turns round where it was at rest
    swing | it turns round where it was at rest
    faster | 1 samples from where it is fastest to its rest, expected at least 10
    stop | it is not slowed down evenly, expected a block that slides to rest
    circle | the positions lie on no straight line
    few | 5 positions, expected at least 10
    """,
)
def test_what_does_not_slide_is_told_why(motion, message):
    columns = {
        "back": [slides() + np.where(CLOCK > 1.3, -(CLOCK - 1.3), 0.0)],
        "swing": [np.sin(1.5 * CLOCK)],
        "faster": [0.3 * CLOCK**2],
        "stop": [np.minimum(CLOCK, 0.8)],
        "circle": [np.sin(3 * CLOCK), np.cos(3 * CLOCK)],
        "few": [np.where(np.arange(160) < 5, slides(), np.nan)],
    }[motion]
    with pytest.raises(ValueError, match=message):
        slid(*columns)


CURVATURE = 4.0  # a of y = a x^2 [1/m]


SECONDS = np.linspace(0.0, 12.0, 1201)
X = 0.2 * np.exp(-0.25 * SECONDS) * np.cos(6.0 * SECONDS)
# A swing that dies away in a parabola whose lowest point is at x = 0.02.
ROLLED = {"x": X + 0.02, "y": CURVATURE * X**2 - 0.5}
TRACK = {"kind": "track", "along": "x", "height": "y"}
OSCILLATION = {"kind": "oscillation", "column": "y"}


def decays(table, columns=ROLLED, times=SECONDS):
    return prepared({"kind": "particle line"}, table, times, columns)


def test_the_way_along_the_track_is_the_length_of_the_parabola():
    (run,) = decays(TRACK | {"steepest": 100})
    x = np.linspace(0.0, 0.2, 20001)
    # The polygon's length is off by h^2 times a curvature of 8/m: 1e-9.
    length = np.sum(np.hypot(np.diff(x), np.diff(CURVATURE * x**2)))
    np.testing.assert_allclose(run.values[0, 0], length, atol=1e-8)


def test_the_ball_is_drawn_where_it_was_filmed_and_lies_on_its_track():
    (run,) = decays(TRACK | {"steepest": 100})
    draw = jax.jit(lambda t, q: run.draw(t, q, {}))
    for row in (0, 25, 52, 400):
        ball, line = draw(SECONDS[row], run.values[row])
        # The parabola through all positions is exact to rounding.
        np.testing.assert_allclose(ball.centre, [X[row], CURVATURE * X[row] ** 2], atol=1e-9)
        away = np.linalg.norm(np.asarray(line.points) - np.asarray(ball.centre), axis=1).min()
        # The line's points are 8 mm apart, so that the nearest is up to 4 mm beside the foot.
        assert ball.radius <= away + 1e-12 <= np.hypot(ball.radius, 5e-3)


def test_the_run_begins_where_the_track_stays_flat():
    (run,) = decays(TRACK | {"steepest": 0.4})
    begin = SECONDS.searchsorted(run.times[0])
    assert np.all(np.abs(2 * CURVATURE * X[begin:]) <= 0.4)
    assert np.abs(2 * CURVATURE * X[begin - 1]) > 0.4
    assert run.notes["first sample"].endswith(f"{begin} before it left out")


def test_one_false_reading_does_not_move_the_beginning():
    false = 0.2 * (np.arange(SECONDS.size) == 900)
    wrong = {"x": ROLLED["x"] + false, "y": ROLLED["y"] + CURVATURE * false**2}
    (expected,), (found,) = (decays(TRACK | {"steepest": 0.4}, columns) for columns in (ROLLED, wrong))
    assert found.times[0] == expected.times[0]


def test_a_record_is_cut_into_stretches_that_start_by_themselves():
    y = 0.4 + (0.03 - 0.001 * SECONDS) * np.sin(9.0 * SECONDS)
    stretches = decays(OSCILLATION | {"periods": 4, "unit": "mm"}, {"y": 1e3 * y})
    # 12 s hold 17.2 periods.
    assert [run.part for run in stretches] == [f"stretch {i} of 4" for i in (1, 2, 3, 4)]
    np.testing.assert_array_equal(np.concatenate([run.times for run in stretches]), SECONDS)
    np.testing.assert_allclose(np.concatenate([run.values[:, 0] for run in stretches]), y, rtol=1e-12)
    for run in stretches:
        t = run.times[0]
        slope = 9.0 * (0.03 - 0.001 * t) * np.cos(9.0 * t) - 0.001 * np.sin(9.0 * t)
        # Starting values: to a hundredth of the amplitude, 0.03, and of the speed, 0.27, is far more than is needed.
        np.testing.assert_allclose(run.start["angular_frequency"], 9.0, rtol=2e-3)
        np.testing.assert_allclose(run.start["rest"], 0.4, atol=3e-4)
        np.testing.assert_allclose(run.start["q0"], y[SECONDS.searchsorted(t)], atol=3e-4)
        np.testing.assert_allclose(run.start["u0"], slope, atol=2.7e-3)


def test_the_frequency_is_found_in_noise_and_with_samples_missing(rng):
    y = np.exp(-0.1 * SECONDS) * np.cos(6.2 * SECONDS) + 0.1 * rng.normal(size=SECONDS.size)
    keep = rng.random(SECONDS.size) > 0.3
    found = angular_frequency(SECONDS[keep], y[keep])
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
        decays(table, columns, EVEN)
    assert str(caught.value).startswith("run.csv: ")


GRAVITY = np.array([0.0, 0.0, -9.81])
BALL = {"kind": "balls", "count": 1, "dimension": 3, "air": True}
SPIN = BALL | {"spin": True}


def bounces(count=2, spacing=0.01):
    """Samples of a ball that falls from 0.4 m while it flies at 2 m/s along x, and leaves each bounce with 0.9."""
    times, rows, height, speed = np.arange(0.0, 1.6, spacing), [], 0.4, 0.0
    for t in times:
        rows.append([2 * t, 0.1, height])
        height, speed = height + speed * spacing - 0.5 * 9.81 * spacing**2, speed - 9.81 * spacing
        if height < 0 and speed < 0 and count:
            count, height, speed = count - 1, -height, -0.9 * speed
    return times, np.array(rows)


def rebounds(times, rows, around=20, **keys):
    limits = {key: {"value": 1e3 * keys.pop(key), "unit": "mm"} for key in ("near", "straight") if key in keys}
    table = {"kind": "rebound", "columns": list("xyz"), "up": "z", "unit": "mm", "around": around, **limits, **keys}
    return prepared(SPIN, table, times, dict(zip("xyz", 1e3 * rows.T, strict=True)), "track.csv")


def test_the_first_bounce_is_found_and_the_run_ends_before_the_second():
    times, rows = bounces()
    (first, second) = (int(np.argmin(rows[:50, 2])), 50 + int(np.argmin(rows[50:120, 2])))
    (run,) = rebounds(times, rows, around=1000)
    assert run.times[0] == 0.0
    assert run.times[-1] == times[second - 2]
    (short,) = rebounds(times, rows)
    np.testing.assert_array_equal(short.times, times[first - 20 : first + 21])
    # Millimetres and back: a rounding.
    np.testing.assert_allclose(short.values, rows[first - 20 : first + 21], rtol=1e-14)
    assert "of 160 samples are used" in short.notes["bounce"]


def test_each_bounce_near_the_ground_is_a_run_of_its_own():
    times, rows = (part[:110] for part in bounces(count=2))
    # What is thrown up by hand at 0.3 m comes down no further, and no lowest sample is near.
    hit = np.column_stack([2 * times, 0 * times, 0.3 + np.abs(times - 0.5)])
    clock, rows = 0.01 * np.arange(2 * times.size), np.concatenate([rows, hit])
    near = rebounds(clock, rows, each=True, near=0.1)
    assert len(near) == 2
    # One more, and one where the records meet.
    assert len(rebounds(clock, rows, each=True)) >= 3
    assert near[0].times[-1] < near[1].times[-1]
    assert len({run.part for run in near}) == 2


def test_flights_have_to_be_straight_where_that_is_asked():
    times = 0.01 * np.arange(60)
    straight = np.column_stack([times, 0 * times, np.abs(times - 0.3)])
    bent = straight + np.column_stack([0 * times, np.where(times > 0.4, (times - 0.4), 0), 0 * times])
    assert len(rebounds(times, straight, straight=1e-3)) == 1
    with pytest.raises(ValueError, match=r"off straight lines by preparation\.straight = 0\.001, expected a bounce"):
        rebounds(times, bent, straight=1e-3)


def test_the_flight_before_it_gives_the_start_through_lost_samples():
    times, rows = bounces()
    rows[7] = np.nan
    (run,) = rebounds(times, rows)
    # Exact: the flight is a parabola, sampled without noise.
    begin = int(np.flatnonzero(times == run.times[0])[0])
    np.testing.assert_allclose(run.start["q0"], [2 * times[begin], 0.1, rows[begin, 2]], atol=1e-12)
    np.testing.assert_allclose(run.start["u0"], [2.0, 0.0, -9.81 * times[begin]], atol=1e-10)
    np.testing.assert_allclose(run.start["flight"][1], GRAVITY, atol=1e-8)


def test_a_flight_without_a_bounce_is_refused():
    with pytest.raises(ValueError, match=r"^track\.csv: column 'z' has no lowest sample .* expected a bounce$"):
        rebounds(*bounces(count=0))


def test_the_curve_of_a_flight_gives_the_spin_that_bends_it(rng):
    """w x v is known, so the part of w across v is: the least spin that bends the flight as much."""
    velocity, spin = rng.normal(size=3), 100 * rng.normal(size=3)
    known = {"gravity": GRAVITY, "drag": np.array(0.15), "magnus": np.array(0.003)}
    pull = -0.15 * np.linalg.norm(velocity) * velocity + 0.003 * np.cross(spin, velocity)
    ready = KINDS["balls"](Table(SPIN, "s"))
    found = ready.derived["spin0"].value(np.stack([velocity, GRAVITY + pull]), known)
    along = velocity / np.linalg.norm(velocity)
    np.testing.assert_allclose(found, spin - (spin @ along) * along, rtol=1e-10)


def test_what_the_air_does_is_asked_for_where_it_is_there():
    spinning, ball, still = (KINDS["balls"](Table(one, "s")).quantities for one in (SPIN, BALL, BALL | {"air": False}))
    assert {"drag", "magnus", "magnus_saturation"} <= spinning.keys()
    assert not {"magnus", "magnus_saturation"} & ball.keys()
    assert "drag" not in still


FILM, TABLE = {"kind": "bouncing ball"}, {"kind": "bounces", "column": "y", "unit": "px"}
REBOUND = {"kind": "rebound", "columns": ["x", "y", "z"], "up": "z"}
LATE = {"value": 1, "unit": "s"}
HEARD = FILM | {"length": "m", "time": "s"}


@pytest.mark.parametrize(
    ("system", "table", "message"),
    [
        (SPIN, REBOUND | {"up": "w"}, "preparation.up: 'w', expected one of the columns 'x', 'y', 'z'"),
        (SPIN, REBOUND | {"around": 3}, "preparation.around: 3, expected at least 8"),
        (SPIN, REBOUND | {"arround": 30}, "preparation.arround: unknown key; did you mean 'around'?"),
        (FILM, TABLE | {"axes": "up"}, "preparation.axes: unknown key; did you mean 'axis'"),
        (FILM, TABLE | {"axis": "left"}, "preparation.axis: no such axis 'left'; known are 'down', 'up'"),
        (FILM, TABLE | {"unit": "mm"}, "preparation.unit: unit 'mm' cannot be converted to 'px'"),
        (FILM, TABLE | {"blur": {"value": -1, "unit": "frame"}}, "preparation.blur: -1.0 frame, expected at least"),
        (FILM, TABLE | {"blur": LATE}, "preparation.blur.unit: unit 's' cannot be converted"),
        (FILM | {"bounces": 0}, TABLE, "system.bounces: bouncing_ball(bounces=0): expected an integer"),
        (FILM | {"length": "in"}, TABLE, "system.length: no such length 'in'"),
        ({"kind": "carts"}, TABLE | {"unit": "m"}, "preparation.kind: 'bounces' goes with the system 'bouncing ball'"),
        (FILM, {"kind": "sound"}, "preparation.kind: 'sound' goes with the system 'bouncing ball' with length = 'm'"),
        (HEARD, {"kind": "sound", "column": "t"}, "preparation.column: unknown key; known are 'kind'"),
    ],
)
def test_wrong_keys_are_named(system, table, message):
    with pytest.raises(ValueError) as refusal:
        preparation(system, table)
    assert str(refusal.value).startswith(f"s: {message}")
