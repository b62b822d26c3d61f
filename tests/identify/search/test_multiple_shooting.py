"""Multiple shooting: what is cut where, and that the pieces become one motion again."""

import jax.numpy as jnp
import numpy as np
import pytest
from bouncing import BALL, BALL_FREE, ball_problem, start_of

import diffcontact as dc
from diffcontact.identify import Observations, Problem, Real, fit
from diffcontact.identify.problem.objective import Objective
from diffcontact.identify.search.multiple_shooting import CutRun, _Pieces, piece_together
from diffcontact.identify.search.trust_region import solve

SIMULATED, pytestmark = True, pytest.mark.full
BAD = {"e": 0.87, "g": 7.92, "q0": [1.08], "u0": [0.24]}


@pytest.fixture
def six_bounces(rng):
    return ball_problem(rng, end=3.0)


def pieces_of(objective, theta):
    (at,), (run,) = objective.joint.linearise(theta), objective.joint.runs
    motion = np.concatenate([np.asarray(at.trajectory.q), np.asarray(at.trajectory.u)], axis=1)
    return _Pieces(objective, [CutRun(run, motion)])


def test_segments_of_one_motion_are_that_motion(six_bounces):
    """From the states of the simulation the segments cost what the whole does, and no defect is left."""
    objective = Objective.of(six_bounces, BAD, BALL_FREE)
    theta = objective.parameters.start
    pieces = pieces_of(objective, theta)
    x = np.concatenate([theta, pieces.runs[0].states.ravel()])
    whole = objective.normal_equations(theta[None], np.ones(1))
    for weight in (0.01, 100.0):
        assert pieces.normal_equations(x[None], weight).cost[0] == pytest.approx(whole.cost[0], rel=1e-9)


def test_the_gradient_is_that_of_the_cost(six_bounces, rng):
    objective = Objective.of(six_bounces, BAD, BALL_FREE)
    pieces = pieces_of(objective, objective.parameters.start)
    x = np.concatenate([objective.parameters.start, pieces.runs[0].states.ravel()])
    x = x + 1e-2 * rng.normal(size=x.size)
    direction = rng.normal(size=x.size)

    def cost(s):
        return pieces.normal_equations((x + s * direction)[None], 3.0).cost[0]

    slope = pieces.normal_equations(x[None], 3.0).gradient[0] @ direction
    # Central differences: error h^2 times the third derivative, rounding eps cost / h.
    assert (cost(1e-5) - cost(-1e-5)) / 2e-5 == pytest.approx(slope, rel=1e-5)


def test_the_whole_motion_is_found_where_one_shot_gets_stuck(six_bounces):
    objective = Objective.of(six_bounces, BAD, BALL_FREE)
    # Half a chi^2 of 10 per sample.
    assert solve(objective, objective.parameters.start).cost > 5 * objective.joint.samples
    found = fit(six_bounces, BAD, BALL_FREE, shooting="multiple")
    assert found.chi2_per_dof < 2
    assert "by multiple shooting" in found.message


def test_it_is_left_at_that_where_segments_gain_nothing(six_bounces):
    truth = {"e": 0.8, "g": 9.81, "q0": [1.0], "u0": [0.3]}
    objective = Objective.of(six_bounces, truth, BALL_FREE)
    cost = solve(objective, objective.parameters.start).cost
    pieced = piece_together(objective, objective.parameters.start, enough=cost / 2)
    assert pieced is not None
    # Noise of 60 samples, of which the states of some ten segments take two each away.
    assert cost / 2 < pieced.apart < cost


def test_segments_of_a_sphere_that_spins_repeat_its_motion(rng):
    """They begin in states of 7 and 6 numbers; where they do not repeat the motion, there are none."""
    ball = dc.systems.balls(1, 3, spin=True, air=True)
    known = {"mass": jnp.ones(1), "radius": 0.02 * jnp.ones(1), "gravity": jnp.array([0.0, 0.0, -9.81])}
    known |= {"restitution": 1.0, "friction": 0.2, "drag": 0.1, "magnus": 0.01, "w": jnp.array([0.0, 60.0, 30.0])}

    def start(params):
        straight = jnp.array([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0])
        return straight, jnp.concatenate([jnp.array([5.0, 0.0, 2.0]), params["w"]])

    def centre(trajectory, params):
        return trajectory.q[:, :3]

    times = np.linspace(0.0, 0.4, 41)
    truth = dc.simulate(ball, known, *start(known), times).q[:, :3]
    seen = np.asarray(truth) + 1e-3 * rng.normal(size=(41, 3))
    problem = Problem(ball, Observations(times, seen, 1e-3, centre), start, substeps=1)
    objective = Objective.of(problem, known, {"w": Real()})
    pieced = piece_together(objective, objective.parameters.start, enough=0.0)
    assert pieced is not None
    # Noise of 123 samples, most of which the states of eight segments, six seen numbers each, leave.
    assert 20 < pieced.apart < 123


def test_what_depends_on_the_whole_motion_cannot_be_cut():
    def mean_height(trajectory, params):
        return trajectory.q - jnp.mean(trajectory.q)

    times = np.linspace(0.0, 1.5, 60)
    problem = Problem(BALL, Observations(times, np.zeros((60, 1)), 0.01, mean_height), start_of, substeps=1)
    objective = Objective.of(problem, BAD, BALL_FREE)
    assert piece_together(objective, objective.parameters.start) is None
    with pytest.raises(ValueError, match="fit\\(shooting='multiple'\\): not from states in between"):
        fit(problem, BAD, BALL_FREE, shooting="multiple", check=False)
