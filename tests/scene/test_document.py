import numpy as np
import pytest

from diffcontact.identify import Interval, Positive, Real
from diffcontact.scene import read_study
from diffcontact.scene.document import read_scene

SCENE = """\
[system]
kind = "balls"
count = 2
dimension = 1
box = [0, 1000]
unit = "mm"

[data]
time = "t"
time_unit = "ms"
noise = { value = 1, unit = "mm" }

[preparation]
kind = "coordinates"
columns = ["a", "b"]
unit = "mm"
first_samples = 3

[parameters]
mass = { value = [100, 200], unit = "g" }
radius = { value = 5, unit = "cm", bounds = [1, 10] }
gravity = { value = [0], unit = "m/s^2" }
restitution = { value = 0.9, free = false }
q0 = { value = "from data", unit = "mm", per_run = true }
u0 = { value = "from data", unit = "mm/s" }
"""


@pytest.fixture
def study(tmp_path):
    (tmp_path / "balls.toml").write_text(SCENE)
    for name, last in (("one.csv", 692), ("two.csv", 693)):
        rows = [f"{10 * i},{200 + i},{700 - 2 * i}" for i in range(4)] + [f"40,204,{last}"]
        (tmp_path / name).write_text("\n".join(["t,a,b", *rows]) + "\n")
    return read_study(tmp_path / "balls.toml", [tmp_path / "one.csv", tmp_path / "two.csv"])


def test_another_system_needs_no_other_code(study):
    params = {name: value[0] if name in study.per_run else value for name, value in study.start.items()}
    gaps = study.scene.ready.system.gap(0.0, params["q0"], params)
    # Low walls, high walls, the pair; radius 0.05 m in a box of 1 m.
    np.testing.assert_allclose(gaps, [0.15, 0.65, 0.75, 0.25, 0.4], atol=1e-12)


def test_values_are_in_si_and_runs_have_their_own(study):
    np.testing.assert_allclose(study.start["mass"], [0.1, 0.2], rtol=1e-15)
    np.testing.assert_allclose(study.start["radius"], [0.05, 0.05], rtol=1e-15)
    np.testing.assert_allclose(study.start["q0"], [[0.2, 0.7], [0.2, 0.7]], rtol=1e-12)
    np.testing.assert_allclose(study.start["u0"], [0.1, -0.2], rtol=1e-9)
    np.testing.assert_allclose(study.runs[0].times, [0.0, 0.01, 0.02, 0.03, 0.04], rtol=1e-15)
    assert study.per_run == ("q0",)
    assert study.samples == 20


@pytest.mark.parametrize(("line", "expected"), [("", "auto"), ('substeps = "auto"', "auto"), ("substeps = 4", 4)])
def test_steps_are_as_short_as_the_noise_asks_for_or_as_told(tmp_path, line, expected):
    (tmp_path / "balls.toml").write_text(f"{SCENE}[fit]\n{line}\n")
    assert read_scene(tmp_path / "balls.toml").substeps == expected


def test_domains_come_from_bounds_or_from_physics(study):
    parameters = study.scene.parameters
    assert parameters["mass"].domain == Positive()
    assert parameters["gravity"].domain == Real()
    assert parameters["radius"].domain == Interval(0.01, 0.1)
    assert parameters["restitution"].domain is None
