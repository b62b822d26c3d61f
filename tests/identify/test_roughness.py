"""The noise of a column from its roughness, whatever else is wrong with it."""

import numpy as np
import pytest

from diffcontact.identify.noise import roughness

TIMES = np.arange(3000) / 500
MOTION = 200 * np.sin(3 * TIMES) + 80 * np.abs(TIMES - 2.2)
NOISE = 0.05


def untouched(y):
    return y


def lost(y):
    return np.where(np.arange(y.size) % 7 < 2, np.nan, y)


def false(y):
    return np.where(np.arange(y.size) % 50 == 3, 0.0, y)


def every_fifth_repeated(y):
    return y[np.sort(np.concatenate([np.arange(y.size), np.arange(3, y.size, 4)]))]


def each_twice(y):
    return np.repeat(y, 2)


@pytest.mark.parametrize("spoilt", [untouched, lost, false, every_fifth_repeated, each_twice])
def test_the_noise_is_found_whatever_is_lost_false_or_repeated(rng, spoilt):
    seen = spoilt(MOTION + NOISE * rng.normal(size=TIMES.size))
    # A median of 3000 third differences is right to 3 %, of the 900 that two lost in seven leave to 5 %.
    np.testing.assert_allclose(roughness(seen), NOISE, rtol=0.15)


@pytest.mark.parametrize("digit", [0.5, 0.2])
def test_rounding_counts_as_noise(rng, digit):
    """Of a motion through many digits it is uniform, with a standard deviation of 1 / sqrt(12) of one."""
    seen = digit * np.round((MOTION + NOISE * rng.normal(size=TIMES.size)) / digit)
    # Third differences are whole digits, too, so that their median is off by half of one, a sixth of a digit of noise.
    np.testing.assert_allclose(roughness(seen), np.hypot(NOISE, digit / np.sqrt(12.0)), atol=digit / 6)


def test_a_body_at_rest_is_as_rough_as_its_last_digit():
    seen = np.where(np.arange(200) % 9 == 4, 0.1, 0.0)
    assert roughness(seen) == pytest.approx(0.1 / np.sqrt(12.0))


def test_of_seven_samples_nothing_is_known():
    assert roughness(np.array([1.0, np.nan, 2.0, 4.0, 3.0, 5.0, 2.0, 6.0])) == np.inf
