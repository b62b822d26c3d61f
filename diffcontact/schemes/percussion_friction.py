"""PercussionFriction: dry friction under a normal reaction that is a measure (Laghdir and Monteiro Marques)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.scipy.linalg import cho_factor, cho_solve

from diffcontact import qp
from diffcontact.batching import any_lane
from diffcontact.schemes.applicability import require
from diffcontact.schemes.scheme import Info
from diffcontact.status import first
from diffcontact.system import ParticleLine


@partial(jax.tree_util.register_dataclass, data_fields=["q", "u", "impulse", "struck"], meta_fields=[])
@dataclass(frozen=True)
class _Line:
    """Position and right velocity, friction impulse (N,) not reported yet, and how many percussions are over."""

    q: Array
    u: Array
    impulse: Array
    struck: Array


@partial(jax.tree_util.register_dataclass, data_fields=["time", "q", "u", "impulse", "status"], meta_fields=[])
@dataclass(frozen=True)
class _Within:
    """Where we are inside a step."""

    time: Array
    q: Array
    u: Array
    impulse: Array
    status: Array


@dataclass(frozen=True)
class PercussionFriction:
    r"""Particles on a line with dry friction: implicit between percussions, exact at them.

    The law, with v = u - E(t) the velocity relative to the belt (S4 (1.4)-(1.7))::

        M du + V u dt + K q dt = f dtheta + p dt,     -v+ in N_{nu C}(f),     C = [-gamma, gamma],
        dtheta = dt + sum_k a_k delta_{t_k}

    A step runs from percussion to percussion, each at its own time, then to its end. In between, over s seconds, all is
    taken at the end t' of the piece (`glide`)::

        (M + s V + s^2 K) u' = M u + s (p(t') - K q) + s f,     f in nu(t') C,     -(u' - E(t')) in N_{nu C}(f),
        q' = q + s u'

    which is one box-constrained QP for the impulse s f. At a percussion (3.10)-(3.12) holds exactly (`percussion`);
    several at one time act in the order of their index; one at the first time acts on u_0 (3.15)-(3.16), which
    stays the first velocity of the trajectory, u(t_0) = u_0 (3.9). `impulse` is the friction impulse on each
    particle, densities and atoms together.

    Hypotheses: masses positive, V and K symmetric and (semi)definite, p and nu bounded, nu >= 0, sum a_k finite. With
    finitely many percussions the solution exists and is unique, for as long as one likes (theorem 2.1, section 3). The
    estimate (4.2) is `hypotheses.velocity_bound`.

    What converges: the state, first order in h; the step is stable for every h. Jumps are exact.

    Its derivative: right, first order in h, for particles that slide, are struck, and stop for good. Wrong at every
    h, by 50 to 100 % for a chain with springs, once a slip velocity reverses: it should cross zero with the factor
    a+/a-, the ratio of the accelerations after and before, but the implicit step holds the particle at v = 0 for
    one step and forgets where it came from. Use EventTimed where derivatives matter.

    Source: S4 (Laghdir, Monteiro Marques), eq. (1.4)-(1.7), (3.10)-(3.16).

    Example:
        >>> import jax.numpy as jnp, diffcontact as dc
        >>> slider = dc.ParticleLine(
        ...     mass=lambda p: jnp.ones(1),
        ...     damping=lambda p: jnp.zeros((1, 1)),
        ...     stiffness=lambda p: jnp.zeros((1, 1)),
        ...     load=lambda t, p: jnp.zeros(1),
        ...     friction=lambda p: 0.25,
        ...     normal=lambda t, p: 8.0 * jnp.ones(1),
        ...     percussion_times=[0.3],
        ...     percussions=lambda p: jnp.array([0.1]),
        ... )
        >>> run = dc.simulate(slider, {}, [0.0], [1.0], [0.0, 0.2, 0.4, 0.6], scheme=dc.PercussionFriction())
        >>> print(run.u[:, 0].round(6), run.impulse[:, 0].round(6))
        [1.  0.6 0.  0. ] [-0.4 -0.6  0. ]
    """

    def init(self, system, params, t, h, q, u) -> _Line:
        """A percussion at the first time acts at once."""
        require(ParticleLine, system, self)
        start = _Within(t, q, u, jnp.zeros_like(q), jnp.zeros((), int))
        times, rounding = _times(system, t, h), _rounding(t, h)
        now = _strike_all(system, params, start, t, (times >= t - rounding) & (times <= t + rounding))
        return _Line(now.q, now.u, now.impulse, jnp.sum(times <= t + rounding))

    def step(self, system, params, t, h, state: _Line) -> tuple[_Line, Info]:
        """Glide to each percussion that is due, through it, and on to the end of the step."""
        end = t + h
        times = _times(system, t, h)
        # The grid's rounding must not put a percussion on a grid time into the step after it.
        due = (jnp.arange(times.size) >= state.struck) & (times <= end + _rounding(t, h))
        now = _Within(t, state.q, state.u, state.impulse, jnp.zeros((), int))
        now = lax.cond(any_lane(jnp.any(due)), lambda: _strike_all(system, params, now, end, due), lambda: now)
        now = _glide_to(system, params, now, end)
        struck = state.struck + jnp.sum(due)
        return _Line(now.q, now.u, jnp.zeros_like(now.impulse), struck), Info(now.impulse, now.status)


def percussion(line: ParticleLine, params, t, weight, u: Array) -> tuple[Array, Array]:
    r"""The jump of the velocity at a percussion: u+ (N,) and the friction impulse a f (N,) [N s].

    M (u+ - u-) = a f,  f in nu(t) C,  -(u+ - E) in N_{nu C}(f), eq. (3.10)-(3.12). Masses are a diagonal, so the QP
    falls apart into one per particle, with the solution: stick, where that takes less than a gamma nu; else slip
    on, slowed by it::

        a f = -m v   where  m |v| < a gamma nu,     else     -a gamma nu sign(v),           v = u- - E(t)

    A percussion of weight zero is slip without an impulse, so that it leaves derivatives alone, also those of a
    particle that is at rest relative to the belt.

    Args:
        t: time of the percussion [s].
        weight: () its weight a [s].
        u: (N,) velocity before [m/s].

    Source: S4 eq. (3.10)-(3.12), lemma 5.4.
    """
    mass, normal, gamma, belt = _read(u.dtype, line.mass(params), line.normal(t, params), *_contact(line, params, t))
    bound = weight * gamma * normal
    slip = u - belt
    impulse = jnp.where(mass * jnp.abs(slip) < bound, -mass * slip, -bound * jnp.sign(slip))
    return u + impulse / mass, impulse


def glide(line: ParticleLine, params, t, s, q: Array, u: Array) -> tuple[Array, Array, Array, Array]:
    """Implicit Euler over s seconds without percussions: q', u', friction impulse s f (N,) [N s], status.

    The impulse P = s f solves  min 1/2 <P, S^-1 P> + <P, S^-1 r - E>,  |P_i| <= s gamma nu_i,  with
    S = M + s V + s^2 K and r = M u + s (p - K q): its optimality is -(u' - E) in N_{s nu C}(P) for u' = S^-1 (r + P).

    Source: S4 eq. (3.13)-(3.14), discretised by implicit Euler.
    """
    end = t + s
    mass, damping, stiffness = _read(q.dtype, line.mass(params), line.damping(params), line.stiffness(params))
    load, normal, gamma, belt = _read(
        q.dtype, line.load(end, params), line.normal(end, params), *_contact(line, params, end)
    )
    factor = cho_factor(jnp.diag(mass) + s * damping + s**2 * stiffness)
    free = cho_solve(factor, mass * u + s * (load - stiffness @ q))
    bound = s * gamma * normal
    compliance = cho_solve(factor, jnp.eye(mass.size, dtype=q.dtype))
    grip = qp.box(compliance, free - belt, -bound, bound)
    after = free + cho_solve(factor, grip.x)
    return q + s * after, after, grip.x, grip.status


def _glide_to(line, params, now: _Within, time) -> _Within:
    s = jnp.maximum(time - now.time, 0.0)

    def move():
        q, u, impulse, status = glide(line, params, now.time, s, now.q, now.u)
        moved = _Within(time, q, u, now.impulse + impulse, first(now.status, status.astype(int)))
        # Nothing moves in no time, and the empty box would hold a particle at rest for good in the derivative.
        return jax.tree.map(lambda new, old: jnp.where(s > 0, new, old), moved, now)

    return lax.cond(any_lane(s > 0), move, lambda: now)


def _strike_all(line, params, now: _Within, end, due: Array) -> _Within:
    """Glide to the percussions that are due, in the order of their index, and through each."""
    weights = jnp.asarray(line.percussions(params), now.q.dtype)

    def strike(now, atom):
        time, weight, due = atom

        def act():
            there = _glide_to(line, params, now, jnp.minimum(time, end))
            u, impulse = percussion(line, params, time, weight, there.u)
            after = _Within(there.time, there.q, u, there.impulse + impulse, there.status)
            return jax.tree.map(lambda new, old: jnp.where(due, new, old), after, now)

        return lax.cond(any_lane(due), act, lambda: now), None

    return lax.scan(strike, now, (_times(line, end, end), weights, due))[0]


def _times(line, t, h):
    """(m,) percussion times in the precision of the simulation."""
    return jnp.asarray(line.percussion_times, jnp.result_type(t, h))


def _rounding(t, h):
    """What adding up steps can do to a grid time [s]."""
    return 8 * jnp.finfo(jnp.result_type(t, h)).eps * (jnp.abs(t) + h)


def _contact(line, params, t):
    """gamma and the belt's velocity."""
    return line.friction(params), 0.0 if line.belt is None else line.belt(t, params)


def _read(dtype, *values):
    """What the line's functions return, in the precision of the simulation."""
    return [jnp.asarray(value, dtype) for value in values]
