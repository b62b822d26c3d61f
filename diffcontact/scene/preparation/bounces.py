"""A falling ball in a film: its flights and bounces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np
from numpy.polynomial import Polynomial
from numpy.typing import NDArray

from diffcontact.scene.keys import Table
from diffcontact.scene.measurements import Measurements
from diffcontact.scene.preparation.film import REST, clock, followed, repeated, require_every_row, rhythm, span, steady
from diffcontact.scene.preparation.flights import flights, off_flights
from diffcontact.scene.preparation.run import Preparation, PreparedRun
from diffcontact.scene.ready import ReadySystem

# Part of the height that the ball must have fallen before its flight counts as free: hands open slowly.
_RELEASED = 0.05
# A velocity jump below this part of the largest velocity is no bounce but the noise of a ball that rests.
_JUMP = 0.2
# A parabola has three coefficients; a flight with fewer samples cannot be judged.
_FEWEST = 4
# Drag and perspective make the flights' gravities differ, but not by this factor.
_UNLIKE = 1.6
_FLAGS = "false detections can be flagged in a column that [preparation] names as its outlier"
_RESTITUTION_STARTS = (0.05, 0.95)


@dataclass(frozen=True)
class Bounces(Preparation):
    """The vertical track of a ball from its release to the bounce after the last one that the system models.

    Rows that repeat a picture are left out and the others counted: times are then pictures times the spacing of the
    rows (`film`), else those of the rows. False detections are left out, and so are pictures next to a bounce, in which
    the ball is blurred or flattened. Bounces are where the velocity jumps from downwards to upwards; parabolas through
    the flights between them give the starting values.

    Attributes:
        column: of the position.
        scale: from its unit to the system's, negative if it grows upwards.
        bounces: how many the system models.
        repeat_flag: column that is not 0 where a row is known to repeat a picture, or empty.
        outlier_flag: column that is not 0 where a row is known to be a false detection, or empty.
        blur: samples nearer than this to a bounce are left out.
    """

    column: str
    scale: float
    bounces: int
    repeat_flag: str
    outlier_flag: str
    blur: float

    gives: ClassVar[tuple[str, ...]] = ("apexes",)
    KEYS: ClassVar[Mapping[str, str]] = {
        "column": "the column of the ball's height in the picture",
        "unit": 'of that column, the system\'s by default: "px", or "mm" with data.scale',
        "axis": '"down" (default) where the column grows downwards, as in a picture, or "up"',
        "repeated": "column that is not 0 in rows that repeat a picture",
        "outlier": "column that is not 0 in rows that are false detections",
        "blur": "{ value, unit }: pictures nearer to a bounce are left out",
    }

    @classmethod
    def from_table(cls, table: Table, ready: ReadySystem) -> Bounces:
        """Read the scene's [preparation] table."""
        table.expect("kind", *cls.KEYS)
        if "apexes" not in ready.given:
            raise table.fail("kind", "'bounces' goes with the system 'bouncing ball'")
        sign = {"down": 1.0, "up": -1.0}[table.choice("axis", ("down", "up"), "down")]
        blur = table.quantity("blur", ready.time, default=0.0)
        if blur < 0:
            raise table.fail("blur", f"{blur} {ready.time}, expected at least 0")
        return cls(
            column=table.text("column"),
            scale=sign * table.factor("unit", ready.length),
            bounces=(ready.given["apexes"] or (0,))[0] + 1,
            repeat_flag=table.text("repeated", ""),
            outlier_flag=table.text("outlier", ""),
            blur=blur,
        )

    @property
    def suggests(self) -> tuple[str, ...]:
        return ("q0", "u0", "restitution", "later_restitution", "gravity", "floor")

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(name for name in (self.column, self.repeat_flag, self.outlier_flag) if name)

    @property
    def channels(self) -> tuple[str, ...]:
        return (self.column,)

    @property
    def down(self) -> bool:
        return self.scale > 0

    @property
    def reversed(self) -> bool:
        return self.scale < 0

    @property
    def description(self) -> str:
        return (
            f"from the release to bounce {self.bounces + 1}; repeated pictures and false detections are left out, and "
            f"what is nearer than {self.blur:g} to a bounce; where pictures repeat time counts those that differ, "
            "times the spacing of the rows"
        )

    def __call__(self, times: NDArray, measurements: Measurements) -> tuple[PreparedRun, ...]:
        try:
            return (self._prepared(times, measurements),)
        except ValueError as error:
            raise ValueError(f"{measurements.path}: column {self.column!r}: {error}") from None

    def _prepared(self, times: NDArray, measurements: Measurements) -> PreparedRun:
        def flagged(name):
            return np.nan_to_num(measurements.columns[name]) != 0 if name else np.zeros(times.size, bool)

        y = np.where(flagged(self.outlier_flag), np.nan, self.scale * measurements.columns[self.column])
        if not np.isfinite(y).any():
            raise ValueError("no sample, expected a ball that bounces")
        known = flagged(self.repeat_flag)
        beat, false = _rhythm_and_flights(times, y, known)
        y = np.where(false, np.nan, y)
        y = np.where(followed(times, y), y, np.nan)
        turns = _bounce_rows(np.where(known | repeated(y, slice(0, y.size)), np.nan, y))
        if turns.size < self.bounces:
            raise ValueError(f"{turns.size} bounces, expected at least {self.bounces}; {_FLAGS}")
        rows = slice(_released(y[: turns[0]]), int(turns[self.bounces]) if turns.size > self.bounces else y.size)
        again = rhythm(known | repeated(y, rows) | beat, rows)
        require_every_row(times[rows], again[rows])
        at = clock(times, again)
        use = np.flatnonzero(~again)
        use = use[(use >= rows.start) & (use < rows.stop)]
        t, y = at[use] - at[use[0]], y[use]
        parabolas = _flights(t, y, at[turns[: self.bounces]] - at[use[0]])
        meet = [_meeting(a, b) for a, b in pairwise(parabolas)]
        for bounce in meet:
            y = np.where(np.abs(t - bounce) < self.blur, np.nan, y)
        notes = {
            "bounces": "at " + ", ".join(f"{bounce:.2f}" for bounce in meet),
            "repeated pictures": str(int(again.sum())),
            "samples": f"{int(np.isfinite(y).sum())} of {t.size}",
        }
        if later := [f"{times[turn]:.4g}" for turn in turns[self.bounces :]]:
            notes["left out"] = (
                f"bounces near t = {', '.join(later)} of the recording, as system.bounces = {self.bounces}"
            )
        given = {
            "apexes": np.array([_turning(p, a, b) for p, a, b in zip(parabolas[1:], meet, meet[1:], strict=False)])
        }
        return PreparedRun(
            measurements.path, t, y[:, None], _start(parabolas, meet), given, notes, sha256=measurements.sha256
        )


def _rhythm_and_flights(times: NDArray, y: NDArray, known: NDArray) -> tuple[NDArray, NDArray]:
    """(n,) the repeated rows of a steady rhythm, if more samples are on flights with it; (n,) false detections."""
    everything = slice(0, y.size)
    # Pictures of a ball at rest are alike; flags among them have no rhythm.
    moves = np.abs(np.roll(y, -1) - np.roll(y, 1)) > REST * span(y)
    seem = (known & moves) | repeated(y, everything)
    none, beats = np.zeros_like(known), steady(seem)
    best, chosen = -1, (none, none)
    seen, stated = rhythm(seem, everything) | known, beats | known
    # Where no picture repeats both are the same, and flights take seconds to find.
    for beat, again in ((none, seen), (beats, stated))[: 1 if np.array_equal(seen, stated) else 2]:
        rows = np.flatnonzero(~again & np.isfinite(y))
        pictures = clock(times, again)[rows]
        found = flights(pictures, y[rows])
        on = sum(flight.on for flight in found)
        if on > best:
            false = none.copy()
            false[rows] = off_flights(pictures, y[rows], found)
            best, chosen = on, (beat, false)
    return chosen


def _bounce_rows(y: NDArray) -> NDArray:
    """Rows that are the lowest of a fall and the rise after it, where the velocity jumps; y downwards.

    The jump is looked for without the row itself: one false reading looks like a bounce only while it is there.
    """
    seen = np.flatnonzero(np.isfinite(y))
    # A picture repeated at the bounce itself would hide it: before and after it the ball is at the same height.
    seen = seen[np.abs(np.diff(y[seen], prepend=np.inf)) > REST * span(y)]
    if seen.size < 5:
        raise ValueError(f"{seen.size} samples in motion, expected a ball that bounces")
    velocity = np.diff(y[seen]) / np.diff(seen)
    before, down, up, after = velocity[:-3], velocity[1:-2], velocity[2:-1], velocity[3:]
    turns = (np.minimum(before, down) > 0) & (np.maximum(up, after) < 0)
    return seen[2:-2][turns & (before - after > _JUMP * np.abs(velocity).max())]


def _released(y: NDArray) -> int:
    """The first row of the fall that ends with y: since then the ball is below a part of the height."""
    seen = np.flatnonzero(np.isfinite(y))
    top, bottom = y[seen].min(), y[seen].max()
    held = np.flatnonzero(y[seen] < top + _RELEASED * (bottom - top))
    return int(seen[min(held[-1] + 1, seen.size - 1)])


def _flights(t: NDArray, y: NDArray, turns: NDArray) -> list[Polynomial]:
    """A parabola through the samples between the lowest ones, without these, which may belong to either side."""
    parabolas = []
    edges = [-np.inf, *turns, np.inf]
    for i, (begin, end) in enumerate(pairwise(edges)):
        part = (t > begin) & (t < end) & np.isfinite(y)
        if part.sum() < _FEWEST:
            raise ValueError(f"{part.sum()} samples in flight {i}, expected at least {_FEWEST}; {_FLAGS}")
        parabolas.append(Polynomial.fit(t[part], y[part], 2).convert())
        if not parabolas[-1].coef[2] > 0:
            raise ValueError(f"flight {i} bends upwards, expected a ball that falls; {_FLAGS}")
    gravities = [2 * parabola.coef[2] for parabola in parabolas]
    if max(gravities) > _UNLIKE * min(gravities):
        raise ValueError(
            f"flights fall with {', '.join(f'{g:.3g}' for g in gravities)}, expected one gravity; {_FLAGS}"
        )
    return parabolas


def _meeting(before: Polynomial, after: Polynomial) -> float:
    """When one flight becomes the next: where the parabolas meet while the first falls and the second rises."""
    roots = (before - after).roots()
    times = roots[np.isreal(roots)].real
    times = times[(before.deriv()(times) > 0) & (after.deriv()(times) < 0)]
    if times.size == 0:
        raise ValueError("two flights do not meet, expected a bounce between them")
    return float(times[0])


def _turning(flight: Polynomial, begin: float, end: float) -> float:
    """The turning point of a flight, within it."""
    return float(np.clip(flight.deriv().roots()[0], 0.9 * begin + 0.1 * end, 0.1 * begin + 0.9 * end))


def _start(flights: Sequence[Polynomial], meet: Sequence[float]) -> dict[str, NDArray | float]:
    ratios = [-b.deriv()(t) / a.deriv()(t) for a, b, t in zip(flights, flights[1:], meet, strict=False)]
    restitution = np.clip(ratios, *_RESTITUTION_STARTS)
    return {
        "q0": np.array([flights[0](0.0)]),
        "u0": np.array([flights[0].deriv()(0.0)]),
        "restitution": float(restitution[0]),
        "later_restitution": restitution[1:],
        "gravity": float(np.mean([2 * flight.coef[2] for flight in flights])),
        "floor": float(np.median([flight(t) for flight, t in zip(flights, meet, strict=False)])),
    }
