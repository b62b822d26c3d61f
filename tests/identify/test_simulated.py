"""Fits of what is really simulated: the formulas that stand in for it elsewhere are right, and one program serves."""

import resource
import sys
from dataclasses import replace
from pathlib import Path

import dragged
import numpy as np
import pytest
from bouncing import BALL, BALL_FREE, BALL_START, BALL_TRUTH, ball_problem, start_of
from closed_form import replaced
from falling import FALLING, fall

import diffcontact as dc
from diffcontact.identify import Impacts, Interval, Observations, Positive, Problem, Real, fit
from diffcontact.identify import residual as residual_module
from diffcontact.identify.objective import Objective

SIMULATED = True


def heard(rng, sigma=0.01):
    """A ball whose two impacts are heard, too, by a recording that counts 25 to a second and began at 3."""
    seen = ball_problem(rng, sigma).observations
    first = (0.3 + np.sqrt(0.09 + 2 * 9.81)) / 9.81
    moments = first + np.array([0.0, 2 * 0.8 * (first - 0.3 / 9.81)]) + 0.1 * sigma * rng.normal(size=2)
    seen = Observations(3 + 25 * seen.times, seen.values, 0.01, seen.observe, Impacts(3 + 25 * moments, 25e-3))
    return Problem(BALL, seen, start_of, substeps=1, clock=lambda counts, p: (counts - 3) / 25)


def test_formulas_are_what_is_simulated_and_so_are_their_derivatives(rng):
    objective = Objective.of(heard(rng), BALL_START, BALL_FREE)
    theta = np.array([0.75, 9.6, 1.02, 0.25])
    (simulated,) = objective.joint.linearise(theta)
    with replaced():
        (formula,) = objective.joint.linearise(theta)
    # Forces are constant: impacts are exact to rounding, in noise of 0.01 m.
    np.testing.assert_allclose(simulated.r, formula.r, atol=1e-9)
    np.testing.assert_allclose(simulated.J, formula.J, atol=1e-8 * np.abs(formula.J).max())
    np.testing.assert_allclose(simulated.trajectory.u, formula.trajectory.u, atol=1e-10)
    np.testing.assert_array_equal(np.asarray(simulated.trajectory.impulse) > 0, formula.trajectory.impulse > 0)


def test_a_bouncing_ball_is_fitted_and_nothing_is_compiled_for_the_second_fit(rng):
    result = fit(heard(rng), BALL_START, BALL_FREE)
    before = residual_module.linearise.programs()
    exact = fit(heard(rng, sigma=0.0), BALL_START, BALL_FREE)
    assert residual_module.linearise.programs() == before
    for name, truth in BALL_TRUTH.items():
        assert np.all(np.abs(result.params[name] - truth) < 4 * result.stderr[name])
        np.testing.assert_allclose(exact.params[name], truth, rtol=1e-8)  # xtol is 2e-12; rounding in 60 steps


def test_functions_made_alike_share_their_code():
    seen = ball_problem(np.random.default_rng(0)).observations
    problems = [Problem(BALL, seen, lambda p: (p["q0"], p["u0"])) for _ in range(2)]
    problems += [Problem(BALL, seen, lambda p, offset=offset: (p["q0"] + offset, p["u0"])) for offset in (0.0, 1.0)]
    first, second, third, fourth = residual_module.share_code(problems, ())
    assert first == second
    assert hash(first) == hash(second)
    assert len({first, third, fourth}) == 3


class Number:
    """What the library cannot look into: a system that refers to one has programs of its own."""

    zero = 0.0


def mappings():
    return Path("/proc/self/maps").read_bytes().count(b"\n")


@pytest.mark.full
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc")
def test_a_thousand_fits_leave_nothing_behind(rng):
    """Made anew each time, alike: one program. Of systems that share none so many that the first must have gone."""

    def fitted(held=None):
        system = replace(FALLING, restitution=(lambda p: 0.0) if held is None else lambda p: held.zero)
        fit(replace(fall(rng), system=system), {"g": 9.0, "u0": [0.4]}, {"g": Positive()}, shooting="single")

    fitted()
    programs = residual_module.linearise.programs()
    for count, held in ((1000, None), (40, Number)):
        before = None
        for k in range(count):
            fitted(held and held())
            if k == count // 2:
                before = mappings(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        assert before is not None
        assert mappings() <= 1.05 * before[0]
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss <= 1.1 * before[1]
        if held is None:
            assert residual_module.linearise.programs() == programs


@pytest.mark.full
def test_runs_of_different_lengths_are_one_program(rng):
    long = ball_problem(rng)
    seen = long.observations
    short = replace(long, observations=Observations(seen.times[:50], seen.values[:50], 0.01, seen.observe))
    runs = [replace(run, per_run=("u0",)) for run in (long, short)]
    before = residual_module.linearise.programs()
    result = fit(runs, BALL_START | {"u0": np.full((2, 1), 0.25)}, BALL_FREE)
    assert residual_module.linearise.programs() <= before + 1
    assert abs(result.params["e"] - 0.8) < 4 * result.stderr["e"]


@pytest.mark.full
def test_steps_of_every_number_are_one_program():
    # Of 64 programs, those of other tests, one would go for the new one.
    dc.clear_caches()
    run = replace(fall(None, noise=0.0), substeps="auto")
    seen = Observations(run.observations.times, run.observations.values, 3e-2, run.observations.observe)
    found = fit(replace(run, observations=seen), {"g": 0.2, "u0": [0.0]}, {"g": Positive(), "u0": Real()})
    assert found.objective.joint.runs[0].model.substeps > 1
    assert residual_module.linearise.programs() == 1


@pytest.mark.full
@pytest.mark.parametrize(("method", "high"), [("lbfgs", 3.0), ("lbfgs", 0.5), ("adam", 0.5)])
def test_methods_of_first_order_end_where_least_squares_do_also_at_a_bound(rng, method, high):
    run, free = dragged.problem(rng), {"drag": Interval(0.1, high), "u0": Real()}
    expected, found = fit(run, dragged.START, free), fit(run, dragged.START, free, method=method)
    assert found.converged
    assert found.at_bound == (("drag",) if high < 0.8 else ())
    # A hundredth of a standard error; adam's last steps are of a ten-thousandth of one.
    for name in ("drag", "u0"):
        error = np.max(expected.stderr[name])
        np.testing.assert_allclose(found.params[name], expected.params[name], atol=1e-2 * error)
        np.testing.assert_allclose(found.stderr[name], expected.stderr[name], rtol=1e-2)
