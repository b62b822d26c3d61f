"""Impacts that are not all alike: what one of them does to the samples, and what is said where it would not show."""

import re

import numpy as np
import pytest
from bouncing import BALL_FREE, BALL_START, ball_problem, bounces, positions, start_of

from diffcontact.identify import Observations, Problem, fit

TIMES, SIGMA, E = np.linspace(0.0, 2.0, 201), 0.01, 0.8
KNOWN = BALL_START | {"g": 9.81, "e": E}
FREE = {name: BALL_FREE[name] for name in ("e", "q0", "u0")}
ALIKE = r"a scatter of (\S+) % from one to the next, .* would hardly show, and moves e by (\S+),"


def seen(e, sigma=SIGMA, times=TIMES):
    """A ball that is dropped from 1 m; e that of each impact."""
    heights = bounces(e, 9.81, 1.0, 0.3, times) + sigma * np.random.default_rng(5).normal(size=times.size)
    system = ball_problem(np.random.default_rng(0)).system
    return Problem(system, Observations(times, heights[:, None], sigma, positions), start_of, substeps=1)


def fitted(e, **options):
    return fit(seen(e, **options), KNOWN, FREE)


def exact(impact: int) -> np.ndarray:
    """(n,) what samples change by, in noise, if one impact changed the velocity by twice as much; first order."""
    step, each = 1e-6, np.full(11, E)
    each[impact] += step * (1 + E)
    return (bounces(each, 9.81, 1.0, 0.3, TIMES) - bounces(E, 9.81, 1.0, 0.3, TIMES)) / step / SIGMA


def test_that_they_are_alike_is_taken_as_right_where_it_would_not_show():
    """The size leaves ten standard deviations, and moves e as the derivatives of the exact motion say."""
    result = fitted(E)
    assert result.verdict.explains == "yes"
    ((size, moved),) = re.findall(ALIKE, result.verdict.taken)
    step, start = 1e-6, np.array([E, 1.0, 0.3])
    J = np.column_stack(
        [
            (bounces(e, 9.81, q, u, TIMES) - bounces(E, 9.81, 1.0, 0.3, TIMES)) / step / SIGMA
            for e, q, u in start + step * np.eye(3)
        ]
    )
    D = np.column_stack([exact(impact) for impact in range(3)])
    made_up, *_ = np.linalg.lstsq(J, D)
    expected = 10 * np.sqrt(result.chi2_per_dof) / np.linalg.norm(D - J @ made_up)
    # As exact as the columns are, about.
    np.testing.assert_allclose(float(size) / 100, expected, rtol=0.15)
    np.testing.assert_allclose(float(moved), expected * np.linalg.norm(made_up[0]), rtol=0.15)


def test_impacts_that_are_not_alike_are_named():
    """e differs by 0.02 from one impact to the next, with noise of 1 mm."""
    result = fitted([0.82, 0.8, 0.78, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8], sigma=1e-3)
    assert result.verdict.explains != "yes"
    assert "impacts that are not all alike" in " ".join(result.verdict.reasons)


@pytest.mark.parametrize("options", [{"sigma": 1e-4}, {"times": np.linspace(0.0, 1.0, 201)}])
def test_nothing_is_said_where_it_would_show_or_one_impact_is_all_there_is(options):
    assert "alike" not in fitted(E, **options).verdict.taken
