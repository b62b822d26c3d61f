"""What is listed of an impact."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import jax
import jax.numpy as jnp
from jax import Array


@partial(
    jax.tree_util.register_dataclass,
    data_fields=[
        *("time", "contact", "impulse", "before", "after", "slow", "soft", "q", "u", "jump", "numbers"),
        *("friction", "status"),
    ],
    meta_fields=[],
)
@dataclass(frozen=True)
class Percussion:
    """What happened at one impact, or at many (each field with a leading axis).

    Attributes:
        time: () when [s].
        contact: () int, the contact that closed; -1 where there was no percussion.
        impulse: (c,) of every contact that took part [N s].
        before, after: (c,) gap velocities [m/s].
        slow: (c,) how fast a contact may leave and its flight still be left out, at most [m/s].
        soft: (c,) bool, contacts whose bounce was left out, since its flight is shorter than the step resolves.
        q, u: (d,) where [m], and how fast before [m/s].
        jump: (d,) what it does to the velocity [m/s].
        numbers: (c,) int, the contacts that the entries above are of, and that `contact` is one of: all in order; of
            balls with a cell list those of the `NeighbourList`, first * (balls + fixed balls + walls) + partner in the
            numbers of their surfaces.
        friction: (c, k) tangential impulses where contacts rub [N s]; else None.
        status: () of `dc.impact`; None in a trajectory's list, where its own status tells.
    """

    time: Array
    contact: Array
    impulse: Array
    before: Array
    after: Array
    slow: Array
    soft: Array
    q: Array
    u: Array
    jump: Array
    numbers: Array
    friction: Array | None = None
    status: Array | None = None

    def numbered(self, numbers: Array) -> Percussion:
        """The same with the contacts called by these numbers (c,), in place of their order in a list."""
        contact = jnp.where(self.contact >= 0, numbers[self.contact], -1)
        return replace(self, contact=contact, numbers=numbers[self.numbers])
