"""A step with friction: from event to event, each of them a contact that closes, lets go, starts or ceases to slip."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from diffcontact.batching import computed_again, entangled, in_lanes, select, where_wanted
from diffcontact.mass import solve
from diffcontact.qp.friction.law import length
from diffcontact.qp.friction.modes import Modes
from diffcontact.schemes.event_timed.events import CandidateStep, Cubic, rounding_of_time, to_event_or_end
from diffcontact.schemes.event_timed.friction.changes import Beginning, delay
from diffcontact.schemes.event_timed.friction.moment import Due, pass_by
from diffcontact.schemes.event_timed.friction.motion import Arrival, smooth
from diffcontact.schemes.event_timed.friction.piece import Imposed, Piece, Place, Surroundings
from diffcontact.schemes.event_timed.impacts import Threshold, held_into, matters, no_percussion
from diffcontact.schemes.event_timed.passing import before_overlap
from diffcontact.schemes.event_timed.remainder import remainder
from diffcontact.schemes.event_timed.smooth_motion import Tolerance
from diffcontact.schemes.scheme import Info
from diffcontact.schemes.truncation import Truncation, winds
from diffcontact.schemes.unseen import SIMPSON, given_forces, unseen_belts
from diffcontact.status import Status, first
from diffcontact.system import gap_motion

# The kinds of events: a gap closes; a load vanishes; a slip comes to its end, or friction reaches its bound.
CLOSES, LETS_GO, CHANGES_GRIP = range(3)


class _Moment(NamedTuple):
    """A moment inside a step, `left` seconds before its end, with what is due there and the impulses so far; where
    changes of the modes are listed, with the `delay` of this one."""

    t: Array
    left: Array
    q: Array
    u: Array
    impulse: Array
    friction: Array
    due: Due
    slow: Array
    rounding: Array
    fastest: Array
    unsettled: Array
    truncation: Truncation
    status: Array
    delay: Array | None = None

    @classmethod
    def at_start(cls, system, params, t, h, q, u, fastest, unsettled, truncation) -> _Moment:
        """The beginning of a step, where nothing is due."""
        gaps = jax.eval_shape(lambda q: system.gap(t, q, params), q)
        directions = 1 if system.slip is None else jax.eval_shape(lambda: system.slip(t, q, u, params)).shape[1]
        none = jnp.zeros(gaps.shape, q.dtype)
        across, no, zero = jnp.zeros((none.size, directions), q.dtype), none > 0, jnp.zeros((), q.dtype)
        moving = jnp.asarray(t, q.dtype), jnp.asarray(h, q.dtype), q, u, none, across
        t, left, q, u, impulse, friction = entangled(moving, params)
        due = Due(jnp.array(False), jnp.zeros((), int), no[:1].any(), no, no, Modes(no, no), Imposed(no, no, friction))
        fine = jnp.zeros((), jnp.int32)
        return cls(t, left, q, u, impulse, friction, due, none, zero, fastest, unsettled, truncation, fine)


def step_with_friction(
    system, params, t, h, q, u, fastest, unsettled, truncation, events: int, order: int, changes: bool
):
    """From (q, u) at t to t + h: what is due, the modes, smooth motion to the next event, and so on to the end.

    Args:
        fastest, unsettled, truncation: as in `TimedState`.
        events: how many events one step resolves.
        order: of the smooth motion, 2 or 4.
        changes: whether the `Info` tells with which modes the pieces of motion begin.

    Returns:
        q, u, fastest, unsettled, truncation at the end; the `Info`.
    """
    now = _Moment.at_start(system, params, t, h, q, u, fastest, unsettled, truncation)
    if now.impulse.size == 0:
        around = Surroundings.at(system, params, t, q, u, h, Place.at(system, params, t, q, u.size))
        end = smooth(system, params, t, h, q, u, Piece.nowhere(around)._replace(a=around.free), order)
        forces = truncation.forces.after(given_forces(system, params, q, u), t, h, SIMPSON)
        truncation = truncation.after(h, u, end.u - end.given, around.free, forces, 0.0, order)
        truncation = truncation.rounded(system, params, h, (q, u, around.free), (end.q, end.u), now.slow, end.given)
        coarse = jnp.where(winds(system, params, q, u, h), Status.TOO_COARSE, Status.OK).astype(jnp.int32)
        now = now._replace(q=end.q, u=end.u, truncation=truncation)
        now = now._replace(fastest=jnp.maximum(fastest, jnp.abs(lax.stop_gradient(end.u))))
        return now, Info(now.impulse, coarse, None, now.friction)
    none = replace(no_percussion(now.t, now.impulse, now.q), u=jnp.zeros_like(u), jump=jnp.zeros_like(u))
    none, nowhere = replace(none, friction=jnp.zeros_like(now.friction)), None
    if changes:
        now = now._replace(delay=jnp.zeros_like(now.t))
        nowhere = Beginning.of(now.t, now.due.modes, now.due.ended).nowhere()

    def next_event(carry, last):
        now, pending = carry
        to_event = partial(_to_next_event, system, params, h, order, now, last)
        now, pending, percussion, begun = where_wanted(pending, to_event, (now, pending, none, nowhere))
        return (now, pending), (select(percussion.contact >= 0, percussion, none), begun)

    last = jnp.arange(events + 1) >= events - 1
    (end, pending), (percussions, pieces) = lax.scan(
        computed_again(next_event), in_lanes((now, jnp.array(True)), now.q), last
    )
    end = _finish(system, params, end, pending)
    return end, Info(end.impulse, end.status, percussions, end.friction, pieces)


def _to_next_event(system, params, h, order: int, now: _Moment, last):
    """What is due here, and smooth motion to the next event or to the end of the step.

    Returns:
        Where that leads, whether it is an event (the step is not over), the percussion here, of contact -1 if none, and
        the `Beginning` of the piece of motion from here, or None.
    """
    due = now.due._replace(alone=~last)
    limits = Threshold(*lax.stop_gradient((h, now.slow, now.rounding, now.fastest, now.unsettled)))
    passage, unsettled, status, percussion = pass_by(system, params, now.t, now.q, now.u, h, now.left, due, limits)
    hit, piece = passage.hit, passage.piece
    candidate = _to_event_or_end(system, params, now.t, now.left, now.q, hit.u, piece, order)
    end: Arrival = candidate.arrival
    here, tolerance = piece.around.place.contacts, lax.stop_gradient(piece.around.tolerance)
    count, each = now.impulse.size, jnp.arange(now.impulse.size)
    kind, contact = candidate.index // count, candidate.index % count

    gaps, speeds = gap_motion(system, params, now.t + candidate.s, end.q, end.u)
    converged = tolerance.gap * jnp.finfo(now.q.dtype).eps ** -0.25
    closed, opens = gaps[contact] <= converged, speeds[contact] >= 0
    meets, this = candidate.found & (kind == CLOSES), candidate.found & (each == contact)
    struck, leaves = meets & closed & ~opens, candidate.found & ((kind == LETS_GO) | (meets & closed & opens))
    grip = this & (kind == CHANGES_GRIP)
    ended, starts = grip & piece.modes.slip, grip & ~piece.modes.slip
    # Where no gap is closed after all, none may be negative: the search has been led astray until its end.
    lost = meets & ~closed & jnp.any(gaps < jnp.minimum(here.gap, 0.0) - converged)
    opening = piece.around.opening
    held_back = piece.modes.closed & (opening > tolerance.velocity)
    at_rest = piece.around.touching & ~held_back & (opening <= tolerance.velocity)
    lost = lost | held_into(piece.around.place.mass, here, hit.u, now.fastest, held_back, at_rest)
    held_back = held_back & matters(here, opening, 0, now.fastest)
    turns = _turns(piece, end, ended, now.fastest) | _strays(piece, end, ended, candidate.s, now.fastest)
    lost = lost | winds(system, params, now.q, hit.u, candidate.s)
    astray = lost | jnp.any(held_back) | jnp.any(turns) | jnp.any(_pulls(piece, end))
    coarse = jnp.where(astray, Status.TOO_COARSE, Status.OK).astype(jnp.int32)

    size = length(end.rub)
    onset = -end.rub / jnp.where(size > 0, size, 1.0)[:, None]
    # A reaction that contacts share in more than one way may go on in another one: then nothing is imposed.
    leaving, starts = leaves & this & ~end.shared, starts & ~end.shared
    imposed = Imposed(
        released=due.imposed.released | leaving,
        sliding=(due.imposed.sliding & ~ended) | starts,
        direction=jnp.where(starts[:, None], onset, due.imposed.direction),
    )
    is_closed = (gaps <= tolerance.gap) | (this & struck)
    forces = now.truncation.forces.after(given_forces(system, params, now.q, hit.u), now.t, candidate.s, SIMPSON)
    hit_at = percussion.contact >= 0, here.normals[due.contact], percussion.before[due.contact], percussion.jump
    truncation = now.truncation.struck(*hit_at).after(
        candidate.s, hit.u, end.u - end.given, piece.a, forces, tolerance.velocity, order
    )  # fmt: skip
    belts = unseen_belts(system, params, now.t, candidate.s, now.q, hit.u, piece.modes.closed)
    truncation = replace(truncation, surfaces=truncation.surfaces.plus(belts))
    truncation = truncation.through(system, params, now.t, candidate.s, now.q, hit.u, end.q, ~piece.resting)
    cubic = Cubic.between((here.gap, opening), (gaps, speeds), candidate.s)
    looked_at = candidate.s, ~piece.resting, struck & this, tolerance.gap
    truncation = truncation.decided(here.normals, cubic, (gaps, speeds), *looked_at)
    begins, ends = (now.q, hit.u, piece.a), (end.q, end.u)
    after = _Moment(
        t=now.t + candidate.s,
        left=now.left - candidate.s,
        q=end.q,
        u=end.u,
        impulse=now.impulse + hit.normal + end.impulse,
        friction=now.friction + hit.tangential + end.friction,
        due=Due(struck, contact, due.alone, is_closed, ended, piece.modes, imposed),
        slow=tolerance.slow,
        rounding=tolerance.velocity,
        fastest=jnp.maximum(now.fastest, jnp.abs(lax.stop_gradient(end.u))),
        unsettled=unsettled,
        truncation=truncation.rounded(system, params, candidate.s, begins, ends, tolerance.slow, end.given),
        status=first(first(first(now.status, status), coarse), end.status),
    )
    if now.delay is None:
        return after, candidate.found, percussion, None
    begun = Beginning.of(now.t + now.delay, piece.modes, now.due.ended)
    still = lax.stop_gradient((params, now.t, now.q, hit.u, piece))

    def motion(s):
        params, t, q, u, piece = still
        return smooth(system, params, t, s, q, u, piece, order)

    # Of 3 c events the last 2 c are loads and grips.
    late = delay(motion, piece.around.place.friction, candidate.s, jnp.maximum(candidate.index - count, 0), end)
    lets_go = candidate.found & ((kind == LETS_GO) | jnp.any(starts))
    return after._replace(delay=jnp.where(lets_go, late, 0.0)), candidate.found, percussion, begun


# A slip may turn by so much on the way (the cosine: 45 degrees), and leave so much of its speed aside where it ends. It
# may do what it likes where it is slower than such a share of the bodies' fastest motion so far: a face that slides and
# pivots comes to rest in ever smaller turns of its corners' slips, at any step.
MOST_TURNED, LEAST_LEFT, SLOW = 0.7, 1 / 64, 1 / 1024


def _turns(piece: Piece, end: Arrival, ended, fastest: Array) -> Array:
    """(c,) contacts with friction whose slip, in space, turns too far in one piece of motion, or passes by zero and
    does not end."""
    along, size = jnp.sum(end.sliding * piece.direction, axis=1), length(end.sliding)
    rubs = piece.modes.slip & (piece.around.place.friction > 0)
    moves = rubs & (size > jnp.maximum(1e3 * piece.around.slip_tolerance, SLOW * _fast(piece, fastest)))
    passes = ended & (size > LEAST_LEFT * length(piece.around.sliding))
    return moves & (passes | (~ended & (along < MOST_TURNED * size)))


def _strays(piece: Piece, end: Arrival, ended, s: Array, fastest: Array) -> Array:
    """(c,) contacts with friction whose slip, in space, gets faster in another direction than its friction was taken
    against, by what makes more than the share `SLOW`.

    From rest a slip sets out along the friction that it overcomes, and turns with what drives it, at once. Friction
    that is off by an angle gives the slip a velocity across its way, s seconds long, that no later piece takes away.
    """
    place, size, rub = piece.around.place, length(end.sliding), length(end.rub)
    against = -end.rub / jnp.where(rub > 0, rub, 1.0)[:, None]
    off = length(end.sliding / jnp.where(size > 0, size, 1.0)[:, None] - against)
    pushed = solve(place.mass, jnp.einsum("ckd,ck->cd", place.slip.tangents, end.rub).T)
    across = s * off * length(jnp.einsum("ckd,dc->ck", place.slip.tangents, pushed))
    grows = piece.modes.slip & ~ended & (size > length(piece.around.sliding)) & (rub > 0)
    return grows & (across > jnp.maximum(piece.around.slip_tolerance, SLOW * _fast(piece, fastest)))


def _fast(piece: Piece, fastest: Array) -> Array:
    """(c,) how fast each contact would slip if bodies moved as fast as they have so far [m/s]."""
    slip = piece.around.place.slip
    return jnp.max(jnp.abs(slip.tangents) @ fastest + jnp.abs(slip.drift), axis=1)


# What a contact may pull by, of what forces change the velocity by within a step.
MOST_PULLED = 1 / 64


def _pulls(piece: Piece, end: Arrival) -> Array:
    """(c,) contacts that have pulled on the whole, in a piece of motion too long for how fast their load changes."""
    place = piece.around.place
    compliance = jnp.sum(place.contacts.normals.T * solve(place.mass, place.contacts.normals.T), axis=0)
    changed = -(1 + place.friction) * compliance * end.impulse
    tolerance = piece.around.tolerance
    return piece.modes.closed & (changed > MOST_PULLED * tolerance.slow + tolerance.velocity)


def _to_event_or_end(system, params, t, left, q, u, piece: Piece, order: int) -> CandidateStep:
    """Smooth motion to the end of the step, or to the first event on the way.

    At a gap that closes and at a slip that ends the motion jumps, or its acceleration does: the time carries its
    derivative. Where a contact lets go or starts to slip the acceleration is continuous, and the motion does not depend
    on the time to first order: it has none, and the rate of what vanishes is its mean along the way.
    """
    approach = _Approach(system, params, t, q, u, piece, order)
    lasting = piece.modes.closed & piece.regular & (left > rounding_of_time(t, left, q.dtype))
    rubs = lasting & (piece.around.place.friction > 0)
    return to_event_or_end(
        approach,
        approach.at_begin(),
        jnp.concatenate([~piece.resting, lasting, rubs]),
        lax.stop_gradient(approach.rounding(left)),
        t,
        left,
        Arrival.nowhere(q, u, piece.around.sliding),
    )


class _Approach(NamedTuple):
    """A smooth motion, with the gaps along it and, behind them, loads and grips: the slip along its direction, or, of a
    contact that sticks, what friction could still take."""

    system: Any
    params: Any
    t: Array
    q: Array
    u: Array
    piece: Piece
    order: int

    def advance(self, s) -> Arrival:
        return smooth(self.system, self.params, self.t, s, self.q, self.u, self.piece, self.order)

    def at_begin(self) -> tuple[Array, Array]:
        piece, around = self.piece, self.piece.around
        accelerating = around.place.slip.tangents @ piece.a + around.turning
        slip_rates = lax.stop_gradient(jnp.sum(accelerating * piece.direction, axis=1))
        rates = jnp.concatenate([jnp.zeros_like(piece.load), jnp.where(piece.modes.slip, slip_rates, 0.0)])
        return _joined((around.place.contacts.gap, around.opening), (self.reactions(), rates))

    def gaps(self, s, end: Arrival) -> tuple[Array, Array]:
        gaps = gap_motion(self.system, self.params, self.t + s, end.q, end.slope)
        return _joined(gaps, self.reactions_at(lax.stop_gradient(s), end))

    def until_overlap(self, s, end: Arrival) -> tuple[Array, tuple[Array, Array]]:
        around = self.piece.around
        looked_at = (around.place.contacts.gap, around.opening), ~self.piece.resting, around.tolerance.gap
        f, q, u = before_overlap(self.system, self.params, self.t, s, self.q, self.u, end, *looked_at)
        reactions, (there, rates) = self.reactions(), self.reactions_at(s, end)
        gaps = gap_motion(self.system, self.params, self.t + s * f, q, u)
        return s * f, _joined(gaps, (reactions + f * (there - reactions), rates))

    def grips(self, load, rub, sliding) -> Array:
        """(c,) the slip along its direction; of a contact that sticks what friction could still take."""
        along = jnp.sum(sliding * self.piece.direction, axis=1)
        left = lax.stop_gradient(self.piece.around.place.friction * load - length(rub))
        return jnp.where(self.piece.modes.slip, along, left)

    def reactions(self) -> Array:
        """Loads and grips (2 c,) at the beginning."""
        piece = self.piece
        return jnp.concatenate([piece.load, self.grips(piece.load, piece.rub, piece.around.sliding)])

    def reactions_at(self, s, end: Arrival) -> tuple[Array, Array]:
        """Loads and grips (2 c,) after s seconds, and their rates."""
        piece, there, moved = self.piece, lax.stop_gradient(end), jnp.where(s > 0, s, 1.0)
        load, grip = lax.stop_gradient(piece.load), self.grips(piece.load, piece.rub, piece.around.sliding)
        accelerating = jnp.sum(there.accelerating * piece.direction, axis=1)
        mean = (self.grips(there.load, there.rub, there.sliding) - grip) / moved
        rates = jnp.concatenate([(there.load - load) / moved, jnp.where(piece.modes.slip, accelerating, mean)])
        return jnp.concatenate([there.load, self.grips(end.load, end.rub, end.sliding)]), lax.stop_gradient(rates)

    def rounding(self, left) -> Tolerance:
        """Below what gaps, loads, grips (3 c,) and their rates are zero to rounding, `left` seconds before the end."""
        piece, around = self.piece, self.piece.around
        load, eps = piece.load, jnp.finfo(piece.load.dtype).eps ** 0.75
        forces = jnp.full_like(load, eps * jnp.max(load, initial=0.0))
        changes = 4 * forces / jnp.where(left > 0, left, 1.0)
        parts = jnp.abs(around.free) + jnp.abs(piece.a - around.free)
        sizes = jnp.abs(around.place.slip.tangents) @ parts + jnp.abs(around.turning)
        slip_rate = eps * jnp.max(sizes, initial=0.0)
        grips = jnp.where(piece.modes.slip, around.slip_tolerance, forces)
        grip_rates = jnp.where(piece.modes.slip, slip_rate, changes)
        tolerance = around.tolerance
        return Tolerance(
            gap=jnp.concatenate([jnp.full_like(load, tolerance.gap), forces, grips]),
            velocity=jnp.concatenate([jnp.full_like(load, tolerance.velocity), changes, grip_rates]),
            slow=tolerance.slow,
        )


def _joined(gaps, reactions):
    """Gaps, loads and grips (3 c,), and their rates."""
    return jax.tree.map(lambda *parts: jnp.concatenate(parts), gaps, reactions)


def _finish(system, params, now: _Moment, pending) -> _Moment:
    """What was not resolved of a step with too many events: inelastic, without friction, feasible, and reported."""

    def inelastic():
        x, w, impulse, status, *_ = remainder(system, params, now.t, now.left, now.q, now.u, now.slow, now.fastest)
        told = first(first(now.status, status), jnp.asarray(Status.TOO_MANY_EVENTS, jnp.int32))
        return now._replace(q=x, u=w, impulse=now.impulse + impulse, status=told.astype(jnp.int32))

    return where_wanted(pending, inelastic, now)
