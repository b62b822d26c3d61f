"""The smooth part of the motion with friction: every contact held in its mode, of second or fourth order."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from diffcontact import qp
from diffcontact.batching import once, where_wanted
from diffcontact.friction import slip_acceleration, slips
from diffcontact.qp.friction.held_modes import hold_modes
from diffcontact.qp.friction.law import length
from diffcontact.schemes.event_timed.friction.piece import Piece
from diffcontact.status import Status, first
from diffcontact.system import acceleration, advanced, contacts, displaced, gap_acceleration, rate


class Arrival(NamedTuple):
    """The end of a smooth piece of motion.

    Attributes:
        q: (n,), u: (d,) position and velocity.
        slope: (d,) the velocity with which the place of arrival moves as the piece gets longer.
        given: (d,) what the change of forces that are given functions of time has added to u [m/s], to fourth order.
        impulse: (c,), friction: (c, k) of the closed contacts [N s].
        load: (c,), rub: (c, k) the reaction there [N].
        sliding: (c, k) slip velocities [m/s], and their rates, `accelerating` [m/s^2].
        shared: (c,) contacts whose part of the reaction is not unique.
        status: ().
    """

    q: Array
    u: Array
    slope: Array
    given: Array
    impulse: Array
    friction: Array
    load: Array
    rub: Array
    sliding: Array
    accelerating: Array
    shared: Array
    status: Array

    @classmethod
    def nowhere(cls, q: Array, u: Array, sliding: Array) -> Arrival:
        """One before any motion, of the shapes of these."""
        still, none, across = jnp.zeros_like(u), jnp.zeros_like(sliding[:, 0]), jnp.zeros_like(sliding)
        fine = jnp.zeros((), jnp.int32)
        return cls(jnp.zeros_like(q), still, still, still, none, across, none, across, across, across, none > 0, fine)


def smooth(system, params, t, s, q, u, piece: Piece, order: int) -> Arrival:
    """Advance by s without any event, to second or fourth order in s.

    Half of the reaction is that of the beginning, half is what holds the velocity at the end, as in RATTLE; G the rows
    of the closed contacts::

        x = q advanced by s with u + s/2 a,    then moved (M-orthogonally) onto  g(t+s, x) = 0
        w = u + s/2 (a(t, q, u) + M^-1 f(t+s, x, u + s a)) + M^-1 (N^T P + S^T B),
        N w + n0 = 0  where closed,     S w + s0 = 0  where it sticks,     B = -mu P v_T/|v_T|  where it slips

    Exact for constant forces and flat contacts; forces that are given functions of time are integrated to fourth order
    (`_given`). Or, of fourth order, Runge and Kutta's x and w, then moved and held alike; to third where a slip in
    space comes to its end on a bent path. Between events no contact is asked whether it pushes.

    Source: RATTLE (Andersen 1983), with friction in the modes of design section 8.
    """
    held, end = jnp.any(piece.modes.closed), t + s
    if order == 2:
        further, faster, given = _given(system, params, t, s, q, u, piece)
        mean, slope = u + s / 2 * piece.a + further, u + s * piece.a
        x, rest = advanced(system, params, q, mean, s), s / 2
        w = u + s / 2 * (piece.a + acceleration(system, params, end, x, slope)) + faster
        impulse, friction = s / 2 * piece.load, s / 2 * piece.rub
        sound = jnp.array(True)
    else:
        x, w, impulse, friction, sound = _runge_kutta(system, params, t, s, q, u, piece)
        slope, rest, given = w, jnp.zeros_like(s), jnp.zeros_like(w)
    status = first(piece.status, jnp.where(sound, Status.OK, Status.NO_FRICTION).astype(jnp.int32))
    flying = Arrival.nowhere(q, u, piece.rub)._replace(q=x, u=w, slope=slope, given=given, status=status)

    def supported():
        y = _placed(system, params, end, x, piece)
        last = w if order == 4 else u + s / 2 * (piece.a + acceleration(system, params, end, y, slope)) + faster
        there = _held(system, params, end, flying._replace(q=y), last, piece, rest)
        there = there._replace(impulse=impulse + there.impulse, friction=friction + there.friction)
        return there if order == 2 else there._replace(slope=there.u)

    return where_wanted(held, supported, flying) if piece.load.size else flying


def _runge_kutta(system, params, t, s, q, u, piece: Piece):
    """x, w and the impulses (c,), (c, k) of closed contacts by Runge and Kutta's method, each contact held in its mode;
    and whether there are reactions that hold them."""

    def reaction(time, x, w):
        free = acceleration(system, params, time, x, w)
        flying = free, jnp.zeros_like(piece.load), jnp.zeros_like(piece.rub), jnp.array(True)

        def supported():
            here, slip = contacts(system, params, time, x), slips(system, params, time, x, w.size)
            rows = system.mass(x, params), here.normals, slip.tangents
            bends = gap_acceleration(system, params, time, x, w, free) - here.normals @ free
            turns = slip_acceleration(system, params, time, x, w, free) - slip.tangents @ free
            law, direction = (piece.around.place.friction, free), _turned(slip.velocity(w), piece)
            found = hold_modes(*rows, bends, turns, *law, piece.modes, direction, (piece.load, piece.rub))
            return found.u, found.normal, found.tangential, found.found

        return where_wanted(jnp.any(piece.modes.closed), supported, flying) if piece.load.size else flying

    def stage(slopes, at):
        (way, a), (fraction, weight) = slopes, at
        x, w = q + fraction * s * way, u + fraction * s * a
        *found, sound = reaction(t + fraction * s, x, w)
        slopes = rate(system, params, x, w), found[0]
        return slopes, ([weight * one for one in (slopes[0], w, *found)], sound)

    begin = rate(system, params, q, u), u, piece.a, piece.load, piece.rub
    nodes = jnp.array([1 / 2, 1 / 2, 1.0], q.dtype), jnp.array([2.0, 2.0, 1.0], q.dtype)
    _, (later, sound) = lax.scan(stage, (begin[0], piece.a), nodes)
    sums = (s / 6 * (one + jnp.sum(rest, axis=0)) for one, rest in zip(begin, later, strict=True))
    way, moved, gained, *impulses = sums
    x = q + way
    if system.rate is not None and system.advance is not None:
        # What the rule misses of the mean velocity is known: a body that only turns does so exactly, however fast.
        exactly, by_rule = (
            advanced(known, params, q, moved, jnp.ones_like(s)) for known in (system, replace(system, advance=None))
        )
        x = x + exactly - by_rule
    return x, u + gained, *impulses, jnp.all(sound)


def _given(system, params, t, s, q, u, piece: Piece) -> tuple[Array, Array, Array]:
    """What Simpson's rule adds to the mean and to the last velocity where forces change with time, and what such a
    change makes of the latter in all, (d,) each [m/s].

    The trapezoidal rule takes them as linear. At the place and velocity of the beginning, so that it makes them fourth
    order in time alone. Closed contacts answer to the mean here, to the last velocity where that is held.
    """
    place = piece.around.place
    times = t + s * jnp.array([0.5, 1.0], q.dtype)
    middle, end = jax.vmap(lambda t: acceleration(system, params, t, q, u))(times) - piece.around.free[None]

    changes = jnp.stack([middle, (4 * middle + end) / 6])

    def answered():
        rows = place.mass, place.contacts.normals, place.slip.tangents
        still = jnp.zeros_like(place.contacts.drift), jnp.zeros_like(place.slip.drift)
        return jax.vmap(lambda a: hold_modes(*rows, *still, place.friction, a, piece.modes, piece.direction).u)(changes)

    mean, whole = where_wanted(jnp.any(piece.modes.closed), answered, changes)
    return s / 3 * mean, s / 3 * (2 * middle - end), s * whole


# What is corrected of the place: twice onto the closed contacts, then to where none that rests overlaps.
PLACES = 3


def _placed(system, params, t, x, piece: Piece):
    """x moved onto the contacts that are held closed: O(s^3), then O(s^6); none for flat ones."""
    tolerance = piece.around.tolerance.gap

    def correct(y, number):
        here, mass = contacts(system, params, t, y), system.mass(y, params)
        last = number == PLACES - 1
        still = jnp.zeros(here.normals.shape[1], y.dtype)
        found = qp.hold(mass, here.normals, here.gap, still, piece.modes.closed & ~last)

        def push():
            end = qp.project(mass, here.normals, jnp.where(piece.resting, here.gap, jnp.inf), still)
            return end.u

        step = where_wanted(last & jnp.any(piece.resting & (here.gap < -tolerance)), push, found.u)
        return displaced(system, params, y, step), None

    return lax.scan(correct, x, jnp.arange(PLACES))[0]


# What is held at the end: the velocity, then the acceleration, whose reaction tells when a mode ends.
VELOCITY, REACTION = range(2)


def _held(system, params, t, there: Arrival, target, piece: Piece, rest) -> Arrival:
    """The arrival at t with velocity and reaction of contacts in the modes of the piece; its impulses are those that
    hold the velocity.

    A reaction that several contacts share in more than one way keeps to how they shared it at the beginning.

    Args:
        there: its place and slope.
        target: (d,) the velocity before it is held.
        rest: for how many seconds the reaction is still missing in it.
    """
    x, slope = there.q, there.slope
    here, slip, mass = contacts(system, params, t, x), slips(system, params, t, x, slope.size), system.mass(x, params)
    direction = _turned(slip.velocity(slope), piece)

    def solve(w, number):
        def velocity():
            return here.drift, slip.drift, target

        def reaction():
            free = acceleration(system, params, t, x, w)
            bends = gap_acceleration(system, params, t, x, w, free) - here.normals @ free
            turns = slip_acceleration(system, params, t, x, w, free) - slip.tangents @ free
            return bends, turns, free

        b, drift, v = lax.cond(number == VELOCITY, velocity, once(reaction))
        rows, mu = (mass, here.normals, slip.tangents), piece.around.place.friction
        share = jnp.where(number == VELOCITY, rest, 1.0)
        near = share * piece.load, share * piece.rub
        held = hold_modes(*rows, b, drift, mu, v, piece.modes, direction, near)
        return jnp.where(number == VELOCITY, held.u, w), (held, slip.tangents @ held.u + drift)

    w, (held, along) = lax.scan(solve, target, jnp.arange(2))
    (impulse, load), (friction, rub), (sliding, accelerating) = held.normal, held.tangential, along
    return there._replace(
        u=w,
        impulse=impulse,
        friction=friction,
        load=load,
        rub=rub,
        sliding=sliding,
        accelerating=accelerating,
        shared=held.shared[REACTION],
        status=first(there.status, jnp.where(jnp.all(held.found), Status.OK, Status.NO_FRICTION).astype(jnp.int32)),
    )


# A slip that has lost this share of its speed keeps the direction it began with: where a bent path passes by zero, the
# direction there says nothing about the way.
STEADY = 0.25


def _turned(sliding: Array, piece: Piece) -> Array:
    """(c, k) the direction of each slip at the end of a piece, from its velocity there."""
    if sliding.shape[1] == 1:
        return piece.direction
    along, size = jnp.sum(sliding * piece.direction, axis=1), length(sliding)
    speed = length(piece.around.sliding)
    steady = piece.modes.slip & (speed > piece.around.slip_tolerance) & (along > STEADY * speed)
    return jnp.where(steady[:, None], sliding / jnp.where(steady, size, 1.0)[:, None], piece.direction)
