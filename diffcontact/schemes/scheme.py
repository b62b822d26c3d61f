"""What a step map is: a pure function from the state at t to the state at t + h."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import jax
from jax import Array


@partial(jax.tree_util.register_dataclass, data_fields=["q", "u"], meta_fields=[])
@dataclass(frozen=True)
class State:
    """What is carried from step to step: position q (d,) [m] and velocity u (d,) [m/s], its right limit."""

    q: Array
    u: Array


@partial(jax.tree_util.register_dataclass, data_fields=["impulse", "status", "percussions"], meta_fields=[])
@dataclass(frozen=True)
class Info:
    """What a step reports and does not carry: impulse per contact (c,) [N s], status (), and, from a scheme that puts
    impacts at their own times, its `Percussion`s (k, ...)."""

    impulse: Array
    status: Array
    percussions: Any = None


class Scheme(Protocol):
    """A step map. Implementations are frozen dataclasses: hashable, static under jit.

    One may have `inelastic`, true where it is for restitution 0 only, and `keeps`, the names of what reverse mode keeps
    of each step; the rest of the step is computed again.
    """

    def init(self, system: Any, params: Any, t, h, q: Array, u: Array) -> Any:
        """What the first step of length h needs; at least the attributes `q` and `u`."""
        ...

    def step(self, system: Any, params: Any, t, h, state: Any) -> tuple[Any, Info]:
        """From the state at t to the state at t + h."""
        ...
