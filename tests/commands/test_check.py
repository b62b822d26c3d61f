from command_line import write

from diffcontact.cli import main


def test_check_reports_start_and_closest_approach(tmp_path, capsys):
    # Two carts that meet after 1.5 s and part more slowly, of one marker each.
    assert main(["check", str(write(tmp_path))]) == 0
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
