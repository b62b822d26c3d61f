"""What a result says, on two fits of the same bouncing ball: with the true impact law and with a wrong one."""

import copy
import dataclasses
import json
import pickle

import numpy as np
import pytest
from bouncing import BALL, BALL_FREE, BALL_START, ball_problem, positions, start_of

from diffcontact.identify import FitResult, Observations, Problem, fit

pytestmark = pytest.mark.full


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


def test_a_pickled_result_keeps_its_numbers_and_a_copy_everything(run, result):
    back = pickle.loads(pickle.dumps(result))
    assert str(back) == str(result)
    np.testing.assert_array_equal(back.covariance, result.covariance)
    assert back.problems == ()
    for same in (copy.copy(result), copy.deepcopy(result)):
        assert str(same) == str(result)
        assert same.problems == (run,)
        assert same.free == BALL_FREE
    assert "objective" not in repr(result)


def test_what_is_infinite_or_missing_comes_back_too(run, tmp_path):
    values = ball_problem(np.random.default_rng(0), end=0.4).observations
    holes = values.values.copy()
    holes[3:6] = np.nan
    blind = fit(
        Problem(BALL, Observations(values.times, holes, 0.01, positions), start_of, substeps=1), BALL_START, BALL_FREE
    )
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


def test_a_damaged_file_is_told_by_name(result, tmp_path):
    """Any digit of what a result is made of again, and any part of the file; what nobody reads again may differ."""
    path = tmp_path / "result.json"
    result.save(path)
    whole = path.read_text()
    document = json.loads(whole)
    cost = f'"cost": {json.dumps(document["fit_result"]["cost"])}'
    explains = f'"explains": "{document["verdict"]["explains"]}"'
    last = whole.rindex(cost)
    for damaged in (
        whole[:last] + whole[last:].replace(cost, '"cost": 7.0'),
        whole.replace(explains, '"explains": "no"'),
        json.dumps(document | {"fit_result": {**document["fit_result"], "stderr": None}}),
        *(whole[:size] for size in (0, 1, 3000, len(whole) - 3)),
    ):
        path.write_text(damaged)
        with pytest.raises(ValueError, match=r"result\.json: (FitResult\.from_dict: damaged|not a JSON document)"):
            FitResult.load(path)
    path.write_text(json.dumps(document | {"title": "with a note"}))
    assert str(FitResult.load(path)) == str(result)


def test_a_damaged_file_of_an_older_version_is_told_by_name(result, tmp_path):
    document = result.to_dict()
    del document["checksum"]
    document["fit_result"]["trajectories"] = [None]
    (tmp_path / "old.json").write_text(json.dumps(document))
    with pytest.raises(ValueError, match=r"old\.json: damaged"):
        FitResult.load(tmp_path / "old.json")


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


def test_parameters_may_be_called_like_elements(result):
    named = dataclasses.replace(
        result,
        names=("e[:,1][2]", *result.names[1:]),
        stderr={"e[:,1]": np.ones(1), **dict(list(result.stderr.items())[1:])},
    )
    assert named.place("e[:,1][2]") == ("e[:,1]", (0,))
    assert named.place("q0[0]") == ("q0", (0,))
    assert named.place("g") == ("g", ())
