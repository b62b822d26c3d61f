"""Scenes of `experiments/` through the command line, on measured files and on simulated ones."""

import json
from pathlib import Path

import pytest

from diffcontact.commands.cli import main

EXPERIMENTS = Path(__file__).resolve().parents[2] / "experiments"


def measured(data, *path):
    file = data.joinpath(*path)
    if not file.is_file():
        pytest.skip(f"{file} is absent: the head of the scene says where it comes from")
    return file


def fitted(scene, files, folder):
    """The parameters that `fit` writes, after checking that it says it is fitted and leaves its two files."""
    assert main(["fit", str(EXPERIMENTS / scene), "--data", *map(str, files), "--out", str(folder)]) == 0
    assert 'id="data"' in (folder / "report.html").read_text()
    result = json.loads((folder / "result.json").read_text())
    assert result["converged"] is True
    return result["parameters"]


def write_csv(path, header, *columns):
    """Columns of numbers as a CSV file; NaN is an empty field."""
    rows = zip(*columns, strict=True)
    path.write_text("\n".join([header, *(",".join("" if x != x else f"{x:.6f}" for x in row) for row in rows)]) + "\n")
    return path


def holds(entry, truth):
    low, high = entry["interval95"]
    return low <= truth <= high
