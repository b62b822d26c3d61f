"""The slots that a working set occupies.

A working set of at most k = min(c, d) rows of c is held in k *slots*: (k,) ints, each a row or NONE. What happens on it
then costs k, not c.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

NONE = -1


def free_slots(count):
    """(count,) int32, all free."""
    return jnp.full(count, NONE, jnp.int32)


def put(slots, row):
    """`row` in the first free slot."""
    first = jnp.argmax(slots == NONE)
    return jnp.where(jnp.arange(slots.shape[0]) == first, row.astype(slots.dtype), slots)


def slots_of(mask, count):
    """(count,) int32: the rows of a mask (c,), the first `count` of them.

    Example:
        >>> import jax
        >>> jax.jit(slots_of, static_argnums=1)(jnp.array([False, True, True]), 3).tolist()
        [1, 2, -1]
    """
    taken, rows = lax.top_k(mask.astype(jnp.float32), count)
    return jnp.where(taken > 0, rows, NONE).astype(jnp.int32)


def members(slots, count):
    """(count,) bool: the rows that are in the slots."""
    return spread(slots, jnp.ones(slots.shape, bool), count)


def spread(slots, values, count):
    """(count,) the values (k,) of the slots at their rows, zero elsewhere."""
    # Free slots go to places of their own behind the last row, and are dropped there.
    places = jnp.where(slots == NONE, count + jnp.arange(slots.shape[0]), slots)
    return jnp.zeros(count, values.dtype).at[places].set(values, mode="drop", unique_indices=True)
