"""The spring's scene: stiffness, damping, and whether there is dry friction, measured and simulated."""

import jax.numpy as jnp
import numpy as np
from fitting import fitted, holds, measured, write_csv

import diffcontact as dc

# As long and as dense as the measured record, so that the fit is compiled once.
TIMES = np.arange(3000) / 50.0


def simulated(path, rng, gamma):
    params = {"mass": 0.529, "stiffness": 49.0, "damping": 0.013, "gamma": gamma, "normal": 1.0, "rest": 0.418}
    run = dc.simulate(dc.systems.particle_line(), params, jnp.array([0.448]), jnp.zeros(1), jnp.asarray(TIMES))
    height = 1e3 * np.asarray(run.q[:, 0]) + 0.5 * rng.normal(size=TIMES.size)
    return write_csv(path, "time [s],y [mm]", TIMES, height)


def test_the_measured_spring_has_no_dry_friction(data, tmp_path):
    found = fitted("spring.toml", [measured(data, "spring_mass", "F1V1.csv")], tmp_path)
    assert 48 < found["stiffness"]["value"] < 50
    # Statically, from the elongation under the weight.
    assert holds(found["stiffness"], 49.47)
    assert found["gamma"]["interval95"][0] == 0
    # At its bound, where the other side of the interval is all that the data say.
    assert found["gamma"]["note"] == "at its bound, interval by its profile"
    assert 0 < found["gamma"]["interval95"][1] < 0.01


def test_a_simulated_spring_with_dry_friction(tmp_path, rng):
    # A tenth of the spring's decay, or less: 4 gamma / k = 0.08 mm per period.
    found = fitted("spring.toml", [simulated(tmp_path / "hang.csv", rng, 0.001)], tmp_path)
    # One draw of the noise: within four standard errors, and these are small.
    for name, truth, largest in (("stiffness", 49.0, 0.01), ("damping", 0.013, 2e-3), ("gamma", 0.001, 2e-4)):
        assert abs(found[name]["value"] - truth) < 4 * found[name]["stderr"], name
        assert found[name]["stderr"] < largest, name
    assert found["gamma"]["interval95"][0] > 0
