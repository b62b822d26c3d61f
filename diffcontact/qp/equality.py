"""The projection onto rows that are held as equalities, and its derivative: one Cholesky factor on the working set.

With the rows of the working set W independent, A_WW = G_W M^-1 G_W^T is regular and

    l_W = -A_WW^-1 (G_W v + b_W),    u = v + M^-1 G_W^T l_W.

Its derivative is a projection of the same form, linear in the tangents:

    y  = v' + M^-1 (M' (v - u) + G'^T l),    r = G' u + b'
    l' = -A_WW^-1 (G_W y + r_W),             u' = y + M^-1 G_W^T l'.
"""

from __future__ import annotations

import jax.numpy as jnp

from diffcontact.numerics import mass as mass_matrix
from diffcontact.numerics.batching import where_wanted
from diffcontact.numerics.custom_jvp import custom_jvp_all_orders
from diffcontact.qp import native
from diffcontact.qp.held_rows import HeldRows, at_slots, rows_at
from diffcontact.qp.rows.body_rows import along, product, switched, transposed_product
from diffcontact.qp.rows.slots import NONE, slots_of, spread


@custom_jvp_all_orders
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
        u, multipliers = HeldRows.of(mass, G, slots).solve(at_slots(slots, b), v)
        return u, spread(slots, multipliers, b.shape[0])

    return where_wanted(jnp.any(slots != NONE), busy, (v, jnp.zeros_like(b)))


@hold_rows.defjvp
def _hold_rows_jvp(primals, tangents):
    mass, G, b, v, slots = primals

    def busy():
        held = HeldRows.of(mass, G, slots)
        u, multipliers = held.solve(at_slots(slots, b), v)
        return (u, spread(slots, multipliers, b.shape[0])), _moved(held, slots, primals, tangents, u, multipliers)

    nothing = jnp.zeros_like(b)
    return where_wanted(jnp.any(slots != NONE), busy, ((v, nothing), (tangents[3], nothing)))


@custom_jvp_all_orders
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
        held = HeldRows.of(mass, G, slots)
        return _moved(held, slots, primals, tangents, u, at_slots(slots, multipliers))

    return (u, multipliers), where_wanted(jnp.any(working), busy, (tangents[3], jnp.zeros_like(b)))


def _moved(held, slots, primals, tangents, u, multipliers):
    """The tangents of u (d,) and of the multipliers (c,)."""
    mass, G, b, v = primals[:4]
    dmass, dG, db, dv = tangents[:4]
    dG_held = rows_at(slots, along(G, dG))
    force = mass_matrix.apply(dmass, v - u) + dG_held.T @ multipliers
    right = dG_held @ u + at_slots(slots, db) + held.G @ dv
    x, y = held.solve_linear(mass, force, -right)
    return dv + x, spread(slots, -y, b.shape[0])


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
