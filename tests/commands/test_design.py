"""`design`: what to film next, with data and without."""

import json

import pytest
from command_line import BALL, assert_one_line
from tables import cases

from diffcontact.commands.cli import main
from diffcontact.commands.design import parse_control
from diffcontact.identify import Interval
from diffcontact.scene.document import read_scene


def design(folder, *options, scene=BALL):
    (folder / "ball.toml").write_text(scene)
    return main(["design", str(folder / "ball.toml"), "--out", str(folder / "out"), *options])


# Nothing but the restitution is sought or fitted: sqrt(2 h / g) until it lands, and one bounce is seen.
HELD = BALL + "\n[fit]\nsubsteps = 1\n"
for name in ("gravity", "drag", "floor", "floor_drift", "q0", "u0"):
    HELD = HELD.replace(f"{name} = {{ ", f"{name} = {{ free = false, ")


@pytest.mark.full
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


# Two controls are set apart by a semicolon. The whole vector and an element of it are two values of one number, too.
@cases(
    "controls told",
    f"""
    q0 | --control 'q0': expected NAME=LOW:HIGH
    duration=1:x | --control 'duration=1:x': '1:x', expected LOW:HIGH
    q0[0]=20:10 | expected LOW:HIGH or VALUE,VALUE (Interval(low=20.0, high=10.0): bounds the wrong way round
    q0=0:10 | q0 is of shape (1,), expected LOW:HIGH of one element, as q0[0]
    q0=10,20 | 'q0=10,20': 10, expected values of shape (1,)
    q0=[10,20] | 'q0=[10,20]': [10, 20], expected values of shape (1,)
    q0=[[1],2] | 'q0=[[1],2]': [[1], 2], expected values of shape (1,)
    duration=-5:900 | 'duration=-5:900': -5.0, expected numbers above 0
    restitution=0.5,1.5 | 1.5, expected within [0, 1] (SI)
    q1=0:1 | --control 'q1=0:1': no parameter 'q1'; did you mean 'q0'?
    q0[0]=true | --control 'q0[0]=true': 'true', expected LOW:HIGH or VALUE
    q0[0]=1,"5" | ("5" is not a number)
    q0=[1{400 * "0"}] | expected 0 or a size from 1e-40 to 1e+40)
    q0[0]=1:2;q0[0]=5:6 | --control 'q0[0]=5:6': q0[0] is controlled twice, expected once
    q0=[0],[5];q0[0]=5:6 | --control 'q0[0]=5:6': q0[0] is controlled twice, expected once
    q0[0]=5:6;q0=[0],[5] | --control 'q0=[0],[5]': q0 is controlled twice, expected once
    """,
)
def test_what_is_wrong_is_named(controls, told, tmp_path, capsys):
    options = [word for control in controls.split(";") for word in ("--control", control)]
    assert design(tmp_path, "--times", "0:1:3", *options) == 2
    assert_one_line(capsys, told)


def test_without_times_data_are_asked_for(tmp_path, capsys):
    assert design(tmp_path) == 2
    assert_one_line(capsys, "ball.toml: data.files: missing, and no --data was given")


# In milliseconds a run is 1875 long; a film counts its frames, which last as long as the rate makes them.
IN_FRAMES = 'time_unit = "frame"\nrate = 240'


@pytest.mark.parametrize(
    ("time_unit", "text", "seconds"),
    [
        ('time_unit = "ms"', "duration=500:2000", Interval(0.5, 2.0)),
        ('time_unit = "ms"', "duration=500,2000", [0.5, 2.0]),
        ('time_unit = "s"', "duration=0.5:2", Interval(0.5, 2.0)),
        (IN_FRAMES, "duration=0.5:2", Interval(0.5, 2.0)),
        # As data.rate: frames a second, whatever the times are in.
        ('time_unit = "ms"', "frame_rate=120,240", [120.0, 240.0]),
        (IN_FRAMES, "frame_rate=120,240", [120.0, 240.0]),
        ('time_unit = "ms"', "floor=500:600", Interval(5.0, 6.0)),
    ],
)
def test_a_control_is_in_the_units_of_the_scene(time_unit, text, seconds, tmp_path):
    (tmp_path / "ball.toml").write_text(BALL.replace('time_unit = "ms"', time_unit))
    _, domain = parse_control(text, read_scene(tmp_path / "ball.toml"))
    assert domain == seconds


@pytest.mark.full
def test_durations_are_told_in_the_unit_in_which_they_are_given(tmp_path, capsys):
    """A fall of 1 s and a record of 0.95 s: whoever asks for 950 of the scene's milliseconds sees no bounce."""
    times = ("--times", "0:1875:76", "--control", "duration=950,1875", "--draws", "1")
    assert design(tmp_path, *times, scene=HELD) == 0
    assert "1 show nothing of restitution" in capsys.readouterr().out
    found = json.loads((tmp_path / "out" / "design.json").read_text())
    assert {one["setting"]["duration"] for one in found["candidates"]} == {950.0, 1875.0}
    assert design(tmp_path, "--times", "0:1500:61", "--control", "duration=1875", "--draws", "1", scene=HELD) == 0
    assert "duration 1875 ms: stderr of restitution" in capsys.readouterr().out
