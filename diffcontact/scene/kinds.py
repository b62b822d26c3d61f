"""The ready-made systems that a scene can name, and what their parameters are.

A kind turns the scene's options into a system together with a `Quantity` for each parameter: its SI unit, its shape
and what is physically possible. A new system is one more function here, registered in `KINDS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from diffcontact.scene.keys import Table
from diffcontact.system import System
from diffcontact.systems import balls, carts


@dataclass(frozen=True)
class Quantity:
    """A parameter as physics sees it.

    Attributes:
        unit: SI.
        shape: of its value.
        low, high: what is possible; restitution lies in [0, 1].
        positive: whether low = 0 itself is impossible, as for a mass.
    """

    unit: str = "1"
    shape: tuple[int, ...] = ()
    low: float = -np.inf
    high: float = np.inf
    positive: bool = False

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
class ReadySystem:
    """A system with its parameters; `q0` and `u0`, the state at the first time, are among them."""

    system: System
    quantities: Mapping[str, Quantity]


def _carts(options: Table) -> ReadySystem:
    options.expect("kind")
    quantities = {
        "restitution": Quantity(low=0.0, high=1.0),
        "mass_ratio": Quantity(low=0.0, positive=True),
        "distance": Quantity("m", low=0.0),
        "tilt": Quantity("m/s^2"),
        "sag": Quantity("1/s^2"),
        "drag": Quantity("1/s", low=0.0),
    }
    return ReadySystem(carts(), quantities | _state(2))


def _balls(options: Table) -> ReadySystem:
    options.expect("kind", "count", "dimension", "box", "unit")
    count, dimension = options.integer("count"), options.integer("dimension")
    box = options.numbers("box") * options.factor("unit", "m") if "box" in options else None
    try:
        system = balls(count, dimension, None if box is None else tuple(box))
    except ValueError as error:
        raise options.fail("kind", str(error)) from None
    quantities = {
        "mass": Quantity("kg", (count,), low=0.0, positive=True),
        "radius": Quantity("m", (count,), low=0.0),
        "gravity": Quantity("m/s^2", (dimension,)),
        "restitution": Quantity(low=0.0, high=1.0),
    }
    return ReadySystem(system, quantities | _state(count * dimension))


def _state(d: int) -> dict[str, Quantity]:
    return {"q0": Quantity("m", (d,)), "u0": Quantity("m/s", (d,))}


KINDS: Mapping[str, Callable[[Table], ReadySystem]] = {"carts": _carts, "balls": _balls}
