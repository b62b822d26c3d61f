"""Find reactions by exact local solves, contact by contact; each round is followed by Newton's step on all contacts."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from diffcontact.numerics import linear
from diffcontact.numerics.batching import in_lanes, once
from diffcontact.numerics.linear import length
from diffcontact.qp.friction.law import assemble, linearised, natural_map


def solve_contact(W, q, friction, iterations):
    """Solve Coulomb's law for one contact, w = W r + q.

    A reaction r = (P, B) of a contact that is pressed is, whether it sticks or slips, a solution of

        [W + diag(0, l, ..., l)] r = -q,    l = |w_T|/|B| >= 0,    l = 0 for stick.

    In the eigenbasis of the Schur complement S = W_TT - W_TN W_NT/W_NN, with g = q_T - W_TN q_N/W_NN, this says
    B_j = -g_j/(s_j + l). What is left is one equation in l, |B| = mu P. It has a solution if sticking is not possible:
    |B| - mu P is positive at l = 0 and not for l to infinity. In x = 1/(mean s + l) it is linear for k = 1, and for
    k = 2 where both s are equal.

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
    normal = linear.nonzero(W[0, 0])
    coupling = W[1:, 0] / normal
    # A direction along which nothing moves takes what keeps the equation regular.
    s = jnp.maximum(jnp.diagonal(W)[1:] - coupling * W[1:, 0], tiny)
    mean = jnp.mean(s)
    g = q[1:] - coupling * q[0]

    def reaction(x):
        B = -g * x / (1 + (s - mean) * x)
        return (-q[0] - W[0, 1:] @ B) / normal, B

    def excess(x):
        """Return |B| - mu P, and its derivative."""
        P, B = reaction(x)
        slope = -g / (1 + (s - mean) * x) ** 2
        size = length(B)
        outwards = jnp.where(size > 0, B @ slope / linear.nonzero(size), length(g))
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
    B = B * (friction * P / linear.nonzero(size))
    r = jnp.concatenate([jnp.where(slips, P, held[0])[None], jnp.where(slips, B, held[1])])
    return jnp.where(q[0] >= 0, 0, r)


# What other methods lead to, a residual or the width of a path, as a power of the rounding: from there on passes do
# the rest.
NEAR = 0.6

# Contacts turn over their modes in a few passes, or cycle.
PASSES = 25

# Of Newton's step the fraction is taken that leaves least; with none of them the pass was its local solves.
FRACTIONS = (1.0, 0.5, 0.2, 0.05)


def wanted(dtype):
    """Return the residual at which passes end: rounding."""
    return 50 * jnp.finfo(dtype).eps


def accepted(dtype):
    """Return the residual of an acceptable solution: two thirds of the digits."""
    return jnp.finfo(dtype).eps ** (2 / 3)


def residual(contacts, r):
    """Return the natural map (c, 1 + k) as velocities, and its largest, relative entry."""
    stride = 1 / jnp.maximum(jnp.trace(contacts.blocks(), axis1=1, axis2=2), 1)
    left = natural_map(r, contacts.velocities(r), contacts.friction, stride) / stride[:, None]
    noise = contacts.noise + 16 * jnp.finfo(r.dtype).eps * jnp.max(jnp.abs(r))
    largest = jnp.maximum(jnp.max(jnp.abs(left)) - noise, 0)
    return left, jnp.where(largest == 0, 0, largest / linear.nonzero(contacts.unit))


def compliance(r):
    """Return what is added to W (c, 1 + k, c, 1 + k) so that a step is unique where rows depend on each other.

    It is little, and what it leaves the next step takes.
    """
    return accepted(r.dtype) * jnp.eye(r.size, dtype=r.dtype).reshape(*r.shape, *r.shape)


def improve(contacts, r, running):
    """Pass over reactions r (c, 1 + k) until rounding is left, if `running`; r and residual."""
    enough = wanted(r.dtype)

    def one_more(state):
        r, left, number = state
        stepped = _newton(contacts, r)
        better = residual(contacts, stepped)[1] < 0.5 * left
        r = jnp.where(better, stepped, sweep(contacts, stepped, 4))
        return r, residual(contacts, r)[1], number + 1

    def unfinished(state):
        return running & (state[1] > enough) & (state[2] < PASSES)

    start = r, residual(contacts, r)[1], jnp.zeros((), jnp.int32)
    r, left, _ = lax.while_loop(unfinished, once(one_more), in_lanes(start, start[1]))
    return r, left


def sweep(contacts, r, iterations):
    """Solve each contact exactly in turn, with the others' present reactions (Gauss-Seidel).

    Reference:
        M. Jean, The non-smooth contact dynamics method, Comput. Methods Appl. Mech. Eng. 177 (1999).
    """
    blocks = contacts.blocks()

    def one(i, state):
        r, step = state
        alone = contacts.rows[i] @ step + contacts.compliance[i] * r[i] + contacts.q[i] - blocks[i] @ r[i]
        new = solve_contact(blocks[i], alone, contacts.friction[i], iterations)
        return r.at[i].set(new), step + (new - r[i]) @ contacts.pushes[i]

    return lax.fori_loop(0, r.shape[0], one, in_lanes((r, contacts.step(r)), contacts.q))[0]


def _newton(contacts, r):
    """Return the best of some fractions of Newton's step, or r if none is better."""
    w = contacts.velocities(r)
    eps = jnp.finfo(r.dtype).eps
    width = eps * (contacts.unit + eps)
    F, by_reaction, by_velocity = linearised(contacts, r, w, contacts.strides(), width)
    matrix = assemble(by_reaction, by_velocity, contacts.W + compliance(r))
    dr = linear.solve(matrix, -jnp.ravel(F)).reshape(r.shape)
    dr = jnp.where(jnp.all(jnp.isfinite(dr)), dr, 0)

    def left(fraction):
        return jnp.sum(residual(contacts, r + fraction * dr)[0] ** 2)

    # As far as the first contact that it would open, too: on stiff springs that may be a hundredth of the way.
    opens = jnp.where(dr[:, 0] < 0, -r[:, 0] / jnp.where(dr[:, 0] < 0, dr[:, 0], 1), 1)
    fractions = jnp.append(jnp.asarray((0.0, *FRACTIONS), r.dtype), jnp.clip(jnp.min(opens), 0, 1))
    return r + fractions[jnp.argmin(jax.vmap(left)(fractions))] * dr
