"""A mass that is pulled and dragged, without contact: quick to compile, exact by hand."""

import numpy as np

import diffcontact as dc
from diffcontact.identify import Observations, Positive, Problem, Real

DRAGGED = dc.System(
    gap=lambda t, q, p: q + 100.0,
    force=lambda t, q, u, p: p["weight"] - p["drag"] * u,
    mass=lambda q, p: p["mass"] * np.ones(1),
    restitution=lambda p: 0.0,
)
SCHEME = dc.VelocityProjection()
TRUTH = {"weight": 3.0, "drag": 0.8, "mass": 1.5, "q0": np.zeros(1), "u0": np.array([0.5])}
TIMES = np.linspace(0.0, 2.0, 81)
NOISE = 1e-3


def positions(trajectory, params):
    return trajectory.q


def start_of(params):
    return params["q0"], params["u0"]


def motion(times):
    """(n, 1) the exact solution of u' = w - k u."""
    w, k = TRUTH["weight"] / TRUTH["mass"], TRUTH["drag"] / TRUTH["mass"]
    return (TRUTH["u0"] - w / k) * (1 - np.exp(-k * times[:, None])) / k + w / k * times[:, None]


def problem(rng):
    values = motion(TIMES) + NOISE * rng.normal(size=(TIMES.size, 1))
    return Problem(DRAGGED, Observations(TIMES, values, NOISE, positions), start_of, SCHEME, 1)


def inside(result, name, truth, widths=4.0):
    return np.all(np.abs(result.params[name] - truth) < widths * result.stderr[name])


FREE = {"drag": Positive(), "u0": Real()}
START = TRUTH | {"drag": 0.3, "u0": [0.0]}
