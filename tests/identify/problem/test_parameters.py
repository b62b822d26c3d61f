import numpy as np
import pytest

from diffcontact.identify import Interval, Positive, Real, symmetric
from diffcontact.identify.problem.parameters import free_parameters, insert

PARAMS = {"e": 0.7, "mass": [1.0, 2.0], "q0": [[1.0], [2.0], [3.0]], "g": 9.81, "box": {"low": [0.0]}}


def test_each_run_sees_what_is_shared_and_what_is_its_own():
    free = {"mass": Positive(), "q0": Real(), "e": Interval(0, 1)}
    parameters = free_parameters(PARAMS, free, frozenset({"q0"}), 3)
    assert parameters.names == ("mass[0]", "mass[1]", "q0[0,0]", "q0[1,0]", "q0[2,0]", "e")
    assert parameters.index(1).tolist() == [0, 1, 3, 5]
    params = insert(parameters.view, parameters.start[parameters.index(1)], parameters.fixed(1))
    assert (params["e"], params["q0"].tolist(), float(params["g"])) == (0.7, [2.0], 9.81)
    merged = parameters.merge(parameters.start + 1.0)
    assert (merged["e"], merged["mass"].tolist(), merged["g"]) == (1.7, [2.0, 3.0], 9.81)


def test_fixed_parameters_can_be_a_runs_own():
    parameters = free_parameters(PARAMS, {"e": Interval(0, 1)}, frozenset({"q0"}), 3)
    assert parameters.fixed(2)["q0"].tolist() == [3.0]


def test_bounds_broadcast_to_the_parameter():
    parameters = free_parameters(PARAMS, {"mass": Interval(0.5, [2.0, 3.0])}, frozenset(), 1)
    np.testing.assert_array_equal(parameters.low, [0.5, 0.5])
    np.testing.assert_array_equal(parameters.high, [2.0, 3.0])


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
def test_bad_input_is_named(params, free, per_run, message):
    with pytest.raises(ValueError, match=message):
        free_parameters(params, free, frozenset(per_run), 3)


@pytest.mark.parametrize("bounds", [(1.0, 0.0), (0.0, 0.0), (0.0, np.nan)])
def test_bounds_the_wrong_way_round(bounds):
    with pytest.raises(ValueError, match="wrong way round"):
        Interval(*bounds)


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


@pytest.mark.parametrize(
    ("tied", "message"),
    [({"e": lambda p: 1.0}, "'e' is free as well"), ({"mass": 1.0}, "'mass' is no function")],
)
def test_bad_ties_are_named(tied, message):
    with pytest.raises(ValueError, match=message):
        free_parameters(PARAMS, {"e": Interval(0, 1)}, frozenset(), 3, tied)


def test_no_logarithm_of_what_may_be_negative():
    with pytest.raises(ValueError, match=r"Interval\(low=0.0, high=1.0\): low must be above 0 in log scale"):
        Interval(0.0, 1.0, log=True)
