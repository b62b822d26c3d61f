"""Noise stated in other ratios than it has is told; in its own, however they vary, it is not."""

from dataclasses import replace

import numpy as np
import pytest
from falling import NOISE, fall, fitted

from diffcontact.identify import Observations, Real

FREE = {"g": Real(), "u0": Real()}
SIGMA = np.where(np.arange(41) % 2 == 1, 5.0, 1.0)


def told(true, stated, seed=0):
    """Whether it is of a fall whose noise is `true` times `NOISE`, stated as if it were `stated` times that."""
    run = fall(None, noise=NOISE * true * np.random.default_rng(seed).normal(size=41))
    seen = run.observations
    seen = Observations(seen.times, seen.values, NOISE * np.broadcast_to(stated, 41)[:, None], seen.observe)
    reasons = fitted(replace(run, observations=seen), FREE).verdict.reasons
    return next((reason for reason in reasons if "ratios are not as stated" in reason), "")


@pytest.mark.parametrize("factor", [1.0, 3.0])
def test_ratios_that_are_wrong_are_told(factor):
    for seed in range(3):
        assert "on the others are too short" in told(np.ones(41), factor * SIGMA, seed)
        assert "on the others are too long" in told(SIGMA**2, factor * SIGMA, seed)


def test_ratios_that_are_right_are_not():
    for seed in range(10):
        assert not told(SIGMA, SIGMA, seed)
        assert not told(SIGMA, 3.0 * SIGMA, seed)
        assert not told(np.ones(41), 3.0, seed)


def test_samples_that_do_not_count_are_not_compared():
    assert not told(np.ones(41), SIGMA**12)
