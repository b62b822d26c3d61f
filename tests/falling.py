"""A body that falls and never lands: its height is linear in speed and weight, and quick to compile."""

import numpy as np

import diffcontact as dc
from diffcontact.identify import Observations, Problem, fit

FALLING = dc.System(
    gap=lambda t, q, p: q + 100.0,
    force=lambda t, q, u, p: -p["g"] * np.ones(1),
    mass=lambda q, p: np.ones(1),
    restitution=lambda p: 0.0,
)
SCHEME = dc.VelocityProjection()
TIMES = np.linspace(0.0, 1.0, 41)
NOISE = 1e-2


def positions(trajectory, params):
    return trajectory.q


def start_of(params):
    return np.zeros(1), params["u0"]


def fall(rng, per_run=(), noise=None):
    """Heights with two samples missing, their noise stated as three times what it is; or with the given noise."""
    noise = NOISE * rng.normal(size=41) if noise is None else noise
    values = (0.4 * TIMES - 9.81 * TIMES**2 / 2 + noise)[:, None]
    values[7:9] = np.nan
    return Problem(FALLING, Observations(TIMES, values, 3.0 * NOISE, positions), start_of, SCHEME, 1, per_run)


def fitted(run, free, u0=(0.0,), unused=0.0, **options):
    return fit(run, {"g": 9.0, "u0": u0, "unused": unused}, free, **options)
