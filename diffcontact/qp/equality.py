"""The projection onto rows that are held as equalities, and its derivative: one Cholesky factor on the working set.

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
from diffcontact.qp.rows import NONE, inverse_length, spread

# A step of iterative refinement gains the digits that the condition of A_WW leaves; the second one is for mass ratios.
REFINEMENTS = 2


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _Factor:
    """The slots (k,) of held rows with G_W (k, d), their scales (k,) and the lower factor (k, k) of the scaled A_WW.

    Free slots hold a zero row with a unit on the diagonal, so that their multipliers are zero.
    """

    slots: jax.Array
    root: jax.Array
    G: jax.Array
    scale: jax.Array
    lower: jax.Array

    @classmethod
    def of(cls, mass, G, slots):
        root = mass_matrix.root(mass)
        rows = _at(slots, G)
        whitened = mass_matrix.whiten(root, rows.T)
        scale = inverse_length(whitened)
        whitened = whitened * scale[None, :]
        free = jnp.diag((slots == NONE).astype(G.dtype))
        lower = lax.linalg.cholesky(whitened.T @ whitened + free)
        return cls(slots=slots, root=root, G=rows, scale=scale, lower=lower)

    def loads(self, values):
        """l_W = -A_WW^-1 values."""
        return -self.scale * cho_solve((self.lower, True), self.scale * values)

    def push(self, force):
        """M^-1 force."""
        return mass_matrix.unwhiten(self.root, mass_matrix.whiten(self.root, force))


def _at(slots, x):
    """The entries of x (c, ...) at the slots, zero at free ones."""
    taken = x[jnp.maximum(slots, 0)]
    return jnp.where((slots != NONE).reshape(-1, *[1] * (x.ndim - 1)), taken, 0)


def _held(factor, b, v):
    offset = _at(factor.slots, b)
    loads, u = jnp.zeros_like(offset), v
    for _ in range(1 + REFINEMENTS):
        loads = loads + factor.loads(factor.G @ u + offset)
        u = v + factor.push(factor.G.T @ loads)
    return u, loads


@jax.custom_jvp
def hold_rows(mass, G, b, v, slots):
    """argmin_u 1/2 (u-v)^T M (u-v) subject to G_i u + b_i = 0 for the rows in the slots.

    Args:
        mass: (d,) or (d, d).
        G: (c, d).
        b: (c,).
        v: (d,).
        slots: (k,) int, independent rows or NONE. It has no derivative.

    Returns:
        u: (d,), and the multipliers (c,) with M (u - v) = G^T multipliers.
    """

    def busy():
        u, loads = _held(_Factor.of(mass, G, slots), b, v)
        return u, spread(slots, loads, b.shape[0])

    return lax.cond(any_lane(jnp.any(slots != NONE)), busy, lambda: (v, jnp.zeros_like(b)))


@hold_rows.defjvp
def _hold_rows_jvp(primals, tangents):
    mass, G, b, v, slots = primals
    dmass, dG, db, dv, _ = tangents
    count = b.shape[0]

    def busy():
        factor = _Factor.of(mass, G, slots)
        u, loads = _held(factor, b, v)
        dG_held = _at(slots, dG)
        y = dv + factor.push(mass_matrix.apply(dmass, v - u) + dG_held.T @ loads)
        dloads = factor.loads(factor.G @ y + dG_held @ u + _at(slots, db))
        du = y + factor.push(factor.G.T @ dloads)
        return (u, spread(slots, loads, count)), (du, spread(slots, dloads, count))

    def idle():
        none = jnp.zeros_like(b)
        return (v, none), (dv, none)

    return lax.cond(any_lane(jnp.any(slots != NONE)), busy, idle)
