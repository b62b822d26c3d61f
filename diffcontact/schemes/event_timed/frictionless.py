"""A step without friction: from event to event, each of them a contact that closes or lets go."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from diffcontact.batching import computed_again, entangled, in_lanes, select, where_wanted
from diffcontact.schemes.event_timed.events import CandidateStep, Cubic, rounding_of_time, to_event_or_end
from diffcontact.schemes.event_timed.impacts import Percussion, Threshold, held_into, matters, no_percussion, percussion
from diffcontact.schemes.event_timed.passing import before_overlap
from diffcontact.schemes.event_timed.remainder import remainder
from diffcontact.schemes.event_timed.smooth_motion import Arrival, Start, Tolerance, smooth, start
from diffcontact.schemes.event_timed.state import TimedState
from diffcontact.schemes.gluing import most_held
from diffcontact.schemes.scheme import Info
from diffcontact.schemes.truncation import Truncation
from diffcontact.schemes.unseen import ENDS, SIMPSON, given_forces, obstacles_hide
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
        given = given_forces(system, params, now.q, now.u)
        forces = state.truncation.forces.after(given, t, h, ENDS if order == 2 else SIMPSON)
        truncation = state.truncation.after(h, now.u, end.u, begin.a, forces, 0.0, order)
        truncation = truncation.rounded(system, params, h, (now.q, now.u, begin.a), (end.q, end.u), now.slow)
        fastest = jnp.maximum(state.fastest, jnp.abs(lax.stop_gradient(end.u)))
        known = fastest, state.unsettled, truncation, state.adhesion
        return TimedState(end.q, end.u, *known), Info(end.impulse, end.status, nothing)

    def next_event(carry, last):
        now, pending = carry
        to_event = partial(_to_next_event, system, params, h, now, none, last, order)
        now, pending, percussion = where_wanted(pending, to_event, (now, pending, none))
        return (now, pending), percussion

    last = jnp.arange(events + 1) >= events - 1
    (end, pending), percussions = lax.scan(computed_again(next_event), in_lanes((now, jnp.array(True)), now.q), last)
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
    this = jnp.arange(count) == contact
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
    held_back = begin.active & (opening > begin.tolerance.velocity)
    at_rest = begin.resting & ~held_back & (begin.contacts.gap <= begin.tolerance.gap)
    stuck = held_into(system.mass(now.q, params), begin.contacts, now.u, now.fastest, held_back, at_rest)
    large = jnp.any(held_back & matters(begin.contacts, opening, 0, now.fastest))
    coarse = jnp.where(lost | stuck | large, Status.TOO_COARSE, Status.OK).astype(jnp.int32)
    adhesion = now.adhesion
    if adhesion is not None:
        left = jnp.minimum(adhesion + end.impulse, most_held(system, params, adhesion))
        adhesion = jnp.where(leaves & this, 0.0, jnp.maximum(left, 0.0))
    given = given_forces(system, params, now.q, now.u)
    forces = now.truncation.forces.after(given, now.t, candidate.s, ENDS if order == 2 else SIMPSON)
    truncation = now.truncation.after(candidate.s, now.u, end.u, begin.a, forces, begin.tolerance.velocity, order)
    truncation = truncation.through(system, params, now.t, candidate.s, now.q, now.u, end.q, ~begin.resting)
    here, tolerance = begin.contacts, begin.tolerance
    cubic = Cubic.between((here.gap, opening), (gaps, rates), candidate.s)
    looked_at = candidate.s, ~begin.resting, struck & this, tolerance.gap
    truncation = truncation.decided(here.normals, cubic, (gaps, rates), *looked_at)
    begins, ends = (now.q, now.u, begin.a), (end.q, end.u)
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
        truncation=truncation.rounded(system, params, candidate.s, begins, ends, begin.tolerance.slow),
        status=first(first(now.status, coarse), end.status),
        adhesion=adhesion,
    )
    strike = partial(_strike, system, params, now, h, begin.tolerance, contact, here.normals[contact], ~last)
    now, percussion = where_wanted(struck, strike, (now, none))
    return now, candidate.found, percussion


def _to_event_or_end(system, params, now: _Moment, begin: Start, order: int) -> CandidateStep:
    """Smooth motion to the end of the step, or, where a gap closes or a reaction vanishes before, to the time it does.

    At the latter the acceleration is continuous, so that the motion does not depend on that time to first order: it
    needs no derivative, and its rate is good enough as the mean along the way.

    A contact that holds back lets go where its adhesion is used up. There the acceleration jumps, and the time carries
    its derivative.
    """
    glues = None if now.adhesion is None else most_held(system, params, now.adhesion) > 0
    approach = _Approach(system, params, now, begin, glues, order)
    lasts = now.left > rounding_of_time(now.t, now.left, now.q.dtype)
    return to_event_or_end(
        approach,
        approach.at_begin(),
        jnp.concatenate([~begin.resting, begin.active & begin.regular & lasts]),
        lax.stop_gradient(approach.rounding()),
        now.t,
        now.left,
        Arrival.nowhere(now.q, begin.contacts.gap),
    )


class _Approach(NamedTuple):
    """A smooth motion, with the gaps along it and, behind them, the multipliers: of a contact that holds back (`glues`,
    (c,) or None) what is left of its adhesion."""

    system: System
    params: Any
    now: _Moment
    begin: Start
    glues: Array | None
    order: int

    def advance(self, s) -> Arrival:
        return smooth(self.system, self.params, self.now.t, s, self.now.q, self.now.u, self.begin, self.order)

    def at_begin(self) -> tuple[Array, Array]:
        return _joined((self.begin.contacts.gap, self.begin.contacts.velocity(self.now.u)), self.loads())

    def gaps(self, s, end: Arrival) -> tuple[Array, Array]:
        gaps = gap_motion(self.system, self.params, self.now.t + s, end.q, end.slope)
        return _joined(gaps, self.loads_at(lax.stop_gradient(s), end))

    def until_overlap(self, s, end: Arrival) -> tuple[Array, tuple[Array, Array]]:
        now, begin = self.now, self.begin
        here = begin.contacts.gap, begin.contacts.velocity(now.u)
        looked_at = here, ~begin.resting, begin.tolerance.gap
        f, q, u = before_overlap(self.system, self.params, now.t, s, now.q, now.u, end, *looked_at)
        (loads, _), (there, rates) = self.loads(), self.loads_at(s, end)
        gaps = gap_motion(self.system, self.params, now.t + s * f, q, u)
        return s * f, _joined(gaps, (loads + f * (there - loads), rates))

    def loads(self) -> tuple[Array, Array]:
        """The loads (c,) at the beginning, multipliers or what is left of adhesions, and their rates."""
        multipliers = lax.stop_gradient(self.begin.multipliers)
        if self.glues is None or self.now.adhesion is None:
            return multipliers, jnp.zeros_like(multipliers)
        return jnp.where(self.glues, self.now.adhesion, multipliers), jnp.where(self.glues, multipliers, 0.0)

    def loads_at(self, s, end: Arrival) -> tuple[Array, Array]:
        """The loads (c,) after s seconds, and their rates."""
        moved = jnp.where(s > 0, s, 1.0)
        rates = (end.multipliers - lax.stop_gradient(self.begin.multipliers)) / moved
        if self.glues is None or self.now.adhesion is None:
            return end.multipliers, rates
        left = self.now.adhesion + end.impulse
        return jnp.where(self.glues, left, end.multipliers), jnp.where(self.glues, end.multipliers, rates)

    def rounding(self) -> Tolerance:
        """Below what gaps, loads (2 c,) and their rates are zero to rounding."""
        now, tolerance, multipliers = self.now, self.begin.tolerance, self.begin.multipliers
        eps = jnp.finfo(multipliers.dtype).eps ** 0.75
        forces = jnp.full_like(multipliers, eps * jnp.max(multipliers, initial=0.0))
        changes = 4 * forces / jnp.where(now.left > 0, now.left, 1.0)
        if self.glues is not None and now.adhesion is not None:
            largest = eps * jnp.max(jnp.abs(multipliers), initial=0.0)
            spent = eps * jnp.max(now.adhesion, initial=0.0) + now.left * largest
            forces, changes = jnp.where(self.glues, spent, forces), jnp.where(self.glues, largest, changes)
        return Tolerance(
            gap=jnp.concatenate([jnp.full_like(multipliers, tolerance.gap), forces]),
            velocity=jnp.concatenate([jnp.full_like(multipliers, tolerance.velocity), changes]),
            slow=tolerance.slow,
        )


def _joined(gaps, multipliers):
    """Gaps and multipliers (2 c,), and their rates."""
    return jax.tree.map(lambda *parts: jnp.concatenate(parts), gaps, multipliers)


def _strike(system, params, now: _Moment, h, tolerance, contact, normal, alone) -> tuple[_Moment, Percussion]:
    """The percussion of `contact` here and now, with the closed contacts that it reaches; `normal` (d,) is its own."""
    closed = system.gap(now.t, now.q, params) <= tolerance.gap
    closed = closed | (jnp.arange(closed.size) == contact)
    threshold = Threshold(*lax.stop_gradient((h, tolerance.slow, tolerance.velocity, now.fastest, now.unsettled)))
    where, held = (now.t, now.q, now.u, contact, closed, threshold, alone), now.adhesion
    u, unsettled, status, hit = percussion(system, params, *where, held)
    impulse, status = now.impulse + hit.impulse, first(now.status, status)
    if held is not None:
        held = jnp.minimum(held + hit.impulse, most_held(system, params, held))
    now = now._replace(truncation=now.truncation.struck(True, normal, hit.before[contact], hit.jump))
    return now._replace(u=u, impulse=impulse, unsettled=unsettled, status=status, adhesion=held), hit


def _finish(system, params, h, at_start: _Moment, now: _Moment, pending) -> _Moment:
    """What was not resolved: the rest of a step with too many percussions, or a whole step that ended in an overlap.

    Either is taken as inelastic, feasible and dissipative, and reported if something fast was stopped.
    """
    # Starting values may overlap by themselves; that is reported elsewhere and not made worse.
    depth = jnp.min(system.gap(now.t, now.q, params), initial=0.0)
    allowed = jnp.min(system.gap(at_start.t, at_start.q, params), initial=0.0)
    length = jnp.max(jnp.abs(at_start.q)) + h * jnp.max(jnp.abs(at_start.u))
    overlaps = ~pending & (depth < allowed - jnp.finfo(now.q.dtype).eps ** 0.75 * length)
    wanted = pending | overlaps

    def inelastic():
        since = select(overlaps, at_start, now)
        x, w, impulse, status, bounced, stopped = remainder(
            system, params, since.t, since.left, since.q, since.u, now.slow, now.fastest
        )
        bounced = bounced | (since.adhesion is not None)
        status = first(status, jnp.where(bounced, Status.TOO_MANY_EVENTS, Status.OK).astype(jnp.int32))
        unsettled = jnp.where(stopped, jnp.inf, since.unsettled)
        impulse, status = since.impulse + impulse, first(since.status, status)
        # What was seen on the way stays known, and what this one passes through is told as well.
        place, moved = lambda f: since.q + f * (x - since.q), since.left / 2 * (since.u + w)
        hidden = obstacles_hide(system, params, since.t, since.left, place, moved=moved)
        truncation = replace(now.truncation, blind=now.truncation.blind + hidden)
        return since._replace(q=x, u=w, impulse=impulse, unsettled=unsettled, truncation=truncation, status=status)

    return where_wanted(wanted, inelastic, now)
