"""Bounces of a ball, one by one, with samples around each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffcontact.host.messages import shown
from diffcontact.scene.keys import Table
from diffcontact.scene.kinds import ReadySystem
from diffcontact.scene.preparation.run import PREPARATIONS, Preparation, PreparedRun

# Samples on each side that say whether a lowest one is a bounce, and between two bounces.
_SIDE = 4


@PREPARATIONS.add(
    "rebound",
    columns="one for each coordinate of the ball",
    unit='of all of them, the system\'s by default: "mm"',
    up="the one of these that grows upwards, off the surface",
    around="so many samples before the bounce and after it, at most (30)",
    each="true: every bounce is a run (false: the first one)",
    near="{ value, unit }: bounces are within so much of the lowest sample of all",
    straight="{ value, unit }: bounces between flights that are off straight lines by more are left out",
)
def rebound(table: Table, ready: ReadySystem) -> Preparation:
    """Take one bounce, or each, with the flights around it.

    A ball in flight has no lowest point. So a sample below four others on either side is a bounce. A run ends before
    the next one, and begins behind the one before. Parabolas through the flight before the bounce give position and
    velocity at the beginning, and by how much it curves.

    Of a puck that is struck by hand as well, bounces are those near the cushion, between flights that are straight.
    """
    names, up = table.names("columns"), table.text("up")
    if up not in names:
        raise table.fail("up", f"{shown(up)}, expected one of the columns {', '.join(map(shown, names))}")
    around = table.integer("around", default=30, least=2 * _SIDE)
    near, straight = (table.quantity(key, ready.length, np.inf) for key in ("near", "straight"))
    scale, each = table.factor("unit", ready.length), table.flag("each", False)

    def runs(times: NDArray, columns: Mapping[str, NDArray]) -> Iterable[PreparedRun]:
        values = np.stack([scale * columns[name] for name in names], axis=-1)
        seen = np.flatnonzero(np.all(np.isfinite(values), axis=1))
        height = values[seen, names.index(up)]
        lowest = seen[_lowest(height)]
        # Up to its neighbours.
        begins = np.maximum(lowest - around, np.append(0, lowest[:-1] + 2))
        ends = np.minimum(lowest + around + 1, np.append(lowest[1:] - 1, times.size))
        found = [
            (bounce, np.arange(begin, end))
            for bounce, begin, end in zip(lowest, begins, ends, strict=True)
            if values[bounce, names.index(up)] <= height.min() + near
            and _off_lines(times, values, bounce, np.arange(begin, end)) <= straight
        ]
        if not found:
            limits = f", within preparation.near = {near:.6g} of the lowest of all" if np.isfinite(near) else ""
            if np.isfinite(straight):
                limits += f", between flights that are off straight lines by preparation.straight = {straight:.6g}"
            raise ValueError(
                f"column {up!r} has no lowest sample with {_SIDE} higher ones on either side{limits}, expected a bounce"
            )
        for bounce, rows in found if each else found[:1]:
            at = f"t = {times[bounce]:.6g}"
            notes = {"bounce": f"near {at}; {rows.size} of {times.size} samples are used"}
            start, part = _flight(times, values, rows[rows < bounce]), f"bounce near {at}" if each else ""
            yield PreparedRun(times[rows], values[rows], start, notes=notes, part=part)

    bounce = "each bounce" if each else "the first bounce"
    return Preparation(
        runs=runs,
        columns=names,
        channels=names,
        description=f"each coordinate is one column, {around} samples before {bounce} and after it are used",
        suggests=("q0", "u0", "flight"),
    )


def _off_lines(times: NDArray, values: NDArray, bounce: int, rows: NDArray) -> float:
    """Deviation of both flights from lines; NaN where one is missing."""
    off = []
    for side in (rows[rows < bounce], rows[rows > bounce]):
        side = side[np.all(np.isfinite(values[side]), axis=1)]
        if side.size < _SIDE:
            return np.nan
        at = times[side] - times[bounce]
        line = np.polynomial.polynomial.polyfit(at, values[side], 1)
        off.append(np.sqrt(np.mean((values[side] - line[0] - at[:, None] * line[1]) ** 2, axis=0)))
    return float(np.max(off))


def _flight(times: NDArray, values: NDArray, before: NDArray) -> Mapping[str, Any]:
    """Start of the flight, and its velocity and curve midway."""
    seen = before[np.all(np.isfinite(values[before]), axis=1)]
    parabolas = [np.polynomial.Polynomial.fit(times[seen], column, 2) for column in values[seen].T]
    return {
        "q0": np.array([y(times[before[0]]) for y in parabolas]),
        "u0": np.array([y.deriv()(times[before[0]]) for y in parabolas]),
        "flight": np.array([[y.deriv(k)(times[seen].mean()) for y in parabolas] for k in (1, 2)]),
    }


def _lowest(height: NDArray) -> NDArray:
    """Samples below most of four neighbours on each side."""
    found: list[int] = []
    for i in range(_SIDE, height.size - _SIDE):
        near = height[i - _SIDE : i + _SIDE + 1]
        if height[i] == near.min() and np.sum(near > height[i]) > _SIDE and not (found and i - found[-1] <= _SIDE):
            found.append(i)
    return np.array(found, int)
