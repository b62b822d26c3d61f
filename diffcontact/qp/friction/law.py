"""Coulomb's law as equations: the natural map that verifies a solution, and a smoothed form for Newton's method."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from diffcontact.numerics import linear


def length(x):
    """|x| along the last axis, differentiable at zero."""
    square = jnp.sum(x * x, axis=-1)
    zero = square == 0
    return jnp.where(zero, 0, jnp.sqrt(jnp.where(zero, 1, square)))


def onto_cone(r, friction):
    """The point of the cone |B| <= mu P that is nearest to r = (P, B).

    Args:
        r: (c, 1 + k).
        friction: (c,) mu.

    Example:
        >>> jax.jit(onto_cone)(jnp.array([[1.0, 3.0]]), jnp.array([1.0])).tolist()
        [[2.0, 2.0]]
    """
    P, size = r[:, 0], length(r[:, 1:])
    on_boundary = (P + friction * size) / (1 + friction**2)
    direction = r[:, 1:] / jnp.where(size > 0, size, 1)[:, None]
    boundary = jnp.concatenate([on_boundary[:, None], (friction * on_boundary)[:, None] * direction], axis=1)
    outside = jnp.where((size <= friction * P)[:, None], r, boundary)
    # Without friction the cone is a half-line, and what is not in front of its end is behind it.
    return jnp.where((friction * size <= -P)[:, None], 0, outside)


def natural_map(r, w, friction, stride):
    """r - Proj_K(r - rho (w_N + mu |w_T|, w_T)), zero if and only if r and w obey Coulomb's law.

    K is the cone |B| <= mu P. With De Saxce's change of variable the law is one complementarity between K and its dual.

    Args:
        r, w: (c, 1 + k) reactions and velocities.
        friction: (c,) mu.
        stride: (c,) rho > 0.

    Returns:
        (c, 1 + k).

    Reference:
        V. Acary, F. Cadoux, C. Lemarechal, J. Malick, A formulation of the linear discrete Coulomb friction problem via
        convex optimization, ZAMM 91 (2011), section 2.
    """
    raised = w[:, 0] + friction * length(w[:, 1:])
    dual = jnp.concatenate([raised[:, None], w[:, 1:]], axis=1)
    return r - onto_cone(r - stride[:, None] * dual, friction)


def smoothed(r, w, friction, stride, width):
    """One contact's law, rounded off: r - (the bounds that it puts on r - rho w).

        P = [P - rho_N w_N]_+        B = z R / max(R, |z|),    z = B - rho_T w_T,    R = mu [P - rho_N w_N]_+

    with [x]_+ = (x + sqrt(x^2 + 4 width^2))/2 and max alike. Without the rounding this is the function of Alart and
    Curnier, whose Jacobian is that of the modes open, stick and slip.

    Args:
        r, w: (1 + k,).
        friction: () mu.
        stride: (1 + k,) rho.
        width: () > 0.

    Returns:
        (1 + k,).

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
    """`smoothed` of all contacts, with its derivatives.

    Returns:
        F (c, 1 + k); dF/dr and dF/dw (c, 1 + k, 1 + k), contact by contact.
    """

    def value(r, w, friction, stride):
        F = smoothed(r, w, friction, stride, width)
        return F, F

    by_both = jax.vmap(jax.jacfwd(value, argnums=(0, 1), has_aux=True))
    (by_reaction, by_velocity), F = by_both(r, w, contacts.friction, stride)
    return F, by_reaction, by_velocity


def assemble(by_reaction, by_velocity, W):
    """(n, n) the matrix of dr -> by_reaction dr + by_velocity W dr, n = c (1 + k).

    Args:
        by_reaction, by_velocity: (c, 1 + k, 1 + k).
        W: (c, 1 + k, c, 1 + k).
    """
    count, size = by_reaction.shape[:2]
    each = jnp.arange(count)
    matrix = jnp.einsum("cij,cjef->cief", by_velocity, W).at[each, :, each, :].add(by_reaction)
    return matrix.reshape(count * size, count * size)


def solvable(matrix, right):
    """() bool, whether matrix x = right (n,) has a solution, one that is not all cancellation."""
    x = linear.solve(matrix, right)
    largest = jnp.finfo(right.dtype).eps ** -0.75 * jnp.max(jnp.abs(right))
    return jnp.all(jnp.isfinite(x)) & (jnp.max(jnp.abs(x)) <= largest)
