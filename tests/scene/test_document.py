import re
from pathlib import Path

import jax
import numpy as np
import pytest
from tables import cases

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
    gaps = jax.jit(study.scene.ready.system.gap)(0.0, study.start["q0"][0], study.params(0))
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


@cases(
    "old new message",
    r"""
    free = false | free = false, bounds = [0, 1] | parameters.restitution.bounds: of a parameter that is not free
    1, 10] } | 1, 10], prior = { mean = 12, sigma = 0.9 } } | mean: 12 is beyond the bounds [1.0, 10.0] by more than 2
    "g" } | "g", prior = { mean = [100, -3], sigma = 1 } } | mean: [100, -3] is beyond the bounds [0.0, inf] by more
    box = [0, 1000] |  | system.unit: of no box, expected system.box with it
    dimension = 1 | dimension = 1\nfriction = "constant" | system.friction: of balls that do not spin
    first_samples = 3 | first_samples = 3\nangle_unit = "deg" | preparation.angle_unit: without preparation.angles
    [data] | [data]\nlikelihood = 1.5 | data.likelihood: 1.5, expected from 0 to 1
    [data] | [data]\nscale = { value = 2 } | data.scale: of a scene without a unit in px, expected one
    time = "t"\ntime_unit = "ms" | rate = 50\nuntimed = "leave out" | data.untimed: without data.time
    """,
)
def test_what_would_not_be_read_or_makes_no_sense_is_refused(tmp_path, old, new, message):
    assert SCENE.count(old) == 1
    (tmp_path / "balls.toml").write_text(SCENE.replace(old, new))
    (tmp_path / "one.csv").write_text("t,a,b\n" + "".join(f"{10 * i},{200 + i},{700 - 2 * i}\n" for i in range(5)))
    with pytest.raises(ValueError, match=r"balls\.toml: .*" + re.escape(message)):
        read_study(tmp_path / "balls.toml", [tmp_path / "one.csv"])


def test_a_prior_may_be_beyond_a_bound_by_its_error(tmp_path):
    (tmp_path / "balls.toml").write_text(
        SCENE.replace("bounds = [1, 10] }", "bounds = [1, 10], prior = { mean = 12, sigma = 1.1 } }")
    )
    assert read_scene(tmp_path / "balls.toml").parameters["radius"].prior.mean == pytest.approx(0.12)


def test_the_rate_of_a_system_that_counts_frames_is_refused(tmp_path):
    film = Path(__file__).parents[2] / "experiments" / "bouncing_ball.toml"
    (tmp_path / "film.toml").write_text(film.read_text().replace("[data]", "[data]\nrate = 30"))
    with pytest.raises(
        ValueError, match=r"film\.toml: data\.rate: of a system that counts frames, expected time = 's'"
    ):
        read_scene(tmp_path / "film.toml")
