"""The pages of the site: their Python prints what stands below it, commands run, every public name has a place."""

import contextlib
import doctest
import inspect
import io
import re
import subprocess
import sys
from pathlib import Path

import jax
import pytest

import diffcontact as dc
from diffcontact.commands.cli import main

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "experiments" / "site" / "pages"
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def blocks(page):
    """(language, text) of the fenced blocks of a page, in order."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def test_every_public_name_has_a_place_in_the_reference():
    told = re.findall(r"^::: diffcontact\.(\S+)$", "\n".join(p.read_text() for p in (PAGES / "api").iterdir()), re.M)
    # A function that has the name of its module.
    told = [re.sub(r"(\b\w+)\.\1$", r"\1", name) for name in told]
    names = set()
    for name in dc.__all__:
        room = getattr(dc, name)
        listed = getattr(room, "__all__", ()) if inspect.ismodule(room) else ()
        names |= {f"{name}.{inner}" for inner in listed} if listed else {name}
    # A few have two names.
    twice = {f"identify.{name}" for name in dc.__all__} & names
    assert sorted(told) == sorted(names - twice)


def test_every_script_of_a_page_is_there():
    told = "\n".join(page.read_text(encoding="utf-8") for page in PAGES.rglob("*.md"))
    scripts = set(re.findall(r"python (experiments/[\w./]+)", told))
    assert len(scripts) > 10
    assert not [script for script in scripts if not (ROOT / script).exists()]


@pytest.mark.studies
@pytest.mark.parametrize("page", sorted(PAGES.rglob("*.md")), ids=lambda page: page.stem)
def test_a_page_says_what_is_so(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names, printed = {"__name__": "page"}, ""
    with jax.numpy_rank_promotion("allow"):
        for language, text in blocks(page):
            if language == "python":
                with contextlib.redirect_stdout(io.StringIO()) as out:
                    exec(compile(text, str(page), "exec"), names)
                printed = out.getvalue()
            elif language == "text":
                told = doctest.OutputChecker().output_difference(doctest.Example("", text), printed, FLAGS)
                assert doctest.OutputChecker().check_output(text, printed, FLAGS), f"{told}\n{printed}"
            elif language == "console":
                for command in re.findall(r"^python -m diffcontact (.*)$", text, re.MULTILINE):
                    assert main([*command.split(), "--quiet"]) == 0


@pytest.mark.studies
def test_the_site_is_built_without_a_warning(tmp_path):
    pytest.importorskip("mkdocs", reason="the site needs pip install '.[docs]'")
    pytest.importorskip("jupytext", reason="the site needs pip install '.[docs]'")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(tmp_path)]
    ended = subprocess.run(
        [*command, "-f", str(ROOT / "experiments" / "site" / "mkdocs.yml")], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    for page in tmp_path.rglob("*.html"):
        # Nothing is fetched from elsewhere.
        assert not re.search(r'<(?:script|link|img)[^>]+(?:src|href)="https?:', page.read_text(encoding="utf-8"))
