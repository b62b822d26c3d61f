import numpy as np
import pytest

from diffcontact.identify import Observations, Problem

pytestmark = pytest.mark.full


def positions(trajectory, params):
    return trajectory.q


PROBLEM = {
    "system": None,
    "observations": Observations([0.0, 1.0], [[1.0], [2.0]], 0.1, positions),
    "initial": lambda params: ([0.0], [1.0]),
}


def test_missing_samples_need_no_noise():
    noise = np.array([[0.1], [np.nan], [0.2]])
    observations = Observations([0, 1, 2], [[1.0], [np.nan], [3.0]], noise, positions)
    assert observations.present.ravel().tolist() == [True, False, True]
    assert observations.sigma.ravel().tolist() == [0.1, 1.0, 0.2]


def test_masked_samples_are_missing():
    values = np.ma.masked_array([[1.0], [7.0], [3.0]], [[False], [True], [False]])
    observations = Observations([0, 1, 2], values, 0.1, positions)
    assert observations.present.ravel().tolist() == [True, False, True]
    with pytest.raises(ValueError, match="row 1"):
        Observations(np.ma.masked_array([0.0, 1.0, 2.0], [False, True, False]), [[1.0], [2.0], [3.0]], 0.1, positions)


def test_dates_are_no_seconds():
    dates = np.datetime64("2026-01-01T00:00:00", "ms") + np.arange(3) * np.timedelta64(10, "ms")
    for times in (dates, dates - dates[0]):
        with pytest.raises(ValueError, match=r"Observations\(times\): expected an array of numbers"):
            Observations(times, [[1.0], [2.0], [3.0]], 0.1, positions)


def test_noise_per_channel():
    observations = Observations([0, 1], [[1.0, 2.0], [3.0, 4.0]], [0.1, 0.2], positions)
    assert observations.sigma.tolist() == [[0.1, 0.2], [0.1, 0.2]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"times": [0.0, 2.0, 1.0]}, "row 2 \\(1.0\\) is not after the one before"),
        ({"times": [0.0, 1.0, 1.0]}, "row 2"),
        ({"times": [0.0, np.nan, 1.0]}, "row 1"),
        ({"times": [[0.0, 1.0, 2.0]]}, "expected \\(n,\\)"),
        ({"values": [[1.0], [2.0]]}, "shape \\(2, 1\\), expected \\(3, k\\)"),
        ({"values": [1.0, 2.0, 3.0]}, "shape \\(3,\\), expected \\(3, k\\)"),
        ({"values": [[1.0], [np.inf], [2.0]]}, "row 1 is infinite"),
        ({"values": np.full((3, 1), np.nan)}, "every sample is missing"),
        ({"values": "abc"}, "expected an array of numbers"),
        ({"noise": 0.0}, "0.0 in channel 0, row 0; expected a positive number"),
        ({"noise": [[0.1], [0.1], [-0.1]]}, "-0.1 in channel 0, row 2"),
        ({"noise": np.nan}, "expected a positive number"),
        ({"noise": [0.1, 0.2]}, "shape \\(2,\\)"),
        ({"observe": None}, "expected a function"),
    ],
)
def test_bad_observations_are_named(change, message):
    good = {"times": [0.0, 1.0, 2.0], "values": [[1.0], [2.0], [3.0]], "noise": 0.1, "observe": positions}
    Observations(**good)
    with pytest.raises(ValueError, match=message):
        Observations(**{**good, **change})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"observations": 1}, "expected Observations"),
        ({"initial": ([0.0], [1.0])}, "expected a function"),
        ({"substeps": 0}, "at least 1"),
        ({"substeps": True}, "expected 'auto' or an integer of at least 1"),
    ],
)
def test_bad_problems_are_named(change, message):
    Problem(**PROBLEM)
    with pytest.raises(ValueError, match=message):
        Problem(**{**PROBLEM, **change})


def test_substeps_may_be_an_integer_of_numpy():
    assert type(Problem(**PROBLEM, substeps=np.int64(2)).substeps) is int
