"""What a survey sees in a recording, and what a motion is taken for."""

import re

import numpy as np
import pytest
from bouncing import bounces as ball_bounces
from tables import cases

from diffcontact.scene.draft import draft, layout, survey
from diffcontact.scene.draft.layout import layout_of
from diffcontact.scene.draft.motion import curvature, kinks, oscillates, strikes, wall_run
from diffcontact.scene.measurements import read_measurements
from diffcontact.scene.units import factor, is_meant, moment

TIMES = np.arange(60) / 30


def look(folder, header, columns, digits=4, delimiter=","):
    path = folder / "run.csv"
    rows = (delimiter.join("" if np.isnan(x) else f"{x:.{digits}f}" for x in row) for row in zip(*columns, strict=True))
    path.write_text("\n".join([*([header] if header else []), *rows]) + "\n")
    return survey(path)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["t,x", "0,1", "1,2"], (",", ".", (0, 0), None, ("t", "x"), ())),
        (["seconds,pos", "0,1", "1,2"], (",", ".", (0, 0), None, ("seconds", "pos"), ())),
        (["s,mm", "0,1", "1,2"], (",", ".", (1, 0), ("t", "x"), ("t", "x"), ())),
        (["t;x", "0,5;1", "1,5;2"], (";", ",", (0, 0), None, ("t", "x"), ())),
        (["t;x", "0,5;1,5", "1,5;2,5"], (";", ",", (0, 0), None, ("t", "x"), ())),
        (["t;x", "0,5;1,5", "1,5;-", "2,5;3,5"], (";", ",", (0, 0), None, ("t", "x"), ("-",))),
        (["t\tx", "0.5\t1", "1.5\t2"], ("\t", ".", (0, 0), None, ("t", "x"), ())),
        (["t x", "0.5   1", "1.5 2"], (" ", ".", (0, 0), None, ("t", "x"), ())),
        (["0.5,1,3", "1.5,2,3"], (",", ".", (0, 0), ("t", "x", "y"), ("t", "x", "y"), ())),
        (["A", "", "t,x,who", "s,mm,", "0,1,me", "1,N/A,me"], (",", ".", (2, 1), None, ("t",), ())),
        (["t,x,who", "0,1,me", "1,N/A,me", "2,3,me"], (",", ".", (0, 0), None, ("t", "x"), ("N/A",))),
        (["t,x", "0,1", "1,2", "2,behind the wall", "3,1"], (",", ".", (0, 0), None, ("t", "x"), ("behind the wall",))),
        (["t,x", "0,1", "1,#DIV/0!", "2,3"], (",", ".", (0, 0), None, ("t", "x"), ("#DIV/0!",))),
        (["t,x1", "0,1", "1,2", "t,x1", "0,3"], (",", ".", (0, 0), None, ("t", "x1"), ("t", "x1"))),
        (["t,x,day", "0,1,2026-01-02", "1,2,2026-01-02"], (",", ".", (0, 0), None, ("t", "x"), ())),
        (["t\tx", "0.5\t", "1.5\t2", "2.5\t3"], ("\t", ".", (0, 0), None, ("t", "x"), ())),
        (["t\t\tx", "0.5\t\t1", "1.5\t\t2", "10.55555\t3"], (" ", ".", (0, 0), None, ("t", "x"), ())),
    ],
)
def test_layouts(lines, expected):
    found = layout_of(lines)
    read = found.reading
    assert (read.delimiter, read.decimal, read.skip, read.names, found.columns, sum(read.missing, ())) == expected


@pytest.mark.parametrize("header", [["t;x;y;z"], ["t;x;y;z", "s;mm;mm;mm"], []])
@pytest.mark.parametrize("lost", ["", "-"])
def test_rows_in_which_most_is_lost_are_data_from_the_first_on(header, lost):
    """A marker may be seen before all others; a line of units has no numbers."""
    first, rest = f"0;1;{lost};{lost}", ["1;2;3;4", f"2;{lost};{lost};5", "3;3;4;5", "4;3;4;5"]
    found = layout_of([*header, first, first, *rest])
    assert found.reading.skip == (0, max(len(header) - 1, 0))
    assert len(found.columns) == 4
    assert found.reading.missing == (((lost,),) if lost else ())
    assert found.remarks == ()


def test_rows_with_numbers_that_are_passed_over_are_remarked():
    found = layout_of(["t,x,y", "0,gone,gone", "1,gone,gone", "2,1,1", "3,4,4"])
    assert found.reading.skip == (0, 2)
    assert found.remarks == (
        "row 2 has numbers, and 1 more do, but is taken for a line behind the header, not for data",
    )


@pytest.mark.parametrize("delimiter", ["\t", ";"])
@pytest.mark.parametrize("every", [1, 2, 5])
@pytest.mark.parametrize(
    ("spelt", "message"),
    [
        ("1,500.5", "'1,500.5' has a separator of thousands, expected digits alone"),
        ("-1 500.5", "'-1 500.5' has a separator of thousands"),
        ("12'500", '"12\'500" has a separator of thousands'),
        ("1\u00a0500", "'1\\xa0500' has a separator of thousands"),
        ("\u221212.5", "'\u221212.5' begins with U+2212, expected the minus sign '-'"),
        ("\u201312.5", "'\u201312.5' begins with U+2013, expected the minus sign '-'"),
        ("12.5 mm", "'12.5 mm' has the unit 'mm', expected it in the header"),
        ("12.5m/s", "'12.5m/s' has the unit 'm/s', expected it in the header"),
    ],
)
def test_a_number_that_cannot_be_read_is_no_lost_sample(delimiter, every, spelt, message):
    """Neither is its row a line of the header, be it the first, or all of them."""
    rows = [f"{i}.5{delimiter}{spelt if i % every == 0 else i * i}" for i in range(60)]
    with pytest.raises(ValueError) as caught:
        layout_of([f"t{delimiter}x", *rows])
    assert str(caught.value).startswith(f"row 2, column 'x': {message}")


@cases(
    "field message",
    """
    "1,5" | '1,5' has a comma in a text whose fields are between commas, expected a point
    "1,500.0" | '1,500.0' has a separator of thousands
    12b | '12b' is not a number, expected one or an empty field
    """,
)
def test_what_has_digits_is_no_word_for_lost_samples(tmp_path, field, message):
    path = tmp_path / "run.csv"
    path.write_text("t,x\n" + "".join(f"{i},{i * i}\n" for i in range(60)) + f"60,{field}\n")
    with pytest.raises(ValueError) as caught:
        survey(path)
    assert str(caught.value).startswith(f"{path}: row 62, column 'x': {message}")


def test_rows_that_run_backwards_are_refused(tmp_path):
    """A column that falls and has another name is something that was measured."""
    columns = [TIMES[::-1], 50 * np.sin(3 * TIMES)]
    with pytest.raises(ValueError, match="column 't': the times fall from row to row; sort the rows by this column"):
        look(tmp_path, "t,x [mm]", columns)
    assert look(tmp_path, "y [m],x [mm]", columns).time_unit == "frame"


WAVE = np.sin(3 * TIMES)
SHAPES = {
    "t": TIMES,
    "ms": 1e3 * TIMES,
    "n": np.arange(60.0),
    "wave": WAVE,
    "px": 300 + 50 * WAVE,
    "mm": 80 * WAVE,
    "slow": 300 * TIMES,
    "root": np.sqrt(TIMES),
    "square": TIMES**2,
    "wavy": TIMES + 0.1 * np.sin(9 * TIMES),
    "still": 1 + 1e-4 * np.cos(999 * TIMES),
}


# Which column is the clock (- for none), its unit (? where it is a guess), and the places as marker.axis [unit].
@cases(
    "header shapes time unit places",
    r"""
    time [s],x [mm] | t mm | time [s] | s | .x [mm]
    t_ms,x [mm] | ms mm | t_ms | ms | .x [mm]
    Zeit,x [mm] | t mm | Zeit | s ? | .x [mm]
    t,x [mm] | ms mm | t | ms ? | .x [mm]
    x,y | px px | - | frame | .x [px] .y [px]
    t [s],x1,y1,x2,y2 | t slow wave mm wave | t [s] | s | 1.x [mm] 1.y [mm] 2.x [mm] 2.y [mm]
    x1 [mm],x2 [mm] | slow px | - | frame | 1.x [mm] 2.x [mm]
    index,timestamp_ms,cx,cy | n ms square wave | timestamp_ms | ms | c.x [m] c.y [m]
    index,Run 1: time [ms],cx,cy | n ms square wave | Run 1: time [ms] | ms | c.x [m] c.y [m]
    ;ball X;ball Y\n[s];[mm];[mm] | t square wave | t | s | ball.x [mm] ball.y [mm]
    ball,y | root wave | - | frame | ball. [m] .y [m]
    ball,y | wavy wave | - | frame | ball. [m] .y [m]
    clock,y | t wave | clock | s ? | .y [m]
    t,ball x [m],ball_y_m,cart (mm),lamp [m] | t wave wave mm still | t | s ? | ball.x [m] ball.y [m] cart. [mm]
    """,
)
def test_columns_are_told_by_what_they_are_called_and_how_they_move(tmp_path, header, shapes, time, unit, places):
    delimiter = ";" if ";" in header else ","
    found = look(tmp_path, header, [SHAPES[name] for name in shapes.split()], delimiter=delimiter)
    assert found.reading.time == ("" if time == "-" else time)
    assert f"{found.time_unit}{' ?' * found.guessed}" == unit
    told = [f"{one.name}.{axis} [{column.unit}]" for one in found.markers for axis, column in one.axes.items()]
    assert " ".join(told) == places


@pytest.mark.parametrize(
    ("name", "place"),
    [
        *((name, True) for name in ("A x [mm]", "p1 x", "mass A x", "Left cart", "x_m")),
        *((name, False) for name in ("a_x", "mass A v_{x}", "v_m_s", "vx", "speed", "F_N", "force [N]", "v")),
        *((name, False) for name in ("ball likelihood", "angle [deg]", "mass A pixelx", "step")),
    ],
)
def test_places_are_told_by_their_names(tmp_path, name, place):
    wave = np.sin(3 * TIMES)
    found = look(tmp_path, f"t [s],{name},x0 [m]", [TIMES, 2 * wave, wave])
    assert (name in [column.name for marker in found.markers for column in marker.axes.values()]) is place


def test_an_angle_without_a_unit_is_in_degrees_where_radians_would_be_many_turns(tmp_path):
    wave = np.sin(3 * TIMES)
    header, columns = "t [s],x [m],y [m],theta,disc angle [rad]", [TIMES, wave, -wave, 170 * wave, 2 * wave]
    found = look(tmp_path, header, columns)
    assert [(angle.name, angle.unit, angle.guessed) for angle in found.angles] == [
        ("theta", "deg", True),
        ("disc angle [rad]", "rad", False),
    ]
    assert len(found.markers) == 1


@cases(
    "head rate line",
    r"""
    # fps: 240\nframe,x,y | 240 | 1
    Video,ball.mp4\nFrame rate,59.94\nWidth,1920\n\nframe,x,y | 59.94 | 2
    # by me, at 120 fps\nframe,x,y | 120 | 1
    FREQUENCY,100,\nANALOG_FREQUENCY,1000,\nMARKER_NAMES,ball, | 100 | 1
    Capture Frame Rate,240,Export Frame Rate,120\nframe,x,y | 120 | 1
    Trajectories\n200\n,ball,\nframe,x,y\n,mm,mm | 200 | 2
    # cut off at 6 Hz\nframe,x,y | none | 0
    """,
)
def test_a_rate_that_stands_above_the_numbers_is_that_of_the_frames(tmp_path, head, rate, line):
    frames = np.arange(60.0)
    found = look(tmp_path, head, [frames, 300 + 9 * frames, 200 + 50 * np.cos(frames / 9)], digits=0)
    assert found.time_unit == "frame"
    assert found.rate == (None if rate == "none" else (float(rate), f"as line {line} says"))


@cases(
    "head names unit",
    r"""
    Trajectories\n,,A,,B,\nFrame,Sub Frame,X,Y,X,Y\n,,mm,mm,mm,mm | A X,A Y,B X,B Y | mm
    ,Type,Marker,Marker,Marker,Marker\n,Name,A,A,B,B\n,ID,1,1,2,2\nFrame,Time (s),X,Y,X,Y | A X,A Y,B X,B Y | px
    ,Name,A,A,B,B\n,,Rot,Pos,Rot,Pos\nFrame,Time (s),X,X,X,X | A Rot X,A Pos X,B Rot X,B Pos X | px
    Length Units,Meters\n\n,Name,A,A,B,B\nFrame,Time (s),X,Y,X,Y | A X,A Y,B X,B Y | m
    POINTS,A,B\n | A x,A y,B x,B y | px
    """,
)
def test_points_that_are_named_above_their_axes_name_the_columns(tmp_path, head, names, unit):
    frames, wave = np.arange(60.0), np.round(90 * np.sin(TIMES))
    clocks = [frames] if head.startswith("POINTS") else [frames, frames]
    found = look(tmp_path, head, [*clocks, wave, -wave, 3 * wave, 100 - wave], digits=0)
    columns = [column for marker in found.markers for column in marker.axes.values()]
    assert [column.name for column in columns] == names.split(",")
    assert {column.unit for column in columns} == {unit}


@pytest.mark.parametrize(("name", "second"), [("dt", 1.0), ("delta_t [ms]", 1e-3), ("time step (s)", 1.0)])
def test_times_from_one_row_to_the_next_are_summed(tmp_path, name, second):
    steps = np.full(60, 1 / 60)
    steps[[0, 20]] = 0.0, 0.1
    found = look(tmp_path, f"{name},x [m]", [steps / second, np.sin(3 * np.cumsum(steps))], digits=9)
    assert "spacing = true  # the column holds the times from one row to the next" in found.keys
    np.testing.assert_allclose(second * found.times, np.cumsum(steps), atol=1e-7)
    read = read_measurements(found.path, ["x [m]"], found.reading)
    np.testing.assert_allclose(read.times, found.times)


@pytest.mark.parametrize("name", ["", "Unnamed: 0", "index", "row", "frame", "sample"])
def test_numbers_of_rows_are_no_places(tmp_path, name):
    """Rows may have been dropped since they were counted."""
    rows = np.delete(np.arange(70.0), range(20, 30))
    found = look(tmp_path, f"{name},y_px", [rows, np.round(300 + 90 * np.sin(rows / 9))], digits=0)
    assert [list(marker.axes) for marker in found.markers] == [["y"]]
    assert found.time_unit == "frame"
    assert found.times[20] == (30 if name else 20)


@cases(
    "first second unit",
    """
    00:00:00.000 | 00:00:00.016 | s
    10:59:59.992 | 11:00:00.008 | s
    2024-02-29T23:59:59.992Z | 2024-03-01T00:00:00.008Z | s
    1520000000000000000 | 1520000000016000000 | ns
    1520000000000000 | 1520000000016000 | us
    1520000000000 | 1520000000016 | ms
    """,
)
def test_times_of_clocks_and_computers_are_read(tmp_path, first, second, unit):
    """Of sixty pictures every sixteen milliseconds the two first; the others follow."""
    path, start = tmp_path / "run.csv", moment(first) if ":" in first else float(first)
    step = 0.016 if ":" in first else float(second) - start
    rows = [
        first,
        second,
        *(f"{start + i * step:.0f}" if step > 1 else clock_text(start + i * step) for i in range(2, 60)),
    ]
    path.write_text("time,y [m]\n" + "".join(f"{t},{np.sin(i / 9):.4f}\n" for i, t in enumerate(rows)))
    found = survey(path)
    assert found.time_unit == unit
    # Floats of 1.5e9 s are 2e-7 s apart, of 1.5e18 ns 256 ns.
    np.testing.assert_allclose(np.diff(found.times) * factor(unit, "s"), 0.016, atol=1e-6)


def clock_text(seconds):
    days, rest = divmod(seconds, 86400)
    clock = f"{int(rest // 3600):02d}:{int(rest // 60 % 60):02d}:{rest % 60:06.3f}"
    return f"{np.datetime64('1970-01-01') + int(days)} {clock}" if days > 9 else clock


def test_gaps_and_lost_samples_are_remarked(tmp_path):
    times, x = np.delete(TIMES, range(20, 25)), np.delete(np.sin(3 * TIMES), range(20, 25))
    x[7:9] = np.nan
    found = look(tmp_path, "t [s],x [m]", [times, x])
    assert found.remarks == (
        "a gap in the times, from 0.6333 to 0.8333",
        "2 of 55 samples of x [m] are lost",
    )


def test_rows_without_a_time_of_their_own_are_left_out(tmp_path):
    times = np.where(np.arange(60) == 20, np.nan, TIMES)
    found = look(tmp_path, "t [s],x [m]", [times, WAVE])
    assert any(key.startswith('untimed = "leave out"') for key in found.keys)
    np.testing.assert_allclose(found.times, np.delete(TIMES, 20), atol=1e-4)


def test_long_records_are_thinned(tmp_path):
    times = np.arange(12_000) / 1000
    found = look(tmp_path, "t [s],x [m]", [times, np.sin(3 * times)])
    assert "every = 3  # of 12000 rows; 1 uses all and takes longer" in found.keys


def test_of_a_long_text_only_rows_that_are_not_plain_are_taken_apart(monkeypatch):
    # Asking every field whether it is a number took minutes for a million rows; a count does not depend on the machine.
    asked = []
    monkeypatch.setattr(layout, "is_meant", lambda field, mark: asked.append(field) or is_meant(field, mark))
    counts = []
    for rows in (20_000, 40_000):
        asked.clear()
        lines = ["t,x", *(f"{i / 1000},{i % 7}.5" for i in range(rows)), "40.0,lost", "40.1,1 000"]
        with pytest.raises(ValueError, match=f"row {rows + 3}, column 'x': '1 000' has a separator"):
            layout_of(lines)
        found = layout_of(lines[:-1])
        assert (found.columns, found.reading.missing, found.reading.skip) == (("t", "x"), (("lost",),), (0, 0))
        counts.append(len(asked))
    assert counts[0] == counts[1]


def test_a_long_recording_is_looked_at_in_a_part_of_its_rows(tmp_path):
    times = np.arange(50_000) / 1000
    found = look(tmp_path, "t [s],x [m]", [times, np.sin(3 * times)])
    assert found.times.size == found.markers[0].axes["x"].values.size == 16_667
    assert found.remarks == (found.thinned,)
    assert found.thinned.startswith("looked at one row in 3 of 50000")


def bouncing(times, e=0.8):
    """A body between walls at 0 and 1 along x, gliding along y."""
    x, u, place, begin = np.empty(times.size), 2.0, 0.3, 0.0
    for _ in range(9):
        x = np.where(times >= begin, place + u * (times - begin), x)
        begin += (1 - place) / u if u > 0 else -place / u
        place, u = (1.0 if u > 0 else 0.0), -e * u
    return np.stack([x, 0.2 + 0.1 * times], axis=1)


def test_impacts_on_walls_are_found_with_their_restitution(rng):
    times = np.arange(300) / 100
    places = bouncing(times) + 1e-3 * rng.normal(size=(300, 2))
    found = strikes(times, places, np.full(2, 1e-3))
    # 0.7 m at 2 m/s, 1 m at 1.6 m/s, 1 m at 1.28 m/s ...
    expected = 0.35 + np.cumsum([0.0, 1 / 1.6, 1 / 1.28, 1 / 1.024])
    np.testing.assert_allclose([strike.time for strike in found][:4], expected[expected < 2.9], atol=0.01)
    for strike in found[:3]:
        # Velocities from eight samples of 1 mm over 0.08 s, along parabolas: some hundredths of a metre per second.
        assert abs(strike.restitution - 0.8) < 0.1
        np.testing.assert_allclose(np.abs(strike.normal), [1, 0], atol=0.1)
    run, before, after = wall_run(found, places)
    assert [strike.time for strike in run] == [strike.time for strike in found[:3]]
    assert before == -np.inf
    assert after == (found[3].time if len(found) > 3 else np.inf)


def test_a_push_is_no_wall(rng):
    times = np.arange(200) / 100
    x = np.where(times < 1, 0.5 * times, 0.5 - 3 * (times - 1))
    places = np.stack([x, 0 * x], axis=1) + 1e-3 * rng.normal(size=(200, 2))
    found = strikes(times, places, np.full(2, 1e-3))
    assert [round(strike.time, 1) for strike in found] == [1.0]
    assert not found[0].passive
    assert wall_run(found, places)[0] == []


def test_swings_and_tracks_are_told_from_bounces():
    t = np.linspace(0.0, 10.0, 500)
    swing = np.exp(-0.05 * t) * np.cos(4 * t)
    assert oscillates(t, swing) == pytest.approx(4.0, rel=0.02)
    assert oscillates(t, np.abs(np.sin(2 * t))) is None
    assert oscillates(t, t**2) is None
    assert curvature(swing, 3 * swing**2 + 0.1) == pytest.approx(3.0)
    assert curvature(swing, -3 * swing**2) is None
    assert curvature(t, np.sin(9 * t)) is None


@pytest.mark.parametrize(("wave", "around"), [(0.0, None), (2e-3, (0.25, 0.5))])
def test_carts_on_a_wavy_track_are_looked_at_about_their_impact(tmp_path, rng, wave, around):
    """A parabola explains half a wave, 0.1 m, to the noise of 0.1 mm, and no more: 0.4 s of the faster cart."""
    t = np.arange(0.0, 4.0, 0.01)
    since = np.where(t < 2.0, 2.0 - t, 0.75 * (t - 2.0))
    first, second = 0.05 + 0.1 * since, -0.25 * since - 0.3
    places = [x + wave * np.sin(30.0 * x) + 1e-4 * rng.normal(size=t.size) for x in (first, second)]
    path = tmp_path / "run.csv"
    rows = (f"{a:.4f},{1e3 * b:.4f},{1e3 * c:.4f}" for a, b, c in zip(t, *places, strict=True))
    path.write_text("\n".join(["t [s],x1 [mm],x2 [mm]", *rows]) + "\n")
    _, text = draft(survey(path), tmp_path, "run.toml")
    found = re.search(r"around_contact = \{ value = ([0-9.]+)", text)
    assert (found is None) == (around is None)
    assert found is None or around[0] <= float(found[1]) <= around[1]


@pytest.mark.parametrize(("aside", "kind"), [(0.0, "carts"), (0.03, "balls")])
def test_what_an_impact_turns_aside_is_on_no_rail(tmp_path, rng, aside, kind):
    """A rail that looks bent, by a centimetre in a metre; and the same with an impact that is not central."""
    t = np.arange(0.0, 2.0, 0.01)
    since = t - 1.0
    first = np.where(since < 0, 0.5 * since, -0.1 * since)
    second = 0.1 + np.where(since < 0, -0.2 * since, 0.3 * since)
    places = [
        first,
        0.04 * first**2 - aside * since * (since > 0),
        second,
        0.04 * second**2 + aside * since * (since > 0),
    ]
    columns = [t, *(1e3 * place + 0.1 * rng.normal(size=t.size) for place in places)]
    _, text = draft(look(tmp_path, "t [s],x1 [mm],y1 [mm],x2 [mm],y2 [mm]", columns), tmp_path, "run.toml")
    assert f'kind = "{kind}"' in text


def test_kinks_are_where_the_ball_bounces(rng):
    times = np.linspace(0.0, 3.0, 101)
    # From energy: the first fall, then flights that last 0.8 times as long each.
    down = np.sqrt(0.3**2 + 2 * 9.81)
    truth = (0.3 + down) / 9.81 + 2 * down / 9.81 * np.concatenate([[0.0], np.cumsum(0.8 ** np.arange(1, 5))])
    for _ in range(5):
        values = (ball_bounces(0.8, 9.81, 1.0, 0.3, times) + 0.01 * rng.normal(size=101))[:, None]
        at, deviation = kinks(times, values, np.full((101, 1), 0.01))
        # The sixth, at 2.92, has too few samples behind it.
        assert at.size == 5
        # The stated deviation is that of straight branches over a few samples: of its order.
        assert np.all(np.abs(at - truth) < 6 * deviation)
        assert np.all(deviation < 0.5 * (times[1] - times[0]))


def test_smooth_motion_and_noise_have_no_kinks(rng):
    times = np.linspace(0.0, 2.0, 200)
    smooth = np.stack([np.sin(3 * times), times**2], axis=1)
    for _ in range(5):
        values = smooth + 0.01 * rng.normal(size=smooth.shape)
        values[rng.random(200) < 0.1] = np.nan
        assert kinks(times, values, np.full((200, 2), 0.01))[0].size == 0
