"""Verify Coulomb's law by its natural map, smooth it for Newton's method, and name the modes."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from diffcontact.numerics import linear


def length(x):
    """Return |x| along the last axis, differentiable at zero."""
    square = jnp.sum(x * x, axis=-1)
    zero = square == 0
    return jnp.where(zero, 0, jnp.sqrt(jnp.where(zero, 1, square)))


def onto_cone(r, friction):
    """Project r = (P, B) (c, 1 + k) onto the cones |B| <= mu P."""
    P, size = r[:, 0], length(r[:, 1:])
    on_boundary = (P + friction * size) / (1 + friction**2)
    direction = r[:, 1:] / linear.nonzero(size)[:, None]
    boundary = jnp.concatenate([on_boundary[:, None], (friction * on_boundary)[:, None] * direction], axis=1)
    outside = jnp.where((size <= friction * P)[:, None], r, boundary)
    # Without friction the cone is a half-line, and what is not in front of its end is behind it.
    return jnp.where((friction * size <= -P)[:, None], 0, outside)


def natural_map(r, w, friction, stride):
    """Return r - Proj_K(r - rho (w_N + mu |w_T|, w_T)) (c, 1 + k), zero iff r, w obey.

    K is the cone |B| <= mu P. With De Saxce's change of variable the law is one complementarity between K and its dual.
    `stride` (c,) is rho > 0.

    Reference:
        V. Acary, F. Cadoux, C. Lemarechal, J. Malick, A formulation of the linear discrete Coulomb friction problem via
        convex optimization, ZAMM 91 (2011), section 2.
    """
    raised = w[:, 0] + friction * length(w[:, 1:])
    dual = jnp.concatenate([raised[:, None], w[:, 1:]], axis=1)
    return r - onto_cone(r - stride[:, None] * dual, friction)


def smoothed(r, w, friction, stride, width):
    """Round one contact's law off: r - (its bounds on r - rho w), all (1 + k,).

        P = [P - rho_N w_N]_+        B = z R / max(R, |z|),    z = B - rho_T w_T,    R = mu [P - rho_N w_N]_+

    with [x]_+ = (x + sqrt(x^2 + 4 width^2))/2 and max alike, width > 0. Without the rounding this is the function of
    Alart and Curnier, whose Jacobian is that of the modes open, stick and slip. `stride` (1 + k,) is rho.

    Reference:
        P. Alart, A. Curnier, A mixed formulation for frictional contact problems prone to Newton like solution methods,
        Comput. Methods Appl. Mech. Eng. 92 (1991); C. Chen, O. L. Mangasarian, Comput. Optim. Appl. 5 (1996).
    """

    def larger(a, b):
        return (a + b + jnp.sqrt((a - b) ** 2 + 4 * width * width)) / 2

    moved = r - stride * w
    normal, z = larger(moved[0], 0), moved[1:]
    bound = friction * normal
    size = jnp.sqrt(jnp.sum(z * z) + width * width)
    return r - jnp.concatenate([normal[None], z * (bound / larger(bound, size))])


def linearised(contacts, r, w, stride, width):
    """Return `smoothed` F (c, 1 + k), and dF/dr and dF/dw (c, 1 + k, 1 + k)."""

    def value(r, w, friction, stride):
        F = smoothed(r, w, friction, stride, width)
        return F, F

    by_both = jax.vmap(jax.jacfwd(value, argnums=(0, 1), has_aux=True))
    (by_reaction, by_velocity), F = by_both(r, w, contacts.friction, stride)
    return F, by_reaction, by_velocity


def assemble(by_reaction, by_velocity, W):
    """Return the matrix (n, n) of dr -> by_reaction dr + by_velocity W dr, n = c (1 + k)."""
    count, size = by_reaction.shape[:2]
    each = jnp.arange(count)
    matrix = jnp.einsum("cij,cjef->cief", by_velocity, W).at[each, :, each, :].add(by_reaction)
    return matrix.reshape(count * size, count * size)


def solvable(matrix, right):
    """Tell whether matrix x = right (n,) has a solution that is not all cancellation."""
    x = linear.solve(matrix, right)
    largest = jnp.finfo(right.dtype).eps ** -0.75 * jnp.max(jnp.abs(right))
    return jnp.all(jnp.isfinite(x)) & (jnp.max(jnp.abs(x)) <= largest)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Modes:
    """Hold contact modes (c,): open if not closed, stick if closed without slip."""

    closed: jax.Array
    slip: jax.Array

    @classmethod
    def of(cls, r, w, friction, stride, error=0.0) -> Modes:
        """Read the modes of reactions r and velocities w (c, 1 + k), up to rounding.

        At a tie, a closed contact without a load or a stuck one at its bound, rounding decides between open and closed,
        and stick is preferred to slip. Without friction contacts slip. `error` is what the velocities are wrong by.
        """
        closed = r[:, 0] > stride[:, 0] * w[:, 0]
        # Slip at less than a thousand roundings of what is compared is none, nor is slip at less than its own error.
        # How fast open contacts go apart, of which a wall far away does by gap / h, is no part of it.
        compared = jnp.max(jnp.abs(r)) + jnp.max(jnp.where(closed[:, None], jnp.abs(w), 0))
        margin = 1e3 * jnp.finfo(r.dtype).eps * compared + 8 * error
        excess = length(r[:, 1:] - stride[:, 1:] * w[:, 1:]) - friction * r[:, 0]
        return cls(closed=closed, slip=closed & ((excess > margin) | (friction == 0)))

    def held(self, size):
        """Return (c, size) bool, rows that hold their velocity: all in stick, normal in slip."""
        return self.closed[:, None] & ((jnp.arange(size) == 0)[None] | ~self.slip[:, None])

    def apply(self, r, w, friction, stride):
        """Return the reactions (c, 1 + k) nearest to r that are in the modes."""
        normal = jnp.where(self.closed, jnp.maximum(r[:, 0], 0), 0)
        bound = friction * normal
        slipping = bound[:, None] * slip_direction(r, w, stride)
        size = length(r[:, 1:])
        sticking = r[:, 1:] * jnp.where(size > bound, bound / linear.nonzero(size), 1)[:, None]
        return jnp.concatenate([normal[:, None], jnp.where(self.slip[:, None], slipping, sticking)], axis=1)


def slip_direction(r, w, stride):
    """Return the direction of friction (c, k), against the slip, of length one or zero."""
    z = r[:, 1:] - stride[:, 1:] * w[:, 1:]
    size = length(z)
    return z / linear.nonzero(size)[:, None]
