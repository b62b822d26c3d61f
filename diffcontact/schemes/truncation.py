"""How much of a motion is the truncation of its steps, or, in single precision, the rounding of its places."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from diffcontact.schemes.blows import forces_blow, surfaces_strike
from diffcontact.schemes.margins import Margins
from diffcontact.schemes.unseen import (
    ENDS,
    MATTERS,
    Unseen,
    depends_on_time,
    forces_and_joints,
    given_forces,
    obstacles_hide,
    unseen_belts,
    unseen_walls,
)
from diffcontact.status import Status
from diffcontact.system import acceleration, advanced, rate

# What truncation may come to of the way of a coordinate: some fifteen steps for a period of an oscillation.
MOST = 1 / 32
# From such a share of its own way on the truncation of a piece makes its change of velocity doubtful, and such a share
# of the fastest motion doubtful changes may have.
DOUBTFUL, MOST_DOUBTFUL = 1 / 16, 1 / 4
# By such a share of a spin its axis may seem to turn, seen from the beginning of a piece.
MOST_TURNED = 1 / 4
# A coordinate counts where its way, times the root of its mass, is more than this power of eps of the largest: a body
# that slides on a floor moves across it by rounding.
LEAST_WAY = 0.75


def winds(system, params, q: Array, u: Array, end: Array, s) -> Array:
    """() whether a `rate` turns so far within s seconds that twice half of them lead elsewhere, by `MOST` of the way of
    a coordinate, to and fro.

    A system with a `dexpinv` turns as far as it likes about one axis: it is asked whether its axis turns, from the
    velocity u to that at the `end`.
    """
    if system.rate is None:
        return jnp.array(False)
    if system.dexpinv is not None:
        u, end = lax.stop_gradient((u, end))
        turned = jnp.abs(lax.stop_gradient(system.dexpinv(s * u, end, params)) - end)
        return jnp.any(turned > MOST_TURNED * jnp.max(jnp.abs(end), initial=0.0))
    whole = advanced(system, params, q, u, s)
    half = advanced(system, params, q, u, s / 2)
    halves = advanced(system, params, half, u, s / 2)
    q, whole, half, halves = lax.stop_gradient((q, whole, half, halves))
    way = jnp.abs(half - q) + jnp.abs(halves - half)
    rounding = jnp.finfo(q.dtype).eps ** 0.75 * (1 + jnp.abs(q))
    return jnp.any(jnp.abs(whole - halves) > MOST * way + rounding)


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

    def counts(self, least, fastest: Array, q: Array) -> Array:
        """() whether it is a larger share than `MOST` of a place's way, or of the fastest motion (d,), and beyond what
        a place q (n,) rounds by anyhow."""
        moves = self.reach > least * jnp.max(self.reach, initial=0.0)
        known = 64 * jnp.finfo(q.dtype).eps * jnp.abs(q) + self.still
        places = jnp.any(moves & (jnp.abs(self.lag) > MOST * self.reach + known))
        return places | jnp.any(jnp.abs(self.loss) > MOST * jnp.max(fastest, initial=0.0) + self.slowly)


@partial(
    jax.tree_util.register_dataclass,
    data_fields=[
        *("error", "way", "doubtful", "time", "forces", "surfaces", "blind", "blows", "rounding", "timed", "margins")
    ],
    meta_fields=[],
)
@dataclass(frozen=True)
class Truncation:
    """What pieces of motion sum up to, in the coordinates of u; not differentiated.

    A piece of s seconds takes the acceleration at its beginning for all of it; what the change of the acceleration adds
    to the place is to leading order::

        s^2/6 |a(t + s) - a(t)|  =  s/3 |w - u - s a(t)|,       w = u + s/2 (a(t) + a(t + s)) the velocity at its end

    Sums rather than single pieces are compared, so that a motion may begin from rest. Where it is so much of a single
    piece that its change of velocity is doubtful (a stiff spring, met for some steps on a long way), that change is
    compared with the fastest motion. Errors that grow by themselves, as those of chaotic motions do, are beyond it:
    that is what `substeps="auto"` is for.

    Attributes:
        error: (d,) the sum of these [m].
        way: (d,) how far the coordinate has moved, to and fro [m].
        doubtful: (d,) the largest change of velocity that was doubtful in a piece [m/s].
        time: () how long the motion has gone on [s].
        forces: (d,) what is unseen of forces that are given as functions of time [m/s].
        surfaces: () for how long walls and belts did what steps cannot see, and for how long they had a part [s].
        blind: () how many steps went through an obstacle, or did not see how a wall throws a body.
        blows: (d,) the sum of blows that single steps did not see [m/s].
        rounding: in single precision, else None: see `Rounding`.
        timed: where steps of first order know forces that are given as functions of time, else None: (d,) what their
            change within steps adds to the place, and how far the coordinate has moved [m]. That is not `way`, which a
            weight has a part in that rests on a floor.
        margins: where impacts have times of their own, else None: the error that is carried, see `Margins`.
    """

    error: Array
    way: Array
    doubtful: Array
    time: Array
    forces: Unseen
    surfaces: Unseen
    blind: Array
    blows: Array
    rounding: Rounding | None = None
    timed: Unseen | None = None
    margins: Margins | None = None

    @classmethod
    def of_step(cls, system, params, t, h, before, after, impulse: Array) -> Truncation:
        """That of a step of first order with h, from one state to another.

        Forces are taken at one time and place. How much place and velocity change them is asked at that time: what
        rests under a load that changes is where it belongs. How much time changes them counts where a coordinate moves
        and feels nothing but them.
        """
        params, t, h, impulse = lax.stop_gradient((params, t, h, impulse))
        q, u, x, w = lax.stop_gradient((before.q, before.u, after.q, after.u))
        given = given_forces(system, params, q, u)
        a, there = given(t), acceleration(system, params, t, x, w)
        moved = h / 2 * (jnp.abs(u) + jnp.abs(w) + h * jnp.abs(a))
        forces = Unseen.nothing(u).after(given, t, h, ENDS)
        belts = unseen_belts(system, params, t, h, q, u, impulse != 0)
        surfaces = unseen_walls(system, params, t, h, q, impulse).plus(belts)
        blind = obstacles_hide(system, params, t, h, lambda f: q + f * (x - q), moved=h / 2 * (u + w))
        blind = blind | surfaces_strike(system, params, t, h, q, u, w, impulse)
        off, none = h**2 / 6 * jnp.abs(there - a), jnp.zeros_like(u)
        blows = forces_blow(forces_and_joints(system, params, q, u), t, h, root_of_diagonal(system.mass(q, params)))
        timed = _timed(given, t, h, u, w) if depends_on_time(given, t) else None
        return cls(off, moved, none, jnp.abs(h), forces, surfaces, blind.astype(u.dtype), blows, timed=timed)

    @classmethod
    def nothing(cls, q: Array, u: Array) -> Truncation:
        """Before any motion from q (n,) with the velocity u (d,)."""
        still, there = jnp.zeros_like(u), jnp.zeros_like(q)
        # In double precision no motion takes as many steps as that would need.
        single = jnp.finfo(q.dtype).eps > 1e-10
        zero = jnp.zeros((), u.dtype)
        rounding = Rounding(there, there, still, zero, zero) if single else None
        seen = Unseen.nothing(u), Unseen.nothing(zero)
        return cls(still, still, still, zero, *seen, zero, still, rounding, margins=Margins.nothing(u))

    def through(self, system, params, t, s, q: Array, u: Array, end: Array, watched: Array) -> Truncation:
        """And whether a piece of s seconds from (q, u) to the place `end`, on a parabola, goes through an obstacle."""
        params, s, q, u, end = lax.stop_gradient((params, s, q, u, end))
        way = s * rate(system, params, q, u)
        hidden = obstacles_hide(
            system, params, t, s, lambda f: q + f * way + f**2 * (end - q - way), watched=lax.stop_gradient(watched)
        )  # fmt: skip
        return replace(self, blind=self.blind + hidden)

    def decided(self, *piece) -> Truncation:
        """And what a piece has decided, as `Margins.judged` takes it."""
        return self if self.margins is None else replace(self, margins=self.margins.judged(*piece))

    def rounded(self, system, params, s, begin, end, slow: Array, given: Array | float = 0.0) -> Truncation:
        """And what rounding takes from a piece of s seconds.

        Args:
            begin: its place (n,), velocity (d,) and acceleration (d,) at first; end: its place and velocity then.
            slow: (c,) speeds [m/s] below which contacts do not bounce, half of what a step makes (`Tolerance`).
            given: (d,) the part of its change of velocity that is no acceleration's [m/s].
        """
        if self.rounding is None:
            return self
        params, s, (q, u, a), (x, w), slow, given = lax.stop_gradient((params, s, begin, end, slow, given))
        way, (lag, reach, loss, slowly, still) = s * rate(system, params, q, (u + w) / 2), self.rounding
        lag, loss = lag + (way - (x - q)), loss + (s * a - (w - given - u))
        few = 8 * jnp.max(slow, initial=0.0)
        grown = Rounding(lag, reach + jnp.abs(way), loss, jnp.maximum(slowly, few), still + s * few)
        return replace(self, rounding=grown)

    def after(self, s, u: Array, w: Array, a: Array, forces: Unseen, rounding, order: int) -> Truncation:
        """And a piece of s seconds, from the velocity u with the acceleration a (d,) to the velocity w.

        Args:
            forces: with what this piece adds to them.
            rounding: () a velocity that is zero to rounding [m/s].
            order: of the motion, 2 or 4. Of fourth order truncation is about the square of that of second, per way.
        """
        s, u, w, a, rounding = lax.stop_gradient((s, u, w, a, rounding))
        # Loads that cancel, among redundant contacts above all, round by more than one term does.
        moved = s / 2 * (jnp.abs(u) + jnp.abs(w) + s * jnp.abs(a) + 64 * rounding)
        # Of second order, Heun's method turns an oscillation four times as far as that of Verlet.
        off = (4 if order == 2 else 1) * s / 3 * jnp.abs(w - u - s * a)
        doubtful = jnp.where(off > DOUBTFUL ** (2 / order) * moved, jnp.abs(w - u), 0.0)
        doubtful = jnp.maximum(self.doubtful, doubtful)
        error, way, time = self.error + off, self.way + moved, self.time + jnp.abs(s)
        margins = None if self.margins is None else self.margins.after(s, s / 3 * (w - u - s * a), w - u, moved, order)
        return replace(self, error=error, way=way, doubtful=doubtful, time=time, forces=forces, margins=margins)

    def status(self, mass: Array, fastest: Array, q: Array, order: int) -> Array:
        """() TOO_COARSE where the truncation of a coordinate is a larger share of its way than `MOST`, a change of its
        velocity that is doubtful a larger share of the fastest motion than `MOST_DOUBTFUL`, or much of what drives it,
        or of contacts' surfaces, is `Unseen`; ILL_CONDITIONED where
        rounding is more than `MOST` of a way, or of the fastest motion; or else OK.

        Args:
            mass: (d,) or (d, d), which tells what coordinates of different units weigh [kg].
            fastest: (d,) the largest |u| of the motion [m/s].
            q: (n,) the place in the end [m].
            order: as in `after`.

        Example:
            >>> import jax, numpy as np
            >>> rest = Truncation.nothing(np.zeros(2), np.zeros(2))
            >>> swinging = replace(rest, error=np.array([0.1, 0.0]), way=np.ones(2))
            >>> found = jax.jit(lambda: [swinging.status(*np.ones((3, 2)), order) for order in (2, 4)])()
            >>> [Status(int(status)).name for status in found]
            ['TOO_COARSE', 'OK']
        """
        weight = root_of_diagonal(mass) * self.way
        least = float(jnp.finfo(weight.dtype).eps) ** LEAST_WAY
        counts = weight > least * jnp.max(weight, initial=0.0)
        long = self.error > MOST ** (2 / order) * self.way
        blind = self.forces.large & (self.forces.missed * self.time / 2 > MATTERS * self.way)
        coarse = jnp.any(counts & (long | blind | (self.doubtful > MOST_DOUBTFUL * fastest)))
        if self.margins is not None:
            coarse = coarse | self.margins.doubtful
        coarse = coarse | self.surfaces.large | (self.blind > 0)
        if self.timed is not None:
            coarse = coarse | jnp.any(counts & (self.timed.missed > MOST * self.timed.felt))
        coarse = coarse | jnp.any(self.blows * self.time / 2 > MATTERS * self.way)
        status = jnp.asarray(int(Status.OK))
        if self.rounding is not None:
            status = jnp.where(
                self.rounding.counts(least, fastest, lax.stop_gradient(q)), Status.ILL_CONDITIONED, status
            )
        return jnp.where(coarse, Status.TOO_COARSE, status).astype(jnp.int32)


def _timed(given: Callable, t, h, u: Array, w: Array) -> Unseen:
    """`Truncation.timed` of a step with h from the velocity u (d,) to w, accelerations (d,) given as functions of time;
    nothing missed where a contact has taken part."""
    # Schemes take a force at the beginning of a step or in its middle.
    begin, middle, end = lax.stop_gradient(jax.vmap(given)(t + h * jnp.asarray([0.0, 0.5, 1.0], u.dtype)))
    rounding = 64 * jnp.finfo(u.dtype).eps * (jnp.abs(u) + jnp.abs(w))
    alone = jnp.minimum(jnp.abs(w - u - h * begin), jnp.abs(w - u - h * middle)) <= rounding
    missed = h**2 / 6 * jnp.where(alone, jnp.abs(end - begin), 0.0)
    return Unseen(missed, h / 2 * (jnp.abs(u) + jnp.abs(w) + jnp.abs(w - u)))


def root_of_diagonal(mass: Array) -> Array:
    """(d,) what coordinates weigh by themselves, mass (d,) or (d, d)."""
    return jnp.sqrt(mass if mass.ndim == 1 else jnp.diagonal(mass))
