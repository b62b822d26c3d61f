"""What of simulated data is rounding, and that it is told from noise in either precision."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from bouncing import BALL_FREE, ball_problem
from numpy.typing import ArrayLike

import diffcontact as dc
from diffcontact.identify import Observations, Problem, Real, fit

SIMULATED, pytestmark = True, pytest.mark.full
SLED = dc.System(
    gap=lambda t, q, p: q + 10.0,
    force=lambda t, q, u, p: p["pull"] * np.ones(1),
    mass=lambda q, p: np.ones(1),
    restitution=lambda p: 0.0,
)
FREE = {"pull": Real(), "q0": Real(), "u0": Real()}
START = {"pull": 0.12, "q0": [0.19], "u0": [0.31]}


def pulled(samples, substeps, noise, added: ArrayLike = 0.0):
    """The fit of a sled under a constant pull, of which the motion is known by hand; `added` to its places."""
    times = np.linspace(0.0, 1.5, samples)
    seen = (0.2 + 0.3 * times + 0.1 * times**2 / 2 + np.asarray(added))[:, None]
    run = Observations(times, seen, noise, lambda trajectory, params: trajectory.q)
    return fit(Problem(SLED, run, lambda params: (params["q0"], params["u0"]), substeps=substeps), START, FREE)


@pytest.mark.parametrize("double", [True, False])
@pytest.mark.parametrize(("samples", "substeps"), [(60, 1), (60, 20), (600, 20)])
def test_exact_data_are_explained_whatever_the_steps_leave(double, samples, substeps):
    """Rounding of many steps is a smooth curve, and no misfit."""
    with jax.enable_x64(double):
        result = pulled(samples, substeps, 0.01)
        assert result.converged
        assert not result.verdict.reasons
        assert "residuals are rounding" in result.verdict.taken


def test_a_misfit_of_a_few_digits_of_single_precision_is_one():
    """2e-6 of 0.8 m are twenty times the precision of single numbers, of which 60 steps leave three or four."""
    times = np.linspace(0.0, 1.5, 60)
    sway = 2e-6 * np.sin(9 * times) + 3e-7 * np.random.default_rng(0).normal(size=60)
    with jax.enable_x64(False):
        result = pulled(60, 1, 3e-7, sway)
        assert result.converged
        assert any("as large as the stated noise" in reason for reason in result.verdict.reasons)


def test_rounding_that_is_larger_than_the_stated_noise_is_told():
    """12 000 steps in single precision leave 80 roundings, five times the noise that is stated here."""
    with jax.enable_x64(False):
        result = pulled(600, 20, 1e-6)
        assert result.converged
        assert result.verdict.explains == "partly"
        assert any("double precision" in reason for reason in result.verdict.reasons)


def test_steps_are_not_blamed_for_what_single_precision_rounds():
    """A ball's heights of 1 m to 1e-6 m, of which single numbers resolve 1.2e-7 m and 60 steps of any length less."""
    with jax.enable_x64(False):
        run = replace(ball_problem(np.random.default_rng(0), sigma=1e-6, noise=1e-6), substeps="auto")
        start = {"e": 0.8, "g": 9.81, "q0": np.ones(1), "u0": np.full(1, 0.3)}
        result = fit(run, start, BALL_FREE)
        assert int(result.trajectories[0].status) == 0
        assert result.verdict.explains != "yes"
        assert any("single precision is too coarse" in reason for reason in result.verdict.reasons)
        assert "steps" not in result.message
