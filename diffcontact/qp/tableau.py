"""The scaled Delassus matrix of a projection's rows, and the sweep (principal pivot) that all searches on it share.

With the multipliers l and the constraint values w = A l + w0 of a dual problem, the tableau T of a working set W answers
both questions at once: swept on W it maps the values on W and the multipliers off W to the multipliers on W and the
values off W.

    T_WW = A_WW^-1       T_WN = -A_WW^-1 A_WN
    T_NW = A_NW A_WW^-1  T_NN = A_NN - A_NW A_WW^-1 A_WN   (the Schur complement)

A row enters or leaves W by the same operation, one rank-one update of T.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from diffcontact import mass as mass_matrix


def scaled_delassus(mass, G, on):
    """S G M^-1 G^T S with the diagonal S that makes its diagonal one, so that every row is measured in the same unit.

    Args:
        mass: (d,) or (d, d).
        G: (c, d).
        on: (c,) bool; rows that are off become zero.

    Returns:
        A: (c, c), and S: (c,) the diagonal of S; rows of G that are zero keep S = 1 and a zero diagonal.
    """
    whitened = mass_matrix.whiten(mass_matrix.root(mass), jnp.where(on[:, None], G, 0).T)
    scale = inverse_norm(whitened)
    whitened = whitened * scale[None, :]
    return whitened.T @ whitened, scale


def inverse_norm(columns):
    """(k,) 1/|column| for the columns of a (d, k) array, and 1 for a zero column; differentiable there too."""
    square = jnp.sum(columns * columns, axis=0)
    zero = square == 0
    return jnp.where(zero, 1, lax.rsqrt(jnp.where(zero, 1, square)))


def pivot_tolerance(count, dtype):
    """The Schur complement of a unit row below which the row counts as dependent on the working set.

    It is the squared sine of the angle between the row and the span of the working rows, whose rounding error is some
    units of eps per pivot done.
    """
    return 64 * max(count, 16) * jnp.finfo(dtype).eps


def swept_column(row, working, index):
    """T[:, index] from row = T[index, :]: the tableau is symmetric but for the sign between W and its complement."""
    return jnp.where(working == working[index], row, -row)


def sweep(tableau, working, index, row, wanted):
    """Take row `index` into the working set, or out of it if it is in.

    Args:
        tableau: (c, c) swept on `working`.
        working: (c,) bool.
        index: () int.
        row: (c,) tableau[index].
        wanted: () bool; False leaves everything as it is.

    Returns:
        The tableau and the working set after the exchange.
    """
    here = jnp.arange(row.shape[0]) == index
    unit = here.astype(row.dtype)
    factor = jnp.where(wanted, 1 / row[index], 0)
    left = (swept_column(row, working, index) + unit) * factor
    return tableau - left[:, None] * (row - unit)[None, :], working ^ (here & wanted)
