"""One column per coordinate, taken as it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from diffcontact.scene.keys import Table
from diffcontact.scene.kinds import ReadySystem
from diffcontact.scene.measurements import Measurements
from diffcontact.scene.preparation.run import PreparedRun, straight_line


@dataclass(frozen=True)
class Coordinates:
    """One column per coordinate, taken as it is.

    Starting positions and velocities come from straight lines through the first samples.

    Attributes:
        names: one column per coordinate.
        scale: from the columns' unit to the coordinates'.
        first_samples: how many samples the starting lines go through.
    """

    names: tuple[str, ...]
    scale: float
    first_samples: int

    suggests: ClassVar[tuple[str, ...]] = ("q0", "u0")
    gives: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def from_table(cls, table: Table, ready: ReadySystem) -> Coordinates:
        """Read the scene's [preparation] table."""
        table.expect("kind", "columns", "unit", "first_samples")
        count = table.integer("first_samples", default=10, least=2)
        return cls(table.names("columns"), table.factor("unit", ready.length), count)

    @property
    def columns(self) -> tuple[str, ...]:
        return self.names

    @property
    def channels(self) -> tuple[str, ...]:
        return self.names

    @property
    def description(self) -> str:
        return "each coordinate is one column"

    def __call__(self, times: NDArray, measurements: Measurements) -> tuple[PreparedRun, ...]:
        values = np.stack([self.scale * measurements.columns[name] for name in self.names], axis=-1)
        lines = []
        for name, column in zip(self.names, values.T, strict=True):
            if np.isfinite(column).sum() < 2:
                raise ValueError(f"{measurements.path}: column {name!r} has fewer than 2 numbers")
            last = np.flatnonzero(np.isfinite(column))[: self.first_samples][-1]
            lines.append(straight_line(times, column, times <= times[last], times[0]))
        start = {"q0": np.array([line[0] for line in lines]), "u0": np.array([line[1] for line in lines])}
        return (PreparedRun(measurements.path, times, values, start, sha256=measurements.sha256),)
