"""Times of a recording's rows: as written, or on a straight line."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# Besides the rounding of its time a row may be off the line by so many spacings; half of one is a lost row.
_JITTER = 0.2
# Half of the rows are late by less, in frames.
_LATE = 0.1
# A film loses fewer frames than it has rows, and this many more.
_FRAMES = 100
# The length of a frame is searched in so many rows.
_PART = 300


def straight_clock(times: NDArray) -> NDArray:
    """Put rounded times (n,), NaN where missing, on the best straight line.

    Refuses a row further from the line than rounding explains: rows are lost there. Its message begins with the row.
    """
    rows = np.arange(times.size)
    seen = np.isfinite(times)
    if seen.sum() < 3:
        raise ValueError(f"0: {int(seen.sum())} times, expected at least 3 for a straight line")
    first, spacing = np.polynomial.polynomial.polyfit(rows[seen], times[seen], 1)
    line = first + spacing * rows
    off = np.where(seen, np.abs(times - line), 0.0)
    worst = int(np.argmax(off))
    if not spacing > 0 or off[worst] > 0.75 * resolution(times[seen]) + _JITTER * spacing:
        raise ValueError(
            f"{worst}: {times[worst]:.9g} is {off[worst]:.3g} off the straight line through all times, whose spacing "
            f"is {spacing:.6g}; expected rows that are equally spaced"
        )
    return line


def frame_clock(times: NDArray, spacing: float | None = None) -> NDArray:
    """Put times (n,) on a line over the frames, some without row; `spacing` is a frame's, if known.

    The times give the frame of each row: increasing numbers with the smallest sum of distances. So a late time moves no
    row. Refuses times that follow no line; its message begins with the row.
    """
    if np.isfinite(times).sum() < 3 or not np.all(np.isfinite(times)):
        raise ValueError(f"{int(np.argmin(np.isfinite(times)))}: expected at least 3 times, and none that is missing")
    if spacing is None:
        step = float(np.median(np.diff(times)))
        if not step > 0:
            raise ValueError("0: expected times that increase")
        # Times that were rounded say only roughly how long a frame is: the best of many lengths is refined.
        part = times[:_PART]
        starts = [_on_frames(part, long, rounds=1) for long in step * np.linspace(0.95, 1.05, 61)]
        line, _ = min(starts, key=lambda start: np.sum(np.abs(part - start[0][1] - start[0][0] * start[1])))
        (spacing, first), frames = _on_frames(times, float(line[0]))
    else:
        (spacing, first), frames = _on_frames(times, spacing, known=True)
    off = np.abs(times - first - spacing * frames)
    worst = int(np.argmax(off))
    if np.median(off) > 0.5 * resolution(times) + _LATE * spacing:
        raise ValueError(
            f"{worst}: half of the times are more than {np.median(off):.3g} off the straight line over frames of "
            f"{spacing:.6g}; expected frames that are equally spaced, some of them without a row"
        )
    return first + spacing * frames


def _on_frames(
    times: NDArray, spacing: float, rounds: int = 20, known: bool = False
) -> tuple[tuple[float, float], NDArray]:
    """Fit the line (spacing, first) and the nearest frames (n,) in turn."""
    rows, line, frames = np.arange(times.size), (spacing, float(times[0])), np.zeros(0)
    for _ in range(rounds):
        nearest = rows + _lost_frames((times - line[1]) / line[0] - rows)
        if known:
            line = spacing, float(np.median(times - spacing * nearest))
        else:
            slope, first = np.polyfit(nearest, times, 1)
            line = float(slope), float(first)
        if np.array_equal(nearest, frames):
            break
        frames = nearest
    return line, frames


def _lost_frames(late: NDArray) -> NDArray:
    """Find non-decreasing whole numbers (n,) from 0 that are nearest."""
    numbers = np.arange(min(max(int(np.ceil(late.max())), 0), late.size + _FRAMES) + 1)
    cost = np.abs(late[:, None] - numbers[None])
    before, chosen = np.zeros(numbers.size), np.zeros(cost.shape, int)
    for i, row in enumerate(cost):
        least = np.minimum.accumulate(before)
        chosen[i] = np.maximum.accumulate(np.where(before == least, numbers, 0))
        before = row + least
    lost = np.zeros(late.size, int)
    last = int(np.argmin(before))
    for i in range(late.size - 1, -1, -1):
        lost[i], last = last, chosen[i, last]
    return lost


def resolution(times: NDArray) -> float:
    """The last digit with which finite times were written, at least 1e-9."""
    for digits in range(10):
        # Rounding of a float64, and of its product with a unit.
        if np.all(np.abs(times - np.round(times, digits)) <= 1e-12 + 1e-12 * np.abs(times)):
            return 10.0**-digits
    return 1e-9


def summed(spacings: NDArray) -> NDArray:
    """Sum spacings (n,) to times, NaN where one is missing."""
    return np.concatenate([[0.0], np.cumsum(spacings[1:])])


def backwards(times: NDArray) -> bool:
    """Tell whether times fall from most rows to the next."""
    seen = times[np.isfinite(times)]
    return seen.size > 2 and bool(np.mean(np.diff(seen) < 0) > 0.5)


def increasing(times: NDArray) -> NDArray:
    """Mark (n,) each time that is later than all before it."""
    latest = np.fmax.accumulate(np.concatenate([[-np.inf], times]))[:-1]
    return times > latest
