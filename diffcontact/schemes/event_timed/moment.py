r"""What happens at a moment between two smooth pieces of motion: an impact, and the modes in which contacts go on.

An impact of the contacts that it reaches, with restitutions e and e_t, is Moreau's::

    M (u+ - u-) = R^T z,     v_N+ >= -e v_N-, complementary to z_N >= 0
    |z_T| <= mu z_N,         z_T = -mu z_N w/|w|  where  w = v_T+ + e_t v_T-  is not zero

Source: J. J. Moreau, Unilateral contact and dry friction in finite freedom dynamics (1988); S3 eq. (2).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from diffcontact.numerics.batching import select, where_wanted
from diffcontact.numerics.linear import solve_mass
from diffcontact.schemes.event_timed.contacts import (
    Law,
    Limits,
    Place,
    bends,
    coupled,
    free_acceleration,
    length,
    reach,
    unit,
)
from diffcontact.schemes.event_timed.modes import OPEN, STICK, Reaction, choose
from diffcontact.schemes.event_timed.motion import Jump, blend_weight, flowed, gain, restitution
from diffcontact.schemes.monitor import depends_on_time


class Due(NamedTuple):
    """What the last event asks for.

    Attributes:
        strike: () whether `contact` () is struck.
        ended: (c,) contacts whose slip has come to its end; modes: (c,), direction: (c, k) of the piece it ended in.
        released: (c,) contacts that have let go in this step: they push no more.
        sliding: (c,) contacts that have reached the bound of their friction in it, and the way (c, k) they set out.
    """

    strike: Array
    contact: Array
    ended: Array
    modes: Array
    direction: Array
    released: Array
    sliding: Array
    way: Array

    @classmethod
    def nothing(cls, count: int, directions: int, dtype) -> Due:
        no, across = jnp.zeros(count, bool), jnp.zeros((count, directions), dtype)
        return cls(jnp.array(False), jnp.zeros((), jnp.int32), no, jnp.zeros(count, jnp.int8), across, no, no, across)


class Moment(NamedTuple):
    """What a moment leads to.

    Attributes:
        u: (d,) velocity behind it; z: (c, 1 + k) the impulses of the jump; whole: (d,) the velocity if all bounced.
        jump: see `Jump`.
        modes: (c,), direction: (c, k) in which contacts go on; a: (d,) acceleration, load: (c, 1 + k) reaction; free:
            (d,) the acceleration without it.
        limits: see `Limits`; with the place (`here`) and what contacts do there (`speeds`, `bend`); pushed: (c, d) M^-1
            times the normals.
        regular: () whether a load that vanishes means anything: not where all are rounding.
        resting: (c,) contacts that are held, touch without opening, or whose wall falls away (`falls`): their gaps do
            not close.
        found: () whether all problems were solved; soft: (c,) contacts that were not left to bounce.
        arrived: (d,) velocity before the jump; before: (c,) gap velocities then; rebound: (c,) how fast contacts would
            leave; struck: (c,) those that take part in the impact.
        law: coefficients of the impact; lasting: those of contacts that last.
    """

    u: Array
    z: Array
    whole: Array
    jump: Jump
    modes: Array
    direction: Array
    a: Array
    load: Array
    here: Place
    pushed: Array
    speeds: Array
    free: Array
    bend: Array
    limits: Limits
    regular: Array
    resting: Array
    falls: Array
    found: Array
    soft: Array
    arrived: Array
    before: Array
    rebound: Array
    struck: Array
    law: Law
    lasting: Law

    @property
    def acceleration_of_rounding(self) -> Array:
        """() accelerations of contacts that are zero to rounding [m/s^2]."""
        parts = jnp.abs(self.free) + jnp.abs(self.a - self.free)
        sizes = jnp.max(jnp.abs(self.here.rows) @ parts + jnp.abs(self.bend), initial=0.0)
        return jnp.finfo(self.a.dtype).eps ** 0.75 * sizes

    @property
    def opens(self) -> Array:
        """(c,) contacts whose gaps do not close and are not pulled shut, like those of what has just let go."""
        pulled = self.here.rows[:, 0] @ self.a + self.bend[:, 0]
        return (self.speeds[:, 0] >= -self.limits.velocity) & (pulled >= -self.acceleration_of_rounding)


# The problems of a moment: all bounce; whose flight is left out; these do not bounce; less restitution,
# where energy was made; the modes, again with what others' reactions make slow, and without curvature if need be.
HIT, AHEAD, SOFTLY, LESS, MODES, MODES_AGAIN, MODES_AT_LAST, DONE = range(8)


class _SoFar(NamedTuple):
    hit: tuple[Array, Array]
    whole: Array
    jump: Jump
    rebound: Array
    soft: Array
    slow: Array
    possible: Array
    going: Reaction
    free: Array
    bend: Array
    limits: Limits
    again: Array
    found: Array


def pass_by(system, params, h, flight, at, due: Due, limits: Limits, all_at_once, inelastic) -> Moment:
    """What is due at (t, q, u), and the modes in which the motion goes on for `left` seconds.

    Args:
        h: length of the step; flight: the shortest that is resolved [s]; at: t, left, q and u.
        limits: those of the piece that ends here.
        all_at_once: () whether closed contacts take part in an impact that it does not reach.
        inelastic: () whether nothing bounces.
    """
    t, left, q, u = at
    place = Place.at(system, params, t, q, u.size)
    size = reach(system, params, t, place, q)
    (count, each), rows = place.drift.shape, jnp.abs(place.rows[:, 0])
    before, still, slowly = place.velocity(u), jnp.zeros(count, bool), jnp.zeros_like(place.gap)
    law, lasting = Law.of(system, params, before[:, 0]), Law.of(system, params, jnp.zeros_like(place.gap))
    closed = place.gap <= limits.gap
    this = (jnp.arange(count) == due.contact) & due.strike
    reached = where_wanted(
        due.strike & (jnp.sum(closed | this) > 1),
        lambda: coupled(place, closed | this, due.contact) | all_at_once,
        this,
    )
    part = due.strike & (closed | this) & reached
    flows = due.strike & (jnp.sum(part) == 1) & system.flows
    approaches = part & (before[:, 0] < -limits.velocity)

    def gap(t):
        return system.gap(t, q, params)

    # A wall that falls away within the step faster than any acceleration makes it leaves the body where it is.
    recedes = gap(t + left) - place.gap - left * place.drift[:, 0] if depends_on_time(gap, t) else slowly

    def slow(so_far: _SoFar):
        """(c,) contacts that leave so slowly that their flight may be left out."""
        return approaches & ((so_far.rebound <= limits.slow) | inelastic)

    def following(number, so_far: _SoFar):
        """The next problem that has to be solved."""
        gains = gain(place, before, so_far.hit) > 0
        less = jnp.where(due.strike & gains, LESS, MODES)
        softly = jnp.where(jnp.any(so_far.soft), SOFTLY, less)
        ahead = jnp.where(jnp.any(slow(so_far)), AHEAD, less)
        more = jnp.where(so_far.again, number + 1, DONE)
        return jnp.stack([ahead, softly, less, jnp.full_like(less, MODES), more, more, jnp.full_like(less, DONE)])[
            number
        ]

    def solve(carry):
        number, so_far = carry
        ahead, modes, less = number == AHEAD, number >= MODES, number == LESS
        hits, accelerates = (number == HIT) | (number == SOFTLY), ahead | modes
        w, _ = so_far.hit
        free, bend = free_acceleration(system, params, t, q, w, place.mass), bends(system, params, t, q, w)
        here, speeds = Limits.at(place, size, w, free, place.rows @ free + bend, h, flight, t), place.velocity(w)
        here = here.at_least(limits)
        # Gauss' principle, asked of the gaps some seconds later. Rounding is no way that is left, however short these.
        opening = jnp.where(speeds[:, 0] > here.velocity, speeds[:, 0], 0.0)
        room = bend[:, 0] + 2 * opening / flight
        apart = jnp.where(ahead & (place.gap > here.gap), place.gap, 0.0)
        room = room + 2 * apart / flight**2
        room = jnp.where(so_far.possible, room, jnp.maximum(room, 0.0))
        bounce = so_far.jump._replace(bounce=part & ~so_far.soft, flows=flows)
        back = jnp.where(bounce.bounce[:, None], restitution(law, bounce, less, each - 1), 0.0)
        smooth = jnp.concatenate([room[:, None], bend[:, 1:]], axis=1)
        touching = (place.gap <= here.gap) & (speeds[:, 0] >= -here.velocity) & ~due.released
        touching = touching & ~(recedes > 2 * left * here.gained + here.gap)
        on = touching & (speeds[:, 0] <= here.velocity + here.slow + so_far.slow)
        near = (room + place.rows[:, 0] @ free < 0) | (place.gap <= here.gap)
        moving = length(speeds[:, 1:]) > here.slip
        known = modes & (moving | due.sliding)
        way = jnp.where(moving[:, None], unit(speeds[:, 1:], due.way), due.way)
        ends = (number == HIT) & ~due.strike
        stopped = jnp.where(due.ended, STICK, due.modes).astype(jnp.int8)
        v, pushes = jnp.where(accelerates, free, u), jnp.where(ahead, near, jnp.where(modes, on, part | ends))
        asked = (
            *(place.mass, place.rows, jnp.where(accelerates, smooth, place.drift + back * before), v),
            *(jnp.where(ahead, 0.0, jnp.where(modes, lasting.mu, law.mu)), pushes, known),
            *(jnp.where(known[:, None], way, jnp.where(ends, due.direction, 0.0)), (ends, stopped)),
        )
        found, fine = where_wanted(jnp.any(pushes), lambda: choose(*asked), (nowhere._replace(u=v), yes))
        if system.flows:
            flow = lambda: flowed(system, place, u, law, due.contact, ~so_far.soft[due.contact])  # noqa: E731
            v, z, told = where_wanted(flows & hits, flow, (found.u, found.z, jnp.zeros((), jnp.int32)))
            modes_ = jnp.where(flows & hits & this, STICK, found.modes).astype(jnp.int8)
            found, fine = found._replace(u=v, z=z, modes=modes_), fine & (told == 0)
        rebound = -law.e * before[:, 0]
        if system.flows:
            rebound = jnp.where(flows, place.velocity(found.u)[:, 0], rebound)
        plain = bounce._replace(modes=found.modes, direction=found.direction)
        lesser = bounce._replace(
            bounce=so_far.jump.bounce, blended=due.strike, less_modes=found.modes, less_direction=found.direction
        )
        weight = jnp.where(less, blend_weight(place, before, so_far.hit, (found.u, found.z)), 1.0)
        hit = jax.tree.map(lambda a, b: a + weight * (b - a), so_far.hit, (found.u, found.z))
        returns = slow(so_far) & (inelastic | _at_zero(place.rows[:, 0], room, free, found.u) | ~fine)
        # Sideways contacts of a pile are accelerated by the others' reactions alone; at a dead point (three balls in
        # a line between walls) no finite reaction follows the curves.
        pushed = rows @ jnp.abs(found.u - free) / 2
        violent = 100 * jnp.max(rows @ jnp.abs(w) + 2 * here.gained, initial=0.0)
        possible = fine & (h * jnp.max(pushed, initial=0.0) <= violent)
        slower = jnp.where(possible & (number == MODES), flight * pushed, so_far.slow)
        more = touching & (speeds[:, 0] <= here.velocity + here.slow + slower)
        here = here._replace(slow=here.slow + so_far.slow)
        after = _SoFar(
            hit=select(hits, (found.u, found.z), select(less, hit, so_far.hit)),
            whole=jnp.where(number == HIT, found.u, so_far.whole),
            jump=select(hits, plain, select(less, lesser, so_far.jump)),
            rebound=jnp.where(number == HIT, rebound, so_far.rebound),
            soft=jnp.where(ahead, returns, so_far.soft),
            slow=jnp.where(modes, slower, so_far.slow),
            possible=jnp.where(modes, possible, so_far.possible),
            going=select(modes, found, so_far.going),
            free=free,
            bend=bend,
            limits=here,
            again=modes & (~possible | jnp.any(more != on)),
            found=jnp.where(ahead | (modes & (number < MODES_AT_LAST)), so_far.found, so_far.found & fine),
        )
        return following(number, after), after

    none = jnp.zeros((count, each), u.dtype)
    nowhere = Reaction(jnp.zeros_like(u), none, jnp.zeros(count, jnp.int8), due.direction)
    yes = jnp.array(True)
    jump = Jump.nothing(count, each - 1, u.dtype)
    start = _SoFar((u, none), u, jump, slowly, still, slowly, yes, nowhere, nowhere.u, none, limits, ~yes, yes)
    begin = jnp.where(due.strike | jnp.any(due.ended), HIT, MODES)
    _, so_far = lax.while_loop(lambda c: c[0] < DONE, solve, (begin, start))
    (w, z), going, limits = so_far.hit, so_far.going, so_far.limits
    pushed = h / 2 * jnp.max(rows @ jnp.abs(going.u - so_far.free), initial=0.0)
    speeds = place.velocity(w)
    rests = due.released | (jnp.abs(speeds[:, 0]) <= limits.velocity)
    falls = (place.gap <= limits.gap) & (recedes > 2 * left * limits.gained + limits.gap)
    rests = (going.modes != OPEN) | falls | ((place.gap <= limits.gap) & (speeds[:, 0] >= -limits.velocity) & rests)
    return Moment(
        u=w, z=z, whole=so_far.whole, jump=so_far.jump, modes=going.modes, direction=going.direction, a=going.u,
        load=going.z, here=place, pushed=solve_mass(place.mass, place.rows[:, 0].T).T, speeds=speeds, free=so_far.free,
        bend=so_far.bend, limits=limits, regular=pushed > limits.velocity,
        found=so_far.found & (so_far.possible | ~so_far.again), soft=so_far.soft,
        resting=rests, falls=falls, arrived=u, before=before[:, 0], rebound=so_far.rebound, struck=part, law=law,
        lasting=lasting,
    )  # fmt: skip


def _at_zero(rows, offset, target, u):
    """(c,) contacts whose values, rows u + offset, a projection of the target has made zero, to rounding."""
    size = jnp.abs(rows) @ (jnp.abs(target) + jnp.abs(u)) + jnp.abs(offset)
    return rows @ u + offset <= jnp.finfo(u.dtype).eps ** 0.75 * size
