"""A run of something else among runs of one thing is named, whatever it does to the others; noise names none."""

import numpy as np
import pytest
from falling import NOISE, fall, fitted

from diffcontact.identify import Real

FREE = {"g": Real(), "u0": Real()}


def reasons(noises, **options):
    """Of a joint fit of falls with these noises, each from a speed of its own: the verdict, and what is far larger."""
    runs = [fall(None, ("u0",), noise) for noise in noises]
    verdict = fitted(runs, FREE, u0=np.zeros((len(runs), 1)), **options).verdict
    return verdict.explains, [reason for reason in verdict.reasons if "far larger than in the other runs" in reason]


@pytest.fixture
def noise():
    return NOISE * np.random.default_rng(8).normal(size=(4, 41))


def test_noise_names_no_run(noise):
    for count in (2, 3, 4):
        assert reasons(noise[:count])[1] == []


def test_runs_that_are_less_noisy_than_stated_make_none_stand_apart(noise):
    """The last is as noisy as stated; the others have a third of that."""
    assert reasons(noise * np.array([[0.3], [0.3], [0.3], [1.0]]))[1] == []


@pytest.mark.parametrize("number", [0, 2])
@pytest.mark.parametrize("garbage", ["noise", "reversed"])
def test_a_run_of_something_else_is_named(noise, number, garbage):
    """White, or as smooth as a motion: as many samples are worth few, but so far from any noise that does not count."""
    t = np.linspace(0.0, 1.0, 41)
    noise[number] = 100 * noise[number] if garbage == "noise" else 2.0 * np.sin(9.0 * t)
    explains, told = reasons(noise)
    assert explains == "no"
    assert len(told) == 1
    assert f"residuals in run {number} (" in told[0]
    assert told[0].count("times)") == 1


def test_two_of_five_are_both_named(noise):
    noise = np.concatenate([noise, noise[:1, ::-1]])
    noise[[1, 4]] *= 50
    (told,) = reasons(noise)[1]
    assert "run 1 (" in told
    assert "run 4 (" in told


def test_outliers_make_no_outsider(noise):
    noise[1, [12, 30]] += 50 * NOISE
    assert reasons(noise)[1] == []
    # More than these bend the whole run to where they are, unless the loss does not let them.
    noise[1, ::8] += 50 * NOISE
    assert reasons(noise, loss="cauchy")[1] == []
