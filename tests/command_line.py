"""What the tests of the command line share: two carts on a rail, and what an error looks like."""

from diffcontact.commands.demo import SCENE

# Everything but the bad input fits together, and nothing is simulated before all input is read: rows need no physics.
ROWS = ["time [s],x1 [mm],y1 [mm],x2 [mm],y2 [mm]"] + [
    f"{0.1 * i:.1f},{-20 + 0.2 * abs(i - 15):.2f},0,{20 + 0.5 * abs(i - 15):.2f},0" for i in range(31)
]

# A ball that falls 5 m with g = 10 m/s^2, y downwards: everything is in the scene, nothing was measured.
BALL = """
title = "A falling ball"

[system]
kind = "bouncing ball"
length = "m"
time = "s"

[data]
time = "t"
time_unit = "ms"
noise = { value = 1, unit = "mm" }

[preparation]
kind = "bounces"
column = "y"
unit = "m"

[parameters]
restitution = { value = 0.5 }
gravity = { value = 10 }
drag = { value = 0 }
floor = { value = 500, unit = "cm" }
floor_drift = { value = 0 }
q0 = { value = 0, unit = "cm" }
u0 = { value = 0 }
"""


def write(folder, scene=SCENE, rows=ROWS):
    (folder / "carts.toml").write_text(scene)
    (folder / "carts.csv").write_text("\n".join(rows) + "\n")
    return folder / "carts.toml"


def assert_one_line(capsys, expected):
    captured = capsys.readouterr().err
    assert captured.count("\n") == 1, captured
    assert captured.endswith("\n")
    assert expected in captured, captured
