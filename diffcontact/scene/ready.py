"""What a scene names: a ready-made system with its parameters, their units, shapes and what is physically possible."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from diffcontact.particle_line import ParticleLine
from diffcontact.system import System

IMPACT_LAW = "M(q) du = f dt + impacts, u+ = -e u- + (1 + e) Proj_M(T_K(q), u-), every impact at its own time"


@dataclass(frozen=True)
class Quantity:
    """A parameter as physics sees it.

    Attributes:
        unit: that of the system's functions, SI; px and frames for films.
        shape: of its value.
        low, high: what is possible; restitution lies in [0, 1].
        positive: whether low = 0 itself is impossible, as for a mass.
        optional: whether a scene may leave it out; the system then has a value of its own, 0 of a term.
        term: whether it is a small term beside others (a slope, a drag) that a fit may set free where it is held.
        what: what it is, for the reference of scenes.
    """

    unit: str = "1"
    shape: tuple[int, ...] = ()
    low: float = -np.inf
    high: float = np.inf
    positive: bool = False
    optional: bool = False
    term: bool = False
    what: str = ""

    @property
    def range(self) -> str:
        """In words, for messages."""
        if self.positive:
            return "above 0"
        if np.isfinite(self.low) and np.isfinite(self.high):
            return f"within [{self.low:g}, {self.high:g}]"
        return f"at least {self.low:g}" if np.isfinite(self.low) else "finite"

    def allows(self, value: np.ndarray) -> bool:
        """Whether every element is possible."""
        inside = (value > self.low) if self.positive else (value >= self.low)
        return bool(np.all(inside & (value <= self.high) & np.isfinite(value)))


@dataclass(frozen=True)
class Drive:
    """A measured column that drives a system: its name, and the factor from its unit to the system's."""

    column: str
    factor: float


@dataclass(frozen=True)
class Derived:
    """A starting value that follows from something a preparation finds.

    Attributes:
        source: name of what is found.
        value: (what was found, the parameters that the scene gives) -> starting value.
    """

    source: str
    value: Callable[[Any, Mapping[str, Any]], Any]


@dataclass(frozen=True)
class Turned:
    """How bodies are seen that turn: an angle of each in a plane, of each in space the rotation off what was measured.

    Attributes:
        observe: (trajectory, params) -> (n, k), the coordinates that are measured and behind them the angles.
        count: how many bodies.
        columns: how many columns of a recording say how one is turned: its angle, or its quaternion w x y z.
        orientation: of quaternions, the parameter with the measured ones (n, 4 count), from which `observe` counts.
    """

    observe: Callable[[Any, Any], Any]
    count: int
    columns: int
    orientation: str = ""


# Plain functions, not lambdas made per scene: runs and studies that share them share the compiled simulation.
def _initial(params):
    return params["q0"], params["u0"]


def _positions(trajectory, params):
    del params
    return trajectory.q


@dataclass(frozen=True)
class ReadySystem:
    """A system with its parameters; `q0` and `u0`, places and velocities at the first time, are among them.

    Attributes:
        system: as it is simulated.
        quantities: its parameters by name.
        law: what it obeys, for the report.
        length, time: units of its coordinates and of time.
        given: parameters that a scene does not name since the measurements hold them: name -> shape, None any.
        drive: the column that drives it, or None.
        derived: starting values that follow from what a preparation finds, by parameter.
        initial: params -> (q0, u0), the state at the first time.
        observe: (trajectory, params) -> (n, k), the coordinates that are measured.
        turned: the same with the angles behind them, or None for what does not turn.
    """

    system: System | ParticleLine
    quantities: Mapping[str, Quantity]
    law: str = IMPACT_LAW
    length: str = "m"
    time: str = "s"
    given: Mapping[str, tuple[int, ...] | None] = field(default_factory=dict)
    drive: Drive | None = None
    derived: Mapping[str, Derived] = field(default_factory=dict)
    initial: Callable[[Any], tuple] = _initial
    observe: Callable[[Any, Any], Any] = _positions
    turned: Turned | None = None
