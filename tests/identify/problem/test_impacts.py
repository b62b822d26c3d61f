"""Times of impacts that were heard."""

import numpy as np
import pytest
from bouncing import BALL, positions, start_of

from diffcontact.identify import Impacts, Interval, Observations, Positive, Problem, Real, fit
from diffcontact.identify.objective import Objective
from diffcontact.identify.residual import with_impacts


def times_of_bounces(e, g, height, speed, count):
    """From energy: the first fall, then flights that last e times as long each."""
    down = np.sqrt(speed**2 + 2 * g * height)
    return (speed + down) / g + 2 * down / g * np.concatenate([[0.0], np.cumsum(e ** np.arange(1, count))])


def heard_ball(times, impacts, values=None, clock=None):
    silent = np.full((times.size, 1), np.nan)
    silent[0] = 1.0
    seen = Observations(times, silent if values is None else values, 1e-3, positions, impacts)
    return Problem(BALL, seen, start_of, substeps=1, clock=clock)


def test_restitution_is_found_from_the_sound_alone():
    """A drop from a known height, then only the times: e and g, to the precision of the simulation."""
    times = np.linspace(0.0, 2.5, 60)
    impacts = Impacts(times_of_bounces(0.8, 9.81, 1.0, 0.0, 4), 1e-4, contacts=(0,))
    free = {"e": Interval(0.0, 1.0), "g": Positive()}
    found = fit(heard_ball(times, impacts), {"e": 0.7, "g": 9.0, "q0": [1.0], "u0": [0.0]}, free)
    # Constant forces: simulated impact times are exact to rounding; sqrt(eps) is where the descent stops.
    assert found.params["e"] == pytest.approx(0.8, abs=1e-8)
    assert found.params["g"] == pytest.approx(9.81, abs=1e-7)
    assert found.residuals[0].shape == (60, 2)
    assert np.sum(np.isfinite(found.residuals[0][:, 1])) == 4


def test_a_missed_impact_keeps_its_number_and_another_clock_is_followed():
    times = np.linspace(0.0, 2.5, 60)
    moments = times_of_bounces(0.8, 9.81, 1.0, 0.0, 4)
    moments[1] = np.nan
    # The recording counts in units of 40 ms and began at 3.
    problem = heard_ball(
        3.0 + 25.0 * times, Impacts(3.0 + 25.0 * moments, 1e-2), clock=lambda counts, p: (counts - 3.0) / p["rate"]
    )
    start = {"e": 0.75, "rate": 24.0, "g": 9.81, "q0": [1.0], "u0": [0.0]}
    found = fit(problem, start, {"e": Interval(0.0, 1.0), "rate": Positive()})
    assert found.params["e"] == pytest.approx(0.8, abs=1e-6)
    assert found.params["rate"] == pytest.approx(25.0, abs=1e-5)


def test_each_time_has_a_row_of_its_own():
    times = np.linspace(0.0, 1.0, 6)
    problem = heard_ball(times, None, np.ones((6, 1)))
    (run,) = Objective.of(problem, {"e": 0.5, "g": 1.0, "q0": [1.0], "u0": [0.0]}, {"q0": Real()}).joint.runs
    # Two between the same samples, one behind the last: rows stay in order and within the record.
    heard = with_impacts(run, Impacts([0.41, 0.45, np.nan, 1.2], [0.1, 0.2, 0.3, 0.4]))
    assert np.flatnonzero(heard.present[:, 1]).tolist() == [3, 4, 5]
    np.testing.assert_allclose(np.asarray(heard.samples.values)[3:, 1], [0.41, 0.45, 1.2])
    np.testing.assert_allclose(np.asarray(heard.samples.sigma)[3:, 1], [0.1, 0.2, 0.4])
    assert heard.samples.impact is not None
    assert np.asarray(heard.samples.impact)[3:].tolist() == [0, 1, 3]
