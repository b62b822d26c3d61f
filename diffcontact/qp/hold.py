"""The projection onto rows that are held as equalities, and its derivative: one Cholesky factor of the rows' Delassus matrix.

With the rows of the working set W independent, A_WW = G_W M^-1 G_W^T is regular and

    l_W = -A_WW^-1 (G_W v + b_W),    u = v + M^-1 G_W^T l_W.

Its derivative is a projection of the same form, linear in the tangents:

    y  = v' + M^-1 (M' (v - u) + G'^T l),    r = G' u + b'
    l' = -A_WW^-1 (G_W y + r_W),             u' = y + M^-1 G_W^T l'.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.linalg import cho_solve

from diffcontact import mass as mass_matrix
from diffcontact.batching import any_lane
from diffcontact.qp.tableau import inverse_norm

# Every step of iterative refinement gains the digits that A_WW's condition leaves; two reach rounding up to 1/sqrt(eps).
REFINEMENTS = 2


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _Rows:
    """The k slots for held rows: index (k,), filled (k,) bool, G_W (k, d), scale (k,), lower (k, k) of the scaled A_WW."""

    index: jax.Array
    filled: jax.Array
    G: jax.Array
    scale: jax.Array
    lower: jax.Array


def _factor(root, G, active):
    count, dimension = G.shape
    (index,) = jnp.nonzero(active, size=min(count, dimension), fill_value=count)
    filled = index < count
    index = jnp.where(filled, index, 0)
    rows = jnp.where(filled[:, None], G[index], 0)
    whitened = mass_matrix.whiten(root, rows.T)
    scale = inverse_norm(whitened)
    whitened = whitened * scale[None, :]
    lower = lax.linalg.cholesky(whitened.T @ whitened + jnp.diag(jnp.where(filled, 0, 1).astype(G.dtype)))
    return _Rows(index=index, filled=filled, G=rows, scale=scale, lower=lower)


def _loads(rows, values):
    """l_W = -A_WW^-1 values, in the slots (k,)."""
    return -rows.scale * cho_solve((rows.lower, True), rows.scale * values)


def _push(root, rows, slots):
    """M^-1 G_W^T l for slots l (k,)."""
    return mass_matrix.unwhiten(root, mass_matrix.whiten(root, rows.G.T @ slots))


def _spread(rows, slots, active):
    """The slots (k,) at their rows (c,)."""
    return jnp.where(active, slots[jnp.clip(jnp.cumsum(active) - 1, 0, slots.shape[0] - 1)], 0)


def _held(mass, G, b, v, active):
    root = mass_matrix.root(mass)
    rows = _factor(root, G, active)
    offset = jnp.where(rows.filled, b[rows.index], 0)
    slots, u = jnp.zeros_like(offset), v
    for _ in range(1 + REFINEMENTS):
        slots = slots + _loads(rows, rows.G @ u + offset)
        u = v + _push(root, rows, slots)
    return u, slots, root, rows


@jax.custom_jvp
def hold_rows(mass, G, b, v, active):
    """argmin_u 1/2 (u-v)^T M (u-v) subject to G_i u + b_i = 0 where active_i.

    Args:
        mass: (d,) or (d, d).
        G: (c, d).
        b: (c,).
        v: (d,).
        active: (c,) bool, at most min(c, d) rows, independent. It has no derivative.

    Returns:
        u: (d,), and the multipliers (c,) with M (u - v) = G^T multipliers.
    """

    def busy():
        u, slots, _, rows = _held(mass, G, b, v, active)
        return u, _spread(rows, slots, active)

    return lax.cond(any_lane(jnp.any(active)), busy, lambda: (v, jnp.zeros_like(b)))


@hold_rows.defjvp
def _hold_rows_jvp(primals, tangents):
    mass, G, b, v, active = primals
    dmass, dG, db, dv, _ = tangents

    def busy():
        u, slots, root, rows = _held(mass, G, b, v, active)
        rows_dot = jnp.where(rows.filled[:, None], dG[rows.index], 0)
        force = mass_matrix.apply(dmass, v - u) + rows_dot.T @ slots
        free = dv + mass_matrix.unwhiten(root, mass_matrix.whiten(root, force))
        drift = rows_dot @ u + jnp.where(rows.filled, db[rows.index], 0)
        slots_dot = _loads(rows, rows.G @ free + drift)
        u_dot = free + _push(root, rows, slots_dot)
        return (u, _spread(rows, slots, active)), (u_dot, _spread(rows, slots_dot, active))

    def idle():
        zero = jnp.zeros_like(b)
        return (v, zero), (dv, zero)

    return lax.cond(any_lane(jnp.any(active)), busy, idle)
