"""Differentiate a friction problem's solution: one linear solve at the frozen modes.

Where modes do not change, the law is F(r, w, mu) = 0 with w = H u + h and M (u - v) = H^T r, that is

    open     r = 0
    stick    w = 0
    slip     w_N = 0,    B = mu P e,    e = z/|z|,    z = B - rho w_T

and all of it is linear in the tangents. Of rows that are held at w = 0 and depend on each other a largest independent
subset is held, and the reactions go on being shared evenly (`Sharing`).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from diffcontact.numerics import linear
from diffcontact.numerics.batching import custom_jvp_all_orders, where_wanted
from diffcontact.qp.friction.law import Modes, assemble, length, whitened
from diffcontact.qp.rows import independent_slots, inverse_length, members


class Sharing(NamedTuple):
    """Say which of n = c (1 + k) rows hold their velocity, and how dependent rows share.

    A box that lies flat on four corners has one load too many. On equal springs with N u = -(load / stiffness) the
    loads are what they are at corners of a rigid body: where a combination of rows is zero, y^T N = 0, so is that of
    the loads, y^T P = 0. Where friction presses nothing that is the split of least norm. Where it does, as of a box
    that slides and pivots, the motion depends on the split, and rigid bodies do not tell it.

    Attributes:
        taken: (n,) bool, a largest independent subset of the held rows.
        dependent: (n,) bool, held rows that depend on it.
        even: (n, n) rows E, zero off dependent j: (E r)_j = 0 where reactions r are shared as by the springs.
    """

    taken: Array
    dependent: Array
    even: Array

    @classmethod
    def of(cls, rows, springs, modes: Modes) -> Sharing:
        """Choose the shares of whitened rows (c, 1 + k, d) at the modes, on springs of that compliance (c, 1 + k)."""
        count, size = rows.shape[:2]
        present = (modes.held(size) & jnp.any(rows != 0, axis=2)).reshape(-1)
        flat = jnp.where(present[:, None], rows.reshape(count * size, -1), 0)
        unit = lax.stop_gradient(flat * inverse_length(jnp.sum(flat * flat, axis=1))[:, None])
        taken = members(independent_slots(unit, present), present.size)
        dependent = present & ~taken

        def combined():
            own = jnp.where(taken[:, None], flat, 0)
            gram = own @ own.T + jnp.diag((~taken).astype(flat.dtype))
            # flat = X^T own, row by row: what is left of a row by these is zero.
            left = jnp.eye(present.size, dtype=flat.dtype) - linear.solve_positive(gram, own @ flat.T).T
            return jnp.where(dependent[:, None], left * springs.reshape(-1)[None, :], 0)

        nothing = jnp.zeros((present.size, present.size), flat.dtype)
        return cls(taken, dependent, where_wanted(jnp.any(dependent), combined, nothing))


@custom_jvp_all_orders
def settle(mass, H, h, friction, v, step, r, modes):
    """Return u = v + step, and the reactions r, with the derivative at the modes.

    Args:
        H: (c, 1 + k, d) rows, zero where switched off.
        h, r: (c, 1 + k) offsets; reactions, whose own derivative is not followed.
        friction: (c,) mu.
        v, step: (d,) velocity before, and M^-1 H^T r.
    """
    return v + step, r


@settle.defjvp
def _settle_jvp(primals, tangents):
    mass, H, h, friction, v, _, r, modes = primals
    dmass, dH, dh, dfriction, dv = tangents[:5]
    u, r = settle(*primals)
    root, rows, scale = whitened(mass, H)

    force = linear.apply_mass(dmass, v - u) + jnp.einsum("cid,ci->d", dH, r)
    freely = dv + linear.unwhiten(root, linear.whiten(root, force))

    def even(mass, H):
        _, rows, scale = whitened(mass, H)
        sharing = Sharing.of(rows, jnp.broadcast_to(scale[:, None], r.shape), modes)
        return sharing.even, sharing

    (_, sharing), (shifted, _) = jax.jvp(even, (mass, H), (dmass, dH))
    matrix, by_reaction, by_velocity, by_friction = _equations(H, h, friction, u, r, modes, rows, scale, sharing)
    factored = linear.LU.of(matrix)

    # The second pass regains the digits that reactions cost which cancel: those of contacts that face each other.
    dr, du = jnp.zeros_like(r), freely
    for _ in range(2):
        dw = scale[:, None] * (jnp.einsum("cid,d->ci", dH, u) + dh + jnp.einsum("cid,d->ci", H, du))
        missed = jnp.einsum("cij,cj->ci", by_reaction, dr) + jnp.einsum("cij,cj->ci", by_velocity, dw)
        missed = (missed + by_friction * dfriction[:, None]).reshape(-1)
        uneven = sharing.even @ (scale[:, None] * dr).reshape(-1) + shifted @ r.reshape(-1)
        change = factored.solve(jnp.where(sharing.dependent, uneven, missed)).reshape(r.shape)
        dr, du = dr - change, du - linear.unwhiten(root, jnp.einsum("cid,ci->d", rows, change))
    return (u, r), (du, scale[:, None] * dr)


def _equations(H, h, friction, u, r, modes, rows, scale, sharing: Sharing):
    """Return the matrix for dr, dF/dw and dF/dmu, at the velocity u (d,)."""
    reactions, velocities = r / scale[:, None], scale[:, None] * (jnp.einsum("cid,d->ci", H, u) + h)
    taken = sharing.taken.reshape(r.shape)
    by_reaction, by_velocity, by_friction = frozen(rows, reactions, velocities, friction, modes, taken)
    matrix = assemble(by_reaction, by_velocity, jnp.einsum("cid,ejd->ciej", rows, rows))
    matrix = jnp.where(sharing.dependent[:, None], sharing.even * scale.repeat(r.shape[1])[None, :], matrix)
    return matrix, by_reaction, by_velocity, by_friction


def frozen(rows, r, w, friction, modes: Modes, taken):
    """Return dF/dr, dF/dw (c, 1 + k, 1 + k), dF/dmu (c, 1 + k); rows `taken` have w = 0."""
    size = r.shape[1]
    identity = jnp.eye(size - 1, dtype=r.dtype)[None]
    # rho makes velocities and reactions comparable; the derivative does not depend on it.
    diagonal = jnp.sum(rows[:, 1:] * rows[:, 1:], axis=(1, 2)) / (size - 1)
    rho = 1 / jnp.where(diagonal > 1e-6, diagonal, 1)
    z = r[:, 1:] - rho[:, None] * w[:, 1:]
    length_of_z = length(z)
    e = z / linear.nonzero(length_of_z)[:, None]
    bent = jnp.where(length_of_z > 0, friction * r[:, 0] / linear.nonzero(length_of_z), 0)
    across = bent[:, None, None] * (identity - e[:, :, None] * e[:, None, :])
    slip = modes.slip[:, None, None]
    tangential_by_reaction = jnp.where(slip, identity - across, jnp.where(taken[:, 1:, None], 0, identity))
    tangential_by_velocity = jnp.where(slip, rho[:, None, None] * across, jnp.where(taken[:, 1:, None], identity, 0))

    slipping = modes.slip[:, None]
    by_normal = jnp.where(slipping, -friction[:, None] * e, 0)
    by_reaction = _with_normal(~taken[:, 0], by_normal, tangential_by_reaction)
    by_velocity = _with_normal(taken[:, 0], jnp.zeros_like(by_normal), tangential_by_velocity)
    by_friction = jnp.where(slipping, -r[:, :1] * e, 0)
    return by_reaction, by_velocity, jnp.concatenate([jnp.zeros_like(r[:, :1]), by_friction], axis=1)


def _with_normal(normal, by_normal, tangential):
    """Assemble (c, 1 + k, 1 + k) [normal, 0; by_normal, tangential]."""
    top = jnp.concatenate([normal[:, None].astype(by_normal.dtype), jnp.zeros_like(by_normal)], axis=1)
    return jnp.concatenate([top[:, None], jnp.concatenate([by_normal[:, :, None], tangential], axis=2)], axis=1)
