"""What an impact does to the velocity."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from diffcontact import qp
from diffcontact.batching import entangled, in_lanes, select, where_wanted
from diffcontact.mass import solve
from diffcontact.status import Status, first
from diffcontact.system import Contacts, acceleration, contacts, gap_acceleration


@partial(
    jax.tree_util.register_dataclass,
    data_fields=[
        *("time", "contact", "impulse", "before", "after", "slow", "soft", "q", "u", "jump", "numbers"),
        *("friction", "status"),
    ],
    meta_fields=[],
)
@dataclass(frozen=True)
class Percussion:
    """What happened at one impact, or at many (each field with a leading axis).

    Attributes:
        time: () when [s].
        contact: () int, the contact that closed; -1 where there was no percussion.
        impulse: (c,) of every contact that took part [N s].
        before, after: (c,) gap velocities [m/s].
        slow: (c,) how fast a contact may leave and still be back within the step, at most [m/s].
        soft: (c,) bool, contacts that were not left to bounce, since they would have been closed again within the step.
        q, u: (d,) where [m], and how fast before [m/s].
        jump: (d,) what it does to the velocity [m/s].
        numbers: (c,) int, the contacts that the entries above are of, and that `contact` is one of: all in order; of
            balls with a cell list those of the `NeighbourList`, first * (balls + fixed balls + walls) + partner in the
            numbers of their surfaces.
        friction: (c, k) tangential impulses where contacts rub [N s]; else None.
        status: () of `dc.impact`; None in a trajectory's list, where its own status tells.
    """

    time: Array
    contact: Array
    impulse: Array
    before: Array
    after: Array
    slow: Array
    soft: Array
    q: Array
    u: Array
    jump: Array
    numbers: Array
    friction: Array | None = None
    status: Array | None = None

    def numbered(self, numbers: Array) -> Percussion:
        """The same with the contacts called by these numbers (c,), in place of their order in a list."""
        contact = jnp.where(self.contact >= 0, numbers[self.contact], -1)
        return replace(self, contact=contact, numbers=numbers[self.numbers])


def no_percussion(t, impulse: Array, q: Array) -> Percussion:
    """The padding of a list of percussions."""
    none, still, numbers = jnp.zeros_like(impulse), jnp.zeros_like(q), jnp.arange(impulse.size)
    number = jnp.array(-1, jnp.int32)
    return Percussion(jnp.zeros_like(t), number, none, none, none, none, none > 0, still, still, still, numbers)


class Bounces(NamedTuple):
    """What an impact says of the bounces behind it.

    Attributes:
        contact: () int, the contact that closes.
        before: (c,) gap velocities before the impact [m/s].
        impulse: (c,) of every contact that takes part [N s].
        rebound: (c,) how fast contacts would leave [m/s].
        closing: (c,) the acceleration that would have brought those of `soft` back, were none of them held [m/s^2].
        lasting: (c,) see `lasting_restitution`.
        soft: (c,) bool, those that were not left to bounce.
    """

    contact: Array
    before: Array
    impulse: Array
    rebound: Array
    closing: Array
    lasting: Array
    soft: Array


class Threshold(NamedTuple):
    """Limits below which a bounce is not followed; none of them is differentiated.

    Attributes:
        h: () length of the step [s].
        slow: (c,) how fast a contact may leave and still be back within the step [m/s].
        rounding: () a gap velocity below this is zero to rounding [m/s].
        fastest: (d,) the largest speed of each coordinate so far [m/s].
        unsettled: (d,) the time until which a coordinate may still move in bounces that were left out [s].
    """

    h: Array
    slow: Array
    rounding: Array
    fastest: Array
    unsettled: Array

    def without(self, bounces: Bounces, here: Contacts, t) -> tuple[Array, Array, Array]:
        """Whether bounces that an impact leaves out make a difference (), what is unsettled behind it (d,), and how
        long the bounces would have gone on (c,) [s].

        They do where they are not small (`matters`), and where a blow meets them: a body that is struck while it rests
        passes the blow on at once, one that still bounces is struck alone. However small the bounce is, that makes a
        difference as fast as the blow. Where nothing is passed on, the bounce itself changes the
        blow, by an eighth or more if the blow is not eight times as fast as such a bounce may be.

        All bounces of one contact take 1 / (1 - e) times as long as the first. Where a body already rattles at another
        contact the two pass their motion to and fro, and an impact takes its part of one of two: in the mean they die
        away as if by sqrt((1 + e^2) / 2). The first takes 2 rebound / closing, no longer than the step, which it was
        seen to end in.

        Args:
            bounces: those of the impact.
            here: the contacts there.
            t: when [s].
        """
        contact, before, impulse, rebound, closing, lasting, soft = bounces
        moves = jnp.abs(here.normals) > 0
        rattles = jnp.any(moves & (self.unsettled > t)[None, :], axis=1)
        struck = jnp.arange(soft.size) == contact
        passed_on = rattles & (impulse > 0) & ~struck
        slow = jnp.max(jnp.where(passed_on | struck, self.slow, 0.0))
        blow = -before[contact]
        fast = matters(here, -before, 0, self.fastest)
        # What still bounces moves no faster than `slow`: a blow that is much faster than that is changed by little.
        changed = blow < 8 * jnp.max(jnp.where(rattles, self.slow, 0.0))
        met = (jnp.any(passed_on) & (blow > slow)) | ((rattles & fast)[contact] & changed)
        coarse = jnp.any(soft & matters(here, rebound, lasting, self.fastest)) | met

        ratio = jnp.where(rattles, jnp.sqrt((1 + lasting**2) / 2), lasting)
        first = 2 * rebound / jnp.where(soft, jnp.maximum(closing, 2 * rebound / self.h), 1.0)
        tail = first / jnp.where(soft, 1 - ratio, 1.0)
        until = jnp.max(jnp.where(moves & soft[:, None], (t + tail)[:, None], -jnp.inf), axis=0, initial=-jnp.inf)
        return coarse, *lax.stop_gradient((jnp.maximum(self.unsettled, until), tail))


def percussion(
    system, params, t, q: Array, u: Array, contact, closed: Array, threshold: Threshold, alone, adhesion=None
):
    r"""The jump of the velocity at an impact: u+ (d,), what is unsettled (d,), status and the `Percussion`.

    One projection over the closed contacts that the impact can reach (through their Delassus matrix G M^-1 G^T)::

        u+ = argmin 1/2 |u - u-|_M^2      subject to      v_i(u) >= -e_i v_i(u-)

    with v(u) = G u + dg/dt. For one e this is u+ = -e u- + (1 + e) Proj_M(T_K(q), u-) (S3 eq. 2): substitute
    u = -e u- + (1 + e) z. A contact that would be closed again within the step does not bounce (e_i = 0), so a Zeno
    sequence ends in rest (`_returns`). Gravity that opens the gap, or a body that curves away, lets it bounce however
    slow it is.

    The kinetic energy (relative to moving walls) changes by D = 1/2 sum_i lambda_i (1 - e_i) v_i-. With one e,
    sum lambda_i v_i- <= 0 since (1 + e) lambda . v- = -lambda . A lambda, so D <= 0; setting e_i = 0 where
    v_i- <= 0 only adds non-positive terms. With one e per contact D may be positive: a contact that
    *separates* (v_i- > 0) is pressed by its neighbours. Then u+ is blended with the solution for e = min_i e_i,
    whose D is <= 0: D is convex along the blend, so the smallest weight that brings the chord to zero suffices. Nothing
    in this asks where e_i comes from: restitution that depends on the speed is one number per contact in each impact.

    Args:
        t, q, u: time, place and velocity of the impact.
        contact: the contact that closes.
        closed: (c,) contacts closed there.
        threshold: see `Threshold`.
        alone: whether only the contacts coupled to `contact` take part; independent simultaneous impacts then
            keep each its own time, and with it its derivative.
        adhesion: None, or (c,) by which impulse each contact holds back [N s]; then e = 0 (`schemes.gluing`).

    Returns:
        u+; the threshold's `unsettled`, with the bounces left out here; a status, TOO_COARSE where a bounce that
        matters was left out (`matters`), or where what should still bounce is struck from its other side; the record.

    Source: S3 eq. (2); S1 section 4.
    """
    before = _Before.at(system, params, t, q, u, contact, closed, threshold, alone, adhesion)

    def step(hit: _Hit, number):
        hit = where_wanted(before.wanted(hit, number), lambda: before.solved(hit, number), hit)
        return hit, hit

    _, hits = lax.scan(step, in_lanes(before.nothing(), before.u), jnp.arange(4 if before.alike else 5))
    hit = jax.tree.map(lambda x: x[LET_GO], hits)
    after, impulse, here, opening = hit.u, hit.impulse, before.here, before.opening
    if not before.alike:
        after, impulse = _without_gain(here, opening, hit, jax.tree.map(lambda x: x[HIT_ALIKE], hits))
    lasting = lasting_restitution(system, params, before.e, before.rebound)
    soft = hit.soft & (before.rebound > threshold.rounding)
    bounces = Bounces(contact, opening, impulse, before.rebound, hit.closing, lasting, soft)
    coarse, unsettled, _ = threshold.without(bounces, here, t)
    status = first(hit.status, jnp.where(coarse, Status.TOO_COARSE, Status.OK).astype(jnp.int32))
    if system.speed_dependent:
        status = first(status, system.restitution_status(params, opening, before.takes_part))
    if before.held is not None:
        impulse = impulse - before.held
    speeds, jump = (opening, here.velocity(after), threshold.slow), (q, u, after - u)
    number, numbers = contact.astype(jnp.int32), jnp.arange(opening.size)
    return after, unsettled, status, Percussion(t, number, impulse, *speeds, soft, *jump, numbers)


# The problems of an impact: all bounce; which would be back within the step; these do not bounce; how fast they would
# have come back; all bounce like the least elastic, where restitutions differ.
HIT, AHEAD, HIT_SOFTLY, LET_GO, HIT_ALIKE = range(5)


class _Before(NamedTuple):
    """What is known of an impact before anything is solved.

    Attributes:
        system, params, t, q, u: as in `percussion`; h: () length of the step [s].
        mass, here: mass and contacts there; opening: (c,) gap velocities [m/s].
        e: (c,) restitutions; alike: whether they are one by construction.
        takes_part: (c,) contacts that the impact reaches; held: None, or (c,) by which impulse they hold back [N s].
        rebound: (c,) how fast each would leave [m/s]; slow: (c,) whether so slowly that it may be back within the step.
    """

    system: Any
    params: Any
    t: Array
    q: Array
    u: Array
    h: Array
    mass: Array
    here: Contacts
    opening: Array
    e: Array
    alike: bool
    takes_part: Array
    held: Array | None
    rebound: Array
    slow: Array

    @classmethod
    def at(cls, system, params, t, q, u, contact, closed, threshold: Threshold, alone, adhesion) -> _Before:
        mass, here = system.mass(q, params), contacts(system, params, t, q)
        opening = here.velocity(u)
        restitution = system.restitution_of(params, opening)
        e, alike = jnp.broadcast_to(restitution, opening.shape), restitution.ndim == 0
        takes_part = closed & (_coupled(mass, jnp.where(closed[:, None], here.normals, 0.0), contact) | ~alone)
        held = None if adhesion is None else jnp.where(takes_part, adhesion, 0.0)
        rebound = lax.stop_gradient(-e * opening)
        # Of e = 0, too, though nothing is left out: what it does to first order if it grows is that of such a bounce.
        slow = takes_part & (opening < -threshold.rounding) & (rebound <= threshold.slow)
        known = opening, e, alike, takes_part, held, rebound, slow
        return cls(system, params, t, q, u, threshold.h, mass, here, *known)

    def nothing(self) -> _Hit:
        """No impact."""
        still, none = entangled((self.u, jnp.zeros_like(self.opening)))
        return _Hit(still, none, self.takes_part & False, jnp.zeros((), jnp.int32), lax.stop_gradient(none))

    def wanted(self, hit: _Hit, number) -> Array:
        """() whether a problem has to be solved."""
        softly, gains = jnp.any(hit.soft), _gain(self.here, self.opening, hit) > 0
        return jnp.stack([number == HIT, jnp.any(self.slow), softly, softly, gains])[number]

    def solved(self, hit: _Hit, number) -> _Hit:
        """What a problem adds to the impact."""
        here, lets_go = self.here, number == LET_GO
        predicts = (number == AHEAD) | lets_go

        def ahead():
            return lax.stop_gradient(_ahead(self.system, self.params, self.t, self.q, hit.u, here, self.h))

        least = jnp.min(jnp.where(self.takes_part, self.e, 1.0))
        e = jnp.where(hit.soft, 0.0, jnp.where(number == HIT_ALIKE, least, self.e))
        pulled = self.u if self.held is None else self.u - solve(self.mass, here.normals.T @ self.held)
        bounded = jnp.where(self.takes_part, here.drift + e * self.opening, jnp.inf)
        offset, target = where_wanted(predicts, ahead, (bounded, pulled))
        found = qp.project(self.mass, here.normals, jnp.where(lets_go & hit.soft, jnp.inf, offset), target)
        returns = self.slow & (held_at_zero(here.normals, offset, target, found.u) | (found.status != Status.OK))
        closing = -lax.stop_gradient(here.normals @ found.u + offset)
        seen = hit._replace(soft=select(lets_go, hit.soft, returns), closing=select(lets_go, closing, hit.closing))
        return select(predicts, seen, _Hit(found.u, found.multipliers, hit.soft, found.status, hit.closing))


class _Hit(NamedTuple):
    """A velocity after an impact, its impulses (c,), which contacts (c,) did not bounce, the projection's status, and
    the acceleration (c,) that would have brought these back [m/s^2]."""

    u: Array
    impulse: Array
    soft: Array
    status: Array
    closing: Array


def _ahead(system, params, t, q, u, here: Contacts, h):
    """Offsets (c,) and target (d,) of the projection that says which gaps need a reaction to stay open for h seconds.

    Gauss' principle, as `smooth_motion.start` asks it, of all contacts: g_i + h v_i + h^2/2 (G_i a + gamma_i) >= 0. A
    ball on its way down to the floor is stopped there, and whatever leaves it slowly comes back to it.
    """
    free = acceleration(system, params, t, q, u)
    curving = gap_acceleration(system, params, t, q, u, free) - here.normals @ free
    return curving + 2 * jnp.maximum(here.velocity(u), 0.0) / h + 2 * jnp.maximum(here.gap, 0.0) / h**2, free


def held_at_zero(normals: Array, offset: Array, target: Array, u: Array) -> Array:
    """(c,) contacts whose values, normals u + offset, the projection u of a target has made zero, to rounding.

    Not those with a multiplier: of rows that depend on each other, as at the four corners of a box, some have none, and
    which ones is left to chance.
    """
    size = jnp.abs(normals) @ (jnp.abs(target) + jnp.abs(u)) + jnp.abs(offset)
    return lax.stop_gradient(normals @ u + offset <= jnp.finfo(u.dtype).eps ** 0.75 * size)


def lasting_restitution(system, params, e: Array, rebound: Array) -> Array:
    """(c,) the restitution by which a sequence of bounces dies away that begins with these rebounds (c,) [m/s].

    Of a law that lets slow impacts keep more of their speed, the next impact's where that is larger.
    """
    return jnp.maximum(e, system.restitution_of(params, -rebound)) if system.speed_dependent else e


def matters(here: Contacts, speed: Array, e, fastest: Array) -> Array:
    """(c,) whether a bounce that leaves at this speed (c,) may be left out only with a warning.

    Not if its height is below a hundredth (1/64) of what the fastest motion of the bodies so far would reach. And not
    if it would die away soon: of e = 1 it never does, 1 / (1 - e) further bounces count.
    """
    return speed > jnp.minimum(1 / 8, 1 - e) * (jnp.abs(here.normals) @ fastest + jnp.abs(here.drift))


def held_into(mass, here: Contacts, u: Array, fastest: Array, held_back: Array, at_rest: Array):
    """() whether to hold contacts closed that open drives the bodies into others, which are at rest.

    A body that would hop and go on is stopped there for good, however small the hop: on its way up a ramp whose foot it
    has not left, and to which it would come back within the step.

    Args:
        mass, here: mass and contacts; u: (d,) velocity before [m/s]; fastest: (d,) the largest speeds so far [m/s], of
            which an eighth may be lost.
        held_back: (c,) bool, contacts that open and are held closed.
        at_rest: (c,) bool, the others.
    """
    mass, here, u, fastest = lax.stop_gradient((mass, here, u, fastest))

    def driven():
        rows = jnp.where((held_back | at_rest)[:, None], here.normals, 0.0)
        delassus = rows @ solve(mass, rows.T)
        own = jnp.diagonal(delassus)
        pulls = jnp.where(held_back, here.velocity(u) / jnp.where(own > 0, own, 1.0), 0.0)
        blow = jnp.max(delassus * pulls[None, :], axis=1)
        stops = jnp.where(at_rest & matters(here, blow, 0, jnp.abs(u)), blow / jnp.where(own > 0, own, 1.0), 0.0)
        return jnp.any(jnp.abs(solve(mass, rows.T @ stops)) > fastest / 8)

    return where_wanted(jnp.any(held_back) & jnp.any(at_rest), driven, jnp.array(False))


def _gain(here: Contacts, before, hit: _Hit):
    """() kinetic energy that an impact makes, relative to moving walls, beyond rounding [J]."""
    after = here.velocity(hit.u)
    # Of e = 1 nothing is made: rounding would decide at random whether the derivative is that of e above 1.
    rounding = 16 * jnp.finfo(before.dtype).eps * jnp.abs(hit.impulse) @ (jnp.abs(before) + jnp.abs(after))
    return (hit.impulse @ (before + after) - lax.stop_gradient(rounding)) / 2


def _without_gain(here: Contacts, before, hit: _Hit, least: _Hit):
    """u+ and impulses that make no energy: a blend with the solution for the least e, where that is needed."""
    rise, fall = _gain(here, before, hit), _gain(here, before, least)
    spread = rise - fall
    weight = jnp.where(rise > 0, rise / jnp.where(spread > 0, spread, 1.0), 0.0)
    return hit.u + weight * (least.u - hit.u), hit.impulse + weight * (least.impulse - hit.impulse)


def _coupled(mass, normals: Array, contact) -> Array:
    """(c,) contacts whose impulse changes the gap velocity of `contact`, directly or through others; rows of zero are
    none."""
    mass, normals = lax.stop_gradient((mass, normals))
    delassus = normals @ solve(mass, normals.T)
    size = jnp.sqrt(jnp.diagonal(delassus))
    touches = jnp.abs(delassus) > jnp.finfo(normals.dtype).eps ** 0.75 * size[:, None] * size[None, :]

    def spread(carry):
        reached, _ = carry
        return reached | jnp.any(touches & reached[None, :], axis=1), reached

    start = jnp.arange(normals.shape[0]) == contact
    return lax.while_loop(lambda c: jnp.any(c[0] != c[1]), spread, (start, jnp.zeros_like(start)))[0]
