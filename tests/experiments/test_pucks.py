"""The pucks' scene: a collision that was measured, and one that was simulated with the masses that were weighed."""

import json

import numpy as np
import pytest
from fitting import fitted, measured, write_csv

HEADER = "time [s],x1 [cm],y1 [cm],x2 [cm],y2 [cm]"


RADII, DAMPING = 0.0734, 0.1


def collision(path, rng, masses=(29.797, 31.638), e=0.88):
    """86 pictures of two pucks that grip, in closed form, with 0.2 mm of noise."""
    m1, m2 = masses
    x, v = np.array([[-0.157, 0.056], [0.018, 0.033]]), np.array([[0.60, 0.033], [-0.012, -0.005]])
    times = np.round(0.01 * np.arange(86), 2)

    def glided(x, v, t):
        return x + v * -np.expm1(-DAMPING * t) / DAMPING, v * np.exp(-DAMPING * t)

    low, high = 0.0, 0.25
    for _ in range(60):
        middle = (low + high) / 2
        there = glided(x, v, middle)[0]
        low, high = (middle, high) if np.hypot(*(there[1] - there[0])) > RADII else (low, middle)
    at, before = glided(x, v, high)
    d = (at[1] - at[0]) / np.hypot(*(at[1] - at[0]))
    t = np.array([-d[1], d[0]])
    slip, reduced = before[1] - before[0], m1 * m2 / (m1 + m2)
    # Discs that grip: a third of the mass is felt along the contact.
    impulse = -reduced * ((1 + e) * (slip @ d) * d + (slip @ t) / 3 * t)
    after = before + np.stack([-impulse / m1, impulse / m2])
    places = [glided(x, v, s)[0] if s < high else glided(at, after, s - high)[0] for s in times]
    return write_csv(path, HEADER, times, *(100 * np.reshape(places, (86, 4)) + 0.02 * rng.normal(size=(86, 4))).T)


def reasons(folder):
    return " ".join(json.loads((folder / "result.json").read_text())["verdict"]["reasons"])


def test_a_simulated_collision_bounds_friction_from_below(tmp_path, rng):
    found = fitted("pucks.toml", [collision(tmp_path / "pucks.csv", rng)], tmp_path / "out")
    for name, truth in (("restitution", 0.88), ("mass[1]", 31.638), ("damping", 0.1)):
        assert abs(found[name]["value"] - truth) < 4 * found[name]["stderr"]
    low, high = found["friction"]["interval95"]
    assert 0.03 < low < 0.5
    assert high is None
    told = reasons(tmp_path / "out")
    assert "it gripped, so the data only bound it from below" in told
    assert "mass[1]" not in told


def test_the_measured_collision_contradicts_the_scales(data, tmp_path):
    found = fitted("pucks.toml", [measured(data, "pucks", "collision.csv")], tmp_path)
    assert found["restitution"]["value"] == pytest.approx(0.88, abs=0.02)
    told = reasons(tmp_path)
    assert "the data and the prior of mass[1] are" in told
    assert "friction >= " in told
