r"""Keller's law: in space a slip turns on its way, and the flow over the normal impulse is an ordinary equation.

With d = v_T/|v_T| and (v_N, v_T) = w + W (P, B)::

    dB/dP = -mu d,      d v_T/dP = W_TN - mu W_TT d

It is singular where the slip ends: the direction turns ever faster, towards one that it then keeps. So steps are a
share of the slip that is left, and go on until that is rounding, or until whatever direction the slip has come from is
forgotten; `routh` has the rest in closed form. Slips that go straight are integrated without error.

Source: J. B. Keller, J. Appl. Mech. 53 (1986); the rule, of order eight: J. R. Dormand, P. J. Prince (DOP853 of
E. Hairer, S. P. Norsett, G. Wanner, Solving Ordinary Differential Equations I).
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from diffcontact.numerics.batching import entangled, select, where_wanted
from diffcontact.numerics.linear import nonzero
from diffcontact.qp.friction.law import length
from diffcontact.schemes.event_timed.flow.phase import WORK, Contact, Goal, Reached
from diffcontact.schemes.event_timed.flow.routh import moved, unit

# How many steps a phase may take; of 40 000 random contacts none took more.
STEPS = 128
# The longest step, as a share of what would end a slip whose velocity changes as fast as this one's.
SHARE = 0.8
# Newton's iterations for the end of a phase within a step.
ITERATIONS = 8


class Node(NamedTuple):
    """A place on the way: what the phase has come to, and the logarithm of how much closer two neighbouring directions
    have come there."""

    at: Reached
    closer: Array


class Way(NamedTuple):
    """A phase so far: the last node before its end, the next step, whether that leads to the goal, and whether no
    further one is needed."""

    node: Node
    step: Array
    found: Array
    over: Array


def to_goal_or_straight(contact: Contact, start: Array, goal: Goal) -> tuple[Reached, Array, Array]:
    """From the beginning of a phase to its end, or to where the slip is straight or has ended.

    Args:
        start: (3,) the velocity (v_N, v_T) there.

    Returns:
        What the phase has come to, whether that is its end, and whether the steps sufficed.
    """
    small, tiny = jnp.finfo(start.dtype).eps ** 0.7, jnp.finfo(start.dtype).tiny
    begin = Node(Reached.start(start), jnp.zeros_like(start[0]))
    scale = lax.stop_gradient(length(start[1:]))

    def next_step(way: Way) -> Way:
        trial, error = _step(contact, way.node, way.step)
        frozen, error = lax.stop_gradient((trial, error))
        slip = length(frozen.at.w[1:])
        error = error / jnp.maximum(jnp.maximum(scale, slip), tiny)
        fine = error <= small
        found = fine & (lax.stop_gradient(goal).value(frozen.at) >= 0)
        moves = fine & ~found
        node = select(moves, trial, way.node)
        factor = jnp.clip(0.9 * (small / jnp.maximum(error, tiny)) ** (1 / 8), 0.2, 5.0)
        step = jnp.where(found, way.step, jnp.minimum(way.step * factor, _longest(contact, node.at)))
        straight = moves & ((slip <= small * scale) | (frozen.closer <= jnp.log(small)))
        return Way(node, lax.stop_gradient(step), found, found | straight)

    def follow(way, _):
        return where_wanted(~way.over, lambda: next_step(way), way), None

    first = Way(begin, _longest(contact, begin.at) / 4, jnp.zeros((), bool), scale == 0)
    first = first._replace(node=entangled(begin, (contact, start)))
    way = lax.scan(follow, first, length=STEPS)[0]
    end = where_wanted(way.found, lambda: _to_goal(contact, way, goal), way.node.at)
    return end, way.found, way.over


def _longest(contact: Contact, at: Reached) -> Array:
    """() the longest step from here."""
    contact, at = lax.stop_gradient((contact, at))
    rate, slip = length((contact.W @ contact.sliding(unit(at.w[1:])))[1:]), length(at.w[1:])
    # A slip that nothing changes sets no bound.
    least = jnp.finfo(slip.dtype).eps ** 0.5 * jnp.trace(contact.W)
    return SHARE * slip / jnp.maximum(rate, least)


def _to_goal(contact: Contact, way: Way, goal: Goal) -> Reached:
    """The end of a phase, within the step from the last node before it; its place carries its derivative."""
    still = lax.stop_gradient((contact, way.node, goal))

    def closer(_, bracket):
        low, high, step = bracket
        there, _, correction, rises = _corrected(*still, step)
        over = still[2].value(there) >= 0
        low, high = jnp.where(over, low, step), jnp.where(over, step, high)
        newton = step - correction
        return low, high, jnp.where(rises & (newton >= low) & (newton <= high), newton, (low + high) / 2)

    # A step may be far longer than the phase.
    here = still[1].at
    guess, known = still[2].on_line(here, (still[0].W @ still[0].sliding(unit(here.w[1:])))[0])
    guess = jnp.where(known & (guess > 0) & (guess < way.step), guess, way.step)
    step = lax.fori_loop(0, ITERATIONS, closer, (jnp.zeros_like(way.step), way.step, guess))[2]
    there, rates, correction, _ = _corrected(contact, way.node, goal, lax.stop_gradient(step))
    return moved(there, contact.sliding(unit(there.w[1:])), rates, -correction)


def _corrected(contact: Contact, node: Node, goal: Goal, step: Array):
    """What a step leads to, the rates of the velocity there, Newton's correction of the step, and whether it is one."""
    there = _step(contact, node, step)[0].at
    rates = contact.W @ contact.sliding(unit(there.w[1:]))
    rate, value = goal.rate(there, rates[0]), goal.value(there)
    # The work grows as the square of the impulse where the approach has just ended: its root is what is linear.
    square = (goal.kind == WORK) & (there.work > 0)
    root = jnp.sqrt(jnp.where(square, goal.target / jnp.where(square, there.work, 1.0), 1.0))
    return there, rates, value * 2 / (1 + root) / nonzero(rate), rate > 0


@cache
def _rule():
    """The rule's stages (12, 12), its weights (12,), and those of its two estimates of the error (12,)."""
    from scipy.integrate import DOP853

    return DOP853.A[:12, :12], DOP853.B, DOP853.E5[:12], DOP853.E3[:12]


def _step(contact: Contact, node: Node, step: Array) -> tuple[Node, Array]:
    """A step of the flow, and its error, as one of the slip [m/s].

    The velocity is carried beside the impulse: a slip that is almost zero is exact to rounding of its own.
    """
    stages, weights, fifth, third = (jnp.asarray(x, step.dtype) for x in _rule())
    here = jnp.concatenate([node.at.r, node.at.w, jnp.stack([node.at.work, node.closer])])

    def stage(i, slopes):
        now = here + step * jnp.sum(stages[i][:, None] * slopes, axis=0)
        return slopes.at[i].set(_slope(contact, now[3:6]))

    slopes = entangled(jnp.zeros((12, here.size), step.dtype), (contact, node, step))
    slopes = lax.fori_loop(0, 12, stage, slopes)
    there = here + step * jnp.sum(weights[:, None] * slopes, axis=0)

    def off(estimate):
        return step * length(jnp.sum(estimate[:, None] * slopes[:, 4:6], axis=0))

    high, low = off(fifth), off(third)
    norm = jnp.sqrt(high**2 + 0.01 * low**2)
    return Node(Reached(there[:3], there[3:6], there[6]), there[7]), high**2 / nonzero(norm)


def _slope(contact: Contact, w: Array) -> Array:
    """(8,) rates of the impulse, the velocity, the work and of `closer` over the normal impulse, at a velocity (3,)."""
    W, d, slip = contact.W, unit(w[1:]), length(w[1:])
    across = jnp.stack([-d[1], d[0]])
    turning = contact.friction * (d @ W[1:, 1:] @ d - across @ W[1:, 1:] @ across) - d @ W[1:, 0]
    along = contact.sliding(d)
    rest = jnp.stack([w[0], turning / nonzero(slip)])
    return jnp.concatenate([along, W @ along, rest])
