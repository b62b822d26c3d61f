"""A ball bouncing on a floor, with its exact motion: one system and one number of samples, so one compilation."""

import numpy as np

import diffcontact as dc
from diffcontact.identify import Interval, Observations, Positive, Problem, Real

BALL = dc.System(
    gap=lambda t, q, p: q,
    force=lambda t, q, u, p: -p["g"] * np.ones(1),
    mass=lambda q, p: np.ones(1),
    restitution=lambda p: p["e"],
)
BALL_TRUTH = {"e": 0.8, "g": 9.81, "q0": np.array([1.0]), "u0": np.array([0.3])}
BALL_FREE = {"e": Interval(0.0, 1.0), "g": Positive(), "q0": Real(), "u0": Real()}
BALL_START = {"e": 0.75, "g": 9.6, "q0": [1.02], "u0": [0.25]}
SAMPLES = 60


def bounces(e, g, height, speed, times):
    """Heights of a ball from its flights put end to end: the exact solution, for up to ten impacts, e that of each."""
    heights, start, q, u = np.empty_like(times), times[0], height, speed
    for each in np.broadcast_to(e, 11):
        flight = (u + np.sqrt(u * u + 2 * g * q)) / g
        later = times >= start
        s = times[later] - start
        heights[later] = q + u * s - g * s**2 / 2
        start, q, u = start + flight, 0.0, each * (g * flight - u)
    return heights


def positions(trajectory, params):
    return trajectory.q


def start_of(params):
    return params["q0"], params["u0"]


def ball_problem(rng, sigma=0.01, end=1.5, e=0.8, noise=None):
    times = np.linspace(0.0, end, SAMPLES)
    seen = bounces(e, 9.81, 1.0, 0.3, times) + sigma * rng.normal(size=SAMPLES)
    return Problem(BALL, Observations(times, seen[:, None], noise or sigma or 1.0, positions), start_of, substeps=1)
