"""Fits through real contact, on synthetic data with known truth."""

import json

import jax.numpy as jnp
import numpy as np
import pytest
from bouncing import BALL, BALL_FREE, BALL_START, BALL_TRUTH, SAMPLES, ball_problem, positions, start_of

import diffcontact as dc
from diffcontact.identify import Interval, Observations, Positive, Problem, Real, fit
from diffcontact.identify.problem import model as model_module
from diffcontact.identify.problem import residual as residual_module
from diffcontact.identify.problem.joint_residual import JointResidual
from diffcontact.identify.problem.parameters import free_parameters

pytestmark = pytest.mark.full


def joint(problems, params, free):
    problems = problems if isinstance(problems, list) else [problems]
    return JointResidual(problems, free_parameters(params, free, frozenset(problems[0].per_run), len(problems)))


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


def test_exact_data_give_exact_parameters(rng):
    result = fit(ball_problem(rng, sigma=0.0), BALL_START, BALL_FREE)
    for name, truth in BALL_TRUTH.items():
        np.testing.assert_allclose(result.params[name], truth, rtol=1e-8)  # xtol is 2e-12; rounding in 60 steps


def test_the_jacobian_is_the_derivative_of_the_residuals(rng):
    problem = ball_problem(rng)
    residuals = joint(problem, BALL_START, BALL_FREE)
    theta = np.array([0.75, 9.6, 1.02, 0.25])
    J = residuals.linearise(theta)[0].J[:, 0]
    for j in range(4):
        h = 1e-6 * np.eye(4)[j]
        difference = (residuals.linearise(theta + h)[0].r - residuals.linearise(theta - h)[0].r)[:, 0] / 2e-6
        # h^2 truncation and eps / h rounding, both near 1e-9 of the largest entry
        np.testing.assert_allclose(J[:, j], difference, atol=1e-7 * np.abs(J).max())


def test_compression_keeps_cost_gradient_and_curvature(rng):
    residuals = joint(ball_problem(rng), BALL_START, BALL_FREE)
    theta = np.array([0.75, 9.6, 1.02, 0.25])
    (at,) = residuals.linearise(theta)
    f, J = residuals.compressed(theta)
    assert f.shape == (5,)
    np.testing.assert_allclose([f @ f, *(J.T @ f)], [at.r[:, 0] @ at.r[:, 0], *(at.J[:, 0].T @ at.r[:, 0])])
    np.testing.assert_allclose(J.T @ J, at.J[:, 0].T @ at.J[:, 0])


def test_nothing_is_compiled_for_the_second_fit(rng):
    fit(ball_problem(rng), BALL_START, BALL_FREE)
    before = residual_module.linearise.programs()
    fit(ball_problem(rng), BALL_START, BALL_FREE)
    assert residual_module.linearise.programs() == before


def test_restitution_cannot_be_seen_without_an_impact(rng):
    problem = ball_problem(rng, sigma=1e-3, end=0.4)
    result = fit(problem, BALL_START, BALL_FREE)
    assert result.unidentifiable == [{"e": 1.0}]
    assert result.stderr["e"] == np.inf
    assert result.interval95["e"].tolist() == [0.0, 1.0]
    assert 0 < result.stderr["g"] < 0.1
    assert "cannot see" in result.message
    row = next(row for row in result.rows() if row["name"] == "e")
    assert (row["stderr"], row["note"]) == (None, "not seen by the data")


def test_a_start_that_leaves_for_infinity_is_no_fit_and_says_so(rng):
    result = fit(ball_problem(rng), {**BALL_START, "u0": [1e30]}, BALL_FREE)
    assert not result.converged
    assert "not finite" in result.message
    json.dumps(result.to_dict(), allow_nan=False)


def test_the_status_of_the_trajectory_is_told(rng):
    result = fit(ball_problem(rng), {**BALL_START, "q0": [-0.02]}, {**BALL_FREE, "q0": Interval(-0.03, -0.01)})
    assert dc.Status.OVERLAP.message in result.message


def test_more_starts_find_what_one_misses(rng):
    problem = ball_problem(rng, end=1.5)
    free = {"e": Interval(0.05, 0.99), "g": Interval(9.0, 10.5), "q0": Interval(0.9, 1.1), "u0": Interval(0.0, 0.6)}
    start = {"e": 0.1, "g": 9.1, "q0": [0.91], "u0": [0.59]}
    result = fit(problem, start, free, starts=8, seed=1)
    assert len(result.start_costs) == 8
    assert result.cost == min(result.start_costs)
    assert abs(result.params["e"] - 0.8) < 4 * result.stderr["e"]


def test_the_result_prints_as_a_table_and_goes_to_json(rng):
    result = fit(ball_problem(rng), BALL_START, BALL_FREE)
    lines = str(result).splitlines()
    assert lines[:2] == ["explains the data", ""]
    assert lines[2].split() == ["parameter", "value", "stderr", "within", "this", "run", "note"]
    assert [line.split()[0] for line in lines[4:8]] == list(result.names)
    assert lines[8].startswith("within this run: another run may differ by more")
    tables = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    low, high = tables["parameters"]["e"]["interval95"]
    assert low < tables["parameters"]["e"]["value"] < high


def carts(mass):
    """Two carts on a line: gap = q1 - q0 - distance."""
    return dc.System(
        gap=lambda t, q, p: (q[1] - q[0] - p["distance"])[None],
        force=lambda t, q, u, p: jnp.zeros(2),
        mass=lambda q, p: mass(p),
        restitution=lambda p: p["e"],
    )


CARTS = carts(lambda p: jnp.stack([p["ratio"], jnp.ones_like(p["ratio"])]))


def collision(rng, e, samples, speed, sigma=1e-3):
    """Two carts of mass ratio 0.9, 0.1 m apart at contact: straight lines before and after."""
    times = np.linspace(0.0, 2.0, 101)[:samples]
    q0, u0 = np.array([0.0, 0.6]), np.array([speed, 0.0])
    hit = 0.5 / speed
    after = np.array([(0.9 - e) * speed / 1.9, 0.9 * (1 + e) * speed / 1.9])
    seen = np.where(times[:, None] < hit, q0 + u0 * times[:, None], q0 + u0 * hit + after * (times[:, None] - hit))
    return Observations(times, seen + sigma * rng.normal(size=seen.shape), sigma, positions)


CARTS_FREE = {"e": Interval(0.0, 1.0), "ratio": Interval(0.5, 2.0), "distance": Real(), "q0": Real(), "u0": Real()}
PER_RUN = ("distance", "q0", "u0")
SPEEDS = (0.5, 0.6, 0.7)


def three_collisions(rng, e):
    observations = [collision(rng, e, samples, speed) for samples, speed in zip((101, 95, 98), SPEEDS, strict=True)]
    observations[1].values.setflags(write=True)
    observations[1].values[10:20, 0] = np.nan
    problems = [Problem(CARTS, seen, start_of, substeps=1, per_run=PER_RUN) for seen in observations]
    start = {
        "e": 0.6,
        "ratio": 1.0,
        "distance": np.full(3, 0.12),
        "q0": np.tile([0.01, 0.6], (3, 1)),
        "u0": np.stack([SPEEDS, np.zeros(3)], axis=1) + 0.01,
    }
    return problems, start


def test_runs_of_different_lengths_share_parameters_and_one_compilation(rng):
    problems, start = three_collisions(rng, 0.8)
    before = residual_module.linearise.programs()
    result = fit(problems, start, CARTS_FREE)
    assert residual_module.linearise.programs() <= before + 1
    assert result.converged
    assert result.names[2:6] == ("distance[0]", "distance[1]", "distance[2]", "q0[0,0]")
    assert abs(result.params["e"] - 0.8) < 0.01
    assert abs(result.params["ratio"] - 0.9) < 0.01
    np.testing.assert_allclose(result.params["distance"], 0.1, atol=5e-3)
    assert "jackknife over the 3 runs" in result.error_bars
    # Student's t of 2 degrees of freedom, or somewhat fewer: runs of different lengths weigh differently.
    assert 4.302652 < result.quantile["e"] < 5.0
    assert [r.shape for r in result.residuals] == [(101, 2), (95, 2), (98, 2)]
    assert [trajectory.q.shape[0] for trajectory in result.trajectories] == [101, 95, 98]
    assert np.isnan(result.residuals[1][10:20, 0]).all()
    assert result.dof == 2 * (101 + 95 + 98) - 10 - 17


def test_functions_made_alike_share_their_code(rng):
    seen = collision(rng, 0.8, 101, 0.5)
    offsets = [0.0, 1.0]
    problems = [Problem(CARTS, seen, lambda p: (p["q0"], p["u0"])) for _ in range(2)]
    problems += [Problem(CARTS, seen, lambda p, offset=offset: (p["q0"] + offset, p["u0"])) for offset in offsets]
    first, second, third, fourth = model_module.share_code(problems, ())
    assert first == second
    assert hash(first) == hash(second)
    assert len({first, third, fourth}) == 3


def test_padding_changes_nothing(rng):
    problems, start = three_collisions(rng, 0.8)
    free = free_parameters(start, CARTS_FREE, frozenset(PER_RUN), 3)
    together = JointResidual(problems, free)
    assert [run.padded for run in together.runs] == [False, True, True]
    (at,) = together.linearise(free.start)[1:2]
    z = jnp.asarray(free.start[free.index(1)])
    run = together.runs[1]
    cut = residual_module.Samples(
        *(getattr(run.samples, name)[: run.length] for name in ("times", "values", "sigma", "present"))
    )
    alone, _ = residual_module.evaluate(run.model, z, run.fixed, cut)
    np.testing.assert_allclose(np.where(run.present, alone, np.nan), at.r, atol=1e-9)  # sigma = 1e-3: 1e-12 m


def test_an_observe_that_looks_ahead_is_not_padded(rng):
    times = np.linspace(0.0, 0.2, 21)

    def about_the_mean(trajectory, params):
        return trajectory.q - jnp.mean(trajectory.q, axis=0, keepdims=True)

    problems = [
        Problem(BALL, Observations(times[:n], np.zeros((n, 1)), 1.0, about_the_mean), start_of, substeps=1)
        for n in (21, 15)
    ]
    residuals = joint(problems, BALL_START, BALL_FREE)
    assert not any(run.padded for run in residuals.runs)
    at = residuals.linearise(np.array([0.75, 9.6, 1.02, 0.25]))
    np.testing.assert_allclose([np.mean(a.r) for a in at], 0.0, atol=1e-12)


def test_carts_that_stick_are_at_the_bound(rng):
    problems, start = three_collisions(rng, 0.0)
    for problem in problems:  # push e below zero: what an inward slope after the impact would look like
        values = problem.observations.values
        values.setflags(write=True)
        together = np.cumsum(np.nan_to_num(values[:, 1] - values[:, 0], nan=1.0) < 0.103)
        values[:, 1] -= 1e-4 * together
    result = fit(problems, start, CARTS_FREE)
    assert result.at_bound == ("e",)
    assert result.params["e"] < 1e-3
    assert 0 < result.stderr["e"] < 0.1
    low, high = result.interval95["e"]
    assert low == 0.0
    assert high > result.params["e"]
    e = result.names.index("e")
    assert np.count_nonzero(result.covariance[e]) == 1
    assert "at a bound: e" in result.message


def test_only_the_ratio_of_two_masses_is_seen(rng):
    system = carts(lambda p: p["mass"])
    problem = Problem(system, collision(rng, 0.8, 101, 0.5), start_of, substeps=1)
    start = {"e": 0.6, "mass": [1.7, 2.0], "distance": 0.12, "q0": [0.0, 0.6], "u0": [0.5, 0.0]}
    free = {"e": Interval(0.0, 1.0), "mass": Positive(), "distance": Real(), "q0": Real(), "u0": Real()}
    result = fit(problem, start, free)
    (direction,) = result.unidentifiable
    assert direction.keys() == {"mass[0]", "mass[1]"}
    mass = result.params["mass"]
    np.testing.assert_allclose(direction["mass[0]"] / direction["mass[1]"], mass[0] / mass[1], rtol=1e-6)
    assert np.all(result.stderr["mass"] == np.inf)
    assert abs(mass[0] / mass[1] - 0.9) < 0.02
    assert np.all((mass > 0.1) & (mass < 10.0))  # nothing drove them away along the valley
    assert abs(result.params["e"] - 0.8) < 4 * result.stderr["e"] < 0.1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "newton"}, "'newton' does not exist; there is 'lm'"),
        ({"starts": 0}, "at least 1"),
        ({"problem": []}, "empty list"),
        ({"problem": [1]}, "entry 0 is int, expected Problem"),
        ({"free": {"ee": Real()}}, "no parameter 'ee'; did you mean 'e'"),
    ],
)
def test_bad_input_is_named(rng, arguments, message):
    good = {"problem": ball_problem(rng), "params": BALL_START, "free": BALL_FREE}
    with pytest.raises(ValueError, match=message):
        fit(**{**good, **arguments})


def test_an_observe_of_the_wrong_shape_is_named(rng):
    times = np.linspace(0.0, 1.0, 5)
    observations = Observations(times, np.zeros((5, 1)), 1.0, lambda trajectory, params: trajectory.q[:, 0])
    problem = Problem(BALL, observations, start_of, substeps=1)
    with pytest.raises(ValueError, match=r"observe returns shape \(5,\), expected \(5, 1\)"):
        fit(problem, BALL_START, BALL_FREE)


def test_bodies_that_stick_have_a_restitution_near_zero_and_not_an_unseen_one():
    # Pressed together after the impact, they stay so for all small e: the derivative by e vanishes, a secant does not.
    riders = dc.System(
        gap=lambda t, q, p: (q[1] - q[0] - 0.1)[None],
        force=lambda t, q, u, p: jnp.array([0.02, -0.02]),
        mass=lambda q, p: jnp.ones(2),
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
