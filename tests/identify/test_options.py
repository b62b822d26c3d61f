"""Options of a fit."""

import numpy as np
import pytest
from dragged import DRAGGED, FREE, NOISE, SCHEME, START, TIMES, inside, late, positions, problem, scaled, start_of

from diffcontact.identify import Normal, Observations, Positive, Problem, Real, fit
from diffcontact.identify.problem.joint_residual import JointResidual

pytestmark = pytest.mark.full


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


def test_offset_rate_and_scale_of_the_recording_are_parameters(rng):
    # A film at 40 frames a second whose frame 12 shows the start, in pixels of 2 mm.
    run = problem(rng, scaled, factor=500.0, clock=late, stamps=40.0 * TIMES - 12.0)
    params = START | {"drag": 0.8, "pixels": 400.0, "rate": 36.0, "offset": 12.0}
    result = fit(run, params, {"pixels": Positive(), "rate": Positive(), "u0": Real()})
    assert inside(result, "pixels", 500.0)
    assert inside(result, "rate", 40.0)


@pytest.mark.parametrize("loss", ["soft_l1", "huber", "cauchy"])
def test_outliers_do_not_spoil_a_robust_fit(rng, loss):
    run = problem(rng)
    values = run.observations.values.copy()
    values[45::5] += 0.3  # 300 standard deviations
    spoilt = Problem(DRAGGED, Observations(TIMES, values, NOISE, positions), start_of, SCHEME, 1)
    assert abs(fit(spoilt, START, FREE).params["drag"] - 0.8) > 0.05
    robust = fit(spoilt, START, FREE, loss=loss)
    assert inside(robust, "drag", 0.8)
    assert robust.stderr["drag"] < 0.02
    clean = fit(run, START, FREE, loss=loss)
    np.testing.assert_allclose(clean.stderr["drag"], fit(run, START, FREE).stderr["drag"], rtol=0.3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"priors": {"mass": Normal(1.0, 1.0)}}, "fit\\(priors\\): 'mass' is not free; free are 'drag', 'u0'"),
        ({"priors": {"drag": 1.0}}, "expected Normal"),
        ({"priors": {"u0": Normal([1.0, 2.0], 1.0)}}, "does not broadcast to its shape \\(1,\\)"),
        (
            {"priors": {"drag": Normal(-3.0, 1.0)}},
            "'drag' is beyond its bounds .* by more than 2 sigma, expected within",
        ),
        ({"noise": "guessed"}, "fit\\(noise\\): 'guessed'"),
        ({"loss": "square"}, "fit\\(loss\\): 'square'"),
        ({"f_scale": -1.0}, "fit\\(f_scale\\): -1.0"),
        ({"f_scale": 3.0}, "fit\\(f_scale\\): 3.0 with loss 'linear', .* expected loss 'soft_l1', 'huber' or 'cauchy'"),
    ],
)
def test_bad_input_is_named(rng, arguments, message):
    with pytest.raises(ValueError, match=message):
        fit(problem(rng), START, FREE, **arguments)
