"""The metric of the mass on constraint rows: whitening, length, independence."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from diffcontact.numerics import mass as mass_matrix
from diffcontact.numerics.batching import in_lanes, once
from diffcontact.qp.rows.slots import NONE, free_slots, put


def whitened_rows(root, G):
    """The rows L^-1 G_i, whose inner products are the Delassus matrix G M^-1 G^T, with M = L L^T.

    They stay rows: transposing a thousand of them takes longer than everything else that is done with them.

    Args:
        root: (d,) or (d, d), L as `diffcontact.numerics.mass.root` returns it.
        G: (c, d).

    Returns:
        (c, d).
    """
    return G * (1 / root)[None, :] if root.ndim == 1 else mass_matrix.whiten(root, G.T).T


def inverse_length(square):
    """1/length from the squared length of a row, and 1 for a zero row; differentiable there too."""
    zero = square == 0
    return jnp.where(zero, 1, lax.rsqrt(jnp.where(zero, 1, square)))


def dependence_tolerance(count, dtype):
    """The squared sine of the angle between a row and the span of others below which it counts as dependent on them.

    Its rounding error is some units of eps for every row that was eliminated before. Rows at an angle of 0.003 belong
    to different contacts, in single precision too: the active-set method cycles if one is taken for the other.
    """
    return min(64 * max(count, 16) * float(jnp.finfo(dtype).eps), 8e-6)


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
    _, slots, _ = lax.while_loop(
        lambda carry: carry[2] != NONE, once(take), in_lanes((rows, empty, best(rows, empty)), rows)
    )
    return slots
