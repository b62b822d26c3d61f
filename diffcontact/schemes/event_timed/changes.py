"""When contacts that rub change their modes: what is listed of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax


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


@partial(jax.tree_util.register_dataclass, data_fields=["time", "contact", "before", "after"], meta_fields=[])
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
