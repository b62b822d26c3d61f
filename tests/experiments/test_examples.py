"""The first steps, run as scripts in a folder of their own: what they find is what they were made with."""

import runpy
from pathlib import Path

import numpy as np
import pytest

from diffcontact.commands.demo import TRUTH

FOLDER = Path(__file__).resolve().parents[2] / "experiments"
NAMES = ("first_steps", "carts", "own_system", "all_devices", "sensitivities")


@pytest.fixture
def left(monkeypatch, tmp_path):
    """The names that a script leaves behind; what it sets for the JAX of its own process ends with the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JAX_NUM_CPU_DEVICES", "1")
    return lambda name: runpy.run_path(str(FOLDER / f"{name}.py"))


def holds(result, truth):
    """Whether every interval, widened by half, holds the truth: 95 % of them do as they are."""
    for name, value in truth.items():
        ends = np.asarray(result.interval95[name], float)
        middle, half = ends.mean(axis=-1), 0.75 * np.ptp(ends, axis=-1)
        np.testing.assert_array_less(np.abs(middle - value), half, err_msg=name)


def bounced(e, height, time, g=9.81):
    """The height of a point that falls from `height`, flight after flight; endless flights take a finite time."""
    fall, speed = np.sqrt(2 * height / g), np.sqrt(2 * height * g)
    if time >= fall * (1 + e) / (1 - e):
        return 0.0
    time -= fall
    while time > 2 * e * speed / g:
        speed *= e
        time -= 2 * speed / g
    return e * speed * time - g / 2 * time**2


def test_first_steps(left, tmp_path):
    found = left("first_steps")
    np.testing.assert_allclose(found["slope"], found["difference"], rtol=1e-6)
    holds(found["result"], {"restitution": 0.8, "gravity": [-9.81], "height": [1.0]})
    assert found["result"].verdict.explains == "yes"
    assert (tmp_path / "out" / "first_steps" / "bounce.png").read_bytes()[:4] == b"\x89PNG"
    assert "<html" in (tmp_path / "out" / "first_steps" / "bounce.html").read_text()


def test_carts(left):
    found = left("carts")
    assert len(found["files"]) == 3
    holds(found["result"], {name: TRUTH[name] for name in ("restitution", "mass_ratio")})
    assert found["result"].verdict.explains == "yes"


def test_own_system(left):
    found = left("own_system")
    assert found["motion"].status == 0
    assert "the derivative exists" in str(found["certificate"])
    holds(found["result"], found["truth"])


def test_all_devices(left, capsys):
    found = left("all_devices")
    assert "20000 of 20000 lanes are fine" in capsys.readouterr().out
    for lane in (0, 5000, 19999):
        e, height = found["batch"]["restitution"][lane], found["batch"]["height"][lane, 0]
        np.testing.assert_allclose(found["found"]["height"][lane], bounced(e, height, 1.5), atol=1e-9)
    assert np.array_equal(found["again"]["height"], found["found"]["height"])


def test_sensitivities(left):
    found = left("sensitivities")
    # 0.3 m at 1 m/s.
    np.testing.assert_allclose(found["slope"], -0.3, rtol=1e-9)
    # Places by restitution, 0.7 s after the impact: u+ = (m1 - e m2, (1 + e) m1) u / (m1 + m2).
    by_restitution = found["found"].dq["restitution"][-1].ravel()
    np.testing.assert_allclose(by_restitution, 0.7 * np.array([-0.8, 1.0]) / 1.8, rtol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_they_open_as_notebooks(name):
    """Percent cells: text, and code that compiles; no command line, which a notebook has not."""
    text = (FOLDER / f"{name}.py").read_text()
    head, *cells = text.split("# %%")
    assert head == ""
    assert cells[0].startswith(" [markdown]\n# # ")
    for cell in cells:
        kind, _, body = cell.partition("\n")
        if kind == " [markdown]":
            assert all(line.startswith("#") for line in body.splitlines() if line)
        else:
            compile(body, name, "exec")
    assert "argparse" not in text
