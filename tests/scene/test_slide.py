"""A block that friction brings to rest, in closed form."""

import numpy as np
import pytest
from tables import cases

from diffcontact.scene.measurements import Measurements
from diffcontact.scene.preparation import Slide

TIMES = np.arange(160) / 100


def slides(speed=2.0, slower=2.5, begin=0.2):
    """The way of a block that is pushed evenly until `begin`, then slides, and rests."""
    since = np.clip(TIMES - begin, 0.0, speed / slower)
    pushed = np.clip(TIMES, 0.0, begin)
    return speed / begin * pushed**2 / 2 + speed * since - slower * since**2 / 2


def prepared(*columns):
    names = tuple("xyz"[: len(columns)])
    values = dict(zip(names, (1e3 * column for column in columns), strict=True))
    (run,) = Slide(names, 1e-3)(TIMES, Measurements("track.csv", values, "0"))
    return run


@pytest.mark.parametrize("way", [1.0, -1.0])
@pytest.mark.parametrize("slope", [(1.0,), (0.6, 0.8), (0.48, 0.6, 0.64)])
def test_a_slide_begins_where_the_push_ends(rng, way, slope):
    way = way * slides()
    run = prepared(*(0.3 + part * way + 2e-4 * rng.normal(size=160) for part in slope))
    # Speeds are of five samples: the run begins within two of the end of the push, at 0.2 s.
    assert 0.18 <= run.times[0] <= 0.24
    assert run.times[-1] == TIMES[-1]
    # A parabola through 80 samples of 0.2 mm: half a per cent of its curvature, and what is left of the push.
    assert run.start["deceleration"] == pytest.approx(2.5, rel=0.05)
    assert run.start["u0"][0] == pytest.approx(2.0, rel=0.05)
    assert np.ptp(run.values) == pytest.approx(0.8, rel=0.06)


def test_a_slide_ends_where_the_block_is_moved_again():
    way = slides() + np.where(TIMES > 1.3, -(TIMES - 1.3), 0.0)
    with pytest.raises(ValueError, match="it turns round where it was at rest"):
        prepared(way)
    assert prepared(slides() + np.where(TIMES > 1.3, TIMES - 1.3, 0.0)).times[-1] == pytest.approx(1.28, abs=0.03)


@cases(
    "motion message",
    """
    swing | it turns round where it was at rest
    faster | 1 samples from where it is fastest to its rest, expected at least 10
    stop | it is not slowed down evenly, expected a block that slides to rest
    circle | the positions lie on no straight line
    few | 5 positions, expected at least 10
    """,
)
def test_what_does_not_slide_is_told_why(motion, message):
    columns = {
        "swing": [np.sin(1.5 * TIMES)],
        "faster": [0.3 * TIMES**2],
        "stop": [np.minimum(TIMES, 0.8)],
        "circle": [np.sin(3 * TIMES), np.cos(3 * TIMES)],
        "few": [np.where(np.arange(160) < 5, slides(), np.nan)],
    }[motion]
    with pytest.raises(ValueError, match=message):
        prepared(*columns)
