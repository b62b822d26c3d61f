"""Bounces of a ball, one by one: so many samples before each, so many after it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from diffcontact.host.messages import shown
from diffcontact.scene.keys import Table
from diffcontact.scene.kinds import ReadySystem
from diffcontact.scene.measurements import Measurements
from diffcontact.scene.preparation.run import Preparation, PreparedRun

# Samples on each side that say whether a lowest one is a bounce, and between two bounces.
_SIDE = 4


@dataclass(frozen=True)
class Rebound(Preparation):
    """A bounce of a recording, or each of them, with the flights before and after it, one column per coordinate.

    A ball in flight has a highest point and no lowest one, so that the first lowest sample is a bounce, if samples are
    below four on either side. A run ends before the next one, and begins behind the one before. Parabolas through the
    flight before the bounce give position and velocity at the beginning, and by how much it curves.

    Of a puck that is struck by hand as well, bounces are those near the cushion, between flights that are straight.
    """

    columns: tuple[str, ...]
    scale: float
    up: int
    around: int
    each: bool = False
    near: float = np.inf
    straight: float = np.inf

    suggests = ("q0", "u0", "flight")
    KEYS: ClassVar[Mapping[str, str]] = {
        "columns": "one for each coordinate of the ball",
        "unit": 'of all of them, the system\'s by default: "mm"',
        "up": "the one of these that grows upwards, off the surface",
        "around": "so many samples before the bounce and after it, at most (30)",
        "each": "true: every bounce is a run (false: the first one)",
        "near": "{ value, unit }: bounces are within so much of the lowest sample of all",
        "straight": "{ value, unit }: bounces between flights that are off straight lines by more are left out",
    }

    @classmethod
    def from_table(cls, table: Table, ready: ReadySystem) -> Rebound:
        """Read the scene's [preparation] table."""
        table.expect("kind", *cls.KEYS)
        names, up = table.names("columns"), table.text("up")
        if up not in names:
            raise table.fail("up", f"{shown(up)}, expected one of the columns {', '.join(map(shown, names))}")
        around = table.integer("around", default=30, least=2 * _SIDE)
        limits = {key: table.quantity(key, ready.length, np.inf) for key in ("near", "straight")}
        scale, each = table.factor("unit", ready.length), table.flag("each", False)
        return cls(names, scale, names.index(up), around, each, **limits)

    @property
    def channels(self) -> tuple[str, ...]:
        return self.columns

    @property
    def description(self) -> str:
        bounce = "each bounce" if self.each else "the first bounce"
        return f"each coordinate is one column, {self.around} samples before {bounce} and after it are used"

    def __call__(self, times: NDArray, measurements: Measurements) -> tuple[PreparedRun, ...]:
        values = np.stack([self.scale * measurements.columns[name] for name in self.columns], axis=-1)
        seen = np.flatnonzero(np.all(np.isfinite(values), axis=1))
        height = values[seen, self.up]
        lowest = seen[_lowest(height)]
        found = [
            (bounce, rows)
            for k, bounce in enumerate(lowest)
            if values[bounce, self.up] <= height.min() + self.near
            and self._straight(times, values, bounce, rows := self._rows(lowest, k, times.size))
        ]
        if not found:
            raise ValueError(
                f"{measurements.path}: column {self.columns[self.up]!r} has no lowest sample with {_SIDE} higher ones "
                f"on either side{self._limits}, expected a bounce"
            )
        runs = []
        for bounce, rows in found if self.each else found[:1]:
            at = f"t = {times[bounce]:.6g}"
            runs.append(
                PreparedRun(
                    measurements.path,
                    times[rows],
                    values[rows],
                    _flight(times, values, rows[rows < bounce]),
                    notes={"bounce": f"near {at}; {rows.size} of {times.size} samples are used"},
                    sha256=measurements.sha256,
                    part=f"bounce near {at}" if self.each else "",
                )
            )
        return tuple(runs)

    @property
    def _limits(self) -> str:
        """What else is asked of a bounce, for messages."""
        parts = []
        if np.isfinite(self.near):
            parts.append(f"within preparation.near = {self.near:.6g} of the lowest of all")
        if np.isfinite(self.straight):
            parts.append(f"between flights that are off straight lines by preparation.straight = {self.straight:.6g}")
        return "".join(f", {part}" for part in parts)

    def _rows(self, lowest: NDArray, k: int, count: int) -> NDArray:
        """The rows around a bounce, up to its neighbours."""
        begin = lowest[k] - self.around if k == 0 else max(lowest[k] - self.around, lowest[k - 1] + 2)
        end = (
            lowest[k] + self.around + 1 if k + 1 == lowest.size else min(lowest[k] + self.around + 1, lowest[k + 1] - 1)
        )
        return np.arange(max(begin, 0), min(end, count))

    def _straight(self, times: NDArray, values: NDArray, bounce: int, rows: NDArray) -> bool:
        """Whether there are flights on both sides, and straight ones."""
        off = []
        for side in (rows[rows < bounce], rows[rows > bounce]):
            side = side[np.all(np.isfinite(values[side]), axis=1)]
            if side.size < _SIDE:
                return False
            at = times[side] - times[bounce]
            line = np.polynomial.polynomial.polyfit(at, values[side], 1)
            off.append(np.sqrt(np.mean((values[side] - line[0] - at[:, None] * line[1]) ** 2, axis=0)))
        return bool(np.max(off) <= self.straight)


def _flight(times: NDArray, values: NDArray, before: NDArray) -> Mapping[str, Any]:
    """What parabolas through these rows say of the flight: its beginning, and velocity and curve in its middle."""
    seen = before[np.all(np.isfinite(values[before]), axis=1)]
    parabolas = [np.polynomial.Polynomial.fit(times[seen], column, 2) for column in values[seen].T]
    return {
        "q0": np.array([y(times[before[0]]) for y in parabolas]),
        "u0": np.array([y.deriv()(times[before[0]]) for y in parabolas]),
        "flight": np.array([[y.deriv(k)(times[seen].mean()) for y in parabolas] for k in (1, 2)]),
    }


def _lowest(height: NDArray) -> NDArray:
    """The samples that are not above any of their neighbours, four on each side, and below most of these.

    Example:
        >>> _lowest(np.array([5.0, 4, 3, 2, 1, 0, 0.5, 1, 1.5, 2, 2.2, 2.3]))
        array([5])
    """
    found: list[int] = []
    for i in range(_SIDE, height.size - _SIDE):
        near = height[i - _SIDE : i + _SIDE + 1]
        if height[i] == near.min() and np.sum(near > height[i]) > _SIDE and not (found and i - found[-1] <= _SIDE):
            found.append(i)
    return np.array(found, int)
