"""What a preparation makes of a file: the observed channels of a system, and starting values that the data suggest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from diffcontact.drawing import Draw
from diffcontact.host.messages import printable
from diffcontact.scene.measurements import Measurements

# Not 0: there bodies rest on each other, and a fit that starts there sees no effect of e.
RESTITUTION_STARTS = (0.05, 0.95)


@dataclass(frozen=True, eq=False)
class PreparedRun:
    """One run as the fit sees it; lengths and times in the system's units, SI; px and frames for films.

    Attributes:
        path: of the file it came from.
        times: (n,).
        values: (n, k) what was measured of the k coordinates, NaN where missing.
        start: name -> starting value that the data suggest.
        given: name -> what the system takes from the measurements as it is, a measured force for instance.
        notes: what the preparation found, for the report: name -> text.
        sha256: of the file.
        part: which part of the file it is; empty: all of it.
        impacts: times at which impacts were heard, or None.
        draw: how this run looks, in place of the system's own picture, or None.
    """

    path: str
    times: NDArray
    values: NDArray
    start: Mapping[str, Any]
    given: Mapping[str, NDArray] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    sha256: str = ""
    part: str = ""
    impacts: NDArray | None = None
    draw: Draw | None = None

    @property
    def label(self) -> str:
        """The file, and which part of it, for messages and headings."""
        return printable(f"{self.path}, {self.part}" if self.part else self.path)


class Preparation:
    """What every preparation offers; `from_table(table, ready)` reads it from a scene.

    The fields of each are what its `KEYS` describe, in the system's units; `scale` is from the columns' unit to that.

    Attributes:
        suggests: names of the starting values that it finds.
        gives: names of what the system takes from the measurements as it is.
        description: what it does, for the report.
        columns: names of the columns it needs.
        channels: one label per observed coordinate.
        angles: how many of the channels, the last ones, are angles.
        angle_noise: one standard deviation of a measured angle [rad].
        hears: whether times of impacts are measured, so that the scene's noise is one of times.
        down: whether the channels grow downwards, as the rows of a picture do.
        reversed: whether they grow the other way than the system's coordinates: heights, where these go down.
    """

    suggests: Any = ("q0", "u0")
    gives: Any = ()
    description: Any = ""
    columns: Any
    channels: Any
    angles: Any = 0
    angle_noise: Any = 0.0
    hears = False
    down: Any = False
    reversed: Any = False

    def __call__(self, times: NDArray, measurements: Measurements) -> tuple[PreparedRun, ...]:
        """Prepare one file; times (n,) in the system's unit. A file may hold several runs.

        Raises:
            ValueError: one line that names the file, and what was expected of its columns.
        """
        raise NotImplementedError
