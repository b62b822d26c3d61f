"""A bouncing ball that was heard: the times of its impacts and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from diffcontact.scene.keys import Table
from diffcontact.scene.kinds import ReadySystem
from diffcontact.scene.measurements import Measurements
from diffcontact.scene.preparation.run import RESTITUTION_STARTS, Preparation, PreparedRun

# Steps of the simulation per flight, and how much of the last flight goes on behind the last impact.
_STEPS, _BEYOND = 8, 0.4


@dataclass(frozen=True)
class Sound(Preparation):
    """The times of a ball's impacts, as a microphone heard them.

    The motion begins with the first impact that was heard, upwards from the floor; how fast the ball left is found from
    when the second one follows. The time of each later impact is compared with the simulated one; no height is
    measured, so that gravity has to be known.

    Attributes:
        bounces: how many of these the system models with a restitution of their own.
    """

    bounces: int

    gives = ("apexes",)
    hears = True
    reversed = True
    suggests = ("half_flight", "restitution", "later_restitution")
    columns = ()
    description = "times of impacts, from the first that was heard; the ball leaves the floor there"
    channels = ("height",)
    KEYS: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def from_table(cls, table: Table, ready: ReadySystem) -> Sound:
        """Read the scene's [preparation] table."""
        table.expect("kind", *cls.KEYS)
        if "apexes" not in ready.given or ready.length == "px":
            raise table.fail("kind", "'sound' goes with the system 'bouncing ball' with length = 'm' and time = 's'")
        return cls((ready.given["apexes"] or (0,))[0] + 1)

    def __call__(self, times: NDArray, measurements: Measurements) -> tuple[PreparedRun, ...]:
        if times.size < self.bounces + 2:
            raise ValueError(f"{measurements.path}: {times.size} impacts, expected at least {self.bounces + 2}")
        heard = times - times[0]
        flights = np.diff(heard)
        edges = np.append(heard, heard[-1] + _BEYOND * flights[-1])
        parts = [np.linspace(a, b, _STEPS, endpoint=False) for a, b in pairwise(edges)]
        grid = np.append(np.concatenate(parts), edges[-1])
        ratios = np.clip(flights[1:] / flights[:-1], *RESTITUTION_STARTS)
        start = {
            "half_flight": flights[0] / 2,
            "restitution": float(ratios[0] if self.bounces > 1 else ratios.mean()),
            "later_restitution": ratios[1 : self.bounces],
        }
        given = {"apexes": (heard[1:-1] + heard[2:])[: self.bounces - 1] / 2}
        notes = {"impacts heard": str(times.size), "first flight": f"{flights[0]:.4g} s"}
        return (
            PreparedRun(
                measurements.path,
                grid,
                np.full((grid.size, 1), np.nan),
                start,
                given,
                notes,
                measurements.sha256,
                impacts=heard[1:],
            ),
        )
