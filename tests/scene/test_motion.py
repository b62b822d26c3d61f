"""Impacts that samples show, as drafts look for them."""

import numpy as np
from bouncing import bounces

from diffcontact.scene.draft.motion import kinks


def test_kinks_are_where_the_ball_bounces(rng):
    times = np.linspace(0.0, 3.0, 101)
    # From energy: the first fall, then flights that last 0.8 times as long each.
    down = np.sqrt(0.3**2 + 2 * 9.81)
    truth = (0.3 + down) / 9.81 + 2 * down / 9.81 * np.concatenate([[0.0], np.cumsum(0.8 ** np.arange(1, 5))])
    for _ in range(5):
        values = (bounces(0.8, 9.81, 1.0, 0.3, times) + 0.01 * rng.normal(size=101))[:, None]
        at, deviation = kinks(times, values, np.full((101, 1), 0.01))
        # The sixth, at 2.92, has too few samples behind it.
        assert at.size == 5
        # The stated deviation is that of straight branches over a few samples: of its order.
        assert np.all(np.abs(at - truth) < 6 * deviation)
        assert np.all(deviation < 0.5 * (times[1] - times[0]))


def test_smooth_motion_and_noise_have_no_kinks(rng):
    times = np.linspace(0.0, 2.0, 200)
    smooth = np.stack([np.sin(3 * times), times**2], axis=1)
    for _ in range(5):
        values = smooth + 0.01 * rng.normal(size=smooth.shape)
        values[rng.random(200) < 0.1] = np.nan
        assert kinks(times, values, np.full((200, 2), 0.01))[0].size == 0


def test_an_outlier_is_no_impact(rng):
    times = np.linspace(0.0, 2.0, 100)
    values = times[:, None] + 0.01 * rng.normal(size=(100, 1))
    values[40] += 0.5
    assert kinks(times, values, np.full((100, 1), 0.01))[0].size == 0
