"""What the schemes for a `ParticleLine` share: the percussions, each at its own time, and the law that they follow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from diffcontact.numerics.batching import where_wanted
from diffcontact.schemes.scheme import Info
from diffcontact.system import ParticleLine


class LineState(NamedTuple):
    """Position, right velocity, friction impulse (N,) not reported yet, how many percussions are over, what else is
    known of the motion."""

    q: Array
    u: Array
    impulse: Array
    struck: Array
    monitor: Any = None


class Within(NamedTuple):
    """A moment inside a step of a line: friction impulses (N,) so far, the first status, what else the scheme knows."""

    time: Array
    q: Array
    u: Array
    impulse: Array
    status: Array
    monitor: Any = None


Glide = Callable[[Within, Array], Within]


def begin(line: ParticleLine, params, t, h, q: Array, u: Array, monitor: Any = None) -> LineState:
    """A percussion at the first time acts at once, eq. (3.15)-(3.16)."""
    start = Within(t, q, u, jnp.zeros_like(q), jnp.zeros((), int))
    times, rounding = _times(line, t, h), _rounding(t, h)
    due = (times >= t - rounding) & (times <= t + rounding)
    weights = jnp.asarray(line.percussions(params), q.dtype)
    now = _strike_all(line, params, start, t, (times, weights, due), lambda now, time: now)
    return LineState(now.q, now.u, now.impulse, jnp.sum(times <= t + rounding), monitor)


def advance(line: ParticleLine, params, t, h, state: LineState, glide: Glide) -> tuple[LineState, Info]:
    """Glide to each percussion that is due, in the order of their index, through it, and on to the end of the step."""
    end = t + h
    times, weights = _times(line, t, h), jnp.asarray(line.percussions(params), state.q.dtype)
    # The grid's rounding must not put a percussion on a grid time into the step after it.
    due = (jnp.arange(times.size) >= state.struck) & (times <= end + _rounding(t, h))
    # The end of the step is a percussion without weight.
    atoms = jnp.append(times, end), jnp.append(weights, 0.0), jnp.append(due, True)
    now = Within(jnp.asarray(t, times.dtype), state.q, state.u, state.impulse, jnp.zeros((), int), state.monitor)
    now = _strike_all(line, params, now, end, atoms, glide)
    state = LineState(now.q, now.u, jnp.zeros_like(now.impulse), state.struck + jnp.sum(due), now.monitor)
    return state, Info(now.impulse, now.status)


def percussion(line: ParticleLine, params, t, weight, u: Array) -> tuple[Array, Array]:
    r"""Find the velocity u+ (N,) behind a percussion of weight () [s], and the friction impulse a f (N,) [N s].

    M (u+ - u-) = a f,  f in nu(t) C,  -(u+ - E) in N_{nu C}(f), eq. (3.10)-(3.12). Masses are a diagonal, so each
    particle sticks, where that takes less than a gamma nu, or else slips on, slowed by it::

        a f = -m v   where  m |v| < a gamma nu,     else     -a gamma nu sign(v),           v = u- - E(t)

    A weight of zero leaves derivatives alone, also those of a particle at rest relative to the belt.

    Source: S4 eq. (3.10)-(3.12), lemma 5.4.
    """
    mass, normal, gamma, drift = read(u.dtype, line.mass(params), line.normal(t, params), *contact(line, params, t))
    bound = weight * gamma * normal
    slip = u - drift
    impulse = jnp.where(mass * jnp.abs(slip) < bound, -mass * slip, -bound * jnp.sign(slip))
    return u + impulse / mass, impulse


def contact(line: ParticleLine, params, t):
    """The friction coefficient gamma and the belt's velocity, () each."""
    return line.friction(params), belt(line, params, t)


def belt(line: ParticleLine, params, t):
    """() the belt's velocity E(t) [m/s]."""
    return 0.0 if line.belt is None else line.belt(t, params)


def read(dtype, *values):
    """What the line's functions return, in the precision of the simulation."""
    return [jnp.asarray(value, dtype) for value in values]


def _strike_all(line, params, now: Within, end, atoms, glide: Glide) -> Within:
    def strike(now, atom):
        time, weight, due = atom

        def act():
            there = glide(now, jnp.minimum(time, end))
            u, impulse = percussion(line, params, time, weight, there.u)
            return there._replace(u=u, impulse=there.impulse + impulse)

        return where_wanted(due, act, now), None

    return lax.scan(strike, now, atoms)[0]


def _times(line, t, h):
    """(m,) percussion times in the precision of the simulation."""
    return jnp.asarray(line.percussion_times, jnp.result_type(t, h))


def _rounding(t, h):
    """The rounding of a grid time, where steps were added up [s]."""
    return 8 * jnp.finfo(jnp.result_type(t, h)).eps * (jnp.abs(t) + h)
