"""Constraint rows in the metric of the mass: whitening, independence, and the slots that a working set occupies.

A working set of at most k = min(c, d) rows of c is held in k *slots*: (k,) ints, each a row or NONE. What happens on it
then costs k, not c.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from diffcontact import mass as mass_matrix

NONE = -1


def unit_rows(mass, G, on):
    """The columns L^-1 G_i^T (M = L L^T), each scaled to length one, so that every row is measured in the same unit.

    Their inner products are the scaled Delassus matrix S G M^-1 G^T S.

    Args:
        mass: (d,) or (d, d).
        G: (c, d).
        on: (c,) bool; rows that are off become zero.

    Returns:
        (d, c) columns and (c,) the scales S; a zero row stays zero and has the scale 1.
    """
    whitened = mass_matrix.whiten(mass_matrix.root(mass), jnp.where(on[:, None], G, 0).T)
    scale = inverse_length(whitened)
    return whitened * scale[None, :], scale


def inverse_length(columns):
    """(k,) 1/|column| for the columns of a (d, k) array, and 1 for a zero column; differentiable there too."""
    square = jnp.sum(columns * columns, axis=0)
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
    return jnp.any(slots[:, None] == jnp.arange(count)[None, :], axis=0)


def spread(slots, values, count):
    """(count,) the values (k,) of the slots at their rows, zero elsewhere."""
    return jnp.sum(jnp.where(slots[:, None] == jnp.arange(count)[None, :], values[:, None], 0), axis=0)


def independent_slots(columns, wanted):
    """A largest independent subset of the wanted columns: Gram-Schmidt with pivoting.

    Args:
        columns: (d, c) of length one (or zero).
        wanted: (c,) bool.

    Returns:
        (k,) slots, k = min(c, d). Of columns that depend on each other the first ones are kept.
    """
    limit = min(columns.shape)
    dependent_below = dependence_tolerance(limit, columns.dtype)

    def best(residual, slots):
        left = jnp.where(wanted, jnp.sum(residual * residual, axis=0), 0)
        index = jnp.argmax(left)
        return jnp.where((left[index] > dependent_below) & jnp.any(slots == NONE), index, NONE)

    def take(carry):
        residual, slots, index = carry
        column = residual[:, index]
        direction = column * lax.rsqrt(jnp.sum(column * column))
        residual = residual - direction[:, None] * (direction @ residual)[None, :]
        # Exactly: rounding must not let the same column be taken twice.
        residual = jnp.where((jnp.arange(wanted.shape[0]) == index)[None, :], 0, residual)
        slots = put(slots, index)
        return residual, slots, best(residual, slots)

    empty = free_slots(limit)
    _, slots, _ = lax.while_loop(lambda carry: carry[2] != NONE, take, (columns, empty, best(columns, empty)))
    return slots
