"""What the commands print and write, but for fits: of the demo's carts, and of a ball that nobody filmed."""

import re
import time

import numpy as np
import pytest
from command_line import write

from diffcontact.commands import doctor
from diffcontact.commands.cli import main
from diffcontact.report import is_page

# In pixels and frames; the floor is 560 pixels below.
BALL = """\
title = "A ball that was never filmed"
fit = { substeps = 1 }
system = { kind = "bouncing ball" }
data = { noise = { value = 1, unit = "px" } }
preparation = { kind = "bounces", column = "y" }
[parameters]
restitution = { value = 0.8 }
gravity = { value = 3 }
drag = { value = 0 }
floor = { value = 600 }
floor_drift = { value = 0 }
q0 = { value = 40 }
u0 = { value = 0 }
"""


def test_check_reports_start_and_closest_approach(tmp_path, capsys):
    # Two carts that meet after 1.5 s and part more slowly, of one marker each.
    assert main(["check", str(write(tmp_path))]) == 0
    start, closest = capsys.readouterr().out.split("\n\n")
    assert "carts.csv, at the start (t = 0 s)" in start
    assert "active contacts              none" in start
    assert "carts.csv, closest (t = 1.5 s)" in closest
    assert "active contacts              0" in closest
    for block in (start, closest):
        assert "reverse triangle inequality  gamma = 1" in block
        assert "angle condition              holds" in block


def simulate(folder, *options, scene=BALL):
    (folder / "ball.toml").write_text(scene)
    return main(["simulate", str(folder / "ball.toml"), "--out", str(folder / "out" / "motion.html"), *options])


def test_a_scene_without_data_is_played_and_says_where_it_may_be_wrong(tmp_path, capsys):
    assert simulate(tmp_path, "--times", "0:60:121") == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert "121 times from 0 to 60 frame\nstatus 0: right" in printed.out
    page = (tmp_path / "out" / "motion.html").read_text()
    assert "A ball that was never filmed" in page
    # In the scene's units: a page that says seconds would be wrong.
    assert re.search(r"\bpx\b", page)
    assert re.search(r"\bframes?\b", page)
    # Bounces die away within a step of 100 frames. The page is of this command: it is written over.
    assert simulate(tmp_path, "--times", "0:12000:121") == 3
    assert "the steps are too long" in capsys.readouterr().out
    assert is_page((tmp_path / "out" / "motion.html").read_bytes())


def test_a_scene_with_data_begins_as_they_do(tmp_path, capsys):
    out = tmp_path / "motion.html"
    assert main(["simulate", str(write(tmp_path)), "--out", str(out)]) == 0
    assert "31 times from 0 to 3 s" in capsys.readouterr().out
    assert "Two simulated carts" in out.read_text()


def test_wrong_products_are_counted(monkeypatch):
    # What jax 0.10.2 does to every row beyond the 16384th, done to numpy's side instead.
    plain_sum, spoilt = np.sum, lambda a: np.where(np.arange(len(a)) < 16_384, 1.0, 1.01) if a.ndim > 1 else 1.0
    monkeypatch.setattr(doctor.np, "sum", lambda a, axis=None: plain_sum(a, axis=axis) * spoilt(a))
    assert doctor.wrong_matrix_products() == 40_000 - 16_384


@pytest.mark.parametrize(("error", "verdict"), [(1e-13, "right"), (1e-11, "WRONG"), (float("nan"), "WRONG")])
def test_a_device_that_computes_wrongly_is_named(monkeypatch, capsys, error, verdict):
    monkeypatch.setattr(doctor, "_errors", lambda: iter([("projection", error, 1e-12), ("other", 0.0, 1e-12)]))
    monkeypatch.setattr(doctor, "_cases", lambda most: iter(()))
    assert doctor.bench() == (verdict == "right")
    assert f"allowed: {verdict}" in capsys.readouterr().out


@pytest.mark.full
def test_this_device_is_right(capsys):
    assert doctor.bench(1)
    said = capsys.readouterr().out
    assert "WRONG" not in said
    assert said.count("10 spheres") == 2


@pytest.mark.full
def test_a_row_tells_how_many_in_a_second(capsys):
    # The table tells hundredths of a millisecond.
    doctor._row("doubled", 5, lambda x: time.sleep(0.02) or 2 * x, np.ones((64, 3)))
    name, copies, compilation, milliseconds, speed = capsys.readouterr().out.split()
    assert (name, copies) == ("doubled", "64")
    assert float(compilation) >= 0
    assert float(speed) == pytest.approx(64 * 5 / (1e-3 * float(milliseconds)), rel=0.01)
