"""Project onto rows held as equalities, with the derivative: one Cholesky factor on the working set.

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

from diffcontact.numerics import linear
from diffcontact.numerics.batching import custom_jvp_all_orders, where_wanted
from diffcontact.qp import kernel
from diffcontact.qp.rows import (
    NONE,
    along,
    dense,
    independent_slots,
    inverse_length,
    product,
    slots_of,
    spread,
    switched,
    take,
    transposed_product,
    whitened,
)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class HeldRows:
    """Hold the rows in the slots (k,), factored.

    Args:
        root: (d,) or (d, d), L with M = L L^T.
        G: (k, d), zero for free slots.
        scale: (k,) S, which makes the diagonal of S A_WW S one.
        lower: (k, k) Cholesky factor of S A_WW S, a unit for free slots: their multipliers are zero.
        free: (k,) bool, slots without a row.
    """

    root: jax.Array
    G: jax.Array
    scale: jax.Array
    lower: jax.Array
    free: jax.Array

    @classmethod
    def of(cls, mass, G, slots):
        root = linear.root_of_mass(mass)
        rows = rows_at(slots, G)
        whitened = linear.whiten(root, rows.T)
        scale = inverse_length(jnp.sum(whitened * whitened, axis=0))
        unit = whitened * scale[None, :]
        free = slots == NONE
        lower = linear.cholesky(unit.T @ unit + jnp.diag(free.astype(G.dtype)))
        return cls(root=root, G=rows, scale=scale, lower=lower, free=free)

    def solve(self, b, v):
        """Return u (d,) and l_W (k,) of the rows held at G_W u + b = 0.

        A step of iterative refinement regains the digits that the condition of A_WW costs; tangents, which the
        multipliers of a wedge enter, lose more of them than values. u is corrected, not computed anew: large
        multipliers cancel in it.
        """
        multipliers, u = jnp.zeros_like(b), v
        for _ in range(2):
            correction = self.scale * linear.solve_cholesky(self.lower, self.scale * (self.G @ u + b))
            multipliers, u = multipliers - correction, u - self.moved(self.G.T @ correction)
        return u, multipliers

    def moved(self, force):
        return linear.unwhiten(self.root, linear.whiten(self.root, force))

    def solve_linear(self, mass, f, s):
        """Solve M x + G_W^T y = f (d,), G_W x = s (k,), free slots with y = s.

        Linear in f and s, and its own transpose: reverse mode solves with the same factor, and keeps that factor alone.
        """
        dimension, fixed = f.shape[0], lax.stop_gradient(self)

        def equations(unknown):
            x, y = unknown[:dimension], unknown[dimension:]
            return jnp.concatenate([linear.apply_mass(mass, x) + self.G.T @ y, self.G @ x + jnp.where(self.free, y, 0)])

        def solve(_, right):
            f, s = right[:dimension], right[dimension:]
            x, multipliers = fixed.solve(-s, fixed.moved(f))
            return jnp.concatenate([x, jnp.where(self.free, s, -multipliers)])

        # As one vector: of a pair JAX transposes either all or nothing.
        found = lax.custom_linear_solve(equations, jnp.concatenate([f, s]), solve, symmetric=True)
        return found[:dimension], found[dimension:]


def at_slots(slots, x):
    """Return the entries of x (c,) at the slots, zero at free ones."""
    return jnp.where(slots != NONE, x[jnp.maximum(slots, 0)], 0)


def rows_at(slots, G):
    """Return the rows (k, d) in the slots, zero for free ones."""
    return jnp.where((slots != NONE)[:, None], take(G, jnp.maximum(slots, 0)), 0)


def independent(mass, G, active):
    """Return slots (k,) of a largest independent subset of the active rows."""
    if min(G.shape) == 1:
        usable = jnp.any(dense(G) != 0, axis=1) & active
        return jnp.where(jnp.any(usable), jnp.argmax(usable), NONE).astype(jnp.int32)[None]
    rows = whitened(linear.root_of_mass(mass), dense(G))
    return independent_slots(rows * inverse_length(jnp.sum(rows * rows, axis=1))[:, None], active)


@custom_jvp_all_orders
def settle(mass, G, b, v, working, u, multipliers):
    """Return u and multipliers with the derivative that holds the working set (c,).

    Neither the working set nor the given u (d,) and multipliers (c,) pass on a derivative of their own.
    """
    return u, multipliers


@settle.defjvp
def _settle_jvp(primals, tangents):
    mass, G, b, v, working, *_ = primals
    dmass, dG, db, dv = tangents[:4]
    u, multipliers = settle(*primals)
    if kernel.solves(mass):
        from diffcontact.qp.kernel.primitive import solve_held

        shifted = switched(along(G, dG), working)
        force = dmass * (v - u) + transposed_product(shifted, multipliers)
        right = product(shifted, u) + db + product(switched(G, working), dv)
        x, y = solve_held(mass, G, working, force, -jnp.where(working, right, 0))
        return (u, multipliers), (dv + x, -y)

    def moved():
        slots = slots_of(working, min(G.shape))
        held = HeldRows.of(mass, G, slots)
        dG_held = rows_at(slots, along(G, dG))
        force = linear.apply_mass(dmass, v - u) + dG_held.T @ at_slots(slots, multipliers)
        right = dG_held @ u + at_slots(slots, db) + held.G @ dv
        x, y = held.solve_linear(mass, force, -right)
        return dv + x, spread(slots, -y, b.shape[0])

    return (u, multipliers), where_wanted(jnp.any(working), moved, (dv, jnp.zeros_like(b)))
