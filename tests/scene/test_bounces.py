import numpy as np
import pytest
from preparing import preparation, prepared

from diffcontact.scene.keys import Table
from diffcontact.scene.kinds import KINDS
from diffcontact.scene.preparation.bounces import followed, repeated, rhythm

GRAVITY, FLOOR, RESTITUTION = 10.0, 900.0, (0.8, 0.7, 0.6, 0.5)


def fallen(times, *, top=200.0, released=5.3):
    """A ball that is held, let go at `released`, and bounces; y downwards, and when it bounces."""
    y = np.full(times.size, top)
    start, height, speed, bounces = released, top, 0.0, []
    for e in RESTITUTION:
        fall = (-speed + np.sqrt(speed**2 + 2 * GRAVITY * (FLOOR - height))) / GRAVITY
        since = times - start
        y = np.where(since > 0, height + speed * since + GRAVITY / 2 * since**2, y)
        start, height, speed = start + fall, FLOOR, -e * (speed + GRAVITY * fall)
        bounces.append(start)
    return np.where(times > start, FLOOR, y), np.array(bounces)


def filmed(rng, *, false=(), bounces=2):
    """The ball's film: pictures 0, 1, 2, ..., every fourth one shown twice, some false detections, and what is true."""
    pictures = np.arange(80.0)
    y, at = fallen(pictures)
    y = np.round(y + 0.7 * rng.normal(size=y.size))
    shown = np.repeat(np.arange(80), np.where(np.arange(80) % 4 == 2, 2, 1))
    rows = y[shown]
    for row, value in false:
        rows[row] = value
    return rows, shown, at[:bounces]


def run_of(rows, times=None, *, bounces=2, blur=1.0, more=(), **keys):
    times = np.arange(float(rows.size)) if times is None else times
    table = {"kind": "bounces", "column": "y", "blur": {"value": blur, "unit": "frame"}, **keys}
    columns = {"y": rows, **dict(more)}
    (run,) = prepared({"kind": "bouncing ball", "bounces": bounces}, table, times, columns, "film.csv")
    return run


def test_times_count_the_pictures_that_differ(rng):
    rows, _, at = filmed(rng)
    run = run_of(rows)
    # The pictures themselves, from the first one in free fall: what is shown twice is there once.
    y, _ = fallen(np.arange(80.0))
    first = int(np.argmin(np.abs(y[:13] - run.values[0, 0])))
    np.testing.assert_array_equal(run.times, np.arange(run.times.size))
    seen = np.isfinite(run.values[:, 0])
    np.testing.assert_allclose(run.values[seen, 0], y[first : first + seen.size][seen], atol=4.0)
    # To a tenth of a picture, some parabolas' extrapolation over one picture.
    np.testing.assert_allclose([float(t) for t in run.notes["bounces"][3:].split(",")], at - first, atol=0.1)
    assert run.given["apexes"].shape == (1,)
    assert at[0] - first < run.given["apexes"][0] < at[1] - first


@pytest.mark.parametrize(
    "false",
    # The last is one that the ball could have reached, and off its flight's parabola.
    [[(row, 25.0) for row in (21, 22, 23, 24)], [(30, 20.0)], [(9, 880.0), (41, 300.0)], [(34, 500.0)]],
)
def test_false_detections_are_left_out_without_being_flagged(false):
    clean, found = (run_of(filmed(np.random.default_rng(3), false=wrong)[0]) for wrong in ((), false))
    seen = np.isfinite(found.values[:, 0])
    np.testing.assert_array_equal(found.times, clean.times)
    np.testing.assert_array_equal(found.values[seen], clean.values[seen])
    assert seen.sum() >= np.isfinite(clean.values).sum() - len(false) - 1


def still(rng, size):
    return np.full(size, rng.uniform(0.0, 900.0))


WANDERING = {
    "anywhere": lambda rng, size: rng.uniform(0.0, 900.0, size),
    "at one place": still,
    "near one place": lambda rng, size: still(rng, size) + rng.normal(0.0, 5.0, size),
    "on a straight line": lambda rng, size: still(rng, size) + rng.uniform(-40.0, 40.0) * np.arange(size),
}


@pytest.mark.parametrize(
    ("way", "replicas"),
    [("anywhere", 6), ("at one place", 6), *(pytest.param(way, 40, marks=pytest.mark.full) for way in WANDERING)],
)
def test_hardly_ever_is_a_first_bounce_mislabelled_by_six_false_detections(way, replicas):
    """The second fall's time tells: another pair of bounces, or one a picture off, has another. Most are found."""
    rng, wrong, right, refused = np.random.default_rng(1), 0, 0, []
    for seed in range(replicas):
        # The first fall is in rows 7 to 21, three of which repeat a picture: half of what is left is false.
        first = int(rng.integers(8, 15))
        rows = rng.choice(np.arange(8, 22), 6, replace=False) if way == "anywhere" else range(first, first + 6)
        false = list(zip(map(int, rows), np.round(WANDERING[way](rng, 6)), strict=True))
        rows, _, at = filmed(np.random.default_rng(seed), false=false)
        try:
            run = run_of(rows)
        except ValueError as error:
            refused.append(str(error))
            continue
        found = [float(t) for t in run.notes["bounces"][3:].split(",")]
        good = abs(found[1] - found[0] - (at[1] - at[0])) < 0.5
        right, wrong = right + good, wrong + (not good)
    assert all("[preparation] names as its outlier" in message for message in refused)
    # At most five in a hundred, two of forty; a third one may be chance.
    assert wrong <= (3 if replicas == 40 else 0)
    assert right >= replicas / 2


def test_starting_values_are_those_of_the_flights(rng):
    run = run_of(filmed(rng)[0])
    # Noise of 0.8 px on ten samples of a parabola, extrapolated by a picture or two: per cents.
    np.testing.assert_allclose(run.start["gravity"], GRAVITY, rtol=0.03)
    np.testing.assert_allclose([run.start["restitution"], *run.start["later_restitution"]], [0.8, 0.7], rtol=0.03)
    np.testing.assert_allclose(run.start["floor"], FLOOR, rtol=0.01)


def test_bounces_that_are_not_used_are_told(rng):
    rows, shown, _ = filmed(rng)
    _, at = fallen(np.arange(80.0))
    for used in (1, 2):
        run = run_of(rows, bounces=used)
        told = run.notes["left out"].removeprefix("bounces near t = ")
        times, _, why = told.partition(" of the recording, ")
        assert why == f"as system.bounces = {used}"
        # Rows of the lowest pictures, within one of the bounce; the last bounce is too low to show.
        pictures = shown[np.array(times.split(","), int)]
        np.testing.assert_allclose(pictures, at[used:3], atol=1.0)


def test_flags_are_believed_and_axes_that_grow_upwards_are_turned(rng):
    rows, shown, _ = filmed(rng)
    flags = {
        "again": (np.diff(shown, prepend=-1) == 0).astype(float),
        "wrong": (np.arange(shown.size) == 12.0) * 1.0,
    }
    run = run_of(-rows, bounces=1, blur=0.0, more=flags, axis="up", repeated="again", outlier="wrong")
    clean = run_of(rows, bounces=1, blur=0.0)
    np.testing.assert_array_equal(run.times, clean.times)
    # One sample fewer, the flagged one.
    assert np.isnan(run.values).sum() == np.isnan(clean.values).sum() + 1


def test_the_rhythm_fills_in_what_does_not_show_and_nothing_where_there_is_none():
    found = np.isin(np.arange(50), [2, 7, 13, 17, 32, 42])
    assert np.flatnonzero(rhythm(found, slice(5, 45))).tolist() == [7, 13, 17, 22, 27, 32, 37, 42]
    assert np.flatnonzero(rhythm(found, slice(0, 10))).tolist() == [2, 7]


def test_a_body_at_a_turning_point_repeats_nothing():
    t = np.arange(40.0)
    assert not repeated(5 * (t - 20.3) ** 2, slice(0, 40)).any()


def test_noise_alone_repeats_nothing_and_a_picture_shown_twice_still_does(rng):
    t, everything = np.arange(120.0), slice(0, 120)
    exact = 0.05 * (t - 60.3) ** 2
    # Steps of 6 at most and noise of 1.5: it stops the body now and then, in 6000 rows.
    stopped = [repeated(exact + 1.5 * rng.normal(size=120), everything) for _ in range(50)]
    assert not np.any(stopped)
    # Of 1/20 of a step it does not, and what is shown twice is seen.
    y = exact + 0.3 * rng.normal(size=120)
    twice = np.insert(y, [110, 115], y[[109, 114]])
    assert np.flatnonzero(repeated(twice, slice(0, 122))).tolist() == [110, 116]


def test_rows_that_are_missing_are_no_pictures_that_follow_each_other(rng):
    """The times tell, whether the first bounce is in the gap or not."""
    times = np.arange(80.0)
    y, at = fallen(times)
    y = y + 0.7 * rng.normal(size=y.size)
    for gap in (range(15, 21), range(24, 30)):
        keep = ~np.isin(times, gap)
        run = run_of(y[keep], times[keep], blur=0.0)
        assert np.diff(run.times).max() == len(gap) + 1
        first = times[keep][int(np.argmin(np.abs(y[keep][:10] - run.values[0, 0])))]
        found = [float(t) for t in run.notes["bounces"][3:].split(",")]
        # Parabolas are drawn out by three pictures into the gap.
        np.testing.assert_allclose(found, at[:2] - first, atol=0.2)


def test_pictures_that_repeat_cannot_be_counted_where_rows_are_missing(rng):
    rows, shown, _ = filmed(rng)
    keep = ~np.isin(np.arange(shown.size), range(28, 33))
    with pytest.raises(ValueError, match=r"film.csv: column 'y': no row between 27 and 33, and .* data.window leaves"):
        run_of(rows[keep], np.flatnonzero(keep).astype(float))


def test_what_was_not_found_is_not_followed():
    y = np.array([np.nan, 1.0, 2.0, np.nan, 4.0, 5.0])
    assert followed(np.arange(6.0), y).tolist() == [False, True, True, False, True, True]


# Two falls with pictures that repeat: upwards, what is near the top is the floor.
UPSIDE_DOWN = -np.concatenate(
    [
        [60, 60, 61, 61, 63, 68, 75, 89, 104, 122, 145, 171, 202, 234, 270, 309, 353, 354, 335, 309, 287, 269],
        [254, 254, 234, 234, 230, 231, 239, 249, 261, 278, 298, 322, 351, 377, 377, 341, 328, 328, 310, 306],
        [309, 309, 321, 319, 346, 364, 373, 361, 352, 347, 345, 346, 351, np.nan, 372, 372, 372, 364, 362, 366],
        [373, 375, 371, 371],
    ]
)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.full(30, np.nan), "no sample"),
        (200.0 + np.arange(30.0) ** 2, "0 bounces, expected at least 2"),
        (np.abs(np.arange(30.0) % 4 - 2) * -100.0, "samples in flight"),
        (UPSIDE_DOWN, "0 pictures of the fall are no repetition"),
    ],
)
def test_what_does_not_bounce_is_refused(y, message):
    with pytest.raises(ValueError, match=message) as caught:
        run_of(y)
    assert str(caught.value).startswith("film.csv: column 'y': ")


@pytest.mark.parametrize(("axis", "down"), [("down", True), ("up", False)])
def test_a_page_shows_the_column_as_it_was_written(axis, down):
    prepare = preparation({"kind": "bouncing ball"}, {"kind": "bounces", "column": "y", "axis": axis})
    assert (prepare.down, prepare.reversed) == (down, not down)


# A ball leaves the floor at 1 s with 2.943 m/s: 0.6 s of flight, and 0.8 of it each time.
HEARD = 1.0 + np.cumsum([0.0, 0.6, 0.48, 0.384, 0.3072])
BALL = {"kind": "bouncing ball", "length": "m", "time": "s"}


def test_starts_are_those_of_the_times_of_impacts():
    (run,) = prepared(BALL, {"kind": "sound"}, HEARD, {})
    assert run.start["half_flight"] == pytest.approx(0.3, rel=1e-9)
    assert run.start["restitution"] == pytest.approx(0.8, rel=1e-9)
    np.testing.assert_allclose(run.impacts, HEARD[1:] - 1.0)
    assert not np.isfinite(run.values).any()
    # It leaves with g times half of the flight, upwards, where coordinates go down.
    leaves = KINDS["bouncing ball"](Table(BALL, "s")).derived["u0"]
    np.testing.assert_allclose(leaves.value(run.start[leaves.source], {"gravity": 9.81}), [-2.943], rtol=1e-9)


def test_later_bounces_have_their_own():
    (run,) = prepared(BALL | {"bounces": 2}, {"kind": "sound"}, HEARD, {})
    np.testing.assert_allclose(run.start["later_restitution"], [0.8], rtol=1e-9)
    # The turning point between the two first impacts of the simulation, the second and third that were heard.
    np.testing.assert_allclose(run.given["apexes"], [0.6 + 0.24], rtol=1e-9)
