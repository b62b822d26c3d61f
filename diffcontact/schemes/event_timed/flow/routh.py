r"""Routh's law: a slip that keeps its direction, until it ends, and what follows, in closed form.

Over the normal impulse P of one contact with (v_N, v_T) = w + W (P, B)::

    slides along d      dB/dP = -mu d                    d v_N/dP = W_NN - mu W_NT d
    sticks              dB/dP = -W_TT^-1 W_TN            d v_N/dP = W_NN - W_NT W_TT^-1 W_TN > 0

A slip that has come to zero sticks where friction can hold it, |W_TT^-1 W_TN| <= mu. Else it goes on in the one
direction d in which it stays and grows: W_TN - mu W_TT d = g d, g > 0.

Source: E. J. Routh, Dynamics of a System of Rigid Bodies (1905); Y. Wang, M. T. Mason, J. Appl. Mech. 59 (1992); slip
that goes on in space: J. A. Batlle, J. Appl. Mech. 63 (1996).
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array, lax

from diffcontact.numerics.batching import select
from diffcontact.numerics.linear import nonzero
from diffcontact.qp.friction.law import length
from diffcontact.schemes.event_timed.flow.phase import Contact, Goal, Reached


def to_goal(contact: Contact, start: Array, at: Reached, goal: Goal) -> tuple[Reached, Array]:
    """From what a phase has come to along straight slips to its end; of what sticks in it, nothing depends on mu.

    Args:
        start: (1 + k,) the velocity at the beginning of the phase.
        at: what it has come to.

    Returns:
        The end of the phase, and whether there is one.
    """
    W, direction, slip = contact.W, unit(at.w[1:]), length(at.w[1:])
    along = contact.sliding(direction)
    rates = W @ along
    slowing = -direction @ rates[1:]
    ends = (slip > 0) & (slowing > 0)
    way = jnp.where(ends, slip / jnp.where(ends, slowing, 1.0), 0.0)
    step, reached = goal.on_line(at, rates[0])
    slides = (slip > 0) & reached & (~ends | (step <= way))
    first = moved(at, along, rates, step)

    stopped = moved(at, along, rates, way)
    held = compliant(W[1:, 1:], W[1:, 0])
    sticks = length(held) <= contact.friction
    onwards = contact.sliding(jnp.where(sticks, 0.0, lasting_direction(contact)))
    going = W @ onwards
    v = stopped.w[0]
    # What sticks is on one line whatever led there: B = -W_TT^-1 (v_T + W_TN P) from the beginning of the phase on.
    rising = jnp.where(sticks, W[0, 0] - W[0, 1:] @ held, going[0])
    taken = compliant(W[1:, 1:], start[1:])
    offset = jnp.where(sticks, start[0] - W[0, 1:] @ taken, v - rising * stopped.r[0])
    firm = rising > jnp.finfo(v.dtype).eps ** 0.75 * W[0, 0]
    rising = jnp.where(firm, rising, 1.0)
    before = Reached(stopped.r, jnp.stack([v, *jnp.zeros_like(start[1:])]), stopped.work)
    step, reached = goal.on_line(before, rising)
    total = jnp.stack([-offset / rising, goal.target, stopped.r[0] + step])[goal.kind]
    step = total - stopped.r[0]
    stuck = jnp.concatenate([total[None], -taken - held * total])
    second = Reached(
        r=jnp.where(sticks, stuck, stopped.r + step * onwards),
        w=jnp.concatenate([(offset + rising * total)[None], jnp.where(sticks, 0.0, step * going[1:])]),
        work=stopped.work + step * (v + rising * step / 2),
    )
    end = select(slides, first, second)
    return end, slides | ((ends | (slip == 0)) & firm & reached)


def moved(at: Reached, along: Array, rates: Array, step: Array) -> Reached:
    """What follows after a further normal impulse `step` at these rates (1 + k,) of impulse and velocity."""
    return Reached(at.r + step * along, at.w + step * rates, at.work + step * (at.w[0] + step * rates[0] / 2))


def unit(x: Array) -> Array:
    """(k,) of length one; zero where x is."""
    size = length(x)
    return x / nonzero(size)


def compliant(A: Array, x: Array) -> Array:
    """A^-1 x (k,) of a symmetric A (k, k), positive but for directions in which nothing moves."""
    A = A + jnp.finfo(A.dtype).tiny ** 0.5 * jnp.eye(x.size, dtype=A.dtype)
    if x.size == 1:
        return x / A[0]
    (a, b), (_, c) = A
    rounding = jnp.finfo(A.dtype).eps * (a + c)
    a, c = a + rounding, c + rounding
    return jnp.stack([c * x[0] - b * x[1], a * x[1] - b * x[0]]) / (a * c - b * b)


# Newton's iterations for the rate at which a slip grows: they converge from below, and quadratically.
ITERATIONS = 12


def lasting_direction(contact: Contact) -> Array:
    """(k,) the direction d of a slip that starts from rest and goes on: W_TN - mu W_TT d = g d with g > 0.

    The length of (mu W_TT + g)^-1 W_TN decreases with g, and is one where this is d.
    """
    c = contact.W[1:, 0]
    if c.size == 1:
        return jnp.sign(c)

    def improved(contact: Contact, g):
        """Newton's next g for 1/|d| = 1, and d here."""
        c = contact.W[1:, 0]
        hold = contact.friction * contact.W[1:, 1:] + g * jnp.eye(2, dtype=c.dtype)
        d = compliant(hold, c)
        slope = d @ compliant(hold, d)
        return g + d @ d * (length(d) - 1) / nonzero(slope), d

    still = lax.stop_gradient(contact)
    least = jnp.maximum(length(still.W[1:, 0]) - still.friction * jnp.trace(still.W[1:, 1:]), 0.0)
    g = lax.fori_loop(0, ITERATIONS, lambda _, g: jnp.maximum(improved(still, g)[0], g), least)
    return unit(improved(contact, improved(contact, g)[0])[1])
