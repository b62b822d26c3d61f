"""Constraint rows in the metric of the mass: whitening, independence, and the slots that a working set occupies.

A working set of at most k = min(c, d) rows of c is held in k *slots*: (k,) ints, each a row or NONE. What happens on it
then costs k, not c.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from diffcontact import mass as mass_matrix

NONE = -1


def whitened_rows(root, G):
    """The rows L^-1 G_i, whose inner products are the Delassus matrix G M^-1 G^T, with M = L L^T.

    They stay rows: transposing a thousand of them takes longer than everything else that is done with them.

    Args:
        root: (d,) or (d, d), L as `diffcontact.mass.root` returns it.
        G: (c, d).

    Returns:
        (c, d).
    """
    return G * (1 / root)[None, :] if root.ndim == 1 else mass_matrix.whiten(root, G.T).T


def inverse_length(rows):
    """(k,) 1/|row| for the rows of a (k, d) array, and 1 for a zero row; differentiable there too."""
    square = jnp.sum(rows * rows, axis=1)
    zero = square == 0
    return jnp.where(zero, 1, lax.rsqrt(jnp.where(zero, 1, square)))


def dependence_tolerance(count, dtype):
    """The squared sine of the angle between a row and the span of others below which it counts as dependent on them.

    Its rounding error is some units of eps for every row that was eliminated before.
    """
    return 64 * max(count, 16) * jnp.finfo(dtype).eps


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
        >>> slots_of(jnp.array([False, True, True]), 3).tolist()
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


def independent_slots(rows, wanted):
    """A largest independent subset of the wanted rows: Gram-Schmidt with pivoting.

    Args:
        rows: (c, d) of length one (or zero).
        wanted: (c,) bool.

    Returns:
        (k,) slots, k = min(c, d). Of rows that depend on each other the first ones are kept.
    """
    limit = min(rows.shape)
    dependent_below = dependence_tolerance(limit, rows.dtype)

    def best(residual, slots):
        left = jnp.where(wanted, jnp.sum(residual * residual, axis=1), 0)
        index = jnp.argmax(left)
        return jnp.where((left[index] > dependent_below) & jnp.any(slots == NONE), index, NONE)

    def take(carry):
        residual, slots, index = carry
        row = residual[index]
        direction = row * lax.rsqrt(jnp.sum(row * row))
        residual = residual - (residual @ direction)[:, None] * direction[None, :]
        # Exactly: rounding must not let the same row be taken twice.
        residual = jnp.where((jnp.arange(wanted.shape[0]) == index)[:, None], 0, residual)
        slots = put(slots, index)
        return residual, slots, best(residual, slots)

    empty = free_slots(limit)
    _, slots, _ = lax.while_loop(lambda carry: carry[2] != NONE, take, (rows, empty, best(rows, empty)))
    return slots
