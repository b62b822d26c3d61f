"""A pendulum against what integrates its equation otherwise."""

import jax
import numpy as np
from scipy.integrate import solve_ivp

import diffcontact as dc


def equation(t, state, stiffness, rest, damping, drag):
    angle, speed = state
    return [speed, -stiffness * np.sin(angle - rest) - (damping + drag * abs(speed)) * speed]


def test_a_pendulum_swings_as_its_equation_says():
    """Wide and small, with and without what slows it down; lanes of one program."""
    times = np.linspace(0.0, 4.0, 201)
    rows = np.array(
        [[20.0, 0.1, 0.0, 0.0, 2.5, 0.0], [20.0, 0.0, 0.3, 0.2, 1.0, -3.0], [30.0, -0.2, 0.0, 0.5, 0.1, 9.0]]
    )
    names = ("stiffness", "rest", "damping", "drag")

    def angles(row):
        params = dict(zip(names, row, strict=False))
        run = dc.simulate(dc.systems.pendulum(), params, row[4:5], row[5:], times, substeps=4)
        return run.q[:, 0], run.status

    found, status = map(np.asarray, jax.jit(jax.vmap(angles))(rows))
    assert not np.any(status)
    for row, angle in zip(rows, found, strict=True):
        exact = solve_ivp(equation, (0, 4), row[4:], t_eval=times, args=row[:4], rtol=1e-11, atol=1e-12)
        # Fourth order in steps of 5 ms at sqrt(k) up to 6/s, (0.03)^4 / 100 a radian; drag turns with a kink.
        np.testing.assert_allclose(angle, exact.y[0], atol=1e-6)
