import json
import re
from pathlib import Path

import ellipse
import numpy as np
import pytest

from diffcontact.commands.cli import main


def test_impacts_of_its_own_making_are_told_apart(tmp_path):
    """Stronge's law, e = 0.6 and mu = 0.2, from angles at which the slip ends or reverses."""
    rng = np.random.default_rng(0)
    angle, spin = rng.uniform(-1.2, 1.2, 40), rng.normal(size=40)
    before = np.column_stack([rng.normal(size=40), -1 - rng.uniform(size=40), 5 * spin])
    theta = np.broadcast_to([0.6, 0.2], (40, 2))
    after, _, status = ellipse.predicted("stronge")(theta, angle, before)
    assert not np.any(status)
    noise = 1e-3 * rng.normal(size=(40, 3)) / [1, 1, ellipse.GYRATION]
    bounces = ellipse.Bounces(angle, before, np.asarray(after) + noise)
    stronge = ellipse.fitted("stronge", bounces)
    assert np.all(np.abs(stronge.theta - [0.6, 0.2]) < 5 * stronge.error)
    assert np.all(stronge.error < 1e-3)
    assert ellipse.fitted("newton", bounces).aic > stronge.aic + 100


def test_measured_impacts_rule_newtons_law_out(data):
    found = ellipse.main([str(data / "ellipse_bounces"), "--smoke"])
    for one in found.values():
        assert 0.5 < one.theta[0] < 0.63
        assert 0.12 < one.theta[1] < 0.23
    assert found["newton"].aic > found["poisson"].aic + 10


@pytest.mark.studies
def test_the_readme_prints_what_its_recording_gives(tmp_path):
    root = Path(__file__).parents[2]
    scene = tmp_path / "ellipse.toml"
    assert main(["new", str(root / "experiments/recordings/ellipse.csv"), "--out", str(scene)]) == 0
    assert main(["fit", str(scene), "--out", str(tmp_path)]) == 0
    found = json.loads((tmp_path / "result.json").read_text())["parameters"]
    printed = re.findall(r"^    (restitution|friction) +([\d.]+) .*\[.*\]  1$", (root / "README.md").read_text(), re.M)
    assert len(printed) == 2
    for name, value in printed:
        np.testing.assert_allclose(found[name]["value"], float(value), rtol=0, atol=0.6 * 10.0 ** (2 - len(value)))
