"""The air track's scene on the real measurements: what it must find there."""

import json

import pytest
from fitting import EXPERIMENTS

from diffcontact.commands.cli import main


@pytest.fixture
def runs(data):
    folder = data / "airtrack_carts"
    if not folder.is_dir():
        pytest.skip(f"{folder} is absent: experiments/airtrack.toml says where the runs come from")
    return folder


def fitted(folder, files):
    assert main(["fit", str(EXPERIMENTS / "airtrack.toml"), "--data", *map(str, files), "--out", str(folder)]) == 0
    return json.loads((folder / "result.json").read_text())["parameters"]


def test_six_runs_jointly_agree_with_the_scales(runs, tmp_path):
    found = fitted(tmp_path, sorted(runs.glob("A2_*.csv"))[:6])["mass_ratio"]
    weighed, (low, high) = 0.1817 / 0.1831, found["interval95"]
    assert abs(found["value"] / weighed - 1) < 0.02
    assert low < weighed < high
    # Narrower than +-4 %, and no narrower than the scatter of the runs allows (0.02 between runs, six of them).
    assert 0.01 < (high - low) / 2 < 0.04


def test_the_bumpers_that_stick(runs, tmp_path):
    assert 0 <= fitted(tmp_path, sorted(runs.glob("A3_*.csv"))[:3])["restitution"]["value"] < 0.03


def test_a_run_alone(runs, tmp_path):
    assert 0.74 < fitted(tmp_path, [runs / "A2_1.csv"])["restitution"]["value"] < 0.82
