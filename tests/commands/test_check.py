from diffcontact.cli import main
from diffcontact.commands.demo import SCENE

# Two carts that meet after 1.5 s and part more slowly, of one marker each.
ROWS = ["time [s],x1 [mm],y1 [mm],x2 [mm],y2 [mm]"] + [
    f"{0.1 * i:.1f},{-20 + 0.2 * abs(i - 15):.2f},0,{20 + 0.5 * abs(i - 15):.2f},0" for i in range(31)
]


def test_check_reports_start_and_closest_approach(tmp_path, capsys):
    (tmp_path / "carts.toml").write_text(SCENE)
    (tmp_path / "carts.csv").write_text("\n".join(ROWS) + "\n")
    assert main(["check", str(tmp_path / "carts.toml")]) == 0
    start, closest = capsys.readouterr().out.split("\n\n")
    assert "carts.csv, at the start (t = 0 s)" in start
    assert "active contacts              none" in start
    assert "carts.csv, closest (t = " in closest
    assert "active contacts              0" in closest
    for block in (start, closest):
        assert "reverse triangle inequality  gamma = 1" in block
        assert "angle condition              holds" in block


def test_check_of_a_missing_scene_is_one_line(capsys):
    assert main(["check", "no/such/scene.toml"]) == 2
    assert capsys.readouterr().err == "no/such/scene.toml: No such file or directory\n"
