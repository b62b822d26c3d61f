"""One column per coordinate, taken as it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from diffcontact.scene.keys import Table
from diffcontact.scene.measurements import Measurements
from diffcontact.scene.preparation.run import Preparation, PreparedRun, straight_line
from diffcontact.scene.ready import ReadySystem


@dataclass(frozen=True)
class Coordinates(Preparation):
    """One column per coordinate, taken as it is, and for discs that turn one per angle.

    Starting positions and velocities come from straight lines through the first samples. An angle counts from the x
    axis towards the y axis; one that is written modulo a turn is followed beyond it, as long as a disc turns by less
    than half a turn from one sample to the next.

    Attributes:
        names: one column per coordinate.
        scale: from the columns' unit to the coordinates'.
        first_samples: how many samples the starting lines go through.
        angle_names: one column per angle, or none.
        angle_scale: from their unit to rad.
        angle_sigma: one standard deviation of an angle [rad].
    """

    names: tuple[str, ...]
    scale: float
    first_samples: int
    angle_names: tuple[str, ...] = ()
    angle_scale: float = 1.0
    angle_sigma: float = 0.0

    gives: ClassVar[tuple[str, ...]] = ()
    KEYS: ClassVar[Mapping[str, str]] = {
        "columns": "one for each coordinate of the system, in its order",
        "unit": 'of all of them, the system\'s by default: "mm"',
        "first_samples": "straight lines through so many (10) give the starting positions and velocities",
        "angles": "one column for each disc that spins",
        "angle_unit": 'of these: "rad" (default), "deg"',
        "angle_noise": "{ value, unit }: one standard deviation of an angle",
    }

    @classmethod
    def from_table(cls, table: Table, ready: ReadySystem) -> Coordinates:
        """Read the scene's [preparation] table."""
        table.expect("kind", *cls.KEYS)
        count = table.integer("first_samples", default=10, least=2)
        names, scale = table.names("columns"), table.factor("unit", ready.length)
        if "angles" not in table:
            for key in ("angle_unit", "angle_noise"):
                if key in table:
                    raise table.fail(key, "without preparation.angles, expected the columns of the angles with it")
            return cls(names, scale, count)
        angles = table.names("angles")
        if ready.turned is None:
            raise table.fail("angles", "of what has none, expected balls in 2 dimensions with spin = true")
        if ready.turned.columns != 1:
            raise table.fail("angles", "of what turns in space, expected the preparation 'poses' with quaternions")
        if 2 * len(angles) != len(names):
            raise table.fail("angles", f"{len(angles)} columns, expected {len(names) // 2}, one for each disc")
        sigma = table.quantity("angle_noise", "rad")
        if not sigma > 0:
            raise table.fail("angle_noise", f"{sigma} rad, expected above 0")
        return cls(names, scale, count, angles, table.factor("angle_unit", "rad"), sigma)

    @property
    def suggests(self) -> tuple[str, ...]:
        return ("q0", "u0", "angle0", "spin0") if self.angle_names else ("q0", "u0")

    @property
    def angles(self) -> int:
        return len(self.angle_names)

    @property
    def angle_noise(self) -> float:
        return self.angle_sigma

    @property
    def columns(self) -> tuple[str, ...]:
        return self.names + self.angle_names

    @property
    def channels(self) -> tuple[str, ...]:
        return self.names + self.angle_names

    @property
    def description(self) -> str:
        followed = ", angles followed beyond full turns" if self.angle_names else ""
        return f"each coordinate is one column{followed}"

    def __call__(self, times: NDArray, measurements: Measurements) -> tuple[PreparedRun, ...]:
        places = [self.scale * measurements.columns[name] for name in self.names]
        angles = [followed(self.angle_scale * measurements.columns[name]) for name in self.angle_names]
        values, lines = np.stack(places + angles, axis=-1), []
        for name, column in zip(self.columns, values.T, strict=True):
            if np.isfinite(column).sum() < 2:
                raise ValueError(f"{measurements.path}: column {name!r} has fewer than 2 numbers")
            last = np.flatnonzero(np.isfinite(column))[: self.first_samples][-1]
            lines.append(straight_line(times, column, times <= times[last], times[0]))
        at, rate = (np.array([line[i] for line in lines]) for i in (0, 1))
        d = len(self.names)
        start = {"q0": at[:d], "u0": rate[:d]}
        if self.angle_names:
            start |= {"angle0": at[d:], "spin0": rate[d:]}
        return (PreparedRun(measurements.path, times, values, start, sha256=measurements.sha256),)


def followed(angle: NDArray) -> NDArray:
    """An angle without its jumps by full turns; NaN where it is missing."""
    seen = np.isfinite(angle)
    followed = angle.copy()
    followed[seen] = np.unwrap(angle[seen])
    return followed
