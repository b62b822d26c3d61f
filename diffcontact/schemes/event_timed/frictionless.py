"""A step without friction: from event to event, each of them a contact that closes or lets go."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from diffcontact.batching import entangled, select, where_wanted
from diffcontact.schemes.event_timed.events import CandidateStep, Cubic, rounding_of_time, to_event_or_end
from diffcontact.schemes.event_timed.impacts import Percussion, Threshold, matters, no_percussion, percussion, remainder
from diffcontact.schemes.event_timed.smooth_motion import Arrival, Start, Tolerance, smooth, start
from diffcontact.schemes.event_timed.state import TimedState
from diffcontact.schemes.event_timed.truncation import Truncation
from diffcontact.schemes.gluing import most_held
from diffcontact.schemes.scheme import Info
from diffcontact.status import Status, first
from diffcontact.system import System, gap_motion


class _Moment(NamedTuple):
    """A moment inside a step, `left` seconds before its end: with the impulses so far, what is slow here, the contacts
    that have let go in this step, and what a `TimedState` knows besides."""

    t: Array
    left: Array
    q: Array
    u: Array
    impulse: Array
    slow: Array
    released: Array
    fastest: Array
    unsettled: Array
    truncation: Truncation
    status: Array
    adhesion: Array | None = None

    @classmethod
    def at_start(cls, system, params, t, h, state: TimedState) -> _Moment:
        """The beginning of a step, where nothing has happened yet."""
        shape = jax.eval_shape(lambda q: system.gap(t, q, params), state.q).shape
        zero, fine = jnp.zeros(shape, state.q.dtype), jnp.zeros((), jnp.int32)
        moving = jnp.asarray(t, zero.dtype), jnp.asarray(h, zero.dtype), state.q, state.u, zero
        t, left, q, u, impulse = entangled(moving, params)
        known = state.fastest, state.unsettled, state.truncation
        return cls(t, left, q, u, impulse, zero, zero > 0, *known, fine, state.adhesion)


def step_without_friction(
    system: System, params, t, h, state: TimedState, events: int, order: int
) -> tuple[TimedState, Info]:
    """From a state at t to t + h: smooth motion to the next event, what happens there, and so on to the end.

    Args:
        events: how many events one step resolves.
        order: of the smooth motion, 2 or 4.
    """
    now = _Moment.at_start(system, params, t, h, state)
    none = no_percussion(now.t, now.impulse, now.q)
    if now.impulse.size == 0:
        begin = start(system, params, t, now.q, now.u, h, h, now.released)
        end = smooth(system, params, t, h, now.q, now.u, begin, order)
        nothing = jax.tree.map(lambda x: x[None], none)
        truncation = state.truncation.after(h, now.u, end.u, begin.a, 0.0, order)
        fastest = jnp.maximum(state.fastest, jnp.abs(lax.stop_gradient(end.u)))
        known = fastest, state.unsettled, truncation, state.adhesion
        return TimedState(end.q, end.u, *known), Info(end.impulse, end.status, nothing)

    def next_event(carry, last):
        now, pending = carry
        to_event = partial(_to_next_event, system, params, h, now, none, last, order)
        now, pending, percussion = where_wanted(pending, to_event, (now, pending, none))
        return (now, pending), percussion

    last = jnp.arange(events + 1) >= events - 1
    (end, pending), percussions = lax.scan(next_event, (now, jnp.array(True)), last)
    end = _finish(system, params, h, now, end, pending)
    known = end.fastest, end.unsettled, end.truncation, end.adhesion
    return TimedState(end.q, end.u, *known), Info(end.impulse, end.status, percussions)


def _to_next_event(system, params, h, now: _Moment, none: Percussion, last, order: int):
    """Smooth motion to the next event or to the end of the step, and what happens there.

    Returns:
        Where that leads, whether there was an event (the step is not over), and its percussion or `none`.
    """
    glued = None if now.adhesion is None else now.adhesion > 0
    begin = start(system, params, now.t, now.q, now.u, h, now.left, now.released, glued)
    candidate = _to_event_or_end(system, params, now, begin, order)
    end: Arrival = candidate.arrival
    # Behind the gaps stand the multipliers: a contact whose multiplier vanishes lets go, and nothing jumps. A contact
    # whose gap is closed by the truncation of its path while it opens has let go too: that is no impact. Nor is it one
    # where no gap is closed after all, a near miss of what the cubics told; the motion goes on from there.
    count = now.impulse.size
    lets_go, contact = candidate.index >= count, candidate.index % count
    gaps, rates = gap_motion(system, params, now.t + candidate.s, end.q, end.u)
    # Newton's iteration on what bends strongly leaves the root of the rounding.
    converged = begin.tolerance.gap * jnp.finfo(now.q.dtype).eps ** -0.25
    closed, opens = gaps[contact] <= converged, rates[contact] >= 0
    struck, leaves = candidate.found & ~lets_go & closed & ~opens, candidate.found & (lets_go | (closed & opens))
    # Where none is closed, none may be negative: the search has been led astray until its end.
    allowed = jnp.minimum(begin.contacts.gap, 0.0) - converged
    lost = candidate.found & ~lets_go & ~closed & jnp.any(gaps < allowed)
    # A contact that opens, and is held because it would be closed again: that must be slow.
    opening = begin.contacts.velocity(now.u)
    held_back = begin.active & (opening > begin.tolerance.velocity) & matters(begin.contacts, opening, 0, now.fastest)
    coarse = jnp.where(lost | jnp.any(held_back), Status.TOO_COARSE, Status.OK).astype(jnp.int32)
    adhesion, this = now.adhesion, jnp.arange(count) == contact
    if adhesion is not None:
        left = jnp.minimum(adhesion + end.impulse, most_held(system, params, adhesion))
        adhesion = jnp.where(leaves & this, 0.0, jnp.maximum(left, 0.0))
    now = _Moment(
        t=now.t + candidate.s,
        left=now.left - candidate.s,
        q=end.q,
        u=end.u,
        impulse=now.impulse + end.impulse,
        slow=begin.tolerance.slow,
        released=now.released | (leaves & this),
        fastest=jnp.maximum(now.fastest, jnp.abs(lax.stop_gradient(end.u))),
        unsettled=now.unsettled,
        truncation=now.truncation.after(candidate.s, now.u, end.u, begin.a, begin.tolerance.velocity, order),
        status=first(first(now.status, coarse), end.status),
        adhesion=adhesion,
    )
    strike = partial(_strike, system, params, now, h, begin.tolerance, contact, ~last)
    now, percussion = where_wanted(struck, strike, (now, none))
    return now, candidate.found, percussion


def _to_event_or_end(system, params, now: _Moment, begin: Start, order: int) -> CandidateStep:
    """Smooth motion to the end of the step, or, where a gap closes or a reaction vanishes before, to the time it does.

    At the latter the acceleration is continuous, so that the motion does not depend on that time to first order: it
    needs no derivative, and its rate is good enough as the mean along the way.

    A contact that holds back lets go where its adhesion is used up. There the acceleration jumps, and the time carries
    its derivative.
    """

    def multipliers_at(s, end: Arrival):
        moved = jnp.where(s > 0, s, 1.0)
        rates = (end.multipliers - multipliers) / moved
        if now.adhesion is None:
            return end.multipliers, rates
        return jnp.where(glues, now.adhesion + end.impulse, end.multipliers), jnp.where(glues, end.multipliers, rates)

    def motion(s, end: Arrival):
        return _joined(
            gap_motion(system, params, now.t + s, end.q, end.slope), multipliers_at(lax.stop_gradient(s), end)
        )

    def until_overlap(s, end: Arrival):
        """How far the motion can be followed until a gap is negative.

        A body may pass through another within the step and leave no trace at its end. Quarters of the way are looked
        at, along the parabola that the smooth motion is to second order. So is the place where a gap's cubic is lowest:
        a touch that is shallower than the cubic is right is seen there.
        """
        bend = end.q - now.q - s * now.u

        def way(f):
            return now.q + f * s * now.u + f**2 * bend

        ends = gap_motion(system, params, now.t + s, end.q, end.slope)
        dip = Cubic.between((begin.contacts.gap, begin.contacts.velocity(now.u)), ends, s).lowest(~begin.resting)
        fractions = jnp.stack([dip, *jnp.array([0.25, 0.5, 0.75], multipliers.dtype)])
        gaps = jax.vmap(lambda f: system.gap(now.t + f * s, way(f), params))(fractions)
        overlaps = jnp.any((gaps < -begin.tolerance.gap) & ~begin.resting[None, :], axis=1)
        f = jnp.min(jnp.where(overlaps, fractions, 1.0))
        whole = f == 1.0
        y, v = jnp.where(whole, end.q, way(f)), jnp.where(whole, end.slope, now.u + f * (end.slope - now.u))
        there, rates = multipliers_at(s, end)
        return s * f, _joined(gap_motion(system, params, now.t + s * f, y, v), (loads + f * (there - loads), rates))

    multipliers = lax.stop_gradient(begin.multipliers)
    loads, rates = multipliers, jnp.zeros_like(multipliers)
    eps = jnp.finfo(multipliers.dtype).eps ** 0.75
    forces = jnp.full_like(multipliers, eps * jnp.max(multipliers, initial=0.0))
    length, lasts = jnp.where(now.left > 0, now.left, 1.0), now.left > rounding_of_time(now.t, now.left, now.q.dtype)
    changes = 4 * forces / length
    if now.adhesion is not None:
        glues = most_held(system, params, now.adhesion) > 0
        loads, rates = jnp.where(glues, now.adhesion, loads), jnp.where(glues, multipliers, 0.0)
        largest = eps * jnp.max(jnp.abs(multipliers), initial=0.0)
        spent = eps * jnp.max(now.adhesion, initial=0.0) + now.left * largest
        forces, changes = jnp.where(glues, spent, forces), jnp.where(glues, largest, changes)
    rounding = Tolerance(
        gap=jnp.concatenate([jnp.full_like(multipliers, begin.tolerance.gap), forces]),
        velocity=jnp.concatenate([jnp.full_like(multipliers, begin.tolerance.velocity), changes]),
        slow=begin.tolerance.slow,
    )
    return to_event_or_end(
        lambda s: smooth(system, params, now.t, s, now.q, now.u, begin, order),
        motion,
        until_overlap,
        _joined((begin.contacts.gap, begin.contacts.velocity(now.u)), (loads, rates)),
        jnp.concatenate([~begin.resting, begin.active & begin.regular & lasts]),
        lax.stop_gradient(rounding),
        now.t,
        now.left,
        Arrival.nowhere(now.q, begin.contacts.gap),
    )


def _joined(gaps, multipliers):
    """Gaps and multipliers (2 c,), and their rates."""
    return jax.tree.map(lambda *parts: jnp.concatenate(parts), gaps, multipliers)


def _strike(system, params, now: _Moment, h, tolerance, contact, alone) -> tuple[_Moment, Percussion]:
    """The percussion of `contact` here and now, with the closed contacts that it reaches."""
    closed = system.gap(now.t, now.q, params) <= tolerance.gap
    closed = closed | (jnp.arange(closed.size) == contact)
    threshold = Threshold(*lax.stop_gradient((h, tolerance.slow, tolerance.velocity, now.fastest, now.unsettled)))
    where, held = (now.t, now.q, now.u, contact, closed, threshold, alone), now.adhesion
    u, unsettled, status, hit = percussion(system, params, *where, held)
    impulse, status = now.impulse + hit.impulse, first(now.status, status)
    if held is not None:
        held = jnp.minimum(held + hit.impulse, most_held(system, params, held))
    return now._replace(u=u, impulse=impulse, unsettled=unsettled, status=status, adhesion=held), hit


def _finish(system, params, h, at_start: _Moment, now: _Moment, pending) -> _Moment:
    """What was not resolved: the rest of a step with too many percussions, or a whole step that ended in an overlap.

    Either is taken as inelastic, feasible and dissipative, and reported if something fast was stopped.
    """
    # Starting values may overlap by themselves; that is reported elsewhere and not made worse.
    depth = jnp.min(system.gap(now.t, now.q, params), initial=0.0)
    allowed = jnp.min(system.gap(at_start.t, at_start.q, params), initial=0.0)
    length = jnp.max(jnp.abs(at_start.q)) + h * jnp.max(jnp.abs(at_start.u))
    overlaps = ~pending & (depth < allowed - jnp.finfo(now.q.dtype).eps ** 0.75 * (1 + length))
    wanted = pending | overlaps

    def inelastic():
        since = select(overlaps, at_start, now)
        x, w, impulse, status, bounced, stopped = remainder(
            system, params, since.t, since.left, since.q, since.u, now.slow
        )
        bounced = bounced | (since.adhesion is not None)
        status = first(status, jnp.where(bounced, Status.TOO_MANY_EVENTS, Status.OK).astype(jnp.int32))
        unsettled = jnp.where(stopped, jnp.inf, since.unsettled)
        impulse, status = since.impulse + impulse, first(since.status, status)
        return since._replace(q=x, u=w, impulse=impulse, unsettled=unsettled, status=status)

    return where_wanted(wanted, inelastic, now)
