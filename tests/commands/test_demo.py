import json
import re
from pathlib import Path

from command_line import assert_one_line

from diffcontact.cli import main
from diffcontact.commands.demo import TRUTH
from diffcontact.commands.overwriting import is_result
from diffcontact.report import is_page


def test_the_demo_finds_what_it_simulated(demo):
    result = json.loads((demo / "result.json").read_text())
    assert result["converged"] is True
    for name in ("restitution", "mass_ratio"):
        entry = result["parameters"][name]
        # A fixed seed: within four standard errors, and these are small.
        assert abs(entry["value"] - TRUTH[name]) < 4 * entry["stderr"]
        assert entry["stderr"] < 1e-3


def test_the_readme_shows_what_the_demo_finds(demo):
    """To the digits that are shown: 0.6 of the last one, as another processor may round otherwise."""
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    shown = re.findall(r"^    (\w+) +\S+ +(\S+) +(\S+)   holds the truth$", readme, re.MULTILINE)
    found = json.loads((demo / "result.json").read_text())["parameters"]
    found = {name.partition("[")[0]: entry for name, entry in found.items()}
    assert [name for name, *_ in shown] == [name for name in TRUTH if name in found]
    for name, estimate, stderr in shown:
        for text, value in ((estimate, found[name]["value"]), (stderr, found[name]["stderr"])):
            number, _, exponent = text.partition("e")
            digit = 10.0 ** (int(exponent or 0) - len(number.partition(".")[2]))
            assert abs(value - float(text)) < 0.6 * digit


def test_a_scene_that_was_edited_stays(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("diffcontact.commands.demo.measure", lambda: "t\n")
    (tmp_path / "carts.toml").write_text("mine")
    assert main(["demo", "--out", str(tmp_path)]) == 2
    assert_one_line(capsys, "carts.toml: exists already and is not of this command, expected another place: --out DIR")
    assert (tmp_path / "carts.toml").read_text() == "mine"
    assert not (tmp_path / "carts.csv").exists()


def test_what_the_demo_found_is_written_over(demo):
    for name, own in (("result.json", is_result), ("report.html", is_page)):
        assert own((demo / name).read_bytes())
