"""The demo is fitted once; what it prints and writes is what every fit does."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from diffcontact.commands.cli import main
from diffcontact.commands.demo import TRUTH
from diffcontact.commands.outcome import is_result
from diffcontact.report import is_page
from diffcontact.scene.study import Study, read_study


@pytest.fixture
def found(demo):
    return json.loads((demo / "result.json").read_text())


def test_the_demo_finds_what_it_simulated(found):
    assert found["converged"] is True
    for name in ("restitution", "mass_ratio"):
        entry = found["parameters"][name]
        # A fixed seed: within four standard errors, and these are small.
        assert abs(entry["value"] - TRUTH[name]) < 4 * entry["stderr"]
        assert entry["stderr"] < 1e-3


def test_nothing_is_set_free_where_nothing_asks_for_it(demo, done, monkeypatch):
    assert (done.freed, done.verdict.explains) == ((), "yes")
    monkeypatch.setattr(Study, "selected", lambda study, progress: (study, done))
    assert read_study(demo / "carts.toml").fit() is done


def test_all_that_takes_long_is_told_before_it_compiles(demonstrated):
    stages = demonstrated[2]
    assert [stage for stage in stages if stage[0] in ("simulation", "fit", "verdict")] == [
        ("simulation", "compiling"),
        ("fit", "compiling"),
        ("verdict", "compiling"),
    ]


def test_the_readme_shows_what_the_demo_finds(found):
    """To the digits that are shown: 0.6 of the last one, as another processor may round otherwise."""
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    shown = re.findall(r"^    (\w+) +\S+ +(\S+) +(\S+)   holds the truth$", readme, re.MULTILINE)
    entries = {name.partition("[")[0]: entry for name, entry in found["parameters"].items()}
    assert [name for name, *_ in shown] == [name for name in TRUTH if name in entries]
    for name, estimate, stderr in shown:
        for text, value in ((estimate, entries[name]["value"]), (stderr, entries[name]["stderr"])):
            number, _, exponent = text.partition("e")
            digit = 10.0 ** (int(exponent or 0) - len(number.partition(".")[2]))
            assert abs(value - float(text)) < 0.6 * digit


def test_a_result_has_its_schema_and_the_units_of_the_scene(demo, found):
    assert {"message", "cost", "dof", "parameters", "versions", "data_sha256"} <= found.keys()
    distance = found["parameters"]["distance[0]"]
    assert distance["unit"] == "mm"
    assert 99 < distance["interval95"][0] < distance["value"] < distance["interval95"][1] < 101
    assert list(found["data_sha256"]) == [str(demo / "carts.csv")]
    assert "jax" in found["versions"]


def test_the_page_of_a_fit_needs_nothing_else(demo):
    page = (demo / "report.html").read_text()
    assert is_page(page.encode())
    assert is_result((demo / "result.json").read_bytes())
    # The only address is that of the library in it, in its licence.
    assert set(re.findall(r"https?://[^ \"\n]*", page)) == {"https://github.com/leeoniya/uPlot"}
    for part in ("restitution", "measured − fitted", "Error bars", "SHA-256", "jax"):
        assert part in page
    # The simulated noise was 0.1 mm.
    assert re.search(r"residuals: 0\.(09|1)\d* mm", page)


@pytest.mark.parametrize(
    ("converged", "explains", "strict", "code"),
    [(True, "yes", True, 0), (True, "no", False, 0), (True, "no", True, 3), (False, "yes", False, 3)],
)
def test_the_exit_code_tells_what_was_found(demo, done, tmp_path, monkeypatch, converged, explains, strict, code):
    said = replace(done.verdict, explains=explains)
    other = replace(done, converged=converged, message="stopped after 1 evaluation", stored_verdict=said)
    monkeypatch.setattr(Study, "selected", lambda study: (study, other))
    options = ["--strict"] if strict else []
    assert main(["fit", str(demo / "carts.toml"), "--out", str(tmp_path), *options]) == code
    assert json.loads((tmp_path / "result.json").read_text())["converged"] is converged
    page = (tmp_path / "report.html").read_text()
    assert ("<p class=bad>stopped after 1 evaluation</p>" in page) is not converged
