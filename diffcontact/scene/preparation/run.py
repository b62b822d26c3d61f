"""Runs, and the preparations that make them from columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from numpy.typing import NDArray

from diffcontact.drawing import Draw
from diffcontact.host.messages import printable
from diffcontact.scene.keys import Kinds
from diffcontact.scene.measurements import Measurements

# Not 0: there bodies rest on each other, and a fit that starts there sees no effect of e.
RESTITUTION_STARTS = (0.05, 0.95)

# Kind -> (the [preparation] table, the `ReadySystem`) -> `Preparation`.
PREPARATIONS = Kinds("how columns become coordinates")


@dataclass(frozen=True, eq=False)
class PreparedRun:
    """One run as the fit sees it, in the system's units."""

    times: NDArray  # (n,)
    values: NDArray  # (n, k) measured values of the k channels, NaN where missing
    start: Mapping[str, Any]  # name -> starting value that the data suggest
    # name -> value that the system takes from the measurements as it is, such as a measured force
    given: Mapping[str, NDArray] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)  # findings of the preparation for the report: name -> text
    part: str = ""  # which part of the file it is; empty: all of it
    impacts: NDArray | None = None  # times at which impacts were heard, or None
    draw: Draw | None = None  # how this run looks, in place of the system's own picture, or None
    path: str = ""  # of the file it came from
    sha256: str = ""  # of the file

    @property
    def label(self) -> str:
        """The file, and which part of it, for messages and headings."""
        return printable(f"{self.path}, {self.part}" if self.part else self.path)


@dataclass(frozen=True, eq=False, kw_only=True)
class Preparation:
    """Conversion of columns to runs, as a scene names it."""

    # (times (n,) in the system's unit, name -> (n,) column) -> runs, without path and hash
    runs: Callable[[NDArray, Mapping[str, NDArray]], Iterable[PreparedRun]]
    columns: tuple[str, ...]  # names of the columns it needs
    channels: tuple[str, ...]  # one label per observed coordinate
    description: str  # of what it does, for the report
    suggests: tuple[str, ...] = ("q0", "u0")  # names of the starting values that it finds
    gives: tuple[str, ...] = ()  # names of the values that the system takes from the measurements as they are
    angles: int = 0  # how many of the channels, the last ones, are angles
    angle_noise: float = 0.0  # one standard deviation of a measured angle [rad]
    hears: bool = False  # whether times of impacts are measured, so that the scene's noise is one of times
    down: bool = False  # whether the channels grow downwards, as the rows of a picture do
    # whether they grow the other way than the system's coordinates: heights, where these go down
    reversed: bool = False
    # (trajectory, params) -> (n, k) the channels, or None where they are the system's own coordinates
    observe: Callable[[Any, Any], Any] | None = None
    length: str = "m"  # with `observe`, the unit of lengths, or of all where all are angles

    def __call__(self, times: NDArray, measurements: Measurements) -> tuple[PreparedRun, ...]:
        """Prepare one file, which may hold several runs; errors name the file."""
        try:
            found = tuple(self.runs(times, measurements.columns))
        except ValueError as error:
            raise ValueError(f"{measurements.path}: {error}") from None
        return tuple(replace(run, path=measurements.path, sha256=measurements.sha256) for run in found)
