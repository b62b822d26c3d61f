"""`simulate`: the page of a scene's motion, with data and without."""

import re

import pytest
from command_line import assert_one_line

from diffcontact.cli import main
from diffcontact.report import is_page

SCENE = """\
title = "A ball that was never filmed"
[system]
kind = "bouncing ball"
[data]
noise = { value = 1, unit = "px" }
[preparation]
kind = "bounces"
column = "y"
[parameters]
restitution = { value = 0.8 }
gravity = { value = 3 }
drag = { value = 0 }
floor = { value = 600 }
floor_drift = { value = 0 }
q0 = { value = 40 }
u0 = { value = 0 }
[fit]
substeps = 1
"""


def simulate(folder, *options, scene=SCENE):
    (folder / "ball.toml").write_text(scene)
    return main(["simulate", str(folder / "ball.toml"), "--out", str(folder / "out" / "motion.html"), *options])


def test_a_scene_without_data_is_played(tmp_path, capsys):
    assert simulate(tmp_path, "--times", "0:60:121") == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert "121 times from 0 to 60 frame\nstatus 0: right" in printed.out
    page = (tmp_path / "out" / "motion.html").read_text()
    assert "A ball that was never filmed" in page
    # In the scene's units: a page that says seconds would be wrong.
    assert re.search(r"\bpx\b", page)
    assert re.search(r"\bframes?\b", page)


def test_a_motion_that_may_be_wrong_says_so(tmp_path, capsys):
    # Bounces die away within a step of 100 frames.
    assert simulate(tmp_path, "--times", "0:600:7", scene=SCENE.replace("value = 0.8", "value = 0.5")) == 3
    assert "the steps are too long" in capsys.readouterr().out
    assert (tmp_path / "out" / "motion.html").exists()
    # Its own page is written over.
    assert is_page((tmp_path / "out" / "motion.html").read_bytes())
    assert simulate(tmp_path, "--times", "0:600:7", scene=SCENE.replace("value = 0.8", "value = 0.5")) == 3


def test_a_scene_with_data_begins_as_they_do(demo, tmp_path, capsys):
    out = tmp_path / "motion.html"
    assert main(["simulate", str(demo / "carts.toml"), "--out", str(out)]) == 0
    assert "751 times from 0 to 3 s" in capsys.readouterr().out
    assert "Two simulated carts" in out.read_text()


@pytest.mark.parametrize(
    ("options", "scene", "told"),
    [
        ((), SCENE, "ball.toml: data.files: missing, and no --data was given; expected a CSV file, or --times"),
        (
            ("--times", "0:1:3"),
            SCENE.replace("value = 0.8", 'value = "from data"'),
            "parameters.restitution.value: 'from data' without any, expected a number, --data",
        ),
        (("--times", "0:1"), SCENE, "--times '0:1'"),
        (
            ("--times", "0:1:3"),
            SCENE + '[ties]\nrestitution = "2 * gravity"\n',
            "ball.toml: parameters.restitution.value: 6.0 (by [ties]), expected within [0, 1] (SI)",
        ),
    ],
)
def test_what_is_missing_is_named(options, scene, told, tmp_path, capsys):
    assert simulate(tmp_path, *options, scene=scene) == 2
    assert_one_line(capsys, told)


@pytest.mark.parametrize("name", ["ball.toml", "run.csv", "linked.html", "report.html"])
def test_only_its_own_page_is_written_over(name, tmp_path, capsys):
    (tmp_path / "run.csv").write_text("t,y\n0,1\n")
    (tmp_path / "linked.html").symlink_to("ball.toml")
    (tmp_path / "report.html").write_text("<!DOCTYPE html>\n<title>mine</title>")
    (tmp_path / "ball.toml").write_text(SCENE)
    before = (tmp_path / name).read_text()
    assert simulate(tmp_path, "--times", "0:1:3", "--out", str(tmp_path / name)) == 2
    assert_one_line(capsys, f"{name}: exists already and is not of this command, expected another place: --out FILE")
    assert (tmp_path / name).read_text() == before


def test_a_page_is_not_a_folder(tmp_path, capsys):
    assert simulate(tmp_path, "--times", "0:1:3", "--out", str(tmp_path)) == 2
    assert_one_line(capsys, f"{tmp_path}: Is a directory")
