"""The carriage's scene: mass, damping and dry friction from a measured force, measured and simulated."""

import jax.numpy as jnp
import numpy as np
from fitting import fitted, holds, measured, write_csv

import diffcontact as dc

# As many samples as the measured stroke has, so that the fit is compiled once.
TIMES = np.arange(807) / 1500.0
TRUTH = {"mass": 12.0, "damping": 25.0, "gamma": 30.0}


def simulated(path, rng):
    """A push forwards beyond the friction, a pull back below it, ripples, and what an encoder makes of the motion."""
    wave = np.sin(2 * np.pi * TIMES / TIMES[-1])
    force = np.where(wave > 0, 90.0, 20.0) * wave + 5.0 * np.sin(300.0 * TIMES)
    params = TRUTH | {"stiffness": 0.0, "normal": 1.0, "rest": 0.0}
    params |= {"drive_times": jnp.asarray(TIMES), "drive": jnp.asarray(force)}
    line = dc.systems.particle_line(driven=True)
    run = dc.simulate(line, params, jnp.zeros(1), jnp.zeros(1), jnp.asarray(TIMES))
    u = np.asarray(run.u[:, 0])
    # It sticks, slips and sticks again.
    assert u[0] == u[-1] == 0.0
    assert u.max() > 0.1
    position = np.asarray(run.q[:, 0]) + 2e-5 * rng.normal(size=TIMES.size)
    return write_csv(path, "t_s,x_m,F_N", TIMES, position, force)


def test_the_measured_carriage(data, tmp_path):
    found = fitted("carriage.toml", [measured(data, "driven_mass_friction", "run_a3.csv")], tmp_path)
    assert abs(found["mass"]["value"] / 24.7 - 1) < 0.05
    # Beside the author's law F = 10 + 67.4 v + a Stribeck term: by hand, a straight line through it has 17.6 N and
    # 42 N s/m, each within two standard errors or so.
    assert holds(found["gamma"], 17.6)
    assert holds(found["damping"], 42.0)


def test_a_simulated_carriage(tmp_path, rng):
    found = fitted("carriage.toml", [simulated(tmp_path / "stroke.csv", rng)], tmp_path)
    # One draw of the noise: within four standard errors, and these are small.
    for name, truth in TRUTH.items():
        assert abs(found[name]["value"] - truth) < 4 * found[name]["stderr"], name
        assert found[name]["stderr"] < 0.01 * truth, name
