"""What goes wrong in a film: rows that repeat a picture, and readings that are not of the body at all.

A film of 24 pictures a second in a file of 30 repeats one picture in five, so the rows are no clock: a body does not
move for one row and then again by as much as before. The pictures that differ are one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from diffcontact.identify.noise import roughness

# A row repeats the one before if it moves by less than this of what both its neighbours move.
_STILL = 0.2
# It must lack so many standard deviations of their mean, by the noise: that alone stops a slow body, too.
_STOPPED = 5.0 * np.sqrt(5.0)
# Motions below this part of the whole way are rest, or the turning point of a flight, and prove nothing.
REST = 0.01
# A body that falls and bounces is about four times faster at its fastest than in the middle of its speeds.
_FASTEST = 6.0
# Rows further apart than so many spacings have one missing between them.
_MISSING = 1.5
# With fewer repeated rows than this no rhythm can be seen.
_RHYTHM = 3
# In a steady rhythm a row is repeated this near to its beat.
_OUT_OF_STEP = 0.75
# Rhythms are tried from the first so many rows found, and with periods up to so many rows.
_TRIED, _LONGEST = 12, 30.0


def followed(t: NDArray, y: NDArray) -> NDArray:
    """(n,) True for the best chain of samples through which a body can have gone; the others are false detections.

    The chain has the largest sum of 1 - v / v_max over its links, with the speed v of each and v_max six times the
    median speed of all motion: many samples and no jumps. A false detection away from the body is reached by no speed
    that is possible. A group of them, near each other, would cost more of the samples before and after than it has.

    Args:
        t: (n,) increasing times.
        y: (n,) positions, NaN where missing.

    Example:
        >>> y = np.array([0.0, 1.0, 3.0, 90.0, 91.0, 9.0, 12.0, 14.0])
        >>> followed(np.arange(8.0), y).tolist()
        [True, True, True, False, False, True, True, True]
    """
    seen = np.flatnonzero(np.isfinite(y))
    keep = np.zeros(y.size, bool)
    if seen.size < 3:
        keep[seen] = True
        return keep
    t, y = t[seen], y[seen]
    way = span(y)
    steps, speeds = np.abs(np.diff(y)), np.abs(np.diff(y)) / np.diff(t)
    moving = steps > REST * way
    fastest = _FASTEST * np.median(speeds[moving]) if moving.any() else np.inf
    worth, before = np.zeros(seen.size), np.full(seen.size, -1)
    for i in range(1, seen.size):
        link = 1 - np.abs(y[i] - y[:i]) / (fastest * (t[i] - t[:i]))
        chain = np.where(link >= 0, worth[:i] + link, -1.0)
        j = int(np.argmax(chain))
        if chain[j] >= 0:
            worth[i], before[i] = chain[j], j
    i = int(np.argmax(worth))
    while i >= 0:
        keep[seen[i]] = True
        i = before[i]
    return keep


def repeated(y: NDArray, rows: slice) -> NDArray:
    """(n,) True where a row repeats the picture before, found by the motion that stops for one row and goes on.

    Only within `rows`, where the body moves. Where it turns or was not found a repetition does not show; from three on
    the rhythm of the others tells where it must be.

    Args:
        y: (n,) positions, NaN where the body was not found.
        rows: consecutive rows to look at.

    Example:
        >>> y = np.array([0.0, 1, 4, 9, 9, 16, 25, 36, 36, 49, 64, 81.0])
        >>> np.flatnonzero(repeated(y, slice(0, 12))).tolist()
        [4, 8]
    """
    found, lacking = np.zeros(y.size, bool), np.zeros(y.size)
    rest = REST * span(y)
    for i in range(max(rows.start, 2), min(rows.stop, y.size - 1)):
        before, here, after = np.diff(y[i - 2 : i + 2])
        # At a bounce or a turning point the motion changes its sign, and rows that are alike may both be true.
        going_on = before * after > 0 and min(abs(before), abs(after)) > rest
        found[i] = going_on and abs(here) <= _STILL * min(abs(before), abs(after))
        lacking[i] = abs(before + after) / 2 - abs(here)
    # Repeated rows would look like noise.
    return found & (lacking > _STOPPED * roughness(y[~found]))


def rhythm(found: NDArray, rows: slice) -> NDArray:
    """(n,) the repeated rows that were found within `rows`, with those that must be between them.

    Args:
        found: (n,) True for repeated rows.
        rows: consecutive rows to look at.

    Example:
        >>> found = np.isin(np.arange(60), [3, 8, 14, 18, 28, 38, 48])
        >>> np.flatnonzero(rhythm(found, slice(0, 60))).tolist()
        [3, 8, 14, 18, 23, 28, 33, 38, 43, 48]
    """
    inside = np.zeros_like(found)
    inside[rows] = found[rows]
    at = np.flatnonzero(inside)
    if at.size < _RHYTHM:
        return inside
    spacing = np.diff(at)
    # The longest period of which all spacings are multiples, as nearly as may be: a picture may come a row late.
    periods = np.arange(max(spacing.min() - 1, 1), spacing.max() + 1)[::-1]
    counts = np.maximum(np.round(spacing[None, :] / periods[:, None]), 1).astype(int)
    best = int(np.argmin(np.sum(np.abs(spacing - counts * periods[:, None]), axis=1)))
    for first, step, count in zip(at[:-1], spacing, counts[best], strict=True):
        inside[np.round(first + step * np.arange(1, count) / count).astype(int)] = True
    return inside


def steady(found: NDArray) -> NDArray:
    """(n,) the repeated rows of the steady rhythm that explains most of those found, over all rows.

    False detections hide repeated rows and look like some: those out of step are none.

    Args:
        found: (n,) True for rows that seem to be repeated.

    Example:
        >>> np.flatnonzero(steady(np.isin(np.arange(30), [8, 9, 13, 18, 23]))).tolist()
        [3, 8, 13, 18, 23, 28]
    """
    at = np.flatnonzero(found)
    if at.size < _RHYTHM:
        return np.zeros_like(found)
    best, beats, last = 0.0, np.zeros(0), found.size - 1
    periods = np.arange(40, 20 * _LONGEST) / 20
    for first in at[:_TRIED]:
        beat = np.round((at - first) / periods[:, None])
        row = first + beat * periods[:, None]
        away = np.abs(at - row)
        # Against it: beats that were not found, between the first that was and the last, and rows out of step.
        begin, end = max(at[0] - 1, 0), min(at[-1] + 1, last)
        due = np.floor((end - first) / periods) - np.ceil((begin - first) / periods) + 1
        in_step = (away < _OUT_OF_STEP) & (row >= 0) & (row <= last)
        # Of two rows that are near one beat the nearer is its repetition.
        rival = (beat[:, 1:] == beat[:, :-1]) & in_step[:, 1:] & in_step[:, :-1]
        hit = in_step.copy()
        hit[:, 1:] &= ~(rival & (away[:, 1:] >= away[:, :-1]))
        hit[:, :-1] &= ~(rival & (away[:, 1:] < away[:, :-1]))
        worth = np.sum(np.where(hit, 3.0 - away, 0.0), axis=1) - due - 2.0 * np.sum(~in_step, axis=1)
        at_best = int(np.argmax(worth))
        if worth[at_best] > best:
            best, period = worth[at_best], periods[at_best]
            beats = first + period * np.arange(-(first // period), (last - first) // period + 1)
    rows = np.round(beats).astype(int)
    near = _nearest(rows, at)
    again = np.zeros_like(found)
    again[np.where(np.abs(near - rows) <= 1, near, rows)] = True
    return again


def clock(times: NDArray, again: NDArray) -> NDArray:
    """(n,) when the pictures were taken, from 0 on: by the times of the rows or, where pictures repeat, by their count.

    Args:
        times: (n,) increasing times of the rows.
        again: (n,) True for rows that repeat the picture before.

    Example:
        >>> print(clock(np.array([0.0, 0.1, 0.2, 0.5]), np.zeros(4, bool)))
        [0.  0.1 0.2 0.5]
        >>> print(clock(np.array([0.0, 0.1, 0.2, 0.3]), np.array([False, True, False, False])))
        [0.  0.  0.1 0.2]
    """
    if not again.any():
        return times - times[0]
    spacing = float(np.median(np.diff(times)))
    missing = np.round(np.diff(times, prepend=times[0] - spacing) / spacing) - 1
    count = np.cumsum(np.maximum(missing, 0) + ~again)
    return (count - count[0]) * spacing


def require_every_row(times: NDArray, again: NDArray) -> None:
    """Refuse a film in which pictures repeat and rows are missing: nobody can count the pictures.

    Args:
        times: (n,) increasing times of the rows.
        again: (n,) True for rows that repeat the picture before.

    Raises:
        ValueError: it names the gap, and the key that leaves it out.
    """
    steps = np.diff(times)
    if again.any() and np.any(gap := steps > _MISSING * np.median(steps)):
        i = int(np.argmax(gap))
        raise ValueError(
            f"no row between {times[i]:.6g} and {times[i + 1]:.6g}, and {int(again.sum())} rows repeat a picture: "
            "expected every row of the film, so that pictures can be counted. data.window leaves a part out"
        )


def _nearest(x: NDArray, at: NDArray) -> NDArray:
    """For each x the nearest of the increasing numbers `at`."""
    after = np.clip(np.searchsorted(at, x), 1, at.size - 1)
    return np.where(x - at[after - 1] < at[after] - x, at[after - 1], at[after])


def span(y: NDArray) -> float:
    """How far the body moves, whatever a few readings say; NaN where it was not found."""
    return float(np.ptp(np.nanpercentile(y, [5, 95])))
