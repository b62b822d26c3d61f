"""When contacts that rub change their modes: what is listed of it, and the derivatives of the times."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from diffcontact.qp.friction.law import length
from diffcontact.qp.friction.modes import Modes


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
    """Of a piece of motion what tells changes: its time (), the modes (c,) in which its contacts begin, -1 where there
    is no piece, and the contacts (c,) whose slip has just come to its end."""

    time: Array
    mode: Array
    ended: Array

    @classmethod
    def of(cls, t, modes: Modes, ended: Array) -> Beginning:
        mode = jnp.where(modes.closed, jnp.where(modes.slip, int(Mode.SLIP), int(Mode.STICK)), int(Mode.OPEN))
        return cls(t, mode.astype(jnp.int32), ended)

    def nowhere(self) -> Beginning:
        """One of no piece, of the same shapes."""
        return Beginning(jnp.zeros_like(self.time), jnp.full_like(self.mode, -1), self.ended & False)


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


def left_of_load_and_grip(mu, end) -> Array:
    """(2 c,) the loads, and what friction could still take, at the end of a piece, an `Arrival`."""
    return jnp.concatenate([end.load, mu * end.load - length(end.rub)])


def delay(smooth, mu, s, index, end) -> Array:
    """() zero, with the derivative of the time at which a load vanishes or friction reaches its bound.

    The motion does not depend on that time to first order, and does not follow it. Here it is that of the implicit
    function theorem, -d(what is left) / (its rate), at the s that was found.

    Args:
        smooth: s -> the `Arrival` so many seconds later; not differentiated by anything else.
        mu: (c,).
        s: () when the event takes place.
        index: () int, which of the (2 c,) `left_of_load_and_grip` vanishes there.
        end: the `Arrival` at s, differentiable.
    """

    def left(s):
        return left_of_load_and_grip(lax.stop_gradient(mu), smooth(s))[index]

    _, rate = jax.jvp(left, (lax.stop_gradient(s),), (jnp.ones_like(s),))
    rate, here = lax.stop_gradient(rate), left_of_load_and_grip(mu, end)[index]
    return -(here - lax.stop_gradient(here)) / jnp.where(rate == 0, 1.0, rate)
