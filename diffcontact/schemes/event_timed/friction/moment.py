"""What happens at a moment between two smooth pieces of motion: an impact, and the modes that the contacts go on in.

All of it are friction problems of one form, solved one after the other at one place, so that they are compiled once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from diffcontact.batching import computed_again, entangled, in_lanes, once, select, where_wanted
from diffcontact.friction import friction_status, tangential_restitutions
from diffcontact.mass import solve
from diffcontact.qp.friction.coulomb import CoulombProjection, with_modes
from diffcontact.qp.friction.held_modes import hold_modes
from diffcontact.qp.friction.law import length
from diffcontact.qp.friction.modes import Modes
from diffcontact.schemes.event_timed.friction.piece import (
    CERTAIN,
    MORE_CERTAIN,
    Imposed,
    Piece,
    Place,
    Question,
    Surroundings,
    about_modes,
    begin,
    lost_direction,
)
from diffcontact.schemes.event_timed.friction.single_impact import Hit, struck_alone
from diffcontact.schemes.event_timed.impacts import Bounces, Percussion, Threshold, held_at_zero, lasting_restitution
from diffcontact.status import Status, first
from diffcontact.system import System


class Due(NamedTuple):
    """What the event asks for that the last piece of motion has ended at.

    Attributes:
        strike: () whether there is an impact.
        contact: () int, the contact that closes.
        alone: () whether only the contacts that it reaches take part.
        closed: (c,) the contacts that are closed here.
        ended: (c,) contacts whose slip has come to its end: it is zero from here on.
        modes: of the piece that has ended, in which that slip is stopped.
        imposed: see `Imposed`.
    """

    strike: Array
    contact: Array
    alone: Array
    closed: Array
    ended: Array
    modes: Modes
    imposed: Imposed


class Passage(NamedTuple):
    """What a moment leads to: the impact, the contacts (c,) that were not left to bounce in it, the acceleration (c,)
    that would have brought these back, and the `Piece` of motion that begins, which may be `uncertain`."""

    hit: Hit
    soft: Array
    closing: Array
    piece: Piece
    uncertain: Array


# The problems: an impact in which all bounce; who would be back within the step; the impact in which these do not
# bounce; how fast they would have come back; the impact in which nothing bounces, where it would make energy; the
# modes, and these once more.
HIT, AHEAD, HIT_SOFTLY, LET_GO, HIT_DEAD, MODES, MODES_AGAIN = range(7)


def pass_by(system, params, t, q, u, h, left, due: Due, limits: Threshold):
    """The event that is due, and the piece of motion that begins behind it.

    An impact is Moreau's. Of the closed contacts that it reaches, u+ and the impulses (P, B) obey ::

        M (u+ - u-) = N^T P + S^T B,     v_N+ >= -e v_N-, complementary to P >= 0
        |B| <= mu P,                     B = -mu P w/|w|  where  w = v_T+ + e_t v_T-  is not zero

    A contact that would be closed again within the step does not bounce (e = e_t = 0). The kinetic energy, relative to
    moving walls, changes by 1/2 (P . (v_N- + v_N+) + B . (v_T- + v_T+)), which friction can make positive (Kane and
    Levinson's pendulum). Then u+ is blended with that of e = e_t = 0, which never gains: energy is convex along the
    blend, and so are the cones, so that the smallest weight that brings the chord to zero suffices.

    An impact that one contact takes alone is Poisson's or Stronge's where the system says so (`flow`). They make no
    energy.

    Args:
        h: length of the step, left: what is left of it [s].
        due: what the event asks for.
        limits: below which a bounce is not followed.

    Returns:
        The `Passage`, the limits' `unsettled` behind it, a status, and the `Percussion`.

    Source: J. J. Moreau, Unilateral contact and dry friction in finite freedom dynamics (1988); e_t: R. M. Brach,
    J. Appl. Mech. 56 (1989).
    """
    before = _Before.at(system, params, t, q, u, h, left, due, limits)

    def step(so_far, number):
        return where_wanted(before.wanted(so_far, number), lambda: before.solved(so_far, number), so_far), None

    passage = lax.scan(computed_again(step), in_lanes(before.nothing(), before.u), jnp.arange(7))[0]

    place, opening, hit = before.place, before.opening, passage.hit
    lasting = lasting_restitution(system, params, before.e, before.rebound)
    soft = passage.soft & (before.rebound > limits.rounding)
    bounces = Bounces(due.contact, opening, hit.normal, before.rebound, passage.closing, lasting, soft)
    coarse, unsettled, tail = limits.without(bounces, place.contacts, t)
    coarse = coarse | jnp.any(soft & _may_grip_otherwise(passage.piece, tail, limits.fastest))
    status = first(hit.status, jnp.where(coarse, Status.TOO_COARSE, Status.OK).astype(jnp.int32))
    struck = before.takes_part & due.strike
    if system.speed_dependent:
        status = first(status, system.restitution_status(params, opening, struck))
    status = first(status, friction_status(system, params, opening, struck))
    status = first(status, jnp.where(passage.uncertain, Status.NO_FRICTION, passage.piece.status).astype(jnp.int32))
    contact = jnp.where(due.strike, due.contact, -1).astype(jnp.int32)
    speeds, jump = (opening, place.contacts.velocity(hit.u), limits.slow), (q, before.u, hit.u - before.u)
    record = Percussion(t, contact, hit.normal, *speeds, soft, *jump, jnp.arange(opening.size), hit.tangential)
    return passage, unsettled, status, record


class _Before(NamedTuple):
    """What is known before anything is solved.

    Attributes:
        system, params, t, q, h, left, due: as in `pass_by`; u: (d,) the velocity, slips that have ended stopped.
        place: what belongs to the place; struck: the same with the friction of an impact of this speed.
        opening: (c,), sliding: (c, k) velocities [m/s]; e, e_t: (c,) restitutions.
        takes_part: (c,) contacts that the impact reaches; by_moreau: those that Moreau's law is asked for.
        flows: () whether one takes the impact alone, by its flow; alone: that impact and its compression, or None.
        rebound: (c,) how fast each would leave [m/s]; slow: (c,) whether so slowly that it may be back within the step.
    """

    system: System
    params: Any
    t: Array
    q: Array
    u: Array
    h: Array
    left: Array
    due: Due
    place: Place
    struck: Place
    opening: Array
    sliding: Array
    e: Array
    e_t: Array
    takes_part: Array
    by_moreau: Array
    flows: Array
    alone: tuple[Hit, Hit] | None
    rebound: Array
    slow: Array

    @classmethod
    def at(cls, system, params, t, q, u, h, left, due: Due, limits: Threshold) -> _Before:
        place = Place.at(system, params, t, q, u.size)
        u = where_wanted(jnp.any(due.ended), lambda: _stopped(place, u, due), u)
        opening, sliding = place.contacts.velocity(u), place.slip.velocity(u)
        e = jnp.broadcast_to(system.restitution_of(params, opening), opening.shape)
        e_t = tangential_restitutions(system, params, opening.size, u.dtype)
        struck = place.struck(system, params, opening)
        takes_part = due.closed & (_reached(place, due.closed, due.contact) | ~due.alone)
        rebound = lax.stop_gradient(-e * opening)
        flows, alone, by_moreau = jnp.array(False), None, takes_part
        if system.flows:
            flows = due.strike & (jnp.sum(takes_part) == 1)
            alone = _struck_alone(system, struck, due.contact, e, u, flows)
            rebound = jnp.where(flows, lax.stop_gradient(place.contacts.velocity(alone[0].u)), rebound)
            by_moreau = takes_part & ~flows
        # Of e = 0, too, though nothing is left out: what it does to first order if it grows is that of such a bounce.
        slow = takes_part & (opening < -limits.rounding) & (rebound <= limits.slow)
        return cls(
            system, params, t, q, u, h, left, due, place, struck, opening, sliding, e, e_t,
            takes_part, by_moreau, flows, alone, rebound, slow,
        )  # fmt: skip

    def around(self, u) -> Surroundings:
        """The place, at this velocity."""
        return Surroundings.at(self.system, self.params, self.t, self.q, u, self.h, self.place)

    def nothing(self) -> Passage:
        """No impact, and no motion behind it."""
        at = self.params, self.t, self.q
        still, none, across = entangled((self.u, jnp.zeros_like(self.opening), jnp.zeros_like(self.sliding)), at)
        hit = Hit(still, none, across, jnp.zeros((), jnp.int32))
        around = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(lambda: self.around(self.u)))
        piece = entangled(Piece.nowhere(around), (still, *at))
        return Passage(hit, self.takes_part & False, lax.stop_gradient(none), piece, jnp.array(False))

    def wanted(self, so_far: Passage, number) -> Array:
        """() whether a problem has to be solved."""
        gains = gain(self.place, self.opening, self.sliding, so_far.hit) > 0
        strike, softly = self.due.strike, jnp.any(so_far.soft)
        hits = strike, strike & jnp.any(self.slow), softly, softly, strike & gains
        return jnp.stack([*hits, jnp.array(True), so_far.uncertain])[number]

    def solved(self, so_far: Passage, number) -> Passage:
        """What a problem adds to the passage."""
        due, place, around = self.due, self.place, self.around(so_far.hit.u)
        looks_ahead, dead = (number == AHEAD) | (number == LET_GO), number == HIT_DEAD
        impacts, certain = (number <= HIT_DEAD) & ~looks_ahead, jnp.where(number == MODES, CERTAIN, MORE_CERTAIN)
        questions = (
            once(lambda: self.impact(so_far.soft | dead)),
            once(lambda: _ahead(around, self.h)),
            once(lambda: about_modes(around, due.imposed, self.left, certain)),
        )
        asked = lax.switch(jnp.where(looks_ahead, 1, jnp.where(number >= MODES, 2, 0)), questions)
        found, modes = _answer(asked._replace(b=jnp.where((number == LET_GO) & so_far.soft, jnp.inf, asked.b)))
        closing = -lax.stop_gradient(place.contacts.normals @ found.u + asked.b)
        struck = Hit(found.u, found.normal, found.tangential, found.status)
        if self.alone is not None:
            whole, compression = self.alone
            ends_early = so_far.soft[due.contact] | dead
            struck = select(self.flows, select(ends_early, compression, whole), struck)
        struck = select(dead, without_gain(place, self.opening, self.sliding, so_far.hit, struck), struck)
        stays = held_at_zero(place.contacts.normals, asked.b, asked.v, found.u)
        returns = self.slow & (stays | (found.status != Status.OK))
        piece = begin(around, due.imposed, asked, found, modes, self.h)
        return Passage(
            hit=select(impacts, struck, so_far.hit),
            soft=jnp.where(number == AHEAD, returns, so_far.soft),
            closing=jnp.where(number == LET_GO, closing, so_far.closing),
            piece=select(number >= MODES, piece, so_far.piece),
            uncertain=(number >= MODES) & lost_direction(asked, due.imposed, around, found),
        )

    def impact(self, soft) -> Question:
        """The impact in which these contacts do not bounce."""
        e, e_t = jnp.where(soft, 0.0, self.e), jnp.where(soft, 0.0, self.e_t)
        return about_impact(self.struck, self.by_moreau, e, e_t, self.u)


# What may be missed of a slip where bounces are left out, of the bodies' fastest motion so far.
LEFT_OUT = 1 / 64


def _may_grip_otherwise(piece: Piece, tail: Array, fastest: Array) -> Array:
    """(c,) contacts whose slip may go on otherwise than it would behind the bounces of a `tail` (c,) of seconds.

    The bounces push as much as the contact that takes their place, so that what slips all the while, or grips at each
    of them, ends alike. Between the two, what drives the slip while nothing is in touch decides.
    """
    around, tangents = piece.around, piece.around.place.slip.tangents
    driven = length(tangents @ around.free + around.turning)
    rubbed = length(tangents @ piece.a + around.turning)
    fast = jnp.max(jnp.abs(tangents) @ fastest + jnp.abs(around.place.slip.drift), axis=1)
    slips_on = length(around.sliding) > 2 * tail * (driven + rubbed)
    grips = ~piece.modes.slip & (length(piece.rub) <= around.place.friction * piece.load / 2)
    return (around.place.friction > 0) & (tail * driven > LEFT_OUT * fast) & ~slips_on & ~grips


def _struck_alone(system, place: Place, contact, e, u, wanted) -> tuple[Hit, Hit]:
    """The impact that `contact` takes alone, and its compression; u and no impulse where that is not wanted."""
    none = jnp.zeros_like(e), jnp.zeros_like(place.slip.drift), jnp.zeros((), jnp.int32)
    still = Hit(u, *none)
    return where_wanted(wanted, lambda: struck_alone(system.impact_law, place, contact, e[contact], u), (still, still))


def about_impact(place: Place, takes_part: Array, e: Array, e_t: Array, u: Array) -> Question:
    """The velocity after an impact with these restitutions (c,), e and e_t, of the contacts that take part."""
    rises, turns = e * place.contacts.velocity(u), e_t[:, None] * place.slip.velocity(u)
    return place.question(jnp.where(takes_part, place.contacts.drift + rises, jnp.inf), place.slip.drift + turns, u)


def _answer(asked: Question) -> tuple[CoulombProjection, Modes]:
    """The solution of a friction problem, and the modes; no work where every contact is switched off."""
    off = jnp.isinf(asked.b)
    none = CoulombProjection(asked.v, jnp.zeros_like(asked.b), jnp.zeros_like(asked.s), jnp.zeros((), jnp.int32))
    nowhere = Modes(closed=off & False, slip=off & False)
    return where_wanted(jnp.any(~off), lambda: with_modes(*asked), (none, nowhere))


def _ahead(around: Surroundings, h) -> Question:
    """Which gaps need a reaction to stay open for h seconds: of all contacts, without friction and derivatives."""
    room = 2 * jnp.maximum(around.opening, 0.0) / h + 2 * jnp.maximum(around.place.contacts.gap, 0.0) / h**2
    asked = around.place.question(around.curving + room, around.turning, around.free)
    return lax.stop_gradient(asked._replace(friction=jnp.zeros_like(asked.friction)))


def _stopped(place: Place, u, due: Due):
    """The velocity (d,) with the slips that have ended set to zero, and what else is held kept."""
    modes = Modes(closed=due.modes.closed, slip=due.modes.slip & ~due.ended)
    still = jnp.zeros_like(place.slip.drift)
    rows = place.mass, place.contacts.normals, place.slip.tangents, place.contacts.drift, place.slip.drift
    return hold_modes(*rows, place.friction, u, modes, still).u


def gain(place: Place, opening, sliding, hit: Hit):
    """() kinetic energy that an impact makes, relative to moving walls, beyond rounding [J]."""
    closing, slipping = place.contacts.velocity(hit.u), place.slip.velocity(hit.u)
    made = jnp.sum(hit.normal * (opening + closing)) + jnp.sum(hit.tangential * (sliding + slipping))
    normal = jnp.abs(hit.normal) * (jnp.abs(opening) + jnp.abs(closing))
    tangential = jnp.abs(hit.tangential) * (jnp.abs(sliding) + jnp.abs(slipping))
    rounding = 16 * jnp.finfo(opening.dtype).eps * (jnp.sum(normal) + jnp.sum(tangential))
    return (made - lax.stop_gradient(rounding)) / 2


def without_gain(place: Place, opening, sliding, hit: Hit, dead: Hit) -> Hit:
    """The impact that makes no energy: a blend with the dead one."""
    rise, fall = (gain(place, opening, sliding, one) for one in (hit, dead))
    spread = rise - fall
    weight = jnp.where((rise > 0) & (spread > 0), rise / jnp.where(spread > 0, spread, 1.0), 0.0)
    u, normal, tangential = (a + weight * (b - a) for a, b in zip(hit[:3], dead[:3], strict=True))
    return Hit(u, normal, tangential, first(hit.status, dead.status))


def _reached(place: Place, closed, contact) -> Array:
    """(c,) closed contacts whose impulse changes a velocity of `contact`, directly or through others."""
    mass, normals, tangents = lax.stop_gradient((place.mass, place.contacts.normals, place.slip.tangents))
    rows = jnp.where(closed[:, None, None], jnp.concatenate([normals[:, None], tangents], axis=1), 0.0)
    shape = rows.shape
    flat = rows.reshape(-1, shape[2])
    delassus = flat @ solve(mass, flat.T)
    size = jnp.sqrt(jnp.diagonal(delassus))
    acts = jnp.abs(delassus) > jnp.finfo(flat.dtype).eps ** 0.75 * size[:, None] * size[None, :]
    touches = jnp.any(acts.reshape(*shape[:2], *shape[:2]), axis=(1, 3))

    def spread(carry):
        reached, _ = carry
        return reached | jnp.any(touches & reached[None, :], axis=1), reached

    start = jnp.arange(closed.size) == contact
    return lax.while_loop(lambda c: jnp.any(c[0] != c[1]), spread, (start, jnp.zeros_like(start)))[0]
