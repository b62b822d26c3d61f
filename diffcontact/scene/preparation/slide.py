"""A block that slides until friction has brought it to rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from diffcontact.scene.keys import Table
from diffcontact.scene.kinds import ReadySystem
from diffcontact.scene.preparation.common_line import principal_axis
from diffcontact.scene.preparation.run import PREPARATIONS, Preparation, PreparedRun

# Samples of a slide, at least, and of the lines that give its speed.
_FEWEST, _LINE = 10, 5
# A block slower than this part of its greatest speed is at rest.
_RESTS = 0.05
# What slides loses this part of its speed before it rests, or is lost.
_SLOWED = 0.6
# Samples are off a straight line, and off a parabola, by at most this part of the way.
_OFF = 0.03


@PREPARATIONS.add(
    "slide",
    columns="of the block's position, one to three",
    unit='of all of them, the system\'s by default: "mm"',
)
def slide(table: Table, ready: ReadySystem) -> Preparation:
    """Take the way of a freely sliding block along a line.

    The line is the principal axis of all positions, in the direction in which the block moves. The run begins where the
    block is fastest, as the push ends. It ends when the block moves again after its rest, or with the recording. The
    parabola through its way gives position, velocity and deceleration at the beginning.
    """
    names, scale = table.names("columns"), table.factor("unit", ready.length)
    if len(names) > 3:
        raise table.fail("columns", f"{len(names)} columns, expected one to three")

    def runs(times: NDArray, columns: Mapping[str, NDArray]) -> Iterable[PreparedRun]:
        points = np.stack([scale * columns[name] for name in names], axis=-1)
        try:
            rows, way, parabola = _slide(times, points)
        except ValueError as error:
            raise ValueError(f"columns {', '.join(map(repr, names))}: {error}") from None
        times = times[rows]
        start = {"q0": parabola[:1], "u0": parabola[1:2], "deceleration": -2 * float(parabola[2])}
        notes = {"slide": f"begins at {times[0]:.6g}; {times.size} of {points.shape[0]} samples are used"}
        return [PreparedRun(times, way[rows, None], start, notes=notes)]

    return Preparation(
        runs=runs,
        columns=names,
        channels=(names[0] if len(names) == 1 else "along the way",),
        description="the way along a straight line, from where the block is fastest",
        suggests=("q0", "u0", "deceleration"),
    )


def _slide(times: NDArray, points: NDArray) -> tuple[slice, NDArray, NDArray]:
    """Rows of the slide, way (n,), parabola at its beginning."""
    seen = np.flatnonzero(np.all(np.isfinite(points), axis=1))
    if seen.size < _FEWEST:
        raise ValueError(f"{seen.size} positions, expected at least {_FEWEST}")
    centred = points - points[seen].mean(axis=0)
    direction = principal_axis(points[seen])
    way = centred @ direction
    aside = centred[seen] - np.outer(way[seen], direction)
    way = points @ direction * (np.sign(way[seen[-1]] - way[seen[0]]) or 1.0)
    t, s = times[seen], way[seen]
    if np.sqrt(np.mean(np.sum(aside**2, axis=1))) > _OFF * np.ptp(s):
        raise ValueError("the positions lie on no straight line, expected a block that slides")
    speed = _speeds(t, s)
    first, fastest = int(np.argmax(speed)), float(np.max(speed))
    stop = first + _first(speed[first:] < _RESTS * fastest)
    if stop - first < _FEWEST:
        raise ValueError(f"{stop - first} samples from where it is fastest to its rest, expected at least {_FEWEST}")
    end = stop + _first(speed[stop:] > 2 * _RESTS * fastest)
    since = t[first:stop] - t[first]
    parabola = np.polynomial.polynomial.polyfit(since, s[first:stop], 2)
    left = s[first:stop] - np.polynomial.polynomial.polyval(since, parabola)
    slowed = -2 * parabola[2] * since[-1] > _SLOWED * parabola[1] > 0
    if not slowed or np.sqrt(np.mean(left**2)) > _OFF * np.ptp(s[first:stop]):
        raise ValueError("it is not slowed down evenly, expected a block that slides to rest")
    if np.any(speed[stop:end] < -2 * _RESTS * fastest):
        raise ValueError("it turns round where it was at rest, expected a block that slides to rest and stays")
    return slice(int(seen[first]), int(seen[end - 1]) + 1), way, parabola


def _first(true: NDArray) -> int:
    return int(np.argmax(true)) if true.any() else true.size


def _speeds(t: NDArray, s: NDArray) -> NDArray:
    """(n,) slopes of straight lines through the samples around each."""
    half = max(_LINE, t.size // 40) // 2
    ends = np.arange(t.size)
    low, high = np.maximum(ends - half, 0), np.minimum(ends + half + 1, t.size)
    return np.array([np.polyfit(t[i:j] - t[i], s[i:j], 1)[0] for i, j in zip(low, high, strict=True)])
