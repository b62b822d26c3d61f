"""Recordings as people have them: what is wrong with their times, numbers and columns, and the key that solves it."""

import numpy as np
import pytest
from tables import cases

from diffcontact.scene import read_study
from diffcontact.scene.measurements import Reading, read_measurements

SCENE = """\
[system]
kind = "balls"
count = 2
dimension = 2
[data]
time = "t"
time_unit = "s"
noise = { value = 1, unit = "mm" }
[preparation]
kind = "coordinates"
columns = ["x1", "y1", "x2", "y2"]
unit = "mm"
[parameters]
mass = { value = 1, unit = "kg" }
radius = { value = 1, unit = "mm", free = false }
gravity = { value = 0, free = false }
restitution = { value = 0.9 }
q0 = { value = "from data", unit = "mm" }
u0 = { value = "from data", unit = "mm/s" }
"""
TIMES = np.arange(40) / 240
PLACES = np.stack([10 + 50 * TIMES, 20 - 30 * TIMES, 90 - 20 * TIMES, 80 + 0 * TIMES], axis=1)


def rows(times, places=PLACES):
    return [[t, *(f"{x:.4f}" for x in place)] for t, place in zip(times, places, strict=False)]


def text(table, delimiter=",", header="t,x1,y1,x2,y2"):
    return "".join(delimiter.join(map(str, row)) + "\n" for row in [header.split(","), *table])


def study(folder, content, *keys, scene=SCENE):
    (folder / "balls.toml").write_text(scene.replace("[data]\n", "[data]\n" + "".join(f"{key}\n" for key in keys)))
    (folder / "run.csv").write_text(content)
    return read_study(folder / "balls.toml", [folder / "run.csv"])


def refused(folder, content, *keys, scene=SCENE):
    with pytest.raises(ValueError) as caught:
        study(folder, content, *keys, scene=scene)
    assert "\n" not in str(caught.value)
    return str(caught.value).replace(f"{folder}/", "")


@pytest.mark.parametrize("digits", [2, 3])
def test_rounded_times_are_recovered_from_the_rows(tmp_path, digits):
    content = text(rows([f"{t:.{digits}f}" for t in np.arange(400) / 1300], np.tile(PLACES, (10, 1))))
    message = refused(tmp_path, content)
    assert message.startswith("run.csv: row ")
    assert "expected times that increase" in message
    assert "data.rate = 'from data' takes all rows as equally spaced" in message
    (run,) = study(tmp_path, content, 'rate = "from data"').runs
    # Rounding errors are uniform within half a digit, and the line through 400 of them is good to
    # 2 digit / sqrt(12) / sqrt(400) at its ends, 0.03 digits: five of these.
    np.testing.assert_allclose(run.times, np.arange(400) / 1300, atol=0.15 * 10.0**-digits)
    (run,) = study(tmp_path, content, "rate = 1300").runs
    np.testing.assert_allclose(run.times - run.times[0], np.arange(400) / 1300, rtol=1e-9)


def test_a_lost_row_is_not_hidden_by_a_straight_line(tmp_path):
    times = np.delete(np.arange(41) / 240, 20)
    message = refused(tmp_path, text(rows([f"{t:.6f}" for t in times])), 'rate = "from data"')
    assert message.startswith("run.csv: row ")
    assert "off the straight line through all times" in message
    message = refused(tmp_path, text(rows([f"{t:.6f}" for t in times])), "rate = 240")
    assert "expected rows that are equally spaced; without data.time rows are counted" in message


def test_single_bad_times_are_named_and_can_be_left_out(tmp_path):
    times = [f"{t:.6f}" for t in TIMES]
    times[7], times[11] = times[6], ""
    content = text(rows(times))
    assert "row 13, column 't': the time is missing; data.rate" in refused(tmp_path, content)
    (run,) = study(tmp_path, content, 'untimed = "leave out"').runs
    np.testing.assert_allclose(run.times, np.delete(TIMES, [7, 11]), atol=1e-6)
    np.testing.assert_allclose(run.values, 1e-3 * np.delete(PLACES, [7, 11], axis=0), atol=1e-7)


def test_rows_are_frames_where_no_time_is_named(tmp_path):
    scene = SCENE.replace('time = "t"\ntime_unit = "s"\n', "")
    content = text(rows(range(40)))
    message = refused(tmp_path, content, scene=scene)
    assert message == (
        "balls.toml: data.time_unit: unit 'frame' cannot be converted to 's'; "
        "data.rate = 240 would say that there are 240 frames a second"
    )
    (run,) = study(tmp_path, content, "rate = 240", scene=scene).runs
    np.testing.assert_allclose(run.times, TIMES, rtol=1e-12)
    # A column that counts frames counts those that were lost too.
    gaps = SCENE.replace('time_unit = "s"', 'time_unit = "frame"')
    (run,) = study(tmp_path, text(rows(2 * np.arange(40))), "rate = 240", scene=gaps).runs
    np.testing.assert_allclose(run.times, 2 * TIMES, rtol=1e-12)


def test_a_window_is_cut_in_the_unit_of_the_times(tmp_path):
    scene = SCENE.replace('time_unit = "s"', 'time_unit = "ms"')
    content = text(rows([f"{1e3 * t:.6f}" for t in TIMES]))
    (run,) = study(tmp_path, content, "window = [50, 100.0]", scene=scene).runs
    inside = (TIMES >= 0.05) & (TIMES < 0.1000001)
    np.testing.assert_allclose(run.times, TIMES[inside], atol=1e-9)
    np.testing.assert_allclose(run.values, 1e-3 * PLACES[inside], atol=1e-7)
    assert "run.csv: data.window holds 0 rows, expected at least 2 of those from 0 to 162.5" in refused(
        tmp_path, content, "window = [500, 600]", scene=scene
    )


@pytest.mark.parametrize(("encoding", "key"), [("latin-1", "Latin-1"), ("utf-16", "UTF-16")])
def test_other_encodings_are_named(tmp_path, encoding, key):
    content = text(rows([f"{t:.6f}" for t in TIMES]), header="t,x1,y1,x2,Höhe")
    scene = SCENE.replace('"y2"', '"Höhe"')
    study(tmp_path, content, scene=scene)
    (tmp_path / "run.csv").write_bytes(content.encode(encoding))
    with pytest.raises(ValueError) as caught:
        read_study(tmp_path / "balls.toml", [tmp_path / "run.csv"])
    assert f"is no UTF-8 text, expected a CSV file or data.encoding = '{key}'" in str(caught.value)
    (tmp_path / "balls.toml").write_text(scene.replace("[data]\n", f'[data]\nencoding = "{key}"\n'))
    (run,) = read_study(tmp_path / "balls.toml", [tmp_path / "run.csv"]).runs
    np.testing.assert_allclose(run.values, 1e-3 * PLACES, atol=1e-7)


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_decimal_commas(tmp_path, delimiter):
    content = text(rows([f"{t:.6f}" for t in TIMES]), delimiter).replace(".", ",")
    message = refused(tmp_path, content)
    assert f"its fields seem to be between {delimiter!r}" in message
    assert f"data.delimiter = {delimiter!r}" in message
    assert "data.decimal = ','" in message
    between = f"delimiter = {delimiter!r}".replace("'", '"')
    assert "row 2, column 't': '0,000000' is not a number; a decimal comma wants data.decimal = ','" in refused(
        tmp_path, content, between
    )
    (run,) = study(tmp_path, content, between, 'decimal = ","').runs
    np.testing.assert_allclose(run.values, 1e-3 * PLACES, atol=1e-7)
    point = content.replace("10,0000", "10.0000", 1)
    assert "row 2, column 'x1': '10.0000' has a point" in refused(tmp_path, point, between, 'decimal = ","')


@cases(
    "lost key",
    """
    NaN | missing = ["NaN", "-"]
    -1.000 | missing = ["-1"]
    not found | missing = ["-", " not found"]
    - - | missing = "- -"
    """,
)
def test_words_that_mean_lost(tmp_path, lost, key):
    table = rows([f"{t:.6f}" for t in TIMES])
    table[5][3] = lost
    content = text(table)
    if lost != "-1.000":
        assert "row 7, column 'x2': " in (message := refused(tmp_path, content))
        assert "data.missing" in message
    (run,) = study(tmp_path, content, key).runs
    assert np.argwhere(np.isnan(run.values)).tolist() == [[5, 2]]


def test_a_marker_is_lost_where_all_its_columns_say_so(tmp_path):
    table = rows([f"{t:.6f}" for t in TIMES])
    table[5][3:] = "0.000", "0"
    table[6][1] = "0"
    (run,) = study(tmp_path, text(table), 'missing = ["0 0"]').runs
    # x1 = 0 alone is a place.
    assert np.argwhere(np.isnan(run.values)).tolist() == [[5, 2], [5, 3]]
    assert "run.csv: data.missing: '0 0 0' has 3 numbers" in refused(tmp_path, text(table), 'missing = ["0 0 0"]')


def test_long_column_names_have_patterns(tmp_path):
    content = text(rows([f"{t:.6f}" for t in TIMES]), header="t,x of [A],y of [A],x of [B],y of [B]")
    scene = SCENE.replace('"x1", "y1", "x2", "y2"', '"x*[A]", "y*A?", "x*B]", "y of [B]"')
    (run,) = study(tmp_path, content, scene=scene).runs
    np.testing.assert_allclose(run.values, 1e-3 * PLACES, atol=1e-7)
    broken = content.replace("x of [A]", '"x of\\n[A]"')
    (run,) = study(tmp_path, broken, scene=scene).runs
    np.testing.assert_allclose(run.values, 1e-3 * PLACES, atol=1e-7)
    two = scene.replace("x*[A]", "x*")
    assert "run.csv: pattern 'x*' fits 2 columns ('x of [A]', 'x of [B]'), expected one" in refused(
        tmp_path, content, scene=two
    )
    same = scene.replace("y*A?", "?*of [A]").replace("x*[A]", "x of [A]").replace("?*of", "x?of")
    assert "run.csv: column 'x?of [A]' is also 'x of [A]'" in refused(tmp_path, content, scene=same)


def test_lines_before_and_after_the_header_are_skipped(tmp_path):
    content = "Camera: 3\nDate, place\n" + text(rows([f"{t:.6f}" for t in TIMES]))
    assert "no column 't'; row 3 has it, expected it in row 1 or data.skip = 2" in refused(tmp_path, content)
    (run,) = study(tmp_path, content, "skip = 2").runs
    np.testing.assert_allclose(run.times, TIMES, atol=1e-6)
    units = content.replace("y2\n", "y2\ns,mm,mm,mm,mm\n", 1)
    message = refused(tmp_path, units, "skip = 2")
    assert "row 4, column 't': 's' is not a number" in message
    assert "a row of units data.skip = [0, 1]" in message
    (run,) = study(tmp_path, units, "skip = [2, 1]").runs
    np.testing.assert_allclose(run.times, TIMES, atol=1e-6)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (["rate = 0"], "data.rate: 0.0, expected rows per second, above 0"),
        (['rate = "fast"'], "data.rate: 'fast', expected rows per second or 'from data'"),
        (["window = [1, 0]"], "data.window: [1.0, 0.0], expected [from, to] in data.time_unit"),
        (["window = 3"], "data.window: 3.0, expected [from, to]"),
        (['untimed = "drop"'], "data.untimed: no such untimed 'drop'; known are 'leave out'"),
        (["skip = [1, 2, 3]"], "data.skip: [1, 2, 3], expected a number of lines before the header"),
        (['encoding = "ANSI"'], "data.encoding: no such encoding 'ANSI'; known are 'UTF-8', 'UTF-16', 'Latin-1'"),
        (['decimal = ";"'], "data.decimal: no such decimal ';'"),
        (['decimal = ","', 'delimiter = ","'], "data.decimal: ',' between the fields too, expected another"),
        (['missing = [" "]'], "data.missing: ' ', expected a text"),
    ],
)
def test_bad_keys_are_named(tmp_path, keys, message):
    assert message in refused(tmp_path, text(rows(TIMES)), *keys)


def test_recognised_files_can_be_read_as_the_scene_says_instead(tmp_path):
    path = tmp_path / "run.csv"
    path.write_text("scorer,net\nbodyparts,ball\ncoords,x\n0,5\n1,6\n")
    known = read_measurements(path, ["ball x [px]"], Reading(time="frame"))
    assert known.columns["ball x [px]"].tolist() == [5.0, 6.0]
    plain = read_measurements(path, ["x"], Reading(time="coords", skip=(2, 0)))
    assert plain.columns["x"].tolist() == [5.0, 6.0]
    assert plain.understood == ""
