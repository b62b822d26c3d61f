"""The air-hockey scene: rebounds from a cushion among hits by the hand, simulated and measured."""

import json

import numpy as np
import pytest
from fitting import EXPERIMENTS, fitted, measured, write_csv

from diffcontact.scene import read_study

E, MU, E_T, DAMPING = 0.65, 0.25, 0.6, 0.1
# Velocities along the cushion and towards it [m/s]; fast ones along it slip.
REBOUNDS = ((1.8, -1.6), (-1.6, -1.2), (0.4, -2.0), (2.0, -1.4), (-0.9, -2.4), (1.2, -0.9))


def played(path, rng):
    """A puck that comes to the cushion, in closed form, and is stopped and put back by hand after each rebound."""
    step, places = 1 / 118, []
    for along, towards in REBOUNDS:
        x, v = np.array([0.9, 0.45]), np.array([along, towards])
        # The centre is at 0.03 m when the puck touches.
        hit = -np.log1p(-DAMPING * (x[1] - 0.03) / -v[1]) / DAMPING
        at, before = x + v * -np.expm1(-DAMPING * hit) / DAMPING, v * np.exp(-DAMPING * hit)
        normal = -(1 + E) * before[1]
        rub = -np.sign(before[0]) * min(MU * normal, (1 + E_T) * abs(before[0]) / 3)
        after = np.array([before[0] + rub, -E * before[1]])
        for t in np.arange(0.0, 1.6 * hit, step):
            late = max(t - hit, 0.0)
            glide = x + v * -np.expm1(-DAMPING * t) / DAMPING
            places.append(glide if t < hit else at + after * -np.expm1(-DAMPING * late) / DAMPING)
        last = places[-1]
        places += [last + (np.array([0.9, 0.45]) - last) * part for part in np.linspace(0.1, 1.0, 20) ** 2]
    seen = np.array(places) + 1e-3 * rng.normal(size=(len(places), 2))
    return write_csv(path, "time [s],x [m],y [m]", step * np.arange(len(places)), *seen.T)


def test_rebounds_are_runs_and_hits_by_the_hand_are_none(tmp_path, rng):
    runs = read_study(EXPERIMENTS / "air_hockey.toml", [played(tmp_path / "puck.csv", rng)]).runs
    assert len(runs) == len(REBOUNDS)
    for run, (along, towards) in zip(runs, REBOUNDS, strict=True):
        # 1 mm of noise in ten samples: 0.05 m/s; the damping takes 4 % away on the way.
        np.testing.assert_allclose(run.start["u0"], [along, towards], atol=0.3)
        assert "bounce near t = " in run.label


def test_simulated_rebounds(tmp_path, rng):
    found = fitted("air_hockey.toml", [played(tmp_path / "puck.csv", rng)], tmp_path / "out")
    for name, truth in (("restitution", E), ("friction", MU), ("tangential_restitution", E_T)):
        assert abs(found[name]["value"] - truth) < 4 * found[name]["stderr"]
        assert found[name]["stderr"] < 0.1


def test_the_measured_puck(data, tmp_path):
    found = fitted("air_hockey.toml", [measured(data, "pucks", "air_hockey.csv")], tmp_path)
    # By hand, a straight line on each side: 0.38 to 0.73 for these, half of them from 0.54 to 0.67.
    assert found["restitution"]["value"] == pytest.approx(0.58, abs=0.06)
    assert 0.1 < found["friction"]["value"] < 0.5
    told = " ".join(json.loads((tmp_path / "result.json").read_text())["verdict"]["reasons"])
    assert "the runs differ by more than their own errors" in told
