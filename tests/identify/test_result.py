"""What a result says, on two fits of the same bouncing ball: with the true impact law and with a wrong one."""

import json

import numpy as np
import pytest
from bouncing import BALL, BALL_FREE, BALL_START, ball_problem, positions, start_of

from diffcontact.identify import FitResult, Interval, Observations, Problem, compare, fit
from diffcontact.identify.fit import prepare
from diffcontact.identify.profile import profile
from diffcontact.identify.replicas import bootstrap, fit_replicas, flat


@pytest.fixture(scope="module")
def run():
    return ball_problem(np.random.default_rng(0))


@pytest.fixture(scope="module")
def result(run):
    return fit(run, BALL_START, BALL_FREE)


def test_a_result_comes_back_from_its_file(result, tmp_path):
    path = tmp_path / "deep" / "result.json"
    result.save(path)
    json.loads(path.read_text(), parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    back = FitResult.load(path)
    assert str(back) == str(result)
    np.testing.assert_array_equal(back.covariance, result.covariance)
    np.testing.assert_array_equal(back.residuals[0], result.residuals[0])
    np.testing.assert_array_equal(back.trajectories[0].q, result.trajectories[0].q)
    assert back.to_dict() == result.to_dict()


def test_what_is_infinite_or_missing_comes_back_too(run, tmp_path):
    values = ball_problem(np.random.default_rng(0), end=0.4).observations
    holes = values.values.copy()
    holes[3:6] = np.nan
    blind = fit(Problem(BALL, Observations(values.times, holes, 0.01, positions), start_of), BALL_START, BALL_FREE)
    blind.save(tmp_path / "blind.json")
    back = FitResult.load(tmp_path / "blind.json")
    assert back.stderr["e"] == np.inf
    assert np.isnan(back.residuals[0][3:6]).all()
    assert back.unidentifiable == [{"e": 1.0}]


@pytest.mark.parametrize(
    ("text", "message"), [("{}", "no complete 'fit_result'"), ("[1]", "expected a JSON object"), ("{", "not a JSON")]
)
def test_files_that_hold_no_result_are_named(tmp_path, text, message):
    path = tmp_path / "result.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        FitResult.load(path)


def test_criteria_are_those_of_their_definitions(result):
    n, m, P = result.effective_samples, 60, 4
    assert result.samples == m
    assert result.chi2_per_dof == pytest.approx(2 * result.cost / (m - P))
    assert result.aic == pytest.approx(n * np.log(2 * result.cost / m) + 2 * (P + 1))
    assert result.bic - result.aic == pytest.approx((np.log(n) - 2) * (P + 1))
    r = result.residuals[0][:, 0]
    correlation = result.autocorrelation(2)[0]
    assert correlation.shape == (3, 1)
    assert correlation[1, 0] == pytest.approx(np.mean(r[1:] * r[:-1]) / np.mean(r**2))


@pytest.mark.slow
def test_the_data_support_the_true_impact_law(run, result):
    elastic = fit(run, BALL_START | {"e": 0.995}, BALL_FREE | {"e": Interval(0.99, 1.0)})
    comparison = compare(elastic, result, ("elastic", "restitution"))
    assert comparison.aic > 10
    assert "the data support restitution strongly" in str(comparison)
    same = compare(result, result)
    assert (same.aic, same.bic) == (0.0, 0.0)
    assert "do not decide" in same.verdict


def test_fits_of_different_data_are_not_compared(result):
    other = fit(ball_problem(np.random.default_rng(1), end=0.4), BALL_START, BALL_FREE)
    other = FitResult(**{**other.__dict__, "residuals": (other.residuals[0][:30],)})
    with pytest.raises(ValueError, match="different data"):
        compare(result, other)


def test_a_replica_is_fitted_as_if_it_were_alone(run):
    other = ball_problem(np.random.default_rng(7))
    objective = prepare(run, BALL_START, BALL_FREE)
    first, second = fit_replicas(objective, [np.stack([run.observations.values, other.observations.values])])
    alone = fit(other, BALL_START, BALL_FREE)
    assert first.cost != second.cost
    np.testing.assert_allclose(flat(objective, second.params), flat(objective, alone.params), rtol=1e-7)
    np.testing.assert_allclose(second.covariance, alone.covariance, rtol=1e-5)


def test_replicas_of_another_shape_are_refused(run):
    with pytest.raises(ValueError, match="expected \\(N, n, k\\)"):
        fit_replicas(prepare(run, BALL_START, BALL_FREE), [np.zeros((2, 59, 1))])


def test_the_bootstrap_agrees_with_the_curvature(run, result):
    boot = bootstrap(prepare(run, result.params, BALL_FREE), result, replicas=40)
    stderr = np.sqrt(np.diag(result.covariance))
    # A standard deviation of 40 has an error of 11 %: three of them.
    np.testing.assert_allclose(boot.stderr, stderr, rtol=0.35)
    assert np.all(np.abs(boot.bias) < stderr)
    assert np.all(boot.interval95[:, 0] < boot.interval95[:, 1])


def test_the_profile_of_a_nearly_linear_parameter_is_its_interval(run, result):
    objective = prepare(run, result.params, BALL_FREE)
    for name in ("e", "u0[0]"):
        found = profile(objective, result, name)
        expected = np.concatenate([np.reshape(b, (-1, 2)) for b in result.interval95.values()])[
            result.names.index(name)
        ]
        # Found within 0.02 standard errors; what it is curved is of second order, a few per cent of the width.
        np.testing.assert_allclose(found.interval95, expected, atol=0.1 * np.diff(expected)[0])
        assert np.all(np.diff(found.values) > 0)
        assert found.rise.min() == pytest.approx(0.0, abs=1e-6)


def test_a_profile_stops_at_a_bound(rng):
    elastic = ball_problem(rng, e=1.0)
    result = fit(elastic, BALL_START | {"e": 0.95}, BALL_FREE)
    found = profile(prepare(elastic, result.params, BALL_FREE), result, "e")
    assert found.interval95[1] == pytest.approx(1.0)
    assert 0.9 < found.interval95[0] < 1.0


def test_what_cannot_be_profiled_is_named(run, result):
    with pytest.raises(ValueError, match="no element 'mass'; there are e, g"):
        profile(prepare(run, result.params, BALL_FREE), result, "mass")
