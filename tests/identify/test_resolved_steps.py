"""Steps as short as the noise asks for, with a scheme whose error is known: heights are off by -g t h / 2."""

from dataclasses import replace

import numpy as np
import pytest
from falling import TIMES, fall

from diffcontact import Status, Trajectory
from diffcontact.identify import Observations, Positive, Real, fit
from diffcontact.identify.residual import enough

FREE = {"g": Positive(), "u0": Real()}
H = TIMES[1]


def run(sigma, samples=41, **options):
    """Heights without any noise, stated as sigma; samples are missing only from the end."""
    heights = 0.4 * TIMES - 9.81 * TIMES**2 / 2
    seen = Observations(TIMES[:samples], heights[:samples, None], sigma, fall(None, noise=0.0).observations.observe)
    return replace(fall(None, noise=0.0), observations=seen, substeps="auto", **options)


# Halving changes the last height by g h / (4 n) = 0.061 / n.
@pytest.mark.parametrize(
    ("start", "sigma", "number"),
    [
        (9.0, 3e-2, 32),
        (0.2, 3e-2, 32),  # one step is enough there, but not at the estimate
        (9.0, 1.0, 1),
    ],
)
def test_the_bias_of_the_steps_is_below_the_noise(start, sigma, number):
    found = fit(run(sigma), {"g": start, "u0": [0.0]}, FREE)
    np.testing.assert_allclose(found.params["u0"], 0.4 + 9.81 * H / (2 * number), rtol=1e-6)
    assert ("32 steps in each interval" in found.message) == (number == 32)
    assert found.trajectories[0].status == 0


def test_what_cannot_be_reached_is_told():
    found = fit(run(1e-4), {"g": 9.0, "u0": [0.0]}, FREE)
    assert found.trajectories[0].status == Status.TOO_COARSE
    # 9.81 * 0.025 / (4 * 64) / 1e-4
    assert "run 0: half as long steps would change what is observed by 9.6 of its noise" in found.message


def test_each_run_takes_its_own_number():
    runs = [run(3e-2, samples=39, per_run=("u0",)), run(3e-2, samples=11, per_run=("u0",))]
    found = fit(runs, {"g": 9.0, "u0": [[0.0], [0.0]]}, FREE)
    numbers = [each.model.substeps for each in found.objective.joint.runs]
    assert numbers == [32, 8]  # 0.061 * 0.95 / n, 0.061 * 0.25 / n <= 3e-3
    np.testing.assert_allclose(found.params["u0"][:, 0], 0.4 + 9.81 * H / (2 * np.array(numbers)), rtol=1e-6)
    assert "8 to 32 steps in each interval" in found.message


@pytest.mark.parametrize(
    ("error", "status", "number"),
    [
        (0.0, lambda n: Status.TOO_COARSE if n < 4 else Status.OK, 4),  # steps that are too long at 1 and 2 alike
        (0.0, lambda n: Status.TOO_COARSE, 1),  # nothing to be had from smaller ones
        (0.0, lambda n: Status.RESTITUTION_IGNORED, 1),
        (np.nan, lambda n: Status.OK, 1),  # one that goes to infinity with all numbers tells nothing
    ],
)
def test_a_status_that_smaller_steps_mend_is_mended(error, status, number):
    def run(n):
        still = np.zeros((3, 1))
        return np.full((3, 1), error), Trajectory(np.arange(3.0), still, still, np.zeros((2, 1)), status(n))

    assert enough(run)[0] == number
    # Never longer steps than before.
    assert enough(run, least=32)[0] == 32
