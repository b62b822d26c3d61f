"""What a run of EventTimed may have missed: bounces that were left out, truncation, what steps do not see.

`Margins` carry what truncation has made of the motion, and judge whether it could change which impacts happen and in
which order; an `Estimate` carries its error where that is asked for. Nothing here is differentiated, and nothing here
changes the motion: it decides between OK and TOO_COARSE.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from diffcontact.numerics.batching import where_wanted
from diffcontact.numerics.linear import length, nonzero, solve_mass
from diffcontact.schemes.event_timed.contacts import Law, Place, velocities
from diffcontact.schemes.event_timed.modes import OPEN, SLIP
from diffcontact.schemes.event_timed.moment import Due, Moment
from diffcontact.schemes.event_timed.motion import Motion
from diffcontact.schemes.event_timed.search import Cubic
from diffcontact.schemes.monitor import (
    ENDS,
    LEAST_WAY,
    MOST,
    SIMPSON,
    TURN,
    Truncation,
    forces_and_joints,
    forces_blow,
    given_forces,
    obstacles_hide,
    root_of_diagonal,
    slip_of,
    surfaces_strike,
    undifferentiated,
    unseen_belts,
    unseen_forces,
)
from diffcontact.status import Status
from diffcontact.system import advanced, rate

# A bounce may be left out if it is slower than that share of the fastest motion of its bodies: its height is then a
# hundredth of what that motion would reach.
LEFT_OUT = 1 / 8
# What was left out before may come to half of that share, a blow by what is held for good to a quarter of it.
CARRIED, HELD_INTO = LEFT_OUT / 2, LEFT_OUT / 4
# What may be missed of a slip where bounces are left out, what a contact may pull by of what forces change the velocity
# by in a step, and what a slip in space may leave aside of its speed where it ends.
SLIGHT = 1 / 64
# A slip in space may turn by so much in a piece (the cosine: 45 degrees), and do anything where it is slower than this
# share of the bodies' fastest motion.
TURNED, HARDLY = 0.7, SLIGHT / 16
# From such a share of its own way on the truncation of a piece makes its change of velocity doubtful (a stiff spring
# that is met for some steps on a long way), and such a share of the fastest motion doubtful changes may have.
DOUBTFUL, MOST_DOUBTFUL = 1 / 16, 1 / 4


class Rounding(NamedTuple):
    """What rounding has taken from a motion in single precision: a step that moves a body, or changes its velocity, by
    less than rounding leaves it as it is, again and again.

    Attributes:
        lag: (n,) how far places have stayed behind what the velocities say [m].
        reach: (n,) how far they should have moved, to and fro [m].
        loss: (d,) how far velocities have stayed behind what forces say [m/s].
        slowly: () how fast a few steps make a body; at rest nothing is faster [m/s]. still: () how far it would have
            moved with that [m].
    """

    lag: Array
    reach: Array
    loss: Array
    slowly: Array
    still: Array

    def after(self, way: Array, s, q: Array, x: Array, loss: Array, slow: Array) -> Rounding:
        """Add a piece of s seconds from q to x, whose velocities say `way` (n,), with the loss (d,) of velocity.

        Contacts do not bounce below the speeds `slow` (c,), half of what a step makes.
        """
        few = 8 * jnp.max(slow, initial=0.0)
        lag, reach = self.lag + (way - (x - q)), self.reach + jnp.abs(way)
        return Rounding(lag, reach, self.loss + loss, jnp.maximum(self.slowly, few), self.still + s * few)

    def counts(self, fastest: Array, q: Array) -> Array:
        """() whether it is a larger share than `MOST` of a place's way, or of the fastest motion (d,), and beyond what
        a place q (n,) rounds by anyhow."""
        eps = jnp.finfo(q.dtype).eps
        moves = self.reach > float(eps) ** LEAST_WAY * jnp.max(self.reach, initial=0.0)
        known = 64 * eps * jnp.abs(q) + self.still
        places = jnp.any(moves & (jnp.abs(self.lag) > MOST * self.reach + known))
        return places | jnp.any(jnp.abs(self.loss) > MOST * jnp.max(fastest, initial=0.0) + self.slowly)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Monitor:
    """What is known of a motion so far.

    Attributes:
        fastest: (d,) the largest |u| [m/s].
        left: (d,) the velocity of bounces that were left out and last [m/s].
        truncation: see `Truncation`.
        doubtful: (d,) the largest change of velocity that was doubtful in a piece [m/s].
        margins: the error that is carried.
        rounding: in single precision, else None.
    """

    fastest: Array
    left: Array
    truncation: Truncation
    doubtful: Array
    margins: Margins
    rounding: Rounding | None

    @classmethod
    def begin(cls, q: Array, u: Array) -> Monitor:
        """Before any motion from q (n,) with the velocity u (d,)."""
        still, there, zero = jnp.zeros_like(u), jnp.zeros_like(q), jnp.zeros((), u.dtype)
        # In double precision no motion takes as many steps as rounding would need.
        single = jnp.finfo(q.dtype).eps > 1e-10
        rounding = Rounding(there, there, still, zero, zero) if single else None
        return cls(jnp.abs(u), still, Truncation.nothing(u), still, Margins.nothing(u), rounding)

    def status(self, mass: Array, q: Array, order: int) -> Array:
        """() TOO_COARSE where the motion that ends at q (n,) may be wrong, ILL_CONDITIONED where it rounds too much."""
        truncation = self.truncation
        doubts = truncation.counts(mass) & (self.doubtful > MOST_DOUBTFUL * self.fastest)
        coarse = truncation.coarse(mass, order) | jnp.any(doubts) | self.margins.doubtful
        rounds = self.rounding is not None and self.rounding.counts(self.fastest, q)
        status = jnp.where(rounds, Status.ILL_CONDITIONED, Status.OK)
        return jnp.where(coarse, Status.TOO_COARSE, status).astype(jnp.int32)

    def impact(self, system, params, t, flight, now: Moment, due: Due) -> tuple[Monitor, Array]:
        """The monitor behind an impact, and whether what it leaves out, or what was left out before, is large ().

        A rebound that is left out is a defect of the velocity (`left`) as long as its bounces last. It becomes an error
        that is carried (`margins`) where they meet another contact, an impact meets them, or their contact opens. What
        such an impact passes on through a contact that may be open for its bounces is a defect, too.
        """
        place, soft = now.here, now.soft & (now.rebound > now.limits.velocity)
        normals, pushed, e, closed = place.rows[:, 0], now.pushed, now.law.e, now.modes != OPEN
        lasting = jnp.maximum(e, Law.of(system, params, -now.rebound).e) if system.speed_dependent else e
        size, this = jnp.abs(normals), ((jnp.arange(soft.size) == due.contact) & due.strike).astype(normals.dtype)
        # (c, d) what changes the velocity of one contact by 1 m/s.
        answers = pushed / jnp.maximum(jnp.sum(normals * pushed, axis=1), jnp.finfo(pushed.dtype).tiny)[:, None]
        jump, before, gain = now.u - now.arrived, this @ now.before, 1 + e
        others = (this == 0) & (now.z[:, 0] > 0) & (size @ jnp.abs(self.left) > 0)
        alone = jnp.where(jnp.any(others), -(this * gain * now.before) @ answers - jump, 0.0)
        closes = closed.astype(size.dtype)
        held = closes @ size > 0
        new = jnp.where(jnp.any(soft), now.whole - now.u, 0.0)
        left = jnp.where(new != 0, new, self.left)
        # A bounce that is back within a flight rises by a quarter of that time its velocity at most.
        speed = size @ jnp.abs(left)
        meets = gain * jnp.where(~closed & (place.gap < flight / 4 * speed), speed, 0.0) @ answers
        margins = self.margins.roused(jnp.where(due.strike | ~held, self.left, 0.0) + meets, flight)
        margins = margins.through(this @ normals, before, jump, alone)
        margins = margins.held(closes, normals, pushed)
        fastest = self._fastest(place)[:, 0]
        # Of a contact that stands the fastest motion is none: what counts as rest is no error.
        carried = size @ margins.fast > CARRIED * fastest + now.limits.velocity
        large = (soft & _matters(now.rebound, fastest, lasting)) | carried
        if now.direction.shape[1]:
            large = large | (soft & self._may_grip_otherwise(now, self._tail(now, soft, lasting, flight)))
        return replace(self, left=jnp.where(held, left, new), margins=margins), jnp.any(large)

    def _tail(self, now: Moment, soft: Array, lasting: Array, h) -> Array:
        """(c,) how long bounces last that are left out [s]: 1 / (1 - e) times as long as the first."""
        closing = -(now.here.rows[:, 0] @ now.free + now.bend[:, 0])
        first = 2 * now.rebound / jnp.where(soft, jnp.maximum(closing, 2 * now.rebound / h), 1.0)
        return first / jnp.where(soft, 1 - lasting, 1.0)

    def piece(
        self, system, params, order: int, t, s, q: Array, now: Moment, end: Motion, seen, after: Due
    ) -> tuple[Monitor, Array]:
        """The monitor behind a piece of s seconds from q, and whether something in it was too coarse ().

        Args:
            now: the moment at its beginning; end: the motion at its end.
            seen: gaps (c,) and their velocities (c,) there.
            after: what is due there.
        """
        place, limits, u = now.here, now.limits, now.u
        closed, opening = now.modes != OPEN, now.speeds[:, 0]
        held_back = closed & (opening > limits.velocity)
        at_rest = ~held_back & (place.gap <= limits.gap) & (jnp.abs(opening) <= limits.velocity)
        fast = self._fastest(place)[:, 0]
        astray = jnp.any(held_back & _matters(opening, fast, 0)) | self._held_into(now, held_back, at_rest)
        astray = astray | winds(system, params, q, u, end.u, s) | jnp.any(_pulls(now, end))
        if now.direction.shape[1] > 1:
            astray = astray | jnp.any(self._turns(system, params, t + s, s, now, end, after.ended))
        # Of a bounce's velocity the next one has the part e, and its contact pushes by twice that velocity meanwhile.
        rows, e = place.rows[:, 0], now.lasting.e
        share = (1 - jnp.max(jnp.where(closed[:, None] & (rows != 0), e[:, None], 0.0), axis=0, initial=0.0)) / 2
        taken = share * jnp.abs(end.impulse[:, 0] @ now.pushed)
        left = self.left - jnp.clip(self.left, -taken, taken)
        behind = replace(self, left=left)._moved(
            system, params, order, t, s, (q, u, now.a), end, limits.velocity, limits.gained
        )
        return behind._decided(system, params, t, s, q, now, end, seen, after, fast), astray

    @undifferentiated
    def step(self, system, params, t, h, q: Array, u: Array, end: Array, impulse: Array) -> Monitor:
        """And what walls, belts and given forces did in a whole step from (q, u) to the velocity `end`."""
        thrown = surfaces_strike(system, params, t, h, q, u, end, impulse)
        struck = forces_blow(forces_and_joints(system, params, q, u), t, h, root_of_diagonal(system.mass(q, params)))
        known = self.truncation
        return replace(self, truncation=known._replace(blind=known.blind + thrown, blows=known.blows + struck))

    def fly(self, system, params, order: int, t, h, q, u, a, end: Motion) -> tuple[Monitor, Array]:
        """The monitor behind a step without contacts, and whether its `rate` turned too far ()."""
        moved = self._moved(system, params, order, t, h, (q, u, a), end, 0.0, jnp.zeros(0, q.dtype))
        return moved, winds(system, params, q, u, end.u, h)

    def _moved(self, system, params, order: int, t, s, begin, end: Motion, noise, slow: Array) -> Monitor:
        """The monitor behind smooth motion of s seconds from `begin`, a place, velocity and acceleration.

        Args:
            noise: () a velocity that is zero to rounding [m/s].
            slow: see `Rounding`.
        """
        (q, u, a), w, known = begin, end.u, self.truncation
        # Loads that cancel, among redundant contacts above all, round by more than one term does.
        way = s / 2 * (jnp.abs(u) + jnp.abs(w) + s * jnp.abs(a) + 64 * noise)
        lost = s / 3 * (w - u - s * a)
        # Of second order, Heun's method turns an oscillation four times as far as that of Verlet.
        off = (4 if order == 2 else 1) * jnp.abs(lost)
        doubtful = jnp.where(off > DOUBTFUL ** (2 / order) * way, jnp.abs(w - u), 0.0)
        nodes = ENDS if order == 2 else SIMPSON
        forces = known.forces.plus(unseen_forces(given_forces(system, params, q, u), t, s, nodes, u))
        rounding = self.rounding
        if rounding is not None:
            rounding = rounding.after(s * rate(system, params, q, (u + w) / 2), s, q, end.q, s * a - (w - u), slow)
        return replace(
            self,
            fastest=jnp.maximum(self.fastest, jnp.abs(w)),
            truncation=known._replace(error=known.error + off, way=known.way + way, time=known.time + s, forces=forces),
            doubtful=jnp.maximum(self.doubtful, doubtful),
            margins=self.margins.after(s, lost, w - u, way, order),
            rounding=rounding,
        )

    def _decided(self, system, params, t, s, q, now: Moment, end: Motion, seen, after: Due, fast) -> Monitor:
        """The monitor behind what a piece has decided, and what belts and obstacles did on its way, a parabola."""
        place, u, flying, known = now.here, now.u, ~now.resting, self.truncation
        belts = unseen_belts(slip_of(system, params, q, u), t, s, now.modes != OPEN, u)
        way = s * rate(system, params, q, u)
        hidden = obstacles_hide(system, params, t, s, lambda f: q + f * way + f**2 * (end.q - q - way), watched=flying)
        struck = (jnp.arange(now.soft.size) == after.contact) & after.strike
        cubic = Cubic.between((place.gap, now.speeds[:, 0]), seen, s)
        hastens = -seen[1] > LEFT_OUT * fast
        margins = self.margins.judged(
            place.rows[:, 0], cubic, seen, s, flying, now.opens, struck, now.limits.gap, hastens
        )
        truncation = known._replace(surfaces=known.surfaces.plus(belts), blind=known.blind + hidden)
        return replace(self, truncation=truncation, margins=margins)

    def _fastest(self, place: Place) -> Array:
        """(c, 1 + k) how fast contacts would be if bodies moved as fast as they have so far [m/s]."""
        return jnp.abs(place.rows) @ self.fastest + jnp.abs(place.drift)

    def _held_into(self, now: Moment, held_back: Array, at_rest: Array) -> Array:
        """() whether to hold contacts closed that open drives the bodies into others, which are at rest.

        A body that would hop and go on is stopped there for good, however small the hop: on its way up a ramp whose
        foot it has not left, and to which it would come back within the step.
        """
        place = now.here

        def driven():
            rows = jnp.where((held_back | at_rest)[:, None], place.rows[:, 0], 0.0)
            delassus = rows @ jnp.where((held_back | at_rest)[:, None], now.pushed, 0.0).T
            own = jnp.diagonal(delassus)
            inverse = 1 / nonzero(own)
            pulls = jnp.where(held_back, now.speeds[:, 0] * inverse, 0.0)
            blow = jnp.max(delassus * pulls[None, :], axis=1)
            moves = jnp.abs(place.rows[:, 0]) @ jnp.abs(now.u) + jnp.abs(place.drift[:, 0])
            return jnp.any(at_rest & (blow > LEFT_OUT * moves) & (blow > HELD_INTO * self._fastest(place)[:, 0]))

        return where_wanted(jnp.any(held_back) & jnp.any(at_rest), driven, jnp.array(False))

    def _may_grip_otherwise(self, now: Moment, tail: Array) -> Array:
        """(c,) contacts whose slip may go on otherwise than it would behind the bounces of a `tail` (c,) of seconds.

        The bounces push as much as the contact that takes their place, so that what slips all the while, or grips at
        each of them, ends alike. Between the two, what drives the slip while nothing is in touch decides.
        """
        tangents, mu = now.here.rows[:, 1:], now.lasting.mu
        driven = length(tangents @ now.free + now.bend[:, 1:])
        rubbed = length(tangents @ now.a + now.bend[:, 1:])
        fast = jnp.max(self._fastest(now.here)[:, 1:], axis=1)
        slips_on = length(now.speeds[:, 1:]) > 2 * tail * (driven + rubbed)
        grips = (now.modes != SLIP) & (length(now.load[:, 1:]) <= mu * now.load[:, 0] / 2)
        return (mu > 0) & (tail * driven > SLIGHT * fast) & ~slips_on & ~grips

    def _turns(self, system, params, t, s, now: Moment, end: Motion, ended: Array) -> Array:
        """(c,) contacts whose slip, in space, turns too far in a piece, passes by zero and does not end, or gets faster
        in another direction than its friction was taken against."""
        place, mu, slips = now.here, now.lasting.mu, now.modes == SLIP
        sliding, rub = velocities(system, params, t, end.q, end.u)[1][:, 1:], end.load[:, 1:]
        size, before, force = length(sliding), length(now.speeds[:, 1:]), length(rub)
        fast = HARDLY * jnp.max(self._fastest(place)[:, 1:], axis=1)
        along = jnp.sum(sliding * now.direction, axis=1)
        rounding = 1e3 * now.limits.slip
        moves = slips & (mu > 0) & (size > jnp.maximum(rounding, fast))
        turned = moves & ((ended & (size > SLIGHT * before)) | (~ended & (along < TURNED * size)))
        against = -rub / nonzero(force)[:, None]
        off = length(sliding / nonzero(size)[:, None] - against)
        pushed = solve_mass(place.mass, jnp.einsum("ckd,ck->cd", place.rows[:, 1:], rub).T)
        across = s * off * length(jnp.einsum("ckd,dc->ck", place.rows[:, 1:], pushed))
        grows = slips & ~ended & (size > jnp.maximum(before, rounding)) & (force > 0)
        return turned | (grows & (across > jnp.maximum(now.limits.slip, fast)))


def _matters(speed: Array, fastest: Array, e) -> Array:
    """(c,) whether a bounce that leaves at this speed (c,) may be left out only with a warning.

    Not if it is slow against the fastest motion of its bodies (c,), and would die away soon: of e = 1 it never does.
    """
    return speed > jnp.minimum(LEFT_OUT, 1 - e) * fastest


@undifferentiated
def winds(system, params, q: Array, u: Array, end: Array, s) -> Array:
    """() whether a `rate` turns so far within s seconds that twice half of them lead elsewhere, by `MOST` of the way of
    a coordinate, to and fro.

    A system with a `dexpinv` turns as far as it likes about one axis: it is asked whether its axis turns, from the
    velocity u to that at the `end`.
    """
    if system.rate is None:
        return jnp.array(False)
    if system.dexpinv is not None:
        turned = jnp.abs(system.dexpinv(s * u, end, params) - end)
        return jnp.any(turned > TURN * jnp.max(jnp.abs(end), initial=0.0))
    whole = advanced(system, params, q, u, s)
    half = advanced(system, params, q, u, s / 2)
    halves = advanced(system, params, half, u, s / 2)
    way = jnp.abs(half - q) + jnp.abs(halves - half)
    rounding = jnp.finfo(q.dtype).eps ** 0.75 * (1 + jnp.abs(q))
    return jnp.any(jnp.abs(whole - halves) > MOST * way + rounding)


def _pulls(now: Moment, end: Motion) -> Array:
    """(c,) contacts that have pulled on the whole, in a piece of motion too long for how fast their load changes.

    One that opens and would be back within the step is held by a pull that stops it, however soon the piece ends.
    """
    compliance = jnp.sum(now.here.rows[:, 0] * now.pushed, axis=1)
    changed = -(1 + now.lasting.mu) * compliance * end.impulse[:, 0] - jnp.maximum(now.speeds[:, 0], 0.0)
    return (now.modes != OPEN) & (changed > SLIGHT * now.limits.gained + now.limits.velocity)


# How many times the error that is carried a gap must be, and how many times what the error makes of its square the
# square of a speed: the error of an impact's derivative, which goes with one over the speed, is then an eighth.
SAFE, FAST = 2.0, 8.0


class Margins(NamedTuple):
    """The errors of a motion, carried along as tangents, and the decisions that lie within them; not differentiated.

    There are two: what is truncated, which a flight of s seconds adds to, and what bounces would do that are left out.
    An impact turns both as it turns any displacement: n the normal, v the speed of approach, jump what it does to the
    velocity::

        flight:    place + s velocity + defect,    velocity + defect
        impact:    place + jump (n place) / v,     velocity + jump (n velocity) / v + defect

    How forces change with the place is left out: between two impacts that is little. Decisions ask for the first alone.

    Attributes:
        error: (4, d) both of the place, in the coordinates of u [m], and both of the velocity [m/s].
        doubtful: () whether a decision so far lies within these.
    """

    error: Array
    doubtful: Array

    @classmethod
    def nothing(cls, u: Array) -> Margins:
        """Before any motion, of the shape of u."""
        return cls(jnp.zeros((4, u.size), u.dtype), jnp.array(False))

    @property
    def fast(self) -> Array:
        """(d,) both errors of the velocity together [m/s]."""
        return jnp.sum(jnp.abs(self.error[2:]), axis=0)

    def after(self, s, off: Array, change: Array, way: Array, order: int) -> Margins:
        """Add a piece of s seconds: its truncation at second order, its change of velocity and its way, (d,) each."""
        share = jnp.abs(off) / jnp.where(way > 0, way, jnp.inf)
        # Of an oscillation of w radians per second the share is x / 6, x = (w s)^2. The place is off by x / 6 or by
        # x^2 / 120 of the way; the change of the velocity by that of the trapezoidal or of Simpson's rule, x / 12 or
        # x^2 / 2880.
        off, change = (off, share / 2 * change) if order == 2 else (0.3 * share * off, share**2 / 80 * change)
        place, raised, velocity, left = self.error
        moved = [place + s * velocity + off, raised + s * left, velocity + change, left]
        return self._replace(error=jnp.stack(moved))

    def roused(self, left: Array, flight) -> Margins:
        """Take velocities (d,) of bounces that were left out, where they are larger than what is carried.

        A bounce that would be back within a flight of so many seconds rises to a quarter of these times its velocity.
        """
        place, raised, velocity, before = self.error
        larger = jnp.abs(left) > jnp.abs(before)
        roused = [place, jnp.where(larger, flight / 4 * left, raised), velocity, jnp.where(larger, left, before)]
        return self._replace(error=jnp.stack(roused))

    def through(self, normal: Array, speed, jump: Array, defect: Array) -> Margins:
        """Go through an impact of the contact with this normal (d,), met at a speed < 0 [m/s]; otherwise there is none.

        It changes the velocity by `jump`, which bounces left out make wrong by `defect`, (d,) each [m/s].
        """
        share = jump / jnp.where(speed < 0, speed, -jnp.inf)
        turned = self.error + jnp.outer(self.error @ normal, share)
        return self._replace(error=turned + jnp.outer(jnp.arange(4) == 3, jnp.where(speed < 0, defect, 0.0)))

    def held(self, these: Array, normals: Array, pushed: Array) -> Margins:
        """Hold contacts (c,), 1 or 0: they leave no gap and no velocity along their normals (c, d).

        One sweep of Jacobi's iteration, with the sums of rows in place of the diagonal, so that it never overshoots;
        `pushed` is M^-1 times the normals.
        """
        sums = jnp.abs(normals @ pushed.T) @ these
        share = (these / nonzero(sums))[:, None] * normals
        return self._replace(error=self.error - (self.error @ share.T) @ pushed)

    def judged(
        self, normals: Array, cubic: Cubic, end, s, watched: Array, opens: Array, struck: Array, closed, fast: Array
    ) -> Margins:
        """Judge the decisions of a piece of s seconds, with the error at its end.

        - A contact that is not struck comes closer than the error: it might have been struck.
        - One is struck so slowly that it might have been missed, or that the error is much of its speed.
        - One that is open, acts on a coordinate of the one that is struck, and closes so soon that it might have been
          the first. Of bounces that are left out: if one of the two is `fast`.

        Args:
            cubic: the gaps along the piece; end: gaps (c,) and their velocities there [m, m/s].
            watched: (c,) contacts that are looked at; opens: (c,) those that open at the beginning.
            struck: (c,) the one that is struck at the end, if any.
            closed: () a gap below this is closed [m]; fast: (c,) contacts whose order matters.
        """
        rows, (gap, speed) = jnp.abs(normals), end
        sizes, others = jnp.abs(self.error) @ rows.T, watched & ~struck
        places, place, velocity = sizes[:2], sizes[0], sizes[2]

        def touches(sigma):
            bottom = (2 * cubic.c2 + 6 * sigma * cubic.c3 > 0) & (sigma > 0) & (sigma < 1)
            # What begins closed, or opens, rises first: a dip of its cubic is the cubic's own error.
            return bottom & (cubic.c0 > closed) & ~opens & (jnp.abs(cubic.value(sigma)) < SAFE * place)

        grazes = others & jnp.any(jax.vmap(touches)(jnp.stack(cubic.extrema())), axis=0)
        # Where the gap is pressed shut it will be struck in any case.
        bend = jnp.maximum(2 * cubic.c2 + 6 * cubic.c3, 0.0) / jnp.where(s > 0, s, jnp.inf) ** 2
        slow = struck & (speed**2 < FAST * (jnp.abs(speed) * velocity + bend * place))

        # By so much the gap of each contact is uncertain when the one is struck, whose time is uncertain, too.
        this = struck.astype(speed.dtype)
        approach = speed @ this
        late = places @ this / jnp.where(approach < 0, -approach, jnp.inf)
        acts = rows @ (this @ rows > 0).astype(rows.dtype) > 0
        follows = acts & others & (gap > closed) & (speed < 0)
        first = follows[None] & (gap[None] < SAFE * (places - jnp.outer(late, speed)))
        changed = first[0] | (first[1] & (fast | jnp.any(fast & struck)))
        return self._replace(doubtful=self.doubtful | jnp.any(grazes | slow | changed))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Estimate:
    """The estimated errors of q and u (n + d,), the way that each has come (n + d,), and whether an error was ever more
    than the share `MOST` of its way ().

    What each step loses is carried on by the derivative of the steps behind it, with p the order::

        err' = (derivative of the step) err + defect,      defect = 2^p / (2^p - 1) (two half steps - one step)

    So the estimate knows how much impacts, which may multiply an error by ten each, make of what was lost before. A
    step that decides otherwise than its halves (an impact that one of them misses) has a defect as large as that.

    Source: Richardson's extrapolation; E. Hairer, S. P. Norsett, G. Wanner, Solving Ordinary Differential Equations I,
    section II.4.
    """

    error: Array
    way: Array
    coarse: Array

    @classmethod
    def begin(cls, q: Array, u: Array) -> Estimate:
        """At rest or not, nothing is lost yet."""
        none = jnp.zeros(q.size + u.size, q.dtype)
        return cls(none, none, jnp.array(False))

    def after(self, q: Array, u: Array, x: Array, w: Array, error: Array) -> Estimate:
        """A step from (q, u) to (x, w) later."""
        way = self.way + jnp.abs(jnp.concatenate([x - q, w - u]))
        # Of a coordinate that hardly moves beside the others rounding is not looked at.
        least = jnp.finfo(q.dtype).eps ** 0.5 * jnp.max(way, initial=0.0)
        coarse = self.coarse | jnp.any((jnp.abs(error) > MOST * way) & (way > least))
        return Estimate(*lax.stop_gradient((error, way, coarse)))


def estimated(run: Callable, order: int, t, h, q: Array, u: Array, error: Array) -> Array:
    """(n + d,) the errors a step later.

    Args:
        run: (t, h, q, u) -> (q, u).
        order: of its error.
        error: (n + d,) those of q and u.
    """
    q, u, error = lax.stop_gradient((q, u, error))
    errors = error[: q.size], error[q.size :]

    # One step, and two half steps: the same program, three times.
    def one(carry, at):
        number, start, length = at
        q0, u0 = jax.tree.map(lambda a, b: jnp.where(number == 2, b, a), (q, u), carry)
        end, moved = jax.jvp(lambda q, u: run(start, length, q, u), (q0, u0), errors)
        return end, (*end, *moved)

    at = jnp.arange(3), jnp.stack([t, t, t + h / 2]), jnp.stack([h, h / 2, h / 2])
    _, (x, w, dx, dw) = lax.scan(one, (q, u), at)
    share = 2**order / (2**order - 1)
    return jnp.concatenate([dx[0] + share * (x[2] - x[0]), dw[0] + share * (w[2] - w[0])])
