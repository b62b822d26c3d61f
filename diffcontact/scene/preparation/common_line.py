"""Two markers that move along one straight line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from diffcontact.scene.keys import Table
from diffcontact.scene.measurements import Measurements
from diffcontact.scene.preparation.knee import FEWEST, knee
from diffcontact.scene.preparation.run import Preparation, PreparedRun, straight_line
from diffcontact.scene.ready import ReadySystem

_RESTITUTION_STARTS = (0.05, 0.95)


@dataclass(frozen=True)
class CommonLine(Preparation):
    """Two markers that move along one straight line: their positions along it.

    The line is the principal axis of all marker positions; s = d . p [m], with the unit vector d pointing from the
    first marker to the second and s = 0 nearest to the origin of the measurement, so that runs on one track share
    their coordinate. The impact is where two straight lines fit the distance s_2 - s_1 best (`knee`), which finds it
    whether the markers part again or stay together.

    Attributes:
        first, second: names of the two or three coordinate columns of each marker.
        scale: from the columns' unit to m.
        exclude_contact: samples nearer than this to the impact are left out [s].
        around_contact: samples farther than this from the impact are left out [s].
    """

    first: tuple[str, ...]
    second: tuple[str, ...]
    scale: float
    exclude_contact: float
    around_contact: float = np.inf

    gives: ClassVar[tuple[str, ...]] = ()
    KEYS: ClassVar[Mapping[str, str]] = {
        "first": "columns of the first marker, one to three",
        "second": "columns of the second marker, as many",
        "unit": 'of all of them, the system\'s by default: "mm"',
        "exclude_contact": "{ value, unit }: samples nearer to the impact are left out",
        "around_contact": "{ value, unit }: samples farther from the impact are left out",
    }

    @classmethod
    def from_table(cls, table: Table, ready: ReadySystem) -> CommonLine:
        """Read the scene's [preparation] table."""
        table.expect("kind", *cls.KEYS)
        first, second = table.names("first"), table.names("second")
        if len(first) != len(second) or not 1 <= len(first) <= 3:
            raise table.fail("second", f"{len(second)} columns, first has {len(first)}; expected one to three for each")
        exclude = table.quantity("exclude_contact", ready.time, default=0.0)
        if exclude < 0:
            raise table.fail("exclude_contact", f"{exclude} {ready.time}, expected at least 0")
        around = table.quantity("around_contact", ready.time, default=np.inf)
        if around <= exclude:
            raise table.fail("around_contact", f"{around} {ready.time}, expected more than exclude_contact")
        return cls(first, second, table.factor("unit", ready.length), exclude, around)

    @property
    def suggests(self) -> tuple[str, ...]:
        return ("q0", "u0", "distance", "restitution")

    @property
    def columns(self) -> tuple[str, ...]:
        return self.first + self.second

    @property
    def channels(self) -> tuple[str, ...]:
        return ("first marker", "second marker")

    @property
    def description(self) -> str:
        left_out = (
            f"; samples within {self.exclude_contact:g} s of the impact are left out" if self.exclude_contact else ""
        )
        if np.isfinite(self.around_contact):
            left_out += f"; those more than {self.around_contact:g} s from it, too"
        return (
            f"both markers projected onto their common straight line, pointing from the first to the second{left_out}"
        )

    def __call__(self, times: NDArray, measurements: Measurements) -> tuple[PreparedRun, ...]:
        points = np.stack(
            [
                np.stack([self.scale * measurements.columns[name] for name in marker], axis=-1)
                for marker in (self.first, self.second)
            ]
        )
        seen = np.all(np.isfinite(points), axis=2)
        count = int(np.all(seen, axis=0).sum())
        if count < FEWEST:
            raise ValueError(f"{measurements.path}: both markers are seen in {count} rows, expected at least {FEWEST}")
        # Before either marker is seen and after both are lost there is nothing to simulate.
        rows = np.flatnonzero(np.any(seen, axis=0))
        inside = slice(rows[0], rows[-1] + 1)
        times, points, seen = times[inside], points[:, inside], seen[:, inside]
        both = np.all(seen, axis=0)
        direction = principal_axis(points[seen])
        direction = direction * np.sign(np.mean((points[1, both] - points[0, both]) @ direction))
        along = (points @ direction).T
        try:
            impact = knee(times[both], along[both, 1] - along[both, 0])
            near = np.abs(times - impact.time) <= self.around_contact
            times, along = times[near], along[near]
            lines = [straight_line(times, along[:, i], times < impact.time, times[0]) for i in (0, 1)]
        except ValueError as error:
            raise ValueError(f"{measurements.path}: {error}") from None
        start = {
            "q0": np.array([line[0] for line in lines]),
            "u0": np.array([line[1] for line in lines]),
            "distance": impact.value,
            # Not 0: there the bodies rest on each other, and a fit that starts there sees no effect of e.
            "restitution": float(np.clip(-impact.slope_after / impact.slope_before, *_RESTITUTION_STARTS)),
        }
        values = np.where(np.abs(times - impact.time)[:, None] < self.exclude_contact, np.nan, along)
        notes = {
            "direction of the line": ", ".join(f"{x:.4f}" for x in direction),
            "impact": f"at {impact.time:.3f} s",
            "lost samples": f"{int(np.isnan(along[:, 0]).sum())} first, {int(np.isnan(along[:, 1]).sum())} second",
        }
        return (PreparedRun(measurements.path, times, values, start, notes=notes, sha256=measurements.sha256),)


def principal_axis(points: NDArray) -> NDArray:
    """The unit vector along which points (n, k) spread most."""
    return np.linalg.svd(points - points.mean(axis=0), full_matrices=False)[2][0]
