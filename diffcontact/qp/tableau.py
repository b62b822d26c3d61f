"""The sweep (principal pivot) on the Delassus matrix of a projection's rows.

With the multipliers l and the constraint values w = A l + w0 of a dual problem, the tableau T of a working set W
maps the values on W and the multipliers off W to the multipliers on W and the values off W:

    T_WW = A_WW^-1       T_WN = -A_WW^-1 A_WN
    T_NW = A_NW A_WW^-1  T_NN = A_NN - A_NW A_WW^-1 A_WN   (the Schur complement)

A row enters or leaves W by the same operation, one rank-one update of T; w0 is swept like a further column.
"""

from __future__ import annotations

import jax.numpy as jnp


def sweep(row, working, index):
    """The rank-one update that takes row `index` into the working set, or out of it if it is in.

    Args:
        row: (c,) T[index]. T is symmetric but for the sign between W and its complement, so that it tells the column.
        working: (c,) bool, the working set that T is swept on.
        index: () int.

    Returns:
        left (c,), right (c,): the tableau of the new working set is T - left right^T, and a column x swept along
        becomes x - left x[index].

    Example:
        >>> A = jnp.array([[2.0, 1.0], [1.0, 3.0]])
        >>> left, right = sweep(A[0], jnp.array([False, False]), 0)
        >>> (A - jnp.outer(left, right)).tolist()
        [[0.5, -0.5], [0.5, 2.5]]
    """
    unit = (jnp.arange(row.shape[0]) == index).astype(row.dtype)
    column = jnp.where(working == working[index], row, -row)
    return (column + unit) / row[index], row - unit
