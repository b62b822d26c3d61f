"""`design`: what to film next, with data and without."""

import json

import pytest
from command_line import BALL, assert_one_line

from diffcontact.cli import main


def design(folder, *options, scene=BALL):
    (folder / "ball.toml").write_text(scene)
    return main(["design", str(folder / "ball.toml"), "--out", str(folder / "out"), *options])


# Nothing but the restitution is sought or fitted: sqrt(2 h / g) until it lands, and one bounce is seen.
HELD = BALL + "\n[fit]\nsubsteps = 1\n"
for name in ("gravity", "drag", "floor", "floor_drift", "q0", "u0"):
    HELD = HELD.replace(f"{name} = {{ ", f"{name} = {{ free = false, ")


@pytest.mark.slow
def test_without_data_in_the_units_of_the_scene(tmp_path, capsys):
    assert design(tmp_path, "--times", "0:1875:76", "--control", "q0=[0],[50],[480]", "--draws", "1", scene=HELD) == 0
    printed = capsys.readouterr().out
    found = json.loads((tmp_path / "out" / "design.json").read_text())
    told = {one["setting"]["q0"][0]: one["stderr"]["restitution"] for one in found["candidates"]}
    # y = floor - e v (t - T) + g (t - T)^2 / 2 with T = sqrt(2 h / g), v = g T, one sample each 25 ms of 1 mm.
    for q0, height in ((0.0, 5.0), (50.0, 4.5)):
        fall = (2 * height / 10) ** 0.5
        after = [t - fall for t in (0.025 * i for i in range(76)) if fall < t < 2 * fall]
        assert told[q0] == pytest.approx(1e-3 / sum((10 * fall * s) ** 2 for s in after) ** 0.5, rel=1e-6)
    # The second tells less than a tenth more: that is too little for advice.
    assert 1 < told[0.0] / told[50.0] < 1.1 or 1 < told[50.0] / told[0.0] < 1.1
    assert "no candidate tells a tenth more of restitution than the run as it was" in printed
    assert "stderr restitution" in printed
    assert (tmp_path / "out" / "design.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ((), "ball.toml: data.files: missing, and no --data was given"),
        (("--times", "0:1:3", "--control", "q0"), "--control 'q0': expected NAME=LOW:HIGH"),
        (("--times", "0:1:3", "--control", "duration=1:x"), "--control 'duration=1:x': '1:x', expected LOW:HIGH"),
        (("--times", "0:1:3", "--control", "q1=0:1"), "no parameter 'q1'; did you mean 'q0'?"),
    ],
)
def test_what_is_wrong_is_named(options, told, tmp_path, capsys):
    assert design(tmp_path, *options) == 2
    assert_one_line(capsys, told)


@pytest.mark.parametrize("name", ["design.json", "design.png"])
def test_what_is_no_design_is_not_written_over(name, tmp_path, capsys):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_text("mine")
    assert design(tmp_path, "--times", "0:1:3") == 2
    assert_one_line(capsys, f"{name}: exists already and is not of this command, expected another place: --out DIR")
    assert (tmp_path / "out" / name).read_text() == "mine"
