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
from diffcontact.batching import any_lane, where_wanted
from diffcontact.qp import native
from diffcontact.qp.rows.body_rows import along, dense, product, switched, take, transposed_product
from diffcontact.qp.rows.metric import independent_slots, inverse_length, whitened_rows
from diffcontact.qp.rows.slots import NONE, free_slots, members, slots_of, spread

# A step of iterative refinement regains the digits that the condition of A_WW costs. Tangents do without one: their
# error is relative to them, and nothing builds up from step to step.
REFINEMENTS = 1


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _Held:
    """The rows in the slots (k,), ready to be solved for.

    Args:
        root: (d,) or (d, d), L with M = L L^T.
        G: (k, d), zero for free slots.
        scale: (k,) S, which makes the diagonal of S A_WW S one.
        lower: (k, k) Cholesky factor of S A_WW S. Free slots have a unit there, so that their multipliers are zero.
        columns: (d, k) M^-1 G_W^T.
    """

    root: jax.Array
    G: jax.Array
    scale: jax.Array
    lower: jax.Array
    columns: jax.Array

    @classmethod
    def of(cls, mass, G, slots):
        root = mass_matrix.root(mass)
        rows = _rows_at(slots, G)
        whitened = mass_matrix.whiten(root, rows.T)
        scale = inverse_length(jnp.sum(whitened * whitened, axis=0))
        unit = whitened * scale[None, :]
        free = jnp.diag((slots == NONE).astype(G.dtype))
        lower = lax.linalg.cholesky(unit.T @ unit + free, symmetrize_input=False)
        columns = mass_matrix.unwhiten(root, whitened)
        return cls(root=root, G=rows, scale=scale, lower=lower, columns=columns)

    def solve(self, b, v, refinements=REFINEMENTS):
        """u (d,) and l_W (k,) of the rows held at G_W u + b = 0."""
        multipliers, u = jnp.zeros_like(b), v
        for _ in range(1 + refinements):
            multipliers = multipliers - self.scale * cho_solve((self.lower, True), self.scale * (self.G @ u + b))
            u = v + self.columns @ multipliers
        return u, multipliers


def _at(slots, x):
    """The entries of x (c,) at the slots, zero at free ones."""
    return jnp.where(slots != NONE, x[jnp.maximum(slots, 0)], 0)


def _rows_at(slots, G):
    """(k, d) the rows in the slots, zero for free ones."""
    return jnp.where((slots != NONE)[:, None], take(G, jnp.maximum(slots, 0)), 0)


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
        u, multipliers = _Held.of(mass, G, slots).solve(_at(slots, b), v)
        return u, spread(slots, multipliers, b.shape[0])

    return where_wanted(jnp.any(slots != NONE), busy, (v, jnp.zeros_like(b)))


@hold_rows.defjvp
def _hold_rows_jvp(primals, tangents):
    mass, G, b, v, slots = primals

    def busy():
        held = _Held.of(mass, G, slots)
        u, multipliers = held.solve(_at(slots, b), v)
        return (u, spread(slots, multipliers, b.shape[0])), _moved(held, slots, primals, tangents, u, multipliers)

    def idle():
        return (v, jnp.zeros_like(b)), (tangents[3], jnp.zeros_like(b))

    return lax.cond(any_lane(jnp.any(slots != NONE)), busy, idle)


@jax.custom_jvp
def settle(mass, G, b, v, working, step, multipliers):
    """u = v + step where the working set is held, and the multipliers, with the derivative of `hold_rows`.

    Args:
        mass: (d,) or (d, d).
        G: (c, d).
        b: (c,).
        v: (d,).
        working: (c,) bool, independent rows. It has no derivative.
        step: (d,) M^-1 G^T multipliers.
        multipliers: (c,) that solve G_i u + b_i = 0 there, zero elsewhere. What step and multipliers depend on is not
            followed.

    Returns:
        u: (d,), and the multipliers (c,).
    """
    return v + step, multipliers


@settle.defjvp
def _settle_jvp(primals, tangents):
    mass, G, b, _, working, *_ = primals
    u, multipliers = settle(*primals)

    if native.ready():
        return (u, multipliers), _moved_natively(primals, tangents, u, multipliers)

    def busy():
        slots = slots_of(working, min(G.shape))
        held = _Held.of(mass, G, slots)
        return _moved(held, slots, primals, tangents, u, _at(slots, multipliers))

    def idle():
        return tangents[3], jnp.zeros_like(b)

    return (u, multipliers), lax.cond(any_lane(jnp.any(working)), busy, idle)


def _moved(held, slots, primals, tangents, u, multipliers):
    """The tangents of u (d,) and of the multipliers (c,)."""
    G, b, v = primals[1:4]
    dmass, dG, db, dv = tangents[:4]
    dG_held = _rows_at(slots, along(G, dG))
    force = mass_matrix.apply(dmass, v - u) + dG_held.T @ multipliers
    y = dv + mass_matrix.unwhiten(held.root, mass_matrix.whiten(held.root, force))
    du, dmultipliers = held.solve(dG_held @ u + _at(slots, db), y, refinements=0)
    return du, spread(slots, dmultipliers, b.shape[0])


def _moved_natively(primals, tangents, u, multipliers):
    """The tangents of u (d,) and of the multipliers (c,), by the kernel.

    With u' = v' + x they solve  M x - G_W^T l' = M' (v - u) + G'^T l  and  G_W (v' + x) = -r_W.
    """
    from diffcontact.qp.native.primitive import solve_held

    mass, G, _, v, working = primals[:5]
    dmass, dG, db, dv = tangents[:4]
    moved, held = switched(along(G, dG), working), switched(G, working)
    force = mass_matrix.apply(dmass, v - u) + transposed_product(moved, multipliers)
    right = -jnp.where(working, product(moved, u) + db + product(held, dv), 0)
    x, y = solve_held(mass, G, working, force, right)
    return dv + x, -y


def independent(mass, G, active):
    """(k,) slots: a largest independent subset of the active rows."""
    if active.shape[0] == 1:
        return jnp.where(jnp.any(dense(G) != 0, axis=1) & active, 0, free_slots(1))
    rows = whitened_rows(mass_matrix.root(mass), dense(G))
    return independent_slots(rows * inverse_length(jnp.sum(rows * rows, axis=1))[:, None], active)


def solve_slots(mass, G, slots, f, s):
    """x (d,) and y (c,) with M x + G_W^T y = f, G_W x = s_W for the rows W in the slots, and y = s elsewhere."""
    held = _Held.of(mass, G, slots)
    freely = mass_matrix.unwhiten(held.root, mass_matrix.whiten(held.root, f))
    x, multipliers = held.solve(-_at(slots, s), freely)
    return x, jnp.where(members(slots, s.shape[0]), -spread(slots, multipliers, s.shape[0]), s)
