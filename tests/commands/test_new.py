"""`new`: from what a camera, a tracker or a telephone wrote to a scene that runs, without editing."""

import json
import re

import numpy as np
import pytest
from command_line import ROWS, assert_one_line
from recorded import (
    ball,
    block,
    by_ear,
    carriage,
    deeplabcut,
    impacts,
    kinovea,
    kinovea_csv,
    pendulum,
    phyphox,
    puck,
    pucks,
    qualisys,
    rubbing,
    spreadsheet,
    table,
    thrown,
    tracker,
)
from tables import cases

from diffcontact.commands.cli import main
from diffcontact.scene import read_study

BOUNCES = "a ball that bounces, seen in ball y"
TUMBLES = "a body that is thrown and tumbles in 2 dimensions"
CASES = {
    "qualisys": (qualisys, "two carts that collide on a straight line", {"restitution": (0.8, 0.02)}),
    "tracker": (tracker, "an oscillation that dies away", {"stiffness": (np.pi**2, 0.05)}),
    "deeplabcut": (deeplabcut, "a ball that bounces, seen in ball y [px]", {"restitution": (0.8, 0.02)}),
    "kinovea": (kinovea, BOUNCES, {"restitution": (0.8, 0.02), "gravity[0]": (9.81, 0.1)}),
    "kinovea csv": (kinovea_csv, BOUNCES, {"restitution": (0.8, 0.02)}),
    "phyphox": (phyphox, "the impacts of a bouncing ball that was heard", {"restitution": (0.8, 1e-3)}),
    "by ear": (by_ear, "the impacts of a bouncing ball that was heard", {"restitution": (0.8, 2e-3)}),
    "spreadsheet": (spreadsheet, "two carts that collide on a straight line", {"restitution": (0.8, 0.02)}),
    "pucks": (pucks, "2 balls or discs that collide in 2 dimensions", {"restitution": (0.8, 0.05)}),
    "carriage": (carriage, "a carriage driven by F_N", {"mass": (3.0, 0.05), "gamma": (1.0, 0.1)}),
    "rubbing": (rubbing, "an oscillation that dies away", {"stiffness": (40.0, 0.1), "gamma": (0.3, 0.005)}),
    "pendulum": (pendulum, "a pendulum that swings", {"stiffness": (16.0, 0.03), "damping": (0.1, 0.01)}),
    "block": (block, "a block that slides to rest", {"gamma": (2.5, 0.03)}),
    "impacts": (impacts, "a table of impacts, each of a ball", {"restitution": (0.75, 0.003)}),
    "thrown": (thrown, TUMBLES, {"restitution": (0.4, 0.01), "friction": (0.35, 0.03)}),
    "puck": (puck, "one body that meets walls in 2 dimensions", {"restitution": (0.7, 0.02)}),
}


@pytest.fixture
def recording(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(name, suffix=".txt"):
        file = tmp_path / f"{name}{suffix}"
        file.write_text(CASES[name][0](np.random.default_rng(1)))
        return file

    return write


@pytest.fixture
def draft(tmp_path, monkeypatch):
    """The text of the scene that `new` writes for a recording."""
    monkeypatch.chdir(tmp_path)

    def new(content, name="run.csv"):
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        assert main(["new", name]) == 0
        return (tmp_path / name).with_suffix(".toml").read_text()

    return new


# What was thrown is simulated.
@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.full] * (name == "thrown")) for name in CASES])
def test_a_draft_is_a_scene_whose_starts_make_sense(recording, tmp_path, capsys, name):
    file = recording(name)
    assert main(["new", file.name]) == 0
    printed = capsys.readouterr().out
    assert f"taken for {CASES[name][1]}; wrote {name}.toml" in printed
    study = read_study(tmp_path / f"{name}.toml")
    assert study.runs
    assert f"taken for {CASES[name][1]}" in (tmp_path / f"{name}.toml").read_text()


@pytest.mark.full
@pytest.mark.parametrize("name", CASES)
def test_a_draft_is_fitted_without_editing(recording, tmp_path, name):
    file = recording(name)
    assert main(["new", str(file)]) == 0
    assert main(["fit", f"{name}.toml", "--out", "out"]) == 0
    found = json.loads((tmp_path / "out" / "result.json").read_text())["parameters"]
    for parameter, (truth, tolerance) in CASES[name][2].items():
        # A few standard errors of noise that is the case's own; a scene that is wrong is off by far more.
        assert abs(found[parameter]["value"] - truth) < tolerance, parameter


@pytest.mark.full
def test_a_film_is_fitted_without_editing(data, tmp_path, monkeypatch):
    """By the heights before and after its first bounce the tennis ball has e = 0.787, by parabolas 0.784 +- 0.004.

    A drag below zero, with which air pushes, took up how the ball comes nearer: e = 0.729, 0.688 to 0.770.
    """
    monkeypatch.chdir(tmp_path)
    assert main(["new", str(data / "bouncing_ball_video" / "ball1_3.csv")]) == 0
    assert main(["fit", "ball1_3.toml", "--out", "out"]) == 0
    found = json.loads((tmp_path / "out" / "result.json").read_text())["parameters"]["restitution"]
    low, high = found["interval95"]
    assert low < 0.784 < 0.787 < high
    assert high - low < 0.1
    assert abs(found["value"] - 0.787) < 0.02


@pytest.mark.parametrize(("unit", "metre"), [("m", 1.0), ("cm", 100.0), ("mm", 1000.0)])
def test_a_length_that_nobody_states_is_one_in_which_balls_fall_as_they_do(draft, unit, metre):
    times = np.arange(90) / 60
    heights = metre * (ball(times) + 5e-4 * np.random.default_rng(1).normal(size=times.size))
    head = "#Kinovea Trajectory data export\n#T X Y\n\n# ball\n"
    assert f'unit = "{unit}"  # a guess' in draft(head + table([times, heights, heights], " "), "kinovea.txt")


def test_quaternions_are_no_carts(draft):
    """Of a body that falls in space, and turns steadily about an axis that is none of the frame's."""
    times = np.arange(100) / 200
    half, axis = 2.0 * times, np.array([0.36, 0.48, 0.8])
    turned = [np.cos(half), *(np.sin(half) * part for part in axis)]
    places = [0.3 * times, 0.1 + 0.2 * times, 1.4 - 9.81 / 2 * times**2]
    scene = draft("time [s],x [m],y [m],z [m],qw,qx,qy,qz\n" + table([times, *places, *turned]))
    assert "tumbles in 3 dimensions" in scene
    (run,) = read_study("run.toml").runs
    np.testing.assert_allclose(run.start["spin0"], 4.0 * axis, atol=0.02)  # four digits, six samples


def test_what_is_wrong_with_a_file_is_in_the_keys(recording, tmp_path, capsys):
    file = recording("spreadsheet", ".csv")
    assert main(["new", str(file)]) == 0
    told = capsys.readouterr().out
    assert re.search(r"1\d\d\d times are missing or do not increase", told)
    scene = (tmp_path / "spreadsheet.toml").read_text()
    keys = 'delimiter = ";" | decimal = "," | skip = [2, 1] | missing = ["-"] | time = "Time" | rate = "from data"'
    assert all(f"\n{key}" in scene for key in keys.split(" | "))
    (run,) = read_study(tmp_path / "spreadsheet.toml").runs
    # Times to three digits are off by 1 ms / sqrt(12), their line by sqrt(12 / 2400) of it from end to end: 2e-5 s.
    np.testing.assert_allclose(run.times - run.times[0], np.arange(2400) / 2000, atol=1e-4)


def test_markers_on_one_body_are_one(draft):
    """A ball with two markers does not collide with itself."""
    times = np.arange(90) / 60
    height = 1e3 * ball(times) + 0.2 * np.random.default_rng(0).normal(size=(2, 90))
    scene = draft("t [s],A y [mm],B y [mm]\n" + table([times, height[0], height[1] + 40]))
    assert re.search("taken for a ball that bounces, seen in [AB] y", scene)


def test_what_air_slows_is_not_upright(draft):
    times = np.arange(40) / 100
    flight = [times, 0.1 * times, -9 * times + 4.7 * times**2, 0.3 + 2 * times - 4.9 * times**2]
    noise = 1e-3 * np.random.default_rng(0).normal(size=(3, 40))
    scene = draft("time [s],x [m],y [m],z [m]\n" + table([flight[0], *(np.array(flight[1:]) + noise)]))
    assert "\ngravity = { value = [0.0, 0.0, -9.81], " in scene


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-8-sig"])
def test_other_encodings_are_read_and_said(recording, tmp_path, encoding):
    file = recording("kinovea")
    file.write_bytes(file.read_text().replace("# ball", "# Höhe").encode(encoding))
    assert main(["new", str(file)]) == 0
    (run,) = read_study(tmp_path / "kinovea.toml").runs
    assert "Höhe" in run.notes["recording"]


CLOCK = np.arange(90) / 60


def as_csv(names, lost):
    """A ball's bounces, with one height that is lost."""
    heights = [f"{1e3 * y:.2f}" for y in ball(CLOCK) + 5e-4 * np.random.default_rng(1).normal(size=90)]
    heights[20] = lost
    rows = [names, *zip([f"{t:.4f}" for t in CLOCK], heights, strict=True)]
    return "".join(",".join('"' + field.replace('"', '""') + '"' for field in row) + "\n" for row in rows)


@pytest.mark.parametrize(
    "names",
    [("t\n[s]", "height\n[mm]"), ("t [s]", 'the "height"\r\n\t[mm]'), ("time\nof\x7frow", "\x01\\height [mm]\x1f")],
)
def test_a_header_may_hold_whatever_a_cell_of_a_spreadsheet_may(draft, capsys, names):
    """Names of columns stand in keys, where they must be what they are, and in remarks, which are one line each."""
    scene = draft(as_csv(names, ""))
    assert len(capsys.readouterr().out.splitlines()) == 4
    (run,) = read_study("run.toml").runs
    assert np.isin(run.times.round(4), CLOCK.round(4)).all()
    assert "# 1 of 90 samples of " in scene


def test_a_file_that_is_there_stays(recording, tmp_path, capsys):
    file = recording("phyphox")
    (tmp_path / "phyphox.toml").write_text("mine")
    assert main(["new", str(file)]) == 2
    assert_one_line(capsys, "phyphox.toml: exists already, expected a new file: --out PLACE")
    assert (tmp_path / "phyphox.toml").read_text() == "mine"
    assert main(["new", str(file), "--out", "scenes/mine.toml"]) == 0
    assert 'files = ["../phyphox.txt"]' in (tmp_path / "scenes" / "mine.toml").read_text()


@pytest.mark.parametrize(
    ("out", "linked"), [("link/mine.toml", False), ("there/deep/mine.toml", True), ("link/new/mine.toml", True)]
)
def test_a_draft_finds_its_recording_through_links(recording, tmp_path, out, linked):
    """A folder may be a link, that of the scene or that of the recording; a linked file keeps its name."""
    file = recording("phyphox")
    (tmp_path / "there" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "there" / "deep")
    if linked:
        (tmp_path / "there" / "deep" / "named.txt").symlink_to(file)
        file = tmp_path / "link" / "named.txt"
    assert main(["new", str(file.relative_to(tmp_path)), "--out", out]) == 0
    (run,) = read_study(out).runs
    assert run.path.endswith(file.name)


def dropped(head, time=1.0, length=1.0, delimiter=","):
    """A ball's bounces, times and heights in such parts of a second and a metre."""
    times = np.arange(120) / 60
    height = ball(times) + 5e-4 * np.random.default_rng(0).normal(size=times.size)
    return head + table([times / time, height / length], delimiter, 9)


@cases(
    "head time second length metre",
    r"""
    time (h),height [in] | h | 3600 | in | 0.0254
    t/ms,height/cm | ms | 1e-3 | cm | 1e-2
    t_min,y_ft | min | 60 | ft | 0.3048
    time in minutes,height in inches | min | 60 | in | 0.0254
    Time [µs],HEIGHT (MM) | us | 1e-6 | mm | 1e-3
    time,height\ns,inches | s | 1 | in | 0.0254
    # tracked by me, today\ntime [ms];height [km] | ms | 1e-3 | km | 1e3
    # t/ms y/cm | ms | 1e-3 | cm | 1e-2
    """,
)
def test_units_that_a_header_states_are_those_of_the_scene(draft, head, time, second, length, metre):
    between = next(letter for letter in ";, " if letter in head.splitlines()[-1])
    scene = draft(dropped(f"{head}\n", float(second), float(metre), between))
    assert re.search(rf'^time_unit = "{time}"$', scene, re.MULTILINE)
    assert re.search(rf'^unit = "{length}"$', scene, re.MULTILINE)
    # A metre of free fall in noise of half a millimetre; the start is found from the first bounces.
    assert read_study("run.toml").start["gravity"] == pytest.approx(9.81, rel=0.02)


@pytest.mark.parametrize("marks", ["# ", "% "])
def test_a_comment_is_no_header(draft, capsys, marks):
    assert 'names = ["t", "x"]  # a guess: there is no header' in draft(dropped(f"{marks}made by me, today\n"))
    assert f"row 1, '{marks}made by me, today', is taken for a comment" in capsys.readouterr().out
    assert 'names = ["t", "y"]  # of the comment in line 1' in draft(dropped(f"{marks}t, y\n"), "named.csv")


@cases(
    "head message",
    r"""
    time (weeks),height [m] | 'time (weeks)': 'weeks' is no unit of time that is known, expected s, ms,
    t [kg],height [m] | 't [kg]': 'kg' is no unit of time
    time (s),height [yd] | 'height [yd]': 'yd' is no unit of length that is known, expected m, cm, mm
    time (s),height (yards) | 'height (yards)': 'yards' is no unit of length
    time,height\ns,fathoms | 'height': 'fathoms' is no unit of length
    """,
)
def test_units_that_nobody_knows_are_refused_by_name(tmp_path, capsys, monkeypatch, head, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.csv").write_text(dropped(f"{head}\n"))
    assert main(["new", "run.csv"]) == 2
    assert_one_line(capsys, f"run.csv: column {message}")
    assert not (tmp_path / "run.toml").exists()


@pytest.mark.parametrize("name", ["height (left)", "height (1)", "height (A)"])
def test_what_is_no_unit_in_brackets_stays_a_label(draft, name):
    assert 'unit = "m"  # a guess' in draft(dropped(f"t,{name}\n"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "run.csv: no columns of numbers; it begins with ''"),
        ("Dear diary\nnothing moved today\n", "run.csv: no columns of numbers; it begins with 'Dear diary'"),
        ("t,x\n" + "".join(f"{i},5\n" for i in range(40)), "run.csv: no position that moves: 'x' shows no motion"),
        (
            "t [s],phi [deg]\n" + "".join(f"{i / 60},{i}\n" for i in range(40)),
            "run.csv: no scene fits 'phi [deg]', which goes 37.4 deg in 0.65 s. It is not a pendulum that",
        ),
        ("t,x\n0,1\n1,2\n", "run.csv: no position that moves: 't' is a count of rows or times, 'x' has 2 numbers;"),
        (
            "t [s],acc x [m/s^2],F_N,vy\n" + "".join(f"{i / 60},{i % 7},{i % 5},{i % 3}\n" for i in range(40)),
            "run.csv: no position that moves: 'acc x [m/s^2]' is an acceleration, 'F_N' is a force, 'vy' is a",
        ),
        (
            "t [s],x [m]\n" + "".join(f"{i / 60},{i * i / 90 + 0.01 * (i % 3)}\n" for i in range(40)),
            "run.csv: no scene fits 'x [m]', which goes",
        ),
        (b"\xff\xfe\x00", "run.csv: byte 2 is no UTF-16 text, expected a recording as text"),
        (b"\x89PNG\r\n\0\0", "run.csv: row 2: a null byte, expected a recording as text in Latin-1"),
        (
            "\n".join(ROWS[:1] + [f"{i},{i},0,{i * i},0" for i in range(40)]),
            "run.csv: no scene fits 'x2 [mm]', which goes 1.46e+03 mm in 39 s. It is not an oscillation that dies",
        ),
    ],
)
def test_what_cannot_be_drafted_is_refused(tmp_path, capsys, monkeypatch, content, message):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "run.csv"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert main(["new", "run.csv"]) == 2
    assert_one_line(capsys, message)
    assert [path.name for path in tmp_path.iterdir()] == ["run.csv"]
