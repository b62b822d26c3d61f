"""Options of a fit on a mass that a spring-free, contact-free step map moves: quick to compile, exact by hand."""

import jax.numpy as jnp
import numpy as np
import pytest

import diffcontact as dc
from diffcontact.identify import Interval, Normal, Observations, Positive, Problem, Real, fit
from diffcontact.identify.problem.objective import Objective
from diffcontact.identify.problem.residual import JointResidual

DRAGGED = dc.System(
    gap=lambda t, q, p: q + 100.0,
    force=lambda t, q, u, p: p["weight"] - p["drag"] * u,
    mass=lambda q, p: p["mass"] * jnp.ones(1),
    restitution=lambda p: 0.0,
)
SCHEME = dc.VelocityProjection()
TRUTH = {"weight": 3.0, "drag": 0.8, "mass": 1.5, "q0": np.zeros(1), "u0": np.array([0.5])}
TIMES = np.linspace(0.0, 2.0, 81)
NOISE = 1e-3


def positions(trajectory, params):
    return trajectory.q


def scaled(trajectory, params):
    return params["pixels"] * trajectory.q


def start_of(params):
    return params["q0"], params["u0"]


def late(times, params):
    return (times + params["offset"]) / params["rate"]


def motion(times):
    return np.asarray(dc.simulate(DRAGGED, TRUTH, TRUTH["q0"], TRUTH["u0"], times, scheme=SCHEME).q)


def problem(rng, observe=positions, factor=1.0, clock=None, stamps=TIMES):
    values = factor * (motion(TIMES) + NOISE * rng.normal(size=(TIMES.size, 1)))
    return Problem(DRAGGED, Observations(stamps, values, NOISE * factor, observe), start_of, SCHEME, clock=clock)


def inside(result, name, truth, widths=4.0):
    return np.all(np.abs(result.params[name] - truth) < widths * result.stderr[name])


FREE = {"drag": Positive(), "u0": Real()}
START = TRUTH | {"drag": 0.3, "u0": [0.0]}


def test_log_scale_changes_the_path_and_not_the_end(rng):
    plain = fit(problem(rng), START, FREE)
    log = fit(problem(np.random.default_rng(0)), START, {"drag": Positive(log=True), "u0": Real()})
    np.testing.assert_allclose(log.params["drag"], plain.params["drag"], rtol=1e-7)
    # The standard error of an estimate 0.5 % wide is the same in both scales to second order.
    np.testing.assert_allclose(log.stderr["drag"], plain.stderr["drag"], rtol=1e-3)
    low, high = log.interval95["drag"]
    np.testing.assert_allclose(low * high, log.params["drag"] ** 2)  # symmetric as a ratio


def test_the_check_before_a_fit_costs_it_nothing(rng, monkeypatch):
    evaluated, compressed = [], JointResidual.compressed
    monkeypatch.setattr(
        JointResidual, "compressed", lambda self, *arguments: evaluated.append(1) or compressed(self, *arguments)
    )
    fit(problem(rng), START, FREE, check=False)
    unchecked = len(evaluated)
    fit(problem(np.random.default_rng(0)), START, FREE)
    assert len(evaluated) == 2 * unchecked > 0


def test_tied_parameters_are_those_of_the_fit(rng):
    # Weight and drag per mass: the mass, known to be twice the drag plus a tenth of a kilogram, and so on.
    tied = {"mass": lambda p: p["drag"] + 0.7, "weight": lambda p: 2.0 * p["mass"]}
    params = {name: value for name, value in START.items() if name not in ("mass", "weight")}
    result = fit(problem(rng), params, FREE, tied=tied)
    assert inside(result, "drag", 0.8)
    assert result.params["weight"] == pytest.approx(2 * (result.params["drag"] + 0.7))


def test_a_prior_is_a_measurement_more(rng):
    run = problem(rng)
    alone = fit(run, START, FREE)
    sigma = float(alone.stderr["drag"])
    both = fit(run, START, FREE, priors={"drag": Normal(alone.params["drag"] + sigma, sigma)})
    # Two equally good measurements: their mean, with an error smaller by sqrt 2. The fit weighs the samples by the
    # stated noise, the error bars by the residuals' own, which differ by 8 % in 81 samples: three of that.
    np.testing.assert_allclose(both.params["drag"], alone.params["drag"] + sigma / 2, atol=0.25 * sigma)
    np.testing.assert_allclose(both.stderr["drag"], sigma / np.sqrt(2), rtol=0.25)
    assert both.dof == alone.dof + 1


def test_a_prior_resolves_what_the_data_cannot_see(rng):
    free = {"mass": Positive(), "drag": Positive(), "weight": Positive(), "u0": Real()}
    run = problem(rng)
    assert fit(run, START, free).unidentifiable
    resolved = fit(run, START, free, priors={"mass": Normal(1.5, 0.01)})
    assert resolved.unidentifiable == []
    for name in ("mass", "drag", "weight"):
        assert inside(resolved, name, TRUTH[name])
    # The mass comes from the prior alone.
    np.testing.assert_allclose([resolved.params["mass"], resolved.stderr["mass"]], [1.5, 0.01], rtol=1e-3)


def test_offset_rate_and_scale_of_the_recording_are_parameters(rng):
    # A film at 40 frames a second whose frame 12 shows the start, in pixels of 2 mm.
    run = problem(rng, scaled, factor=500.0, clock=late, stamps=40.0 * TIMES - 12.0)
    params = START | {"drag": 0.8, "pixels": 400.0, "rate": 36.0, "offset": 12.0}
    result = fit(run, params, {"pixels": Positive(), "rate": Positive(), "u0": Real()})
    assert inside(result, "pixels", 500.0)
    assert inside(result, "rate", 40.0)


def both(trajectory, params):
    return jnp.concatenate([trajectory.q, trajectory.q], axis=1)


def test_the_noise_of_each_channel_settles_where_it_is(rng):
    # The same coordinate seen twice, stated as equally good; the second camera is twenty times worse.
    true = np.array([1e-3, 2e-2])
    values = motion(TIMES) + true * rng.normal(size=(TIMES.size, 2))
    run = Problem(DRAGGED, Observations(TIMES, values, 5e-3, both), start_of, SCHEME)
    plain, weighted = fit(run, START, FREE), fit(run, START, FREE, noise="estimated")
    # A standard deviation of 81 samples is known to 8 %: three of them.
    np.testing.assert_allclose(weighted.noise_factors[0] * 5e-3, true, rtol=0.25)
    assert weighted.chi2_per_dof == pytest.approx(1.0, abs=0.03)
    assert weighted.stderr["drag"] < plain.stderr["drag"] / 5
    assert inside(weighted, "drag", 0.8)
    assert "noise of each channel estimated" in weighted.message
    assert plain.noise_factors == ()


@pytest.mark.parametrize("loss", ["soft_l1", "huber", "cauchy"])
def test_outliers_do_not_spoil_a_robust_fit(rng, loss):
    run = problem(rng)
    values = run.observations.values.copy()
    values[45::5] += 0.3  # 300 standard deviations
    spoilt = Problem(DRAGGED, Observations(TIMES, values, NOISE, positions), start_of, SCHEME)
    assert abs(fit(spoilt, START, FREE).params["drag"] - 0.8) > 0.05
    robust = fit(spoilt, START, FREE, loss=loss)
    assert inside(robust, "drag", 0.8)
    assert robust.stderr["drag"] < 0.02
    clean = fit(run, START, FREE, loss=loss)
    np.testing.assert_allclose(clean.stderr["drag"], fit(run, START, FREE).stderr["drag"], rtol=0.3)


@pytest.mark.parametrize(("method", "high"), [("lbfgs", 3.0), ("lbfgs", 0.5), ("adam", 0.5)])
def test_methods_of_first_order_end_where_least_squares_do_also_at_a_bound(rng, method, high):
    run, free = problem(rng), {"drag": Interval(0.1, high), "u0": Real()}
    expected, found = fit(run, START, free), fit(run, START, free, method=method)
    assert found.converged
    assert found.at_bound == (("drag",) if high < 0.8 else ())
    # A hundredth of a standard error; adam's last steps are of a ten-thousandth of one.
    for name in ("drag", "u0"):
        error = np.max(expected.stderr[name])
        np.testing.assert_allclose(found.params[name], expected.params[name], atol=1e-2 * error)
        np.testing.assert_allclose(found.stderr[name], expected.stderr[name], rtol=1e-2)


def test_lanes_side_by_side_are_lanes_one_by_one(rng):
    run = problem(rng)
    joint = Objective.of(run, START, FREE).joint
    theta = np.array([[0.3, 0.1], [0.8, 0.5], [1.4, -0.2], [0.6, 0.0], [0.9, 0.7]])
    values = [run.observations.values + 1e-3 * np.arange(5)[:, None, None]]
    for measured in (None, values):
        ((r, J),), ((r_chunked, J_chunked),) = (joint.lanes(theta, measured, chunk) for chunk in (1, 3))
        assert r.shape == (5, *run.observations.values.shape)
        np.testing.assert_allclose(r_chunked, r, atol=1e-9)  # of residuals up to 1e3, other order of summation
        np.testing.assert_allclose(J_chunked, J, rtol=1e-9, atol=1e-9)
    at = joint.replaced("values", [value[3] for value in values]).linearise(theta[3])[0]
    np.testing.assert_allclose(at.r, r[3], atol=1e-9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"priors": {"mass": Normal(1.0, 1.0)}}, "fit\\(priors\\): 'mass' is not free; free are 'drag', 'u0'"),
        ({"priors": {"drag": 1.0}}, "expected Normal"),
        ({"priors": {"u0": Normal([1.0, 2.0], 1.0)}}, "does not broadcast to its shape \\(1,\\)"),
        ({"noise": "guessed"}, "fit\\(noise\\): 'guessed'"),
        ({"loss": "square"}, "fit\\(loss\\): 'square'"),
        ({"f_scale": -1.0}, "fit\\(f_scale\\): -1.0"),
    ],
)
def test_bad_input_is_named(rng, arguments, message):
    with pytest.raises(ValueError, match=message):
        fit(problem(rng), START, FREE, **arguments)


@pytest.mark.parametrize("arguments", [(np.nan, 1.0), (0.0, 0.0), (0.0, np.inf)])
def test_a_prior_has_a_finite_mean_and_a_positive_sigma(arguments):
    with pytest.raises(ValueError, match="expected a finite mean and a positive finite sigma"):
        Normal(*arguments)
