"""Impacts that were heard are all that is measured."""

import numpy as np
import pytest
from tables import cases

from diffcontact.scene import read_study

SCENE = """\
[system]
kind = "bouncing ball"
length = "m"
time = "s"

[data]
time = "impact [s]"
time_unit = "s"
noise = { value = 0.5, unit = "ms" }

[preparation]
kind = "sound"

[parameters]
restitution = { value = "from data" }
gravity = { value = 9.81, free = false }
drag = { value = 0, free = false }
floor = { value = 0, free = false }
floor_drift = { value = 0, free = false }
q0 = { value = 0, free = false }
u0 = { value = "from data" }

[fit]
shooting = "single"
"""
# The ball leaves the floor at 1 s with 2.943 m/s: 0.6 s of flight, and 0.8 of it each time.
HEARD = 1.0 + np.cumsum([0.0, 0.6, 0.48, 0.384, 0.3072])


def write(folder, scene=SCENE, times=HEARD):
    (folder / "ball.toml").write_text(scene)
    header = ",".join(f'"Bounce {i} (s)","Height {i} (m)"' for i in range(len(times)))
    (folder / "ball.csv").write_text(header + "\n" + ",".join(f"{t:.9E},0.1" for t in times) + "\n")
    return folder / "ball.toml", [folder / "ball.csv"]


def test_starts_are_those_of_the_times_of_impacts(tmp_path):
    study = read_study(*write(tmp_path))
    np.testing.assert_allclose(study.start["u0"], [-2.943], rtol=1e-9)
    np.testing.assert_allclose(study.start["restitution"], 0.8, rtol=1e-9)
    assert study.samples == 4


@pytest.mark.full
def test_restitution_is_fitted_to_the_times_of_impacts(tmp_path):
    result = read_study(*write(tmp_path)).fit()
    assert result.converged
    assert result.dof == 2
    # Times with ten digits.
    np.testing.assert_allclose(result.params["restitution"], 0.8, rtol=1e-6)
    np.testing.assert_allclose(result.params["u0"], [-2.943], rtol=1e-6)


def test_later_bounces_have_their_own(tmp_path):
    scene = SCENE.replace('time = "s"\n\n', 'time = "s"\nbounces = 2\n\n').replace(
        "[parameters]", '[parameters]\nlater_restitution = { value = "from data" }'
    )
    study = read_study(*write(tmp_path, scene))
    np.testing.assert_allclose(study.start["later_restitution"], [0.8], rtol=1e-9)
    # The turning point between the two first impacts of the simulation, the second and third that were heard.
    np.testing.assert_allclose(study.given["apexes"], [[0.6 + 0.24]], rtol=1e-9)


@cases(
    "old new message",
    r"""
    unit = "ms" | unit = "mm" | data.noise.unit: unit 'mm' cannot be converted to 's'
    length = "m"\ntime = "s"\n |  | preparation.kind: 'sound' goes with the system 'bouncing ball'
    kind = "sound" | kind = "sound"\ncolumn = "t" | preparation.column: unknown key; known are 'kind'
    """,
)
def test_bad_tables_are_named(tmp_path, old, new, message):
    with pytest.raises(ValueError) as caught:
        read_study(*write(tmp_path, SCENE.replace(old, new)))
    assert message in str(caught.value)
