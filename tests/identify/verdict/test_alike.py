"""Runs that leave the same are told: one recording twice, or what the model lacks in all of them."""

import numpy as np
import pytest
from falling import NOISE, fall, fitted

from diffcontact.identify import Real

FREE = {"g": Real(), "u0": Real()}


def reasons(noises, **options):
    """Of a joint fit of falls with these noises, each from a speed of its own."""
    runs = [fall(None, ("u0",), noise) for noise in noises]
    verdict = fitted(runs, FREE, u0=np.zeros((len(runs), 1)), **options).verdict
    return verdict.explains, " ".join(verdict.reasons)


@pytest.fixture
def noise():
    return NOISE * np.random.default_rng(5).normal(size=(3, 41))


def test_other_noise_is_another_run(noise):
    for count in (2, 3):
        assert "residuals are" not in reasons(noise[:count])[1]


@pytest.mark.parametrize("rows", [(0, 0), (0, 0, 0), (1, 0, 1)])
def test_a_recording_that_is_there_twice_is_named(noise, rows):
    """Three that agree to the last digit would have intervals of rounding."""
    explains, told = reasons([noise[i] for i in rows])
    assert explains == "no"
    assert "residuals are the same in run 0 and run " in told
    # A table of fewer digits is the same recording.
    rounded = [np.round(noise[i], 3 + place) for place, i in enumerate(rows)]
    assert "residuals are the same in run 0 and run " in reasons(rounded)[1]


@pytest.mark.parametrize("options", [{}, {"noise": "estimated"}])
def test_a_misfit_that_dwarfs_the_noise_does_not_make_two_runs_one(noise, options):
    missing = 100 * NOISE * np.random.default_rng(6).normal(size=41)
    for count in (2, 3):
        explains, told = reasons(noise[:count] + missing, **options)
        assert "residuals are the same" not in told
    assert explains == "no"
    assert "residuals are alike in all runs (correlation 1.00)" in told
    # Of one recording it is seen all the same.
    assert "residuals are the same in run 0 and run 2" in reasons(noise[[0, 1, 0]] + missing, **options)[1]


def test_what_all_runs_lack_is_no_scatter(noise):
    explains, told = reasons(noise + 2 * NOISE * np.random.default_rng(6).normal(size=41))
    assert explains == "no"
    assert "residuals are alike in all runs (correlation 0." in told
    assert "It may have moved the parameters: were that by as much as is left, g by" in told
