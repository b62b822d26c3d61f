"""What users get wrong in a fit: each gives one line that names it, before anything is compiled."""

import jax
import numpy as np
import pytest
from falling import FALLING, SCHEME, TIMES, positions, start_of

from diffcontact.identify import (
    Impacts,
    Interval,
    Normal,
    Observations,
    Positive,
    Problem,
    Real,
    fit,
    objective,
    residual,
    symmetric,
)
from diffcontact.identify.parameters import free_parameters, insert

VALUES = np.zeros((TIMES.size, 1))
PARAMS = {"e": 0.7, "mass": [1.0, 2.0], "q0": [[1.0], [2.0], [3.0]], "g": 9.81, "box": {"low": [0.0]}}


@pytest.fixture
def _nothing_is_simulated(monkeypatch):
    monkeypatch.setattr(objective.JointResidual, "_resolved", lambda *_: pytest.fail("simulated"))


def fall(initial=start_of, impacts=None, **options):
    return Problem(FALLING, Observations(TIMES, VALUES, 1.0, positions, impacts), initial, SCHEME, 1, **options)


def fitted(problem=None, params=None, free=None, **options):
    params = {"g": 9.0, "u0": [0.0]} if params is None else params
    return fit(fall() if problem is None else problem, params, {"g": Real()} if free is None else free, **options)


def two_arguments(p, q):
    return p, q


INITIAL, TWO = r"Problem\(initial\): ", r"expected two arrays, \(q0, u0\), got "
KNOWN = r"in params \('u0', 'g'\)"


@pytest.mark.usefixtures("_nothing_is_simulated")
@pytest.mark.parametrize(
    ("message", "call"),
    [
        (rf"{INITIAL}no parameter 'v' {KNOWN}", lambda: fitted(fall(lambda p: (np.zeros(1), p["v"])))),
        (rf"{INITIAL}expected a function of \(params\), got one of \(p, q\)", lambda: fitted(fall(two_arguments))),
        (f"{INITIAL}{TWO}NoneType", lambda: fitted(fall(lambda p: None))),
        (f"{INITIAL}{TWO}dict", lambda: fitted(fall(lambda p: {"q0": [1.0], "u0": [0.0]}))),
        (
            f"{INITIAL}expected a function that JAX can trace, w",
            lambda: fitted(fall(lambda p: (0, np.asarray(p["u0"])))),
        ),
        (rf"Problem\(clock\): no parameter 'rate' {KNOWN}", lambda: fitted(fall(clock=lambda t, p: t * p["rate"]))),
        (r"Problem\(clock\): returned shape \(40,\), expected \(41,\)", lambda: fitted(fall(clock=lambda t, p: t[1:]))),
        (rf"fit\(tied\): 'h': no parameter 'w' {KNOWN}", lambda: fitted(tied={"h": lambda p: 2 * p["w"]})),
        (r"Impacts\(contacts\): \(7,\), expected .* 0 to 0", lambda: fitted(fall(impacts=Impacts([0.4], 1e-3, (7,))))),
        (r"Impacts\(contacts\): \(-1,\), expected numbers of contacts", lambda: Impacts([0.4], 1e-3, (-1,))),
        (r"Impacts\(times\): expected an array of numbers", lambda: Impacts("a", 1e-3)),
        (r"Impacts\(times\)", lambda: Impacts([1.0, 0.5], 1e-3)),
        (r"Impacts\(noise\)", lambda: Impacts([1.0], [1e-3, 1e-3])),
        (r"Observations\(impacts\): expected Impacts, got list", lambda: fall(impacts=[0.5])),
        (r"Observations\(impacts\): 42, expected at most", lambda: fall(impacts=Impacts(np.arange(42.0), 1.0))),
        (r"Interval\(low='a', high=1\): expected numbers", lambda: Interval("a", 1)),
        (r"Interval.*wrong way round", lambda: Interval(0.0, 0.0)),
        (r"Interval.*a bound is NaN", lambda: Interval(0.0, np.nan)),
        (r"Interval\(low=0.0, high=1.0\): low must be above 0 in log", lambda: Interval(0.0, 1.0, log=True)),
        (r"Normal.*expected a finite mean and a positive finite sigma", lambda: Normal(0.0, 0.0)),
        (r"Problem\(per_run\): 3, expected names of parameters", lambda: fall(per_run=3)),
        (r".*expected a function", lambda: fall(initial=([0.0], [1.0]))),
        (r".*expected Observations", lambda: Problem(FALLING, 1, start_of)),
        (r".*at least 1", lambda: Problem(FALLING, fall().observations, start_of, substeps=0)),
        (r".*expected 'auto' or an", lambda: Problem(FALLING, fall().observations, start_of, substeps=True)),
        (r"fit\(problem\): entry 1 is int, expected Problem", lambda: fitted([fall(), 1])),
        (r"fit\(problem\): empty list", lambda: fitted([])),
        (r"fit\(problem\): per_run is", lambda: fitted([fall(), fall(per_run=("u0",))])),
        (r"fit\(params\): expected a dictionary with .*, got list", lambda: fitted(params=[1.0])),
        (r"fit\(free\): expected a dictionary with .*, got list", lambda: fitted(free=["g"])),
        (r"fit\(free\): no parameter 'gg'; did you mean 'g'", lambda: fitted(free={"gg": Real()})),
        (r"fit\(tied\): expected a dictionary with .*, got list", lambda: fitted(tied=["g"])),
        (r"fit\(tied\): 'g' is free as well", lambda: fitted(tied={"g": lambda p: 1.0})),
        (r"fit\(tied\): 'h' is no function", lambda: fitted(tied={"h": 1.0})),
        (r"fit\(method\): 'newton' does not exist; there is 'lm'", lambda: fitted(method="newton")),
        (r"fit\(shooting\): 'double' does not exist", lambda: fitted(shooting="double")),
        (r"fit\(shooting\): 'growing' goes with method 'lm', not", lambda: fitted(shooting="growing", method="adam")),
        (r"fit\(starts\): 0, expected an integer of at least 1", lambda: fitted(starts=0)),
        (r"fit\(seed\): -1, expected an integer of at least 0", lambda: fitted(seed=-1)),
        (r"fit\(noise\): 'guessed'", lambda: fitted(noise="guessed")),
        (r"fit\(loss\): 'square'", lambda: fitted(loss="square")),
        (r"fit\(f_scale\): 'a', expected a positive number", lambda: fitted(loss="huber", f_scale="a")),
        (r"fit\(f_scale\): 3.0 with loss 'linear', .* 'soft_l1', 'huber' or 'cauchy'", lambda: fitted(f_scale=3.0)),
        (r"fit\(progress\): 3, expected a function or None", lambda: fitted(progress=3)),
        (r"fit\(priors\): 'u0' is not free; free are 'g'", lambda: fitted(priors={"u0": Normal(1.0, 1.0)})),
        (r"fit\(priors\): .*expected Normal", lambda: fitted(priors={"g": 1.0})),
        (r"fit\(priors\): .*broadcast to its shape \(\)", lambda: fitted(priors={"g": Normal([1.0, 2.0], 1.0)})),
        (
            r"fit\(priors\): .*'g' is beyond its bounds .* by more than 2 sigma, expected within",
            lambda: fitted(free={"g": Positive()}, priors={"g": Normal(-3.0, 1.0)}),
        ),
    ],
)
def test_one_line_says_what_was_expected(message, call):
    with pytest.raises(ValueError, match=f"^{message}") as caught:
        call()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("message", "observe"),
    [
        (rf"Observations\(observe\): no parameter 's' {KNOWN}", lambda run, p: p["s"] * run.q),
        (r"Observations\(observe\): expected a function of \(trajectory, params\), got one of", lambda run: run.q),
        (r"Observations\(observe\): expected a function that JAX can trace", lambda run, p: np.asarray(run.q)),
        (r"observe returns tuple, expected \(41, 1\)", lambda run, p: (run.q,)),
        (r"observe returns shape \(41,\), expected \(41, 1\)", lambda run, p: run.q[:, 0]),
    ],
)
def test_what_is_wrong_with_observe_is_said_while_it_is_traced(message, observe):
    seen = Observations(TIMES, VALUES, 1.0, observe)
    (run,) = objective.JointResidual(
        [Problem(FALLING, seen, start_of, SCHEME, 1)], free_parameters({"g": 9.0, "u0": [0.0]}, {"g": Real()}, set(), 1)
    ).runs
    with pytest.raises(ValueError, match=f"^{message}") as caught:
        jax.eval_shape(lambda z: residual.residual(run.model, z, run.fixed, run.samples)[0], np.zeros(1))
    assert "\n" not in str(caught.value)


def observed(times=(0.0, 1.0, 2.0), values=((1.0,), (2.0,), (3.0,)), noise=0.1, observe=positions):
    return Observations(times, values, noise, observe)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"times": [0.0, 1.0, 1.0]}, "row 2 \\(1.0\\) is not after the one before"),
        ({"times": [0.0, np.nan, 1.0]}, "row 1"),
        ({"times": np.ma.masked_array([0.0, 1.0, 2.0], [False, True, False])}, "row 1"),
        ({"times": [[0.0, 1.0, 2.0]]}, "expected \\(n,\\)"),
        ({"times": np.arange(3).astype("datetime64[ms]")}, r"Observations\(times\): expected an array of numbers"),
        ({"values": [1.0, 2.0, 3.0]}, "shape \\(3,\\), expected \\(3, k\\)"),
        ({"values": [[1.0], [np.inf], [2.0]]}, "row 1 is infinite"),
        ({"values": np.full((3, 1), np.nan)}, "every sample is missing"),
        ({"values": "abc"}, "expected an array of numbers"),
        ({"noise": 0.0}, "0.0 in channel 0, row 0; expected a positive number"),
        ({"noise": np.nan}, "expected a positive number"),
        ({"noise": [0.1, 0.2]}, "shape \\(2,\\)"),
        ({"observe": None}, "expected a function"),
    ],
)
def test_bad_observations_are_named(change, message):
    with pytest.raises(ValueError, match=message):
        observed(**change)


def test_missing_samples_need_no_noise_and_channels_may_have_their_own():
    seen = observed(values=[[1.0], [np.nan], [3.0]], noise=np.array([[0.1], [np.nan], [0.2]]))
    assert seen.present.ravel().tolist() == [True, False, True]
    assert seen.sigma.ravel().tolist() == [0.1, 1.0, 0.2]
    masked = observed(values=np.ma.masked_array([[1.0], [7.0], [3.0]], [[False], [True], [False]]))
    assert masked.present.ravel().tolist() == [True, False, True]
    assert observed(values=np.ones((3, 2)), noise=[0.1, 0.2]).sigma.tolist() == [[0.1, 0.2]] * 3
    assert type(Problem(FALLING, seen, start_of, substeps=np.int64(2)).substeps) is int


def test_each_run_sees_what_is_shared_and_what_is_its_own():
    free = {"mass": Positive(), "q0": Real(), "e": Interval(0, 1)}
    parameters = free_parameters(PARAMS, free, frozenset({"q0"}), 3)
    assert parameters.names == ("mass[0]", "mass[1]", "q0[0,0]", "q0[1,0]", "q0[2,0]", "e")
    assert parameters.index(1).tolist() == [0, 1, 3, 5]
    assert parameters.own.tolist() == [False, False, True, True, True, False]
    params = insert(parameters.view, parameters.start[parameters.index(1)], parameters.fixed(1))
    assert (params["e"], params["q0"].tolist(), float(params["g"])) == (0.7, [2.0], 9.81)
    merged = parameters.merge(parameters.start + 1.0)
    assert (merged["e"], merged["mass"].tolist(), merged["g"]) == (1.7, [2.0, 3.0], 9.81)
    # What is held fixed may be a run's own.
    held = free_parameters(PARAMS, {"mass": Interval(0.5, [2.0, 3.0])}, frozenset({"q0"}), 3)
    assert held.fixed(2)["q0"].tolist() == [3.0]
    np.testing.assert_array_equal([held.low, held.high], [[0.5, 0.5], [2.0, 3.0]])


@pytest.mark.parametrize(
    ("params", "free", "per_run", "message"),
    [
        ({"restitution": 0.5}, {"restitutoin": Real()}, (), "did you mean 'restitution'"),
        ({"e": 0.5}, {"zzz": Real()}, (), "known are 'e'"),
        ({"e": 0.5}, {}, (), "empty"),
        ({"e": 0.5}, {"e": (0, 1)}, (), "expected Interval"),
        ({"e": 1.5}, {"e": Interval(0, 1)}, (), "'e' = 1.5 is outside its bounds Interval"),
        ({"m": 0.0}, {"m": Positive()}, (), "'m' = 0.0 is outside its bounds Positive"),
        ({"m": np.inf}, {"m": Positive()}, (), "'m' = inf is not finite"),
        ({"e": 0.5, "g": np.nan}, {"e": Real()}, (), "'g' is NaN"),
        ({"e": 0.5, "g": "9.81 m/s2"}, {"e": Real()}, (), "'g' = '9.81 m/s2' is not a number"),
        ({"m": [1.0, 2.0]}, {"m": Interval([0, 0, 0], 1)}, (), "bounds of 'm' do not broadcast"),
        ({"q0": [1.0, 2.0]}, {"q0": Real()}, ("q0",), "'q0' is per_run.*one entry per problem \\(3\\).*\\(2,\\)"),
        ({"q0": [1.0, 2.0]}, {"q0": Real()}, ("q1",), "fit\\(per_run\\): no parameter 'q1'; did you mean 'q0'"),
    ],
)
def test_bad_parameters_are_named(params, free, per_run, message):
    with pytest.raises(ValueError, match=message):
        free_parameters(params, free, frozenset(per_run), 3)


def test_a_parameter_in_log_scale_is_there_with_its_logarithm():
    free = {"g": Positive(log=True), "mass": Interval(0.5, 4.0, log=True), "e": Interval(0.0, 1.0)}
    parameters = free_parameters(PARAMS, free, frozenset(), 1)
    np.testing.assert_allclose(parameters.start, [np.log(9.81), 0.0, np.log(2.0), 0.7])
    np.testing.assert_allclose(parameters.low, [-np.inf, np.log(0.5), np.log(0.5), 0.0])
    np.testing.assert_allclose(parameters.values(parameters.start), [9.81, 1.0, 2.0, 0.7])
    np.testing.assert_allclose(parameters.slopes(parameters.start), [9.81, 1.0, 2.0, 1.0])
    params = insert(parameters.view, parameters.start, parameters.fixed(0))
    np.testing.assert_allclose(params["mass"], [1.0, 2.0])
    assert parameters.merge(parameters.start)["g"] == pytest.approx(9.81)


def test_tied_parameters_follow_and_have_a_row_per_run_where_runs_differ():
    tied = {"each": lambda p: 2.0 * p["q0"], "all": lambda p: p["e"] * np.ones(3), "next": lambda p: p["each"] + 1.0}
    parameters = free_parameters(PARAMS, {"e": Interval(0, 1)}, frozenset({"q0"}), 3, tied)
    merged = parameters.merge(np.array([0.5]))
    assert merged["each"].tolist() == [[2.0], [4.0], [6.0]]
    assert merged["all"].tolist() == [0.5, 0.5, 0.5]
    assert merged["next"].tolist() == [[3.0], [5.0], [7.0]]


def test_a_symmetric_matrix_has_one_number_per_pair():
    e = np.asarray(symmetric(np.arange(6.0), 3))
    np.testing.assert_array_equal(e, e.T)
    assert e[np.triu_indices(3)].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
