"""Fits of what is really simulated: the formulas that stand in for it elsewhere are right, and one program serves."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from bouncing import BALL, BALL_FREE, BALL_START, BALL_TRUTH, ball_problem, start_of
from closed_form import replaced
from falling import fall

import diffcontact as dc
from diffcontact.identify import Impacts, Interval, Observations, Positive, Problem, Real, fit
from diffcontact.identify.problem import residual as residual_module
from diffcontact.identify.problem.objective import Objective

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


def carts(mass):
    """Two carts on a line: gap = q1 - q0 - distance."""
    return dc.System(
        gap=lambda t, q, p: (q[1] - q[0] - p["distance"])[None],
        force=lambda t, q, u, p: np.zeros(2),
        mass=lambda q, p: mass(p),
        restitution=lambda p: p["e"],
    )


def collision(rng, e, samples, speed, sigma=1e-3):
    """Two carts of mass ratio 0.9, 0.1 m apart at contact: straight lines before and after."""
    times = np.linspace(0.0, 2.0, 101)[:samples]
    q0, u0 = np.array([0.0, 0.6]), np.array([speed, 0.0])
    hit = 0.5 / speed
    after = np.array([(0.9 - e) * speed / 1.9, 0.9 * (1 + e) * speed / 1.9])
    seen = np.where(times[:, None] < hit, q0 + u0 * times[:, None], q0 + u0 * hit + after * (times[:, None] - hit))
    return Observations(times, seen + sigma * rng.normal(size=seen.shape), sigma, lambda run, p: run.q)


@pytest.mark.full
@pytest.mark.parametrize("e", [0.8, 0.0])
def test_three_collisions_share_what_they_have_in_common_and_one_compilation(rng, e):
    observations = [
        collision(rng, e, samples, speed) for samples, speed in zip((101, 95, 98), (0.5, 0.6, 0.7), strict=True)
    ]
    system = carts(lambda p: jnp.stack([p["ratio"], jnp.ones_like(p["ratio"])]))
    own = ("distance", "q0", "u0")
    problems = [Problem(system, seen, start_of, substeps=1, per_run=own) for seen in observations]
    if e == 0:  # push e below zero: what an inward slope after the impact would look like
        for problem in problems:
            values = problem.observations.values
            values.setflags(write=True)
            values[:, 1] -= 1e-4 * np.cumsum(values[:, 1] - values[:, 0] < 0.103)
    start = {
        "e": 0.6,
        "ratio": 1.0,
        "distance": np.full(3, 0.12),
        "q0": np.tile([0.01, 0.6], (3, 1)),
        "u0": np.stack([(0.5, 0.6, 0.7), np.zeros(3)], axis=1) + 0.01,
    }
    free = {"e": Interval(0.0, 1.0), "ratio": Interval(0.5, 2.0), "distance": Real(), "q0": Real(), "u0": Real()}
    before = residual_module.linearise.programs()
    result = fit(problems, start, free)
    assert residual_module.linearise.programs() <= before + 1
    if e:
        assert result.converged
        assert abs(result.params["e"] - 0.8) < 0.01
        assert abs(result.params["ratio"] - 0.9) < 0.01
        np.testing.assert_allclose(result.params["distance"], 0.1, atol=5e-3)
        return
    assert result.at_bound == ("e",)
    assert result.params["e"] < 1e-3
    assert 0 < result.stderr["e"] < 0.1
    low, high = result.interval95["e"]
    assert low == 0.0
    assert high > result.params["e"]
    assert np.count_nonzero(result.covariance[result.names.index("e")]) == 1
    assert "at a bound: e" in result.message


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
def test_bodies_that_stick_have_a_restitution_near_zero_and_not_an_unseen_one():
    # Pressed together after the impact, they stay so for all small e: the derivative by e vanishes, a secant does not.
    riders = dc.System(
        gap=lambda t, q, p: (q[1] - q[0] - 0.1)[None],
        force=lambda t, q, u, p: np.array([0.02, -0.02]),
        mass=lambda q, p: np.ones(2),
        restitution=lambda p: p["e"],
    )
    times = np.linspace(0.0, 1.0, 101)
    track = np.asarray(dc.simulate(riders, {"e": 0.0}, [0.0, 0.4], [0.6, 0.0], times).q)
    seen = track + 1e-4 * np.random.default_rng(0).normal(size=track.shape)
    problem = Problem(
        riders, Observations(times, seen, 1e-4, lambda x, p: x.q), lambda p: ([0.0, 0.4], p["u0"]), substeps=1
    )
    result = fit(problem, {"e": 0.0, "u0": np.array([0.6, 0.0])}, {"e": Interval(0.0, 1.0), "u0": Real()})
    # Chi^2 is flat up to e = 0.003 and grows by 150 at 0.01.
    low, high = result.to_dict()["parameters"]["e"]["interval95"]
    assert low == 0 < high < 0.01
    assert not result.unidentifiable
    assert 0 < result.stderr["e"] < 0.01
