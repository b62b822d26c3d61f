"""The package as an index has it: built, checked, installed in a fresh environment, used without the checkout."""

import email
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.studies

ROOT = Path(__file__).resolve().parents[1]
COMMANDS = (
    "-m diffcontact",
    "-m diffcontact demo",
    "-m diffcontact new out/demo/carts.csv --out mine.toml",
    "-m diffcontact fit mine.toml --out mine",
    "-m diffcontact simulate out/demo/carts.toml --out motion.html",
)


def run(*words, **options):
    """The output of a command that has to succeed."""
    ended = subprocess.run(words, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, **options)
    assert ended.returncode == 0, ended.stdout
    return ended.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder with sdist and wheel; the wheel is built from the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT))
    return folder


def test_an_index_takes_both(built):
    archives = sorted(built.iterdir())
    assert len(archives) == 2
    run(sys.executable, "-m", "twine", "check", "--strict", *map(str, archives))


def test_the_metadata_are_complete(built):
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (file,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(archive.read(file))
    assert {name.partition("/")[0] for name in names} == {"diffcontact", file.partition("/")[0]}
    assert {"diffcontact/py.typed", "diffcontact/report/assets/page.css"} <= set(names)
    assert metadata["Version"] != "0.0"
    assert metadata["License-Expression"] == "Apache-2.0"
    assert "all" in metadata.get_all("Provides-Extra")
    assert metadata["Author"] is None
    assert metadata["Author-email"] is None
    text = metadata.get_payload()
    assert "## From Python" in text
    assert "](experiments/" not in text
    assert "](diffcontact/" not in text


def test_the_sdist_has_the_tests_and_no_leavings(built):
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"README.md", "LICENSE", "tests/test_package.py", "experiments/carts.py"} <= names
    assert not {name for name in names if ".venv" in name or ".jax_cache" in name or "__pycache__" in name}


def test_the_wheel_works_in_a_fresh_environment_without_the_checkout(built, tmp_path):
    (wheel,) = built.glob("*.whl")
    run(sys.executable, "-m", "venv", str(tmp_path / "venv"))
    python = str(tmp_path / "venv" / "bin" / "python")
    run(python, "-m", "pip", "install", "-q", str(wheel))
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "XLA_FLAGS")}
    for command in COMMANDS:
        run(python, *command.split(), cwd=tmp_path, env=kept)
    for page in ("out/demo/report.html", "mine/report.html", "motion.html"):
        assert (tmp_path / page).read_text(encoding="utf-8").lower().startswith("<!doctype html>")
