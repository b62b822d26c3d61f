"""Of what a tenth more would help, against what it does to the normal equations."""

import numpy as np
import pytest
from falling import FALLING, NOISE, SCHEME, TIMES, fitted, positions, start_of

from diffcontact.identify import Observations, Problem, Real, what_helps
from diffcontact.identify.experiment.more import sentence

pytestmark = pytest.mark.full

FREE = {"g": Real(), "u0": Real()}


def falls(rng, count, scatter):
    made = []
    for _ in range(count):
        g = 9.81 + scatter * rng.normal()
        seen = (0.4 * TIMES - g * TIMES**2 / 2 + NOISE * rng.normal(size=41))[:, None]
        made.append(Problem(FALLING, Observations(TIMES, seen, NOISE, positions), start_of, SCHEME, 1, ("u0",)))
    return made


def stderr(J):
    """Of the first parameter, in units of white noise."""
    return np.sqrt(np.linalg.inv(J.T @ J)[0, 0])


def test_of_one_run_with_white_noise():
    result = fitted(falls(np.random.default_rng(0), 1, 0.0), FREE, u0=np.zeros((1, 1)))
    helps = what_helps(result, "g")
    assert "AR(0)" in result.error_bars
    # The step map's fall is linear in weight and speed.
    J = result.objective.joint.linearise(result.estimate)[0].J[:, 0]
    longer = np.vstack([J, J[int(np.ceil(0.9 * 41)) :]])
    faster = np.stack([np.interp(np.arange(0, 40 + 1e-9, 1 / 1.1), np.arange(41), column) for column in J.T], axis=1)
    assert helps["runs of the kind"] == pytest.approx(1 - 1 / np.sqrt(1.1), rel=1e-9)
    assert helps["length of the record"] == pytest.approx(1 - stderr(longer) / stderr(J), rel=1e-7)
    assert helps["frames a second"] == pytest.approx(1 - stderr(faster) / stderr(J), rel=1e-7)
    assert next(iter(helps)) == "length of the record"
    with pytest.raises(ValueError, match="no element 'h'"):
        what_helps(result, "h")


def test_where_runs_differ_only_other_runs_help():
    result = fitted(falls(np.random.default_rng(0), 5, 1.0), FREE, u0=np.zeros((5, 1)))
    helps = what_helps(result)
    # The noise within a run is worth 0.03 of g, the scatter 1: what it takes away is a part in a thousand of that.
    assert helps["runs of the kind"] == pytest.approx(1 - 1 / np.sqrt(1.1), rel=1e-9)
    assert max(helps["frames a second"], helps["length of the record"]) < 1e-3
    assert sentence(result) == "a tenth more of these would shorten the interval of g by: runs of the kind 4.7 %"
