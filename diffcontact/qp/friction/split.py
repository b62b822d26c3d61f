"""How contacts whose rows depend on each other share a reaction: evenly, as if each stood on a spring like the others'.

A box that lies flat on four corners has one load too many. On equal springs with N u = -(load / stiffness) the loads
are what they are at corners of a rigid body: a combination of rows that is zero, y^T N = 0, is one of loads, y^T P = 0.
That is the split of least norm where friction presses nothing; where it does, a box that slides and pivots say, the
motion depends on the split, and rigid bodies do not tell it.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from diffcontact.numerics import linear
from diffcontact.numerics.batching import where_wanted
from diffcontact.qp.friction.modes import Modes
from diffcontact.qp.rows.metric import independent_slots, inverse_length
from diffcontact.qp.rows.slots import members


class Sharing(NamedTuple):
    """Which of n = c (1 + k) rows hold their velocity, and what the others say of the reactions.

    Attributes:
        taken: (n,) bool, a largest independent subset of the rows that are held.
        dependent: (n,) bool, those that depend on it.
        even: (n, n), rows E with (E r)_j = 0 where j is dependent and the reactions r are shared evenly, in the unit of
            the rows that were given; zero where nothing depends.
    """

    taken: Array
    dependent: Array
    even: Array

    @classmethod
    def of(cls, rows, scale, modes: Modes) -> Sharing:
        """
        Args:
            rows: (c, 1 + k, d), whitened, times scale.
            scale: (c,).
            modes: the modes; a contact that slips holds its normal row.
        """
        count, size = rows.shape[:2]
        held = modes.closed[:, None] & ((jnp.arange(size) == 0)[None] | ~modes.slip[:, None])
        present = (held & jnp.any(rows != 0, axis=2)).reshape(-1)
        flat = jnp.where(present[:, None], rows.reshape(count * size, -1), 0)
        unit = lax.stop_gradient(flat * inverse_length(jnp.sum(flat * flat, axis=1))[:, None])
        taken = members(independent_slots(unit, present), present.size)
        dependent = present & ~taken

        def combined():
            own = jnp.where(taken[:, None], flat, 0)
            gram = own @ own.T + jnp.diag((~taken).astype(flat.dtype))
            # flat = X^T own, row by row: what is left of a row by these is zero.
            left = jnp.eye(present.size, dtype=flat.dtype) - linear.solve_positive(gram, own @ flat.T).T
            return jnp.where(dependent[:, None], left * scale.repeat(size)[None, :], 0)

        nothing = jnp.zeros((present.size, present.size), flat.dtype)
        return cls(taken, dependent, where_wanted(jnp.any(dependent), combined, nothing))
