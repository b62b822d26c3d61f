"""Stick, slip and slip reversals of a particle line, each at its own time."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from diffcontact.batching import where_wanted
from diffcontact.particle_line import ParticleLine
from diffcontact.schemes.event_timed.line_flow import Way, flow, friction, friction_bound, pull
from diffcontact.schemes.event_timed.search import Watched, first_event
from diffcontact.schemes.line import Within, belt
from diffcontact.schemes.percussion_friction import glide_to
from diffcontact.status import Status, first


class _Piece(NamedTuple):
    """Where we are, `left` seconds before the end, and how each particle goes on."""

    now: Within
    left: Array
    modes: Array


def glide_timed(line: ParticleLine, params, events: int, now: Within, time) -> Within:
    """From now to a time that is not earlier, from event to event.

    An event of a slipping particle is a slip velocity that vanishes: it is set to zero there, and the particle sticks
    if friction can hold it, |pull| <= gamma nu, else slips the other way. An event of a sticking one is a pull that
    reaches its bound. After `events` of them the rest is taken by implicit Euler (`percussion_friction.glide`).

    Because the time of a reversal moves with the parameters, the derivative of the slip velocity crosses zero with the
    factor a+/a-, the ratio of the accelerations after and before.
    """
    left = jnp.maximum(time - now.time, 0.0)

    def piece(carry):
        here = carry.now
        way, modes = _to_event_or_end(line, params, carry)
        impulse = friction(line, params, way, carry.modes)
        moved = Within(way.t[-1], way.q[-1], _settled(line, params, way, modes), here.impulse + impulse, here.status)
        return _Piece(moved, carry.left - (way.t[-1] - way.t[0]), modes.after), modes.found

    def round_(carry, _):
        state, pending = carry
        return where_wanted(pending, lambda: piece(state), (state, pending)), None

    def move():
        state = _Piece(now, left, _modes(line, params, now.time, now.q, now.u, left))
        (state, pending), _ = lax.scan(round_, (state, left > 0), None, length=events + 1)
        # The end exactly: adding up pieces has rounded.
        end = state.now
        rest = where_wanted(pending, lambda: _rest(line, params, end, time), end)
        return Within(time, rest.q, rest.u, rest.impulse, rest.status)

    return where_wanted(left > 0, move, now)


def _rest(line, params, now: Within, time) -> Within:
    rest = glide_to(line, params, now, time)
    return Within(rest.time, rest.q, rest.u, rest.impulse, first(rest.status, jnp.asarray(Status.TOO_MANY_EVENTS, int)))


class _Modes(NamedTuple):
    """Whether an event was found, which particle's it is, and the modes after it."""

    found: Array
    particle: Array
    after: Array


def _modes(line, params, t, q, u, left) -> Array:
    """(N,) the sign of the slip velocity; where that is zero: 0 (stick) if friction can hold the particle, else the
    sign of the pull."""
    slip = u - belt(line, params, t)
    drawn, bound = pull(line, params, t, q, u), friction_bound(line, params, t, q.dtype)
    still = jnp.abs(slip) <= _tolerance(line, params, t, q, u, left).slip
    held = jnp.where(jnp.abs(drawn) <= bound, 0, jnp.sign(drawn))
    return jnp.where(still, held, jnp.sign(slip)).astype(int)


class _Rounding(NamedTuple):
    """Below what a slip velocity, its rate, a friction force and its rate are zero to rounding; not differentiated."""

    slip: Array
    slip_rate: Array
    force: Array
    force_rate: Array


def _tolerance(line, params, t, q, u, left) -> _Rounding:
    q, u, t, left = lax.stop_gradient((q, u, t, left))
    mass = jnp.asarray(line.mass(params), q.dtype)
    drawn, bound = pull(line, params, t, q, u), friction_bound(line, params, t, q.dtype)
    force = jnp.max(jnp.abs(drawn) + bound)
    acceleration = jnp.max((jnp.abs(drawn) + bound) / mass)
    speed = jnp.max(jnp.abs(u)) + jnp.abs(belt(line, params, t)) + left * acceleration
    eps = jnp.finfo(q.dtype).eps ** 0.75
    seconds = jnp.where(left > 0, left, 1.0)
    return lax.stop_gradient(
        _Rounding(eps * speed, eps * acceleration, eps * force, eps * force / seconds),
    )


def _to_event_or_end(line, params, piece: _Piece) -> tuple[Way, _Modes]:
    """The smooth motion to the first event, or to the end.

    The event is searched for without derivatives; its time has that of the implicit function theorem.
    """
    now, modes, left = piece.now, piece.modes, piece.left
    count = now.q.size
    still = lax.stop_gradient((params, piece))
    glide = _Glide(line, *still, lax.stop_gradient(_tolerance(line, params, now.time, now.q, now.u, left)))
    nowhere = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(glide.advance, still[1].left))
    rounding = 8 * jnp.finfo(now.q.dtype).eps * (jnp.abs(still[1].now.time) + jnp.abs(still[1].left))
    begin = glide.seen(still[1].now.time, still[1].now.q, still[1].now.u)
    known = begin, glide.watched(), *glide.tolerances(), still[1].left, rounding, glide.between, nowhere
    found = lax.stop_gradient(first_event(glide.advance, *known))
    along = _Glide(line, params, piece, glide.rounding)

    def newton(s, _):
        way, seen = along.advance(s)
        value, rate = seen.values[found.index], lax.stop_gradient(seen.rates[found.index])
        late = (value - lax.stop_gradient(value)) / jnp.where(rate != 0, rate, 1.0)
        return jnp.where(found.found, s - late, s), way

    # Of what is at a root the first of Newton's steps has the first derivative, another one the second.
    _, ways = lax.scan(newton, jnp.where(found.found, found.s, left), None, length=3)
    way, particle = jax.tree.map(lambda x: x[-1], ways), found.index % count
    drawn = pull(line, params, way.t[-1], way.q[-1], way.u[-1])[particle]
    bound = friction_bound(line, params, way.t[-1], now.q.dtype)[particle]
    reversed_ = jnp.where(jnp.abs(drawn) <= bound, 0, jnp.sign(drawn))
    starts = jnp.where(found.index < count, 1, -1)
    mode = jnp.where(modes[particle] != 0, reversed_, starts).astype(modes.dtype)
    event = found.found & (jnp.arange(count) == particle)
    return way, _Modes(found.found, particle, jnp.where(event, mode, modes))


class _Glide(NamedTuple):
    """The smooth motion of a piece, and the margins (2 N,) along it, positive until an event: a particle's slip
    velocity in its direction (twice), or what friction still has left, against either side."""

    line: ParticleLine
    params: Any
    piece: _Piece
    rounding: _Rounding

    def advance(self, s) -> tuple[Way, Watched]:
        now = self.piece.now
        way = flow(self.line, self.params, now.time, s, now.q, now.u, self.piece.modes)
        return way, self.seen(way.t[-1], way.q[-1], way.u[-1])

    def seen(self, t, q, u) -> Watched:
        values, rates = self.margins_and_rates(t, q, u)
        return Watched(values, rates, jnp.ones(values.shape, bool))

    def between(self, s, way: Way, end: Watched) -> tuple[Array, Array]:
        """() a share of the way where a margin is negative although it is not at the end, else 1; () its index."""
        values = jax.vmap(self.margins)(*way)
        below = (values < -self.tolerances()[0][None, :]) & self.watched()[None, :]
        k = jnp.argmax(jnp.any(below, axis=1).at[-1].set(True).at[0].set(False))
        return (k / (way.t.size - 1)).astype(s.dtype), jnp.argmax(below[k]).astype(jnp.int32)

    def margins(self, t, q, u) -> Array:
        slips, slip = self.piece.modes != 0, self.piece.modes * (u - belt(self.line, self.params, t))
        drawn, bound = pull(self.line, self.params, t, q, u), friction_bound(self.line, self.params, t, q.dtype)
        return jnp.concatenate([jnp.where(slips, slip, bound - drawn), jnp.where(slips, slip, bound + drawn)])

    def margins_and_rates(self, t, q, u) -> tuple[Array, Array]:
        modes, dtype, one = self.piece.modes, q.dtype, jnp.ones((), q.dtype)
        mass = jnp.asarray(self.line.mass(self.params), dtype)
        driving = pull(self.line, self.params, t, q, u) - modes * friction_bound(self.line, self.params, t, dtype)
        relative, t = jnp.where(modes != 0, driving / mass, 0.0), jnp.asarray(t, dtype)
        _, carried = jax.jvp(lambda t: jnp.asarray(belt(self.line, self.params, t), dtype), (t,), (one,))
        return jax.jvp(self.margins, (t, q, u), (one, u, relative + carried))

    def watched(self) -> Array:
        slips = self.piece.modes != 0
        return jnp.concatenate([jnp.ones(slips.size, bool), ~slips])

    def tolerances(self) -> tuple[Array, Array]:
        """(2 N,) below what margins and their rates are zero to rounding."""
        slips, of = self.piece.modes != 0, self.rounding
        values, rates = jnp.where(slips, of.slip, of.force), jnp.where(slips, of.slip_rate, of.force_rate)
        return jnp.tile(values, 2), jnp.tile(rates, 2)


def _settled(line, params, way: Way, modes: _Modes) -> Array:
    """(N,) the velocity at the end of a piece: that of a particle at its event is the belt's, exactly."""
    event = modes.found & (jnp.arange(way.u.shape[1]) == modes.particle)
    return jnp.where(event, jnp.asarray(belt(line, params, way.t[-1]), way.u.dtype), way.u[-1])
