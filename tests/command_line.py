"""What the tests of the command line share: two carts on a rail, and what an error looks like."""

from diffcontact.demo import SCENE

# Everything but the bad input fits together, and nothing is simulated before all input is read: rows need no physics.
ROWS = ["time [s],x1 [mm],y1 [mm],x2 [mm],y2 [mm]"] + [
    f"{0.1 * i:.1f},{-20 + 0.2 * abs(i - 15):.2f},0,{20 + 0.5 * abs(i - 15):.2f},0" for i in range(31)
]


def write(folder, scene=SCENE, rows=ROWS):
    (folder / "carts.toml").write_text(scene)
    (folder / "carts.csv").write_text("\n".join(rows) + "\n")
    return folder / "carts.toml"


def assert_one_line(capsys, expected):
    captured = capsys.readouterr().err
    assert captured.count("\n") == 1, captured
    assert captured.endswith("\n")
    assert expected in captured, captured
