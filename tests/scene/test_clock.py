"""Times of a film of which some frames have no row."""

import numpy as np
import pytest

from diffcontact.scene.clock import frame_clock

SPACING = 6.923e-3


@pytest.mark.parametrize("spacing", [None, SPACING])
def test_rows_are_put_on_their_frames(spacing, rng):
    """Times to a millisecond, of which one in ten is late by up to 4 ms, and with a tenth of the frames lost."""
    frames = np.flatnonzero(rng.uniform(size=200) > 0.1)
    written = 0.2 + SPACING * (frames - frames[0])
    late = np.where(rng.uniform(size=frames.size) < 0.1, 4e-3 * rng.uniform(size=frames.size), 0.0)
    times = frame_clock(np.maximum.accumulate(np.round(written + late, 3)), spacing)
    np.testing.assert_array_equal(np.round((times - times[0]) / SPACING), frames - frames[0])
    # What is left is common to all rows, and less than the late ones' mean; the spacing is known to a part in 10^4.
    off = times - written
    assert np.ptp(off) < (1e-12 if spacing else 3e-4)
    assert np.abs(off.mean()) < 5e-4


def test_many_lost_frames_in_a_row():
    frames = np.array([0, 1, 2, 3, 4, 5, 24, 25, 26, 27, 28, 29])
    times = frame_clock(np.round(SPACING * frames, 3))
    np.testing.assert_array_equal(np.round((times - times[0]) / SPACING), frames)


@pytest.mark.parametrize(
    ("times", "message"),
    [
        (np.array([0.0, 1.0]), "expected at least 3 times"),
        (np.array([0.0, 1.0, np.nan, 3.0]), "2: expected at least 3 times, and none that is missing"),
        (np.zeros(5), "expected times that increase"),
        (np.cumsum(np.random.default_rng(0).uniform(0.5, 1.5, 60)), "off the straight line over frames"),
    ],
)
def test_what_is_no_film_is_refused(times, message):
    with pytest.raises(ValueError, match=message):
        frame_clock(times)
