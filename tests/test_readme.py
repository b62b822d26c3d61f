"""README.md and the gallery: their Python runs as it is printed, their commands exist, their links lead somewhere."""

import json
import re
import shlex
import textwrap
from pathlib import Path

import jax
import numpy as np
import pytest

from diffcontact.commands.cli import _parser, main
from diffcontact.commands.demo import TRUTH, measure
from diffcontact.host.files import write_atomically

ROOT = Path(__file__).resolve().parents[1]
README, GALLERY = ROOT / "README.md", ROOT / "experiments" / "README.md"
COMMAND = ".venv/bin/python"


def chapter(page, title):
    """The text below a heading, up to the next one as high."""
    level = title.partition(" ")[0]
    return re.split(rf"^#{{1,{len(level)}}} ", page.read_text().split(f"{title}\n")[1], flags=re.MULTILINE)[0]


def blocks(text):
    """The indented blocks of a text, in order."""
    found = re.findall(r"(?:^    .*\n|^\n(?=    ))+", text, flags=re.MULTILINE)
    return [textwrap.dedent(block).strip("\n") + "\n" for block in found]


def commands():
    """Every command that a page tells to run, and where."""
    return [
        (page.parent.name, line.strip())
        for page in (README, GALLERY)
        for block in blocks(page.read_text())
        for line in block.splitlines()
        if line.strip().startswith(COMMAND)
    ]


def test_the_ten_lines_print_what_is_printed_below_them(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code, printed = blocks(chapter(README, "## From Python"))
    names = {}
    with jax.numpy_rank_promotion("allow"):
        exec(code, names)
    told = capsys.readouterr().out
    assert [line.split() for line in told.splitlines()][: len(printed.splitlines())] == [
        line.split() for line in printed.splitlines()
    ]
    assert names["result"].params["restitution"].dtype == "float64"
    assert names["result"].interval95["restitution"][0] < 0.8 < names["result"].interval95["restitution"][1]


@pytest.mark.full
@pytest.mark.parametrize("double", [True, False])
def test_the_recipes_run_in_both_precisions(double, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {}
    with jax.numpy_rank_promotion("allow"), jax.enable_x64(double):
        for block in blocks(chapter(GALLERY, "# Recipes in Python")):
            # Fits and intervals take minutes to compile; in single precision the rest will do.
            if double or ("measured" not in block and "result" not in block):
                run(block, names)
    printed = capsys.readouterr().out
    assert names["motion"].q.dtype == ("float64" if double else "float32")
    # A difference of the motion beside its derivative.
    assert float(re.search(r"^(\d\S*)$", printed, re.MULTILINE)[1]) < 2e-3
    # The balls meet after 0.32 s and exchange their places.
    np.testing.assert_allclose(names["motion"].q[-1], [0.32, 1.2], atol=1e-5)
    assert names["s"].dq["mass"].shape == (11, 2, 2)
    assert names["ends"].shape == (1000, 2)
    assert (tmp_path / "out" / "runs.h5").exists()
    assert names["shaken"].surfaces.count == 100
    np.testing.assert_allclose(names["rolls"].u[-1, 0], 5 / 7, rtol=1e-5)
    if double:
        # 14 samples behind the impact, noise 1e-3 m, a lever of up to 0.7 m / 2.
        np.testing.assert_allclose(names["result"].params["restitution"], 0.7, atol=5e-3)


@pytest.mark.full
def test_a_recording_of_ones_own(tmp_path, monkeypatch, capsys):
    new, fit, _ = re.findall(
        r"^    \.venv/bin/python -m diffcontact (.*)$", chapter(README, "## From a CSV to parameters"), re.MULTILINE
    )
    monkeypatch.chdir(tmp_path)
    write_atomically(tmp_path / "out" / "demo" / "carts.csv", measure())
    assert main(new.split()) == 0
    assert "taken for two carts that collide" in capsys.readouterr().out
    assert main(fit.split()) == 0
    found = json.loads((tmp_path / "out" / "mine" / "result.json").read_text())["parameters"]["restitution"]
    # The sag, which is not there, is the same as in the demo: not free.
    assert abs(found["value"] - TRUTH["restitution"]) < 5 * found["stderr"]


@pytest.mark.parametrize(("place", "line"), commands())
def test_every_command_is_one(place, line):
    """Those of the package have their options; a study is there, knows what it is given, and has a test."""
    words = shlex.split(line.removeprefix(COMMAND).replace(" ...", ""))
    if words[:2] == ["-m", "diffcontact"]:
        options = _parser().parse_args(words[2:])
        scene = getattr(options, "scene", None)
        assert scene is None or str(scene).startswith("out/") or (ROOT / scene).exists()
        return
    script = ROOT / words[0]
    assert script.exists()
    tests = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    assert script.stem in tests
    code = (script / "__main__.py" if script.is_dir() else script).read_text()
    for option in words[1:]:
        assert option.removeprefix("--") in code


@pytest.mark.parametrize("page", [README, GALLERY], ids=["README", "gallery"])
def test_every_link_leads_somewhere(page):
    links = re.findall(r"\]\(([^)]+)\)", page.read_text())
    assert links
    for link in links:
        path, _, heading = link.partition("#")
        assert (page.parent / path).exists(), link
        titles = re.findall(r"^#+ (.*)$", (page.parent / path).read_text(), re.MULTILINE) if heading else ()
        anchors = [re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-") for title in titles]
        assert not heading or heading in anchors, link


def test_the_gallery_has_every_scene_study_and_picture():
    told = GALLERY.read_text()
    folder = ROOT / "experiments"
    for scene in folder.glob("*.toml"):
        assert f"`{scene.name}`" in told
    # What is no study has no command line and is imported by those that are.
    studies = [path.name for path in folder.glob("*.py") if '__name__ == "__main__"' in path.read_text()]
    studies += [path.parent.name for path in folder.glob("*/__main__.py")]
    assert len(studies) > 10
    for name in studies:
        assert f"experiments/{name}" in told
    for picture in (folder / "pictures").iterdir():
        assert f"pictures/{picture.name}" in told + README.read_text()
        assert picture.stat().st_size < (500_000 if picture.suffix == ".gif" else 100_000)


def run(block, names):
    """What needs an extra that is not installed ends its block."""
    try:
        exec(block, names)
    except ImportError as error:
        if "posterior" not in str(error):
            raise
