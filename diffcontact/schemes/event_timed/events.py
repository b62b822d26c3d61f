"""What is listed of events: impacts, and when contacts that rub change their modes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax


@jax.tree_util.register_dataclass
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


class Mode(IntEnum):
    """What a contact with friction does.

    Example:
        >>> import diffcontact as dc
        >>> dc.Mode(2)
        <Mode.SLIP: 2>
    """

    OPEN = 0
    STICK = 1
    SLIP = 2


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class ModeChange:
    """A contact that passes from one mode to another, or many (each field with a leading axis).

    Attributes:
        time: () when [s].
        contact: () int, its number; -1 where there was no change.
        before, after: () int, its `Mode`s, -1 likewise; SLIP and SLIP where a slip comes to its end and goes on the
            other way.
    """

    time: Array
    contact: Array
    before: Array
    after: Array


class Beginning(NamedTuple):
    """Of m pieces of motion what tells changes: times (m,), the modes (m, c) in which contacts begin, -1 where there is
    no piece, and the contacts (m, c) whose slip has just come to its end."""

    time: Array
    mode: Array
    ended: Array


def mode_changes(pieces: Beginning) -> ModeChange:
    """What changes at the beginnings of m pieces in a row, (m c,); the contact is -1 where nothing does."""
    exists = pieces.mode[:, 0] >= 0
    rows = jnp.arange(exists.size)
    latest = lax.cummax(jnp.where(exists, rows, -1))
    previous = jnp.concatenate([jnp.full(1, -1), latest[:-1]])
    before = pieces.mode[jnp.maximum(previous, 0)]
    other = (before != pieces.mode) | (pieces.ended & (before == int(Mode.SLIP)))
    changed = other & (exists & (previous >= 0))[:, None]
    contact = jnp.broadcast_to(jnp.arange(changed.shape[1]), changed.shape)
    time = jnp.where(changed, pieces.time[:, None], 0)
    numbers = (jnp.where(changed, x, -1).astype(jnp.int32) for x in (contact, before, pieces.mode))
    return jax.tree.map(jnp.ravel, ModeChange(time, *numbers))
