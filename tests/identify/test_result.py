"""What a result says, how it is kept, compared and gone on from: fits of one bouncing ball, and of a fall."""

import copy
import dataclasses
import json
import pickle
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from bouncing import BALL, BALL_FREE, BALL_START, ball_problem, positions, start_of
from falling import fall, fitted
from scipy.optimize import OptimizeResult

from diffcontact.identify import (
    FitResult,
    Interval,
    Observations,
    Positive,
    Problem,
    Real,
    bootstrap,
    compare,
    fit,
    posterior,
    profile,
    search,
)
from diffcontact.identify.result import _at_bound

FREE = {"g": Positive(), "u0": Real()}
INTERVALS = [lambda result: profile(result, "g"), bootstrap, posterior]


@pytest.fixture(scope="module")
def run():
    return ball_problem(np.random.default_rng(0))


@pytest.fixture(scope="module")
def result(run):
    return fit(run, BALL_START, BALL_FREE)


def test_estimates_are_a_table_and_a_frame(result, monkeypatch):
    frame = result.to_frame()
    assert list(frame.index) == list(result.names)
    assert list(frame) == ["value", "stderr", "low", "high", "note"]
    for name, row in frame.iterrows():
        parameter, index = result.place(name)
        assert row["value"] == result.params[parameter][index]
        assert row["stderr"] == result.stderr[parameter][index]
        assert (row["low"], row["high"]) == tuple(result.interval95[parameter][index])
    assert result.table() in str(result)
    assert [line.split()[0] for line in result.table().splitlines()[2:4]] == list(result.names)[:2]
    endless = {name: np.array([-np.inf, np.inf]) for name in result.interval95}
    ends = replace(result, interval95=endless).to_frame()
    assert np.all((ends["low"] == -np.inf) & (ends["high"] == np.inf))
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"to_frame: pandas is absent; pip install 'diffcontact\[pandas\]'"):
        result.to_frame()


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


def test_a_result_comes_back_from_its_file_with_what_is_infinite_or_missing(tmp_path):
    values = ball_problem(np.random.default_rng(0), end=0.4).observations
    holes = values.values.copy()
    holes[3:6] = np.nan
    seen = Observations(values.times, holes, 0.01, positions)
    blind = fit(Problem(BALL, seen, start_of, substeps=1), BALL_START, BALL_FREE)
    path = tmp_path / "deep" / "blind.json"
    blind.save(path)
    json.loads(path.read_text(), parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    back = FitResult.load(path)
    assert str(back) == str(blind)
    assert back.to_dict() == blind.to_dict()
    np.testing.assert_array_equal(back.covariance, blind.covariance)
    np.testing.assert_array_equal(back.residuals[0], blind.residuals[0])
    np.testing.assert_array_equal(back.trajectories[0].q, blind.trajectories[0].q)
    assert back.stderr["e"] == np.inf
    assert back.interval95["e"].tolist() == [0.0, 1.0]
    assert 0 < back.stderr["g"] < 1
    assert back.hints == ("e needs an impact: none in these data",)
    assert ("e", None, "not seen by the data") in [(row["name"], row["stderr"], row["note"]) for row in back.rows()]
    assert "cannot see" in back.message
    assert np.isnan(back.residuals[0][3:6]).all()


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
    older = {name: part for name, part in document.items() if name != "checksum"}
    for damaged in (
        whole[:last] + whole[last:].replace(cost, '"cost": 7.0'),
        whole.replace(explains, '"explains": "no"'),
        json.dumps(document | {"fit_result": {**document["fit_result"], "stderr": None}}),
        json.dumps(older | {"fit_result": {**document["fit_result"], "trajectories": [None]}}),
        *(whole[:size] for size in (0, 1, 3000, len(whole) - 3)),
    ):
        path.write_text(damaged)
        with pytest.raises(ValueError, match=r"result\.json: (FitResult\.from_dict: )?(damaged|not a JSON document)"):
            FitResult.load(path)
    path.write_text(json.dumps(document | {"title": "with a note"}))
    assert str(FitResult.load(path)) == str(result)


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
    stderr = {"e[:,1]": np.ones(1), **dict(list(result.stderr.items())[1:])}
    named = dataclasses.replace(result, names=("e[:,1][2]", *result.names[1:]), stderr=stderr)
    assert named.place("e[:,1][2]") == ("e[:,1]", (0,))
    assert named.place("q0[0]") == ("q0", (0,))
    assert named.place("g") == ("g", ())


def test_the_data_support_the_true_impact_law(run, result):
    elastic = fit(run, BALL_START | {"e": 0.995}, BALL_FREE | {"e": Interval(0.99, 1.0)})
    comparison = compare(elastic, result)
    assert min(comparison.aic, comparison.bic) > 10
    same = compare(result, result)
    assert (same.aic, same.bic) == (0.0, 0.0)
    fewer = fit(run, BALL_START, {name: BALL_FREE[name] for name in ("e", "g", "q0")})
    n, beside = result.effective_samples, compare(result, fewer)
    # One parameter more.
    assert beside.bic - beside.aic == pytest.approx(np.log(n) - 2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda run: fit(run, BALL_START, BALL_FREE, loss="huber"), "same loss"),
        (lambda run: fit(run, BALL_START, BALL_FREE, noise="estimated"), "estimated"),
        (
            lambda run: fit(replace(run, observations=replace(run.observations, noise=0.03)), BALL_START, BALL_FREE),
            "two different sigma",
        ),
    ],
    ids=["loss", "noise", "sigma"],
)
def test_costs_in_different_units_are_not_compared(run, result, change, message):
    """The same samples fitted alike, but for the unit of the cost: no data would decide between them."""
    with pytest.raises(ValueError, match=message):
        compare(result, change(run))


def test_what_cannot_be_compared_is_told_in_one_line(result):
    fewer = replace(result, residuals=(result.residuals[0][:30],))
    for one, other, message in (
        (result, fewer, "different data"),
        (result, 3, r"compare\(second\): expected a FitResult, what fit returns, got int"),
        (None, result, r"compare\(first\): expected a FitResult, what fit returns, got NoneType"),
    ):
        with pytest.raises(ValueError, match=message):
            compare(one, other)


@pytest.mark.parametrize("size", [1e-12, 7e-7, 1.0, 1e9])
@pytest.mark.parametrize(
    ("value", "stderr", "arrived"),
    [(1.0, 1e-3, False), (0.04, 1.0, False), (1e-3, 1.0, True), (1e-9, 0.0, True)],
    ids=["known to 0.1 %", "hardly known", "a thousandth of its error away", "data without noise"],
)
def test_the_unit_of_a_parameter_does_not_bring_it_to_its_bound(size, value, stderr, arrived):
    """An inertia of a table-tennis ball is 7e-7 kg m^2, and not at 0."""
    end = OptimizeResult(
        x=np.array([value * size]), grad=np.array([1 / size]), jac=np.array([[1 / size]]), active_mask=np.zeros(1, int)
    )
    positive = SimpleNamespace(low=np.zeros(1), high=np.full(1, np.inf), start=np.array([0.8 * size]))
    assert _at_bound(end, positive, np.array([stderr * size])).tolist() == [arrived]


def test_what_moves_residuals_by_rounding_only_is_unseen_within_finite_bounds_too(rng):
    """The mass of a falling ball cancels, and where no force depends on time so does the zero of the clock."""
    mass, weight = lambda q, p: p["m"] * np.ones(1), lambda t, q, u, p: -p["m"] * p["g"] * np.ones(1)
    heavy = replace(BALL, force=weight, mass=mass)
    problem = replace(ball_problem(rng), system=heavy, clock=lambda t, p: t + p["zero"])
    free = {"e": Interval(0.0, 1.0), "m": Interval(0.5, 2.0), "zero": Interval(-1.0, 1.0)}
    found = fit(problem, BALL_START | {"g": 9.81, "q0": [1.0], "u0": [0.3], "m": 1.3, "zero": 0.0}, free)
    assert found.unidentifiable == [{"m": 1.0}, {"zero": 1.0}]
    assert found.interval95["m"].tolist() == [0.5, 2.0]
    assert np.diff(found.interval95["e"]) < 0.03


def test_what_goes_on_from_a_result_needs_its_functions_and_an_estimate(rng, monkeypatch):
    run = fall(rng)
    kept = fitted(run, FREE)
    monkeypatch.setattr(search, "MAX_EVALUATIONS", 1)
    for other, message in (
        (pickle.loads(pickle.dumps(kept)), "read from a file or unpickled.*expected what fit"),
        (FitResult.from_dict(kept.to_dict()), "read from a file or unpickled.*expected what fit"),
        (fitted(run, FREE), "not converged, stopped after.*expected an estimate"),
    ):
        for go_on in INTERVALS:
            with pytest.raises(ValueError, match=rf"\(result\): {message}"):
                go_on(other)
    with pytest.raises(ValueError, match="profile\\(result\\): dict, expected the FitResult"):
        profile({}, "g")  # pyright: ignore[reportArgumentType]


def test_what_the_data_cannot_see_is_refused_by_all_that_draw_it(rng):
    blind = fitted(fall(rng), {"g": Positive(), "u0": Real(), "unused": Real()}, unused=1.0)
    for go_on in (bootstrap, posterior):
        with pytest.raises(ValueError, match="unused has no effect on what was measured; expected priors"):
            go_on(blind)
    with pytest.raises(ValueError, match="the data cannot see 'unused'"):
        profile(blind, "unused")
    # What they do see has its profile; each end is found within 0.02 standard errors.
    seen = fitted(fall(np.random.default_rng(0)), FREE)
    error = seen.stderr["g"]
    np.testing.assert_allclose(profile(blind, "g").interval95, profile(seen, "g").interval95, atol=0.04 * error)
