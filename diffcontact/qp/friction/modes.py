"""The modes of contacts with friction, open, stick and slip, and reactions that are exactly in them."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from diffcontact.qp.friction.law import length


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Modes:
    """What each of c contacts does; open where it is not closed, stick where it is closed and does not slip.

    Args:
        closed: (c,) bool.
        slip: (c,) bool.
    """

    closed: jax.Array
    slip: jax.Array

    @classmethod
    def of(cls, r, w, friction, stride, error=0.0) -> Modes:
        """The modes of reactions r and velocities w (c, 1 + k) that obey the law but for rounding.

        At a tie, a closed contact without a load or a stuck one at its bound, rounding decides between open and closed,
        and stick is preferred to slip. Without friction contacts slip. `error` is what the velocities are wrong by.
        """
        closed = r[:, 0] > stride[:, 0] * w[:, 0]
        # Slip at less than a thousand roundings of what is compared is none, nor is slip at less than its own error.
        # How fast open contacts go apart, of which a wall far away does by gap / h, is no part of it.
        compared = jnp.max(jnp.abs(r)) + jnp.max(jnp.where(closed[:, None], jnp.abs(w), 0))
        margin = 1e3 * jnp.finfo(r.dtype).eps * compared + 8 * error
        excess = length(r[:, 1:] - stride[:, 1:] * w[:, 1:]) - friction * r[:, 0]
        return cls(closed=closed, slip=closed & ((excess > margin) | (friction == 0)))

    def apply(self, r, w, friction, stride):
        """The reactions (c, 1 + k) nearest to r that are in the modes."""
        normal = jnp.where(self.closed, jnp.maximum(r[:, 0], 0), 0)
        bound = friction * normal
        slipping = bound[:, None] * slip_direction(r, w, stride)
        size = length(r[:, 1:])
        sticking = r[:, 1:] * jnp.where(size > bound, bound / jnp.where(size > 0, size, 1), 1)[:, None]
        return jnp.concatenate([normal[:, None], jnp.where(self.slip[:, None], slipping, sticking)], axis=1)


def slip_direction(r, w, stride):
    """(c, k) of length one, or zero: where friction points to, against the slip."""
    z = r[:, 1:] - stride[:, 1:] * w[:, 1:]
    size = length(z)
    return z / jnp.where(size > 0, size, 1)[:, None]
