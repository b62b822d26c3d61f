"""A scale or a clock that is off is named where the parameters make up for most of it, and nothing else is."""

import numpy as np
import pytest
from bouncing import BALL, BALL_FREE, SAMPLES, bounces, positions, start_of

from diffcontact.identify import Observations, Problem, fit, fit_replicas

TIMES = np.linspace(0.0, 1.5, SAMPLES)
START = {"e": 0.8, "g": 9.81, "q0": np.ones(1), "u0": np.full(1, 0.3)}
HELD = {name: domain for name, domain in BALL_FREE.items() if name != "g"}
NOISE, REPLICAS = 0.003, 2


def heights(scale=1.0, rate=1.0):
    """(N, n, 1) heights of a ball that a camera of this scale and rate has measured."""
    exact = scale * bounces(e=0.8, g=9.81, height=1.0, speed=0.3, times=rate * TIMES)
    return (exact + NOISE * np.random.default_rng(4).normal(size=(REPLICAS, SAMPLES)))[:, :, None]


def fitted(free):
    exact = bounces(e=0.8, g=9.81, height=1.0, speed=0.3, times=TIMES)[:, None]
    return fit(Problem(BALL, Observations(TIMES, exact, NOISE, positions), start_of, substeps=1), START, free)


@pytest.fixture(scope="module")
def held():
    """Gravity is known."""
    return fitted(HELD)


def told(results):
    shapes = ("fault of the measuring", "by the shape of the residuals")
    return [next((r for r in result.verdict.reasons if any(shape in r for shape in shapes)), "") for result in results]


@pytest.mark.parametrize("off", [{"scale": 1.01}, {"rate": 1.01}, {"scale": 1.03}], ids=["scale", "clock", "far"])
def test_a_scale_or_a_clock_that_gravity_contradicts_is_named(held, off):
    # In a fall they and gravity are told apart by little: gravity, which the model holds, is named first, and those
    # that do as well stand beside it.
    reasons = told(fit_replicas(held, [heights(**off)]))
    names = ("scale of channel 0", "rate of the clock")
    assert sum(any(name in reason for name in names) for reason in reasons) == REPLICAS


def test_nothing_is_told_of_a_camera_that_is_right(held):
    assert not any(told(fit_replicas(held, [heights()])))


def test_gravity_that_is_free_makes_up_for_a_scale():
    results = fit_replicas(fitted(BALL_FREE), [heights(scale=1.03)])
    assert not any(told(results))
    assert all(result.verdict.explains == "yes" for result in results)
