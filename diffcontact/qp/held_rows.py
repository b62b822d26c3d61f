"""The rows of a working set, factored once and solved for: A_WW = G_W M^-1 G_W^T = L L^T."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import lax

from diffcontact.numerics import linear
from diffcontact.numerics import mass as mass_matrix
from diffcontact.qp.rows.body_rows import dense, take
from diffcontact.qp.rows.metric import independent_slots, inverse_length, whitened_rows
from diffcontact.qp.rows.slots import NONE, free_slots, members, spread


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class HeldRows:
    """The rows in the slots (k,), ready to be solved for.

    Args:
        root: (d,) or (d, d), L with M = L L^T.
        G: (k, d), zero for free slots.
        scale: (k,) S, which makes the diagonal of S A_WW S one.
        lower: (k, k) Cholesky factor of S A_WW S. Free slots have a unit there, so that their multipliers are zero.
        free: (k,) bool, slots without a row.
    """

    root: jax.Array
    G: jax.Array
    scale: jax.Array
    lower: jax.Array
    free: jax.Array

    @classmethod
    def of(cls, mass, G, slots):
        root = mass_matrix.root(mass)
        rows = rows_at(slots, G)
        whitened = mass_matrix.whiten(root, rows.T)
        scale = inverse_length(jnp.sum(whitened * whitened, axis=0))
        unit = whitened * scale[None, :]
        free = slots == NONE
        lower = linear.cholesky(unit.T @ unit + jnp.diag(free.astype(G.dtype)))
        return cls(root=root, G=rows, scale=scale, lower=lower, free=free)

    def solve(self, b, v):
        """u (d,) and l_W (k,) of the rows held at G_W u + b = 0.

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
        """M^-1 force."""
        return mass_matrix.unwhiten(self.root, mass_matrix.whiten(self.root, force))

    def solve_linear(self, mass, f, s):
        """x (d,) and y (k,) with M x + G_W^T y = f and G_W x = s, free slots with y = s.

        Linear in f and s, and its own transpose: reverse mode solves with the same factor, and keeps that factor alone.
        """
        dimension, fixed = f.shape[0], lax.stop_gradient(self)

        def equations(unknown):
            x, y = unknown[:dimension], unknown[dimension:]
            return jnp.concatenate([mass_matrix.apply(mass, x) + self.G.T @ y, self.G @ x + jnp.where(self.free, y, 0)])

        def solve(_, right):
            f, s = right[:dimension], right[dimension:]
            x, multipliers = fixed.solve(-s, fixed.moved(f))
            return jnp.concatenate([x, jnp.where(self.free, s, -multipliers)])

        # As one vector: of a pair JAX transposes either all or nothing.
        found = lax.custom_linear_solve(equations, jnp.concatenate([f, s]), solve, symmetric=True)
        return found[:dimension], found[dimension:]


def at_slots(slots, x):
    """The entries of x (c,) at the slots, zero at free ones."""
    return jnp.where(slots != NONE, x[jnp.maximum(slots, 0)], 0)


def rows_at(slots, G):
    """(k, d) the rows in the slots, zero for free ones."""
    return jnp.where((slots != NONE)[:, None], take(G, jnp.maximum(slots, 0)), 0)


def independent(mass, G, active):
    """(k,) slots: a largest independent subset of the active rows."""
    if min(G.shape) == 1:
        usable = jnp.any(dense(G) != 0, axis=1) & active
        none = free_slots(1)
        return jnp.where(jnp.any(usable), jnp.argmax(usable).astype(none.dtype), none)
    rows = whitened_rows(mass_matrix.root(mass), dense(G))
    return independent_slots(rows * inverse_length(jnp.sum(rows * rows, axis=1))[:, None], active)


def solve_slots(mass, G, slots, f, s):
    """x (d,) and y (c,) with M x + G_W^T y = f, G_W x = s_W for the rows W in the slots, and y = s elsewhere."""
    held = HeldRows.of(mass, G, slots)
    x, multipliers = held.solve(-at_slots(slots, s), held.moved(f))
    return x, jnp.where(members(slots, s.shape[0]), -spread(slots, multipliers, s.shape[0]), s)
