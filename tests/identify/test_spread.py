"""Mean and spread of a parameter over many runs."""

import numpy as np
import pytest

from diffcontact.identify import spread

REPLICAS = 1000
# Three standard errors of a coverage of 95 % that is seen in so many replicas: 2.1 %.
SLACK = 3 * np.sqrt(0.95 * 0.05 / REPLICAS)


def covered(interval, truth):
    return interval[0] <= truth <= interval[1]


# A few runs with spread, and many without, on every commit.
CASES = [(runs, tau) for runs in (3, 5, 10, 100) for tau in (0.0, 1.0, 5.0)]
CASES = [case if case in ((3, 5.0), (100, 0.0)) else pytest.param(*case, marks=pytest.mark.full) for case in CASES]


@pytest.mark.parametrize(("runs", "tau"), CASES)
def test_intervals_hold_mean_and_spread_as_often_as_they_say(rng, runs, tau):
    mean = spreads = 0
    for _ in range(REPLICAS):
        s = rng.uniform(0.7, 1.4, size=runs)
        found = spread(2.0 + tau * rng.normal(size=runs) + s * rng.normal(size=runs), s)
        mean += covered(found.mean.interval95, 2.0)
        spreads += covered(found.spread_interval95, tau)
    # That of the mean of a few runs without any spread may hold a little more often.
    assert abs(mean / REPLICAS - 0.95) < SLACK + 0.01
    # Without spread its interval is one-sided: 0 is below all that 2.5 % of the replicas exclude.
    assert abs(spreads / REPLICAS - (0.95 if tau else 0.975)) < SLACK


def test_runs_of_equal_errors_give_the_textbooks_mean_and_spread(rng):
    """With s alike the mean is the arithmetic one, its interval Student's, and tau^2 = S^2 - s^2."""
    y = 3.0 + rng.normal(size=12)
    found = spread(y, np.full(12, 0.1))
    assert found.mean.value == pytest.approx(y.mean(), rel=1e-9)
    assert found.mean.stderr == pytest.approx(y.std(ddof=1) / np.sqrt(12), rel=1e-6)
    assert found.spread == pytest.approx(np.sqrt(y.var(ddof=1) - 0.01), rel=1e-4)


def test_runs_that_agree_to_their_last_digit_keep_the_error_of_their_fits():
    found = spread([0.7, 0.7, 0.7], [0.03, 0.03, 0.03])
    assert found.mean.stderr == pytest.approx(0.03 / np.sqrt(3))
    assert found.spread == 0.0


def test_a_condition_takes_its_part_of_the_spread(rng):
    height = np.linspace(0.0, 1.0, 30)
    y = 0.8 - 0.3 * height + 0.01 * rng.normal(size=30)
    blind, seen = spread(y, np.full(30, 0.01)), spread(y, np.full(30, 0.01), {"height": height})
    assert covered(seen.slopes["height"].interval95, -0.3)
    # 0.3 times the standard deviation of a uniform number is 0.09.
    assert blind.spread == pytest.approx(0.09, rel=0.1)
    assert seen.spread < 0.01
    assert seen.mean.value == pytest.approx(blind.mean.value, abs=1e-3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0], [0.1]), r"spread\(values\): 1 runs, expected at least 2"),
        (([1.0, np.nan], [0.1, 0.1]), r"spread\(values\): .* expected finite numbers"),
        (([1.0, 2.0], [0.1, 0.0]), r"spread\(stderr\): .* expected 2 positive numbers"),
        (([1.0, 2.0, 3.0], [0.1] * 3, {"h": [1, 1, 1]}), r"spread\(conditions\): 'h' is .* numbers that differ"),
        (([1.0] * 4, [0.1] * 4, {"h": [1, 2, 3, 5], "2h": [2, 4, 6, 10]}), "'2h' follows from the others"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        spread(*arguments)
