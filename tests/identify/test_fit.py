"""Fits through contact, on synthetic data with known truth."""

import json
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
from bouncing import BALL, BALL_FREE, BALL_START, BALL_TRUTH, SAMPLES, ball_problem, start_of
from dragged import FREE, NOISE, START, TIMES, inside, problem

import diffcontact as dc
from diffcontact.identify import Interval, Observations, Problem, fit
from diffcontact.identify.objective import JointResidual
from diffcontact.identify.parameters import free_parameters


def test_a_bouncing_ball_gives_its_parameters_away(rng):
    iterations = []
    result = fit(ball_problem(rng), BALL_START, BALL_FREE, progress=lambda i, cost: iterations.append(cost))
    assert result.converged
    assert result.names == ("e", "g", "q0[0]", "u0[0]")
    for name, truth in BALL_TRUTH.items():
        assert np.all(np.abs(result.params[name] - truth) < 4 * result.stderr[name])
        assert np.shape(result.interval95[name]) == (*np.shape(truth), 2)
    assert result.stderr["e"] < 0.01
    assert result.dof == SAMPLES - 4
    assert abs(2 * result.cost / result.dof - 1) < 0.6  # chi^2 per degree of freedom, 1 +- sqrt(2 / 56): three of them
    assert (result.unidentifiable, result.at_bound) == ([], ())
    assert result.iterations == len(iterations)
    assert iterations == sorted(iterations, reverse=True)
    assert result.residuals[0].shape == (SAMPLES, 1)
    # Newton's step from the estimate is nothing: it is where the gradient of all samples vanishes.
    (at,) = result.objective.joint.linearise(result.estimate)
    J, r = at.J[:, 0], at.r[:, 0]
    assert np.max(np.abs(np.linalg.solve(J.T @ J, J.T @ r)) * np.sqrt(np.diag(J.T @ J))) < 1e-4
    np.testing.assert_allclose(result.covariance_plain, np.linalg.inv(J.T @ J) * (r @ r) / 56, rtol=1e-6)
    half = result.quantile["e"] * result.stderr["e"]
    np.testing.assert_allclose(result.interval95["e"], result.params["e"] + half * np.array([-1, 1]), rtol=1e-9)


def test_a_start_that_leaves_for_infinity_is_no_fit_and_says_so(rng):
    result = fit(ball_problem(rng), {**BALL_START, "u0": [1e30]}, BALL_FREE)
    assert not result.converged
    assert "not finite" in result.message
    json.dumps(result.to_dict(), allow_nan=False)


def test_the_status_of_the_trajectory_is_told(rng):
    buried = BALL_START | {"q0": [-0.02]}
    result = fit(ball_problem(rng), buried, {"u0": BALL_FREE["u0"]}, shooting="single", check=False)
    assert dc.Status.OVERLAP.message in result.message


LENGTHS = (81, 77, 79)


def three_runs(rng, observe=None):
    """Runs of different lengths with a speed of their own each; of one some samples are missing."""
    problems = []
    for length in LENGTHS:
        whole = problem(rng)
        seen = whole.observations
        values = seen.values[:length].copy()
        cut = Observations(TIMES[:length], values, NOISE, observe or seen.observe)
        problems.append(replace(whole, observations=cut, per_run=("u0",)))
    problems[1].observations.values.setflags(write=True)
    problems[1].observations.values[10:20, 0] = np.nan
    # What is missing is known when a run is made.
    cut = problems[1].observations
    problems[1] = replace(problems[1], observations=Observations(cut.times, cut.values, NOISE, cut.observe))
    return problems, START | {"u0": np.zeros((3, 1))}


def test_runs_of_different_lengths_share_parameters(rng):
    problems, start = three_runs(rng)
    result = fit(problems, start, FREE)
    assert result.converged
    assert result.names == ("drag", "u0[0,0]", "u0[1,0]", "u0[2,0]")
    assert inside(result, "drag", 0.8, 6)  # Student's t of 2
    assert inside(result, "u0", 0.5)
    assert "jackknife over the 3 runs" in result.error_bars
    # Student's t of 2 degrees of freedom, or somewhat fewer: runs of different lengths weigh differently.
    assert 4.302652 < result.quantile["drag"] < 5.0
    assert [r.shape for r in result.residuals] == [(length, 1) for length in LENGTHS]
    assert [trajectory.q.shape[0] for trajectory in result.trajectories] == list(LENGTHS)
    assert np.isnan(result.residuals[1][10:20, 0]).all()
    assert result.dof == sum(LENGTHS) - 10 - 4


def test_padding_changes_nothing_and_what_looks_ahead_is_not_padded(rng):
    problems, start = three_runs(rng)
    free = free_parameters(start, FREE, frozenset({"u0"}), 3)
    together = JointResidual(problems, free)
    assert [run.padded for run in together.runs] == [False, True, True]
    for i, at in enumerate(together.linearise(free.start)):
        alone = free_parameters(start | {"u0": start["u0"][i : i + 1]}, FREE, frozenset({"u0"}), 1)
        (expected,) = JointResidual(problems[i : i + 1], alone).linearise(alone.start)
        np.testing.assert_allclose(at.r, expected.r, atol=1e-9)  # sigma = 1e-3: 1e-12 m
        np.testing.assert_allclose(at.J, expected.J, atol=1e-9)
    ahead, _ = three_runs(rng, lambda run, p: run.q - jnp.mean(run.q, axis=0, keepdims=True))
    assert not any(run.padded for run in JointResidual(ahead, free).runs)


def test_an_estimate_at_a_bound_is_held_there(rng):
    result = fit(ball_problem(rng), BALL_START | {"e": 0.7}, BALL_FREE | {"e": Interval(0.0, 0.78)})
    assert result.at_bound == ("e",)
    assert 0.78 - 1e-3 < result.params["e"] <= 0.78
    assert 0 < result.stderr["e"] < 0.1
    low, high = result.interval95["e"]
    assert high == 0.78 > low
    e = result.names.index("e")
    assert np.count_nonzero(result.covariance[e]) == 1
    assert "at a bound: e" in result.message
    # The others are known as if it had been known.
    known = fit(
        ball_problem(np.random.default_rng(0)), BALL_START | {"e": 0.78}, {k: BALL_FREE[k] for k in ("g", "q0", "u0")}
    )
    np.testing.assert_allclose(result.params["g"], known.params["g"], rtol=1e-5)
    np.testing.assert_allclose(result.stderr["g"], known.stderr["g"], rtol=1e-3)


def test_a_restitution_of_zero_is_no_unseen_one(rng):
    """It lies after its first impact, and so it does for all small e: the derivative vanishes, a secant does not."""
    times = np.linspace(0.0, 1.2, SAMPLES)
    seen = np.maximum(1.0 - 9.81 * times**2 / 2, 0.0) + 1e-3 * rng.normal(size=SAMPLES)
    run = Problem(BALL, Observations(times, seen[:, None], 1e-3, lambda run, p: run.q), start_of, substeps=1)
    held = BALL_START | {"g": 9.81, "q0": [1.0], "u0": [0.0], "e": 0.0}
    result = fit(run, held, {"e": Interval(0.0, 1.0)})
    low, high = result.interval95["e"]
    assert low == 0 < high < 0.1
    assert not result.unidentifiable
