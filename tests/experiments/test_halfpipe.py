"""The half-pipe's scene: the friction of a rolling ball, measured and simulated."""

import jax.numpy as jnp
import numpy as np
from fitting import EXPERIMENTS, fitted, measured, write_csv

import diffcontact as dc
from diffcontact.commands.cli import main


def simulated(path, rng, gamma, curvature=4.3):
    """A ball in a parabola, along which it is a harmonic oscillator with friction, filmed to half a millimetre."""
    params = {"mass": 1.0, "stiffness": 38.0, "damping": 0.0, "gamma": gamma, "normal": 1.0, "rest": 0.002}
    times = np.linspace(0.0, 6.0, 601)
    run = dc.simulate(dc.systems.particle_line(), params, jnp.array([0.08]), jnp.zeros(1), jnp.asarray(times))
    x = np.linspace(-0.2, 0.2, 4001)
    way = np.concatenate([[0.0], np.cumsum(np.hypot(np.diff(x), np.diff(curvature * x**2)))])
    x = np.interp(np.asarray(run.q[:, 0]), way - way[2000], x)
    positions = np.stack([x, curvature * x**2]) + 5e-4 * rng.normal(size=(2, times.size))
    return write_csv(path, "t_s,x_m,y_m", times, *positions)


def test_the_measured_ball(data, tmp_path):
    gamma = fitted("halfpipe.toml", [measured(data, "halfpipe_rolling", "sm_ball_no_mag.csv")], tmp_path)["gamma"]
    assert 0.07 < gamma["value"] < 0.1
    assert gamma["unit"] == "m/s^2"
    # The correlation of the residuals makes it wider than independent samples would.
    assert gamma["stderr"] > 1.5 * gamma["stderr_plain"]


def test_a_simulated_ball_that_comes_to_rest(tmp_path, rng, capsys):
    run = simulated(tmp_path / "ball.csv", rng, gamma=0.12)
    found = fitted("halfpipe.toml", [run], tmp_path)
    # One draw of the noise: within four standard errors, and these are small.
    assert abs(found["gamma"]["value"] - 0.12) < 4 * found["gamma"]["stderr"]
    assert found["gamma"]["stderr"] < 2e-3
    assert abs(found["stiffness"]["value"] - 38.0) < 4 * found["stiffness"]["stderr"]
    capsys.readouterr()
    assert main(["check", str(EXPERIMENTS / "halfpipe.toml"), "--data", str(run)]) == 0
    printed = capsys.readouterr().out
    assert "ball.csv, from the start (t = " in printed
    assert "S4 proposition 4.1" in printed
