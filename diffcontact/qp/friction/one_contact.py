"""Coulomb's law for one contact, exactly.

A reaction r = (P, B) of a contact that is pressed is, whether it sticks or slips, a solution of

    [W + diag(0, l, ..., l)] r = -q,    l = |w_T|/|B| >= 0,

with l = 0 for stick. In the eigenbasis of the Schur complement S = W_TT - W_TN W_NT/W_NN, with g = q_T - W_TN q_N/W_NN,
B_j = -g_j/(s_j + l), and what is left is one equation in l: |B| = mu P. It has a solution if sticking is not possible,
for |B| - mu P is positive at l = 0 and not for l to infinity. In x = 1/(mean s + l) it is linear for k = 1, and for
k = 2 where both s are equal.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from diffcontact.numerics.batching import in_lanes
from diffcontact.qp.friction.law import length


def solve_contact(W, q, friction, iterations):
    """The reaction r (1 + k,) of a contact with w = W r + q.

    Args:
        W: (1 + k, 1 + k) with W_TT diagonal once the normal is eliminated, as in `Contacts`.
        q: (1 + k,).
        friction: () mu.
        iterations: int, of safeguarded Newton where the equation is not linear.

    Example:
        >>> import jax, numpy as np
        >>> jax.jit(solve_contact, static_argnums=3)(np.eye(2), np.array([-2.0, 3.0]), 0.5, 1).tolist()
        [2.0, -1.0]
    """
    tiny = jnp.finfo(q.dtype).eps ** (2 / 3)
    normal = jnp.where(W[0, 0] > 0, W[0, 0], 1)
    coupling = W[1:, 0] / normal
    # A direction along which nothing moves takes what keeps the equation regular.
    s = jnp.maximum(jnp.diagonal(W)[1:] - coupling * W[1:, 0], tiny)
    mean = jnp.mean(s)
    g = q[1:] - coupling * q[0]

    def reaction(x):
        B = -g * x / (1 + (s - mean) * x)
        return (-q[0] - W[0, 1:] @ B) / normal, B

    def excess(x):
        """|B| - mu P, and its derivative."""
        P, B = reaction(x)
        slope = -g / (1 + (s - mean) * x) ** 2
        size = length(B)
        outwards = jnp.where(size > 0, B @ slope / jnp.where(size > 0, size, 1), length(g))
        return size - friction * P, outwards + friction * (W[0, 1:] @ slope) / normal

    def halved_or_newton(_, state):
        low, high, x, root, least = state
        value, slope = excess(x)
        # Of a root to rounding Newton's step may leave the bracket, and half of it be worse: the best is kept.
        better = jnp.abs(value) < least
        root, least = jnp.where(better, x, root), jnp.where(better, jnp.abs(value), least)
        low, high = jnp.where(value <= 0, x, low), jnp.where(value > 0, x, high)
        newton = x - value / jnp.where(slope == 0, 1, slope)
        inside = (newton >= low) & (newton <= high) & (slope != 0)
        return low, high, jnp.where(inside, newton, (low + high) / 2), root, least

    stick, held = 1 / mean, reaction(1 / mean)
    free, end = friction * q[0] / normal, length(held[1]) - friction * held[0]
    slips = end > 0
    secant = stick * free / (free - jnp.where(slips, end, 1))
    untried = jnp.full_like(stick, jnp.inf)
    start = jnp.zeros_like(stick), stick, secant, secant, untried
    # What the last of Newton's steps leads to is tried, too.
    root = lax.fori_loop(0, iterations + 1, halved_or_newton, in_lanes(start, (W, q, friction)))[3]
    P, B = reaction(root)
    P, size = jnp.maximum(P, 0), length(B)
    B = B * (friction * P / jnp.where(size > 0, size, 1))
    r = jnp.concatenate([jnp.where(slips, P, held[0])[None], jnp.where(slips, B, held[1])])
    return jnp.where(q[0] >= 0, 0, r)
