r"""The laws of one contact that is struck alone: Poisson's, Stronge's, and Stronge's with a tangential compliance.

An impact is a flow of the contact's velocity over the normal impulse P that accumulates, with Coulomb's friction at
every moment, in two phases. Compression ends where the approach does, v_N = 0. Restitution ends by the law::

    Poisson     P_restitution = e P_compression
    Stronge     W_restitution = -e^2 W_compression,      W = integral of v_N dP, the work of the normal force

Compression ends even where slip presses the contact together for a while (tangential impacts, Painleve's paradox):
while the approach lasts the energy falls, until the slip has ended. There is no end where no impulse moves the contact
apart (a wedge). In space a slip that turns may press the contact together once more while it restores; where the body
still approaches when Poisson's impulse is used up, that is no end either.

Of a contact that springs sideways as well see `compliant`.

Source: E. J. Routh (1905); J. B. Keller, J. Appl. Mech. 53 (1986); W. J. Stronge, Proc. R. Soc. A 431 (1990); Y. Wang,
M. T. Mason, J. Appl. Mech. 59 (1992).
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from diffcontact.numerics.batching import entangled, select, where_wanted
from diffcontact.numerics.linear import length, nonzero
from diffcontact.schemes.event_timed.compliant import compliant_impulses
from diffcontact.status import Status


class Bounce(NamedTuple):
    """What an impact does to the contact.

    Attributes:
        compression: (1 + k,) impulses (P, B) until the approach is over: the impact of e = 0 [N s].
        impulse: (1 + k,) of the whole impact [N s].
        status: () OK, or NO_FRICTION where the flow has no end; then both impulses are those without friction.
    """

    compression: Array
    impulse: Array
    status: Array


def bounce(W: Array, w: Array, friction: Array, e: Array, law: str, compliance: Array | float = 0.0) -> Bounce:
    """The impact of one contact.

    Args:
        W: (1 + k, 1 + k) what impulses (P, B) change its velocity by [1/kg]; k = 1 in a plane, 2 in space.
        w: (1 + k,) its velocity (v_N, v_T) before; v_N < 0, or nothing happens [m/s].
        friction: () mu.
        e: () restitution.
        law: "poisson", "stronge" or "compliant".
        compliance: () eta^2 of a contact that is compliant.

    Example:
        A rod's end that slips, stops and sticks during compression: with e = 0 it would stay at rest.

        >>> import jax, numpy as np
        >>> W = np.array([[2.0, 1.0], [1.0, 3.0]])
        >>> struck = jax.jit(bounce, static_argnums=4)(W, np.array([-1.0, 0.1]), 0.5, 0.5, "poisson")
        >>> np.asarray(struck.impulse).round(4).tolist()
        [0.93, -0.3433]
    """
    approaches = w[0] < 0
    W = jnp.where(W[0, 0] > 0, W, jnp.eye(w.size, dtype=w.dtype))
    before = jnp.where(approaches, w, -jnp.eye(w.size, dtype=w.dtype)[0])
    smooth = jnp.zeros_like(w).at[0].set(-before[0] / W[0, 0])
    if law == "compliant":
        compression, impulse, found = _sprung(W, before, friction, e, jnp.asarray(compliance, w.dtype))
    else:
        compression, impulse, found = _flow(Contact(W, friction), before, e, law)
    found = found & jnp.all(jnp.isfinite(impulse))
    compression, impulse = select(found, (compression, impulse), (smooth, (1 + e) * smooth))
    nothing = jnp.zeros_like(w)
    return Bounce(
        compression=jnp.where(approaches, compression, nothing),
        impulse=jnp.where(approaches, impulse, nothing),
        status=jnp.where(found | ~approaches, Status.OK, Status.NO_FRICTION).astype(jnp.int32),
    )


def _sprung(W: Array, before: Array, friction: Array, e: Array, compliance: Array):
    """Impulses (1 + k,) of e = 0 and of the whole impact, and whether the law holds."""
    compression, _ = compliant_impulses(W, before, friction, jnp.zeros_like(e), compliance)
    impulse, found = compliant_impulses(W, before, friction, e, compliance)
    return compression, impulse, found


def _flow(contact: Contact, before: Array, e: Array, law: str):
    """As `_sprung`, by Poisson's or Stronge's law."""
    # Hardly above zero, so that what ends with no work at all has its derivative.
    some = e + jnp.finfo(before.dtype).tiny ** 0.25

    kind = jnp.int32(IMPULSE if law == "poisson" else WORK)

    def phase(carry, _):
        begin, goal = carry
        end, fine = _phase_end(contact, begin, goal)
        rest = jnp.where(goal.kind == APPROACH, 0.0, end.w[0])
        end = end._replace(w=jnp.concatenate([rest[None], end.w[1:]]))
        target = some * end.r[0] if law == "poisson" else -(some**2) * end.work
        return (end.w, Goal(kind, target)), (end, fine & (end.w[0] >= -small * jnp.abs(before[0])))

    small = jnp.finfo(before.dtype).eps ** 0.75
    first = entangled((before, jnp.zeros_like(before[0])), (contact, some))
    _, (ends, fine) = lax.scan(phase, (first[0], Goal(jnp.int32(APPROACH), first[1])), length=2)
    return ends.r[0], ends.r[0] + ends.r[1], jnp.all(fine)


def _phase_end(contact: Contact, start: Array, goal: Goal) -> tuple[Reached, Array]:
    """The end of a phase that starts with this velocity, and whether there is one."""
    begin = Reached.start(start)
    if start.size == 2:
        return _straight_to_goal(contact, start, begin, goal)
    turned, found, sufficed = _turning_to_goal(contact, start, goal)
    end, reached = _straight_to_goal(contact, start, turned, goal)
    return select(found, turned, end), sufficed & (found | reached)


# What ends a phase: the approach is over, the normal impulse or the work of the normal force has reached its target.
APPROACH, IMPULSE, WORK = range(3)


class Contact(NamedTuple):
    """The contact that is struck.

    Attributes:
        W: (1 + k, 1 + k) what impulses (P, B) change its velocity (v_N, v_T) by, the normal direction first [1/kg].
        friction: () mu.
    """

    W: Array
    friction: Array

    def sliding(self, direction: Array) -> Array:
        """(1 + k,) impulse per unit of normal impulse where the contact slides in this direction (k,)."""
        return jnp.concatenate([jnp.ones_like(direction[:1]), -self.friction * direction])


class Reached(NamedTuple):
    """What a phase has come to.

    Attributes:
        r: (1 + k,) impulse (P, B) since the phase has begun [N s].
        w: (1 + k,) velocity (v_N, v_T) [m/s].
        work: () of the normal force since the phase has begun, the integral of v_N dP [J].
    """

    r: Array
    w: Array
    work: Array

    @classmethod
    def start(cls, w: Array) -> Reached:
        """The beginning of a phase."""
        return cls(jnp.zeros_like(w), w, jnp.zeros_like(w[0]))


class Goal(NamedTuple):
    """What ends a phase: its kind, and the normal impulse or the work that it ends with."""

    kind: Array
    target: Array

    def value(self, at: Reached) -> Array:
        """() negative until the phase is over, and zero where it is."""
        return jnp.stack([at.w[0], at.r[0] - self.target, at.work - self.target])[self.kind]

    def rate(self, at: Reached, rising: Array) -> Array:
        """() of the value, over the normal impulse; `rising`, () that of v_N."""
        return jnp.stack([rising, jnp.ones_like(rising), at.w[0]])[self.kind]

    def on_line(self, at: Reached, rising: Array) -> tuple[Array, Array]:
        """The normal impulse from here to the goal where v_N rises at a constant rate, and whether it is ever reached.

        The smaller root of v dP + rising dP^2 / 2 = what is left of the work, in the form that does not cancel.
        """
        v, left = at.w[0], self.target - at.work
        upwards = rising > 0
        square = v**2 + 2 * rising * left
        root = jnp.sqrt(nonzero(square))
        worked = (square > 0) & (v + root > 0)
        steps = (
            -v / jnp.where(upwards, rising, 1.0),
            self.target - at.r[0],
            2 * left / jnp.where(worked, v + root, 1.0),
        )
        return jnp.stack(steps)[self.kind], jnp.stack([upwards, upwards | True, worked])[self.kind]


def _straight_to_goal(contact: Contact, start: Array, at: Reached, goal: Goal) -> tuple[Reached, Array]:
    r"""From what a phase has come to along straight slips to its end; of what sticks in it, nothing depends on mu.

    Routh's law: a slip keeps its direction until it ends, and what follows is known in closed form. Over the normal
    impulse P of one contact with (v_N, v_T) = w + W (P, B)::

        slides along d      dB/dP = -mu d                    d v_N/dP = W_NN - mu W_NT d
        sticks              dB/dP = -W_TT^-1 W_TN            d v_N/dP = W_NN - W_NT W_TT^-1 W_TN > 0

    A slip that has come to zero sticks where friction can hold it, |W_TT^-1 W_TN| <= mu. Else it goes on in the one
    direction d in which it stays and grows: W_TN - mu W_TT d = g d, g > 0.

    Source: Y. Wang, M. T. Mason, J. Appl. Mech. 59 (1992); slip that goes on in space: J. A. Batlle, J. Appl. Mech. 63
    (1996).

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
    first = _moved(at, along, rates, step)

    stopped = _moved(at, along, rates, way)
    held = _solved(W[1:, 1:], W[1:, 0])
    sticks = length(held) <= contact.friction
    onwards = contact.sliding(jnp.where(sticks, 0.0, _lasting_direction(contact)))
    going = W @ onwards
    v = stopped.w[0]
    # What sticks is on one line whatever led there: B = -W_TT^-1 (v_T + W_TN P) from the beginning of the phase on.
    rising = jnp.where(sticks, W[0, 0] - W[0, 1:] @ held, going[0])
    taken = _solved(W[1:, 1:], start[1:])
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


def _moved(at: Reached, along: Array, rates: Array, step: Array) -> Reached:
    """What follows after a further normal impulse `step` at these rates (1 + k,) of impulse and velocity."""
    return Reached(at.r + step * along, at.w + step * rates, at.work + step * (at.w[0] + step * rates[0] / 2))


def unit(x: Array) -> Array:
    """(k,) of length one; zero where x is."""
    size = length(x)
    return x / nonzero(size)


def _solved(A: Array, x: Array) -> Array:
    """A^-1 x (k,) of a symmetric A (k, k), positive but for directions in which nothing moves."""
    A = A + jnp.finfo(A.dtype).tiny ** 0.5 * jnp.eye(x.size, dtype=A.dtype)
    if x.size == 1:
        return x / A[0]
    (a, b), (_, c) = A
    rounding = jnp.finfo(A.dtype).eps * (a + c)
    a, c = a + rounding, c + rounding
    return jnp.stack([c * x[0] - b * x[1], a * x[1] - b * x[0]]) / (a * c - b * b)


# Newton's iterations for the rate at which a slip grows: they converge from below, and quadratically.
_GROWTH_ITERATIONS = 12


def _lasting_direction(contact: Contact) -> Array:
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
        d = _solved(hold, c)
        slope = d @ _solved(hold, d)
        return g + d @ d * (length(d) - 1) / nonzero(slope), d

    still = lax.stop_gradient(contact)
    least = jnp.maximum(length(still.W[1:, 0]) - still.friction * jnp.trace(still.W[1:, 1:]), 0.0)
    g = lax.fori_loop(0, _GROWTH_ITERATIONS, lambda _, g: jnp.maximum(improved(still, g)[0], g), least)
    return unit(improved(contact, improved(contact, g)[0])[1])


# How many steps a phase may take; of 40 000 random contacts none took more.
_STEPS = 128
# The longest step, as a share of what would end a slip whose velocity changes as fast as this one's.
_SHARE = 0.8
# Newton's iterations for the end of a phase within a step.
_ITERATIONS = 8


class _Node(NamedTuple):
    """A place on the way: what the phase has come to, and the logarithm of how much closer two neighbouring directions
    have come there."""

    at: Reached
    closer: Array


class _Way(NamedTuple):
    """A phase so far: the last node before its end, the next step, whether that leads to the goal, and whether no
    further one is needed."""

    node: _Node
    step: Array
    found: Array
    over: Array


def _turning_to_goal(contact: Contact, start: Array, goal: Goal) -> tuple[Reached, Array, Array]:
    r"""From the beginning of a phase to its end, or to where the slip is straight or has ended.

    Keller's law: in space a slip turns on its way, and the flow is an ordinary equation. With d = v_T/|v_T| and
    (v_N, v_T) = w + W (P, B)::

        dB/dP = -mu d,      d v_T/dP = W_TN - mu W_TT d

    It is singular where the slip ends: the direction turns ever faster, towards one that it then keeps. So steps are a
    share of the slip that is left, and go on until that is rounding, or until whatever direction the slip has come from
    is forgotten. Slips that go straight are integrated without error.

    Source: J. B. Keller, J. Appl. Mech. 53 (1986); the rule, of order eight: J. R. Dormand, P. J. Prince (DOP853 of
    E. Hairer, S. P. Norsett, G. Wanner, Solving Ordinary Differential Equations I).

    Args:
        start: (3,) the velocity (v_N, v_T) there.

    Returns:
        What the phase has come to, whether that is its end, and whether the steps sufficed.
    """
    small, tiny = jnp.finfo(start.dtype).eps ** 0.7, jnp.finfo(start.dtype).tiny
    begin = _Node(Reached.start(start), jnp.zeros_like(start[0]))
    scale = lax.stop_gradient(length(start[1:]))

    def next_step(way: _Way) -> _Way:
        trial, error = _stepped(contact, way.node, way.step)
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
        return _Way(node, lax.stop_gradient(step), found, found | straight)

    def follow(way, _):
        return where_wanted(~way.over, lambda: next_step(way), way), None

    first = _Way(begin, _longest(contact, begin.at) / 4, jnp.zeros((), bool), scale == 0)
    first = first._replace(node=entangled(begin, (contact, start)))
    way = lax.scan(follow, first, length=_STEPS)[0]
    end = where_wanted(way.found, lambda: _end_within_step(contact, way, goal), way.node.at)
    return end, way.found, way.over


def _longest(contact: Contact, at: Reached) -> Array:
    """() the longest step from here."""
    contact, at = lax.stop_gradient((contact, at))
    rate, slip = length((contact.W @ contact.sliding(unit(at.w[1:])))[1:]), length(at.w[1:])
    # A slip that nothing changes sets no bound.
    least = jnp.finfo(slip.dtype).eps ** 0.5 * jnp.trace(contact.W)
    return _SHARE * slip / jnp.maximum(rate, least)


def _end_within_step(contact: Contact, way: _Way, goal: Goal) -> Reached:
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
    step = lax.fori_loop(0, _ITERATIONS, closer, (jnp.zeros_like(way.step), way.step, guess))[2]
    there, rates, correction, _ = _corrected(contact, way.node, goal, lax.stop_gradient(step))
    return _moved(there, contact.sliding(unit(there.w[1:])), rates, -correction)


def _corrected(contact: Contact, node: _Node, goal: Goal, step: Array):
    """What a step leads to, the rates of the velocity there, Newton's correction of the step, and whether it is one."""
    there = _stepped(contact, node, step)[0].at
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


def _stepped(contact: Contact, node: _Node, step: Array) -> tuple[_Node, Array]:
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
    return _Node(Reached(there[:3], there[3:6], there[6]), there[7]), high**2 / nonzero(norm)


def _slope(contact: Contact, w: Array) -> Array:
    """(8,) rates of the impulse, the velocity, the work and of `closer` over the normal impulse, at a velocity (3,)."""
    W, d, slip = contact.W, unit(w[1:]), length(w[1:])
    across = jnp.stack([-d[1], d[0]])
    turning = contact.friction * (d @ W[1:, 1:] @ d - across @ W[1:, 1:] @ across) - d @ W[1:, 0]
    along = contact.sliding(d)
    rest = jnp.stack([w[0], turning / nonzero(slip)])
    return jnp.concatenate([along, W @ along, rest])
