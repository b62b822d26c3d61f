"""PercussionFriction: dry friction under a normal reaction that is a measure (Laghdir and Monteiro Marques)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from diffcontact import qp
from diffcontact.numerics import linear
from diffcontact.numerics.batching import where_wanted
from diffcontact.schemes.line import LineState, Within, advance, begin, belt, contact, read
from diffcontact.schemes.monitor import (
    SIMPSON,
    Truncation,
    belts_shake,
    changing,
    forces_blow,
    undifferentiated,
    unseen_belts,
    unseen_forces,
)
from diffcontact.schemes.scheme import Info, Scheme
from diffcontact.status import first
from diffcontact.system import ParticleLine


@dataclass(frozen=True)
class PercussionFriction(Scheme):
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

    What converges: the state, first order in h; the step is stable for every h. Jumps are exact. That is much of slips
    that last for few steps: a particle of 1 kg with friction 9.81 N that 15 N sin(2 pi t / T), T = 1 s, moves to and
    fro by 22 cm is off by 11, 5 and 3 % of that with 40, 80 and 160 steps for a period T. Where load and friction
    change so much within steps that this alone may come to 1/32 of the way of particles that no spring moves, the
    status is TOO_COARSE.

    Its derivative: right, first order in h, for particles that slide, are struck, and stop for good. Wrong at every
    h, by 50 to 100 % for a chain with springs, once a slip velocity reverses. It should cross zero with the factor
    a+/a-, the ratio of the accelerations after and before. But the implicit step holds the particle at v = 0 for
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
        >>> print(run.u[:, 0].round(6), -run.impulse[:, 0].round(6) + 0.0)
        [1.  0.6 0.  0. ] [0.4 0.6 0. ]
    """

    systems: ClassVar[tuple[type, ...]] = (ParticleLine,)

    def init(self, system: Any, params: Any, t: ArrayLike, h: ArrayLike, q: Array, u: Array) -> LineState:
        """A percussion at the first time acts at once."""
        return begin(system, params, t, h, q, u)

    def step(self, system: Any, params: Any, t: ArrayLike, h: ArrayLike, state: LineState) -> tuple[LineState, Info]:
        """Glide to each percussion that is due, through it, and on to the end of the step."""
        return advance(system, params, t, h, state, partial(glide_to, system, params))

    def truncated(
        self, system: Any, params: Any, t: ArrayLike, h: ArrayLike, before: Any, after: Any, impulse: Array
    ) -> Truncation:
        """What is given as a function of time; implicit Euler damps what springs and dashpots do within a step."""
        return _truncation(system, params, t, h, before, after, impulse)


@undifferentiated
def _truncation(line: ParticleLine, params, t, h, before: LineState, after: LineState, impulse: Array) -> Truncation:
    """What a step of a line may miss; `timed` nothing where a particle sticks, or feels more than load and friction."""
    u, w = before.u, after.u
    mass, none, everywhere = read(u.dtype, line.mass(params))[0], jnp.zeros_like(u), jnp.ones(u.shape, bool)

    def driven(t):
        load, normal, gamma = read(u.dtype, line.load(t, params), line.normal(t, params), line.friction(params))
        return jnp.stack([load, gamma * normal])

    def given(t):
        return driven(t) / mass[None]

    def slip(t):
        return (u - read(u.dtype, belt(line, params, t))[0])[:, None]

    (drift,) = read(u.dtype, belt(line, params, t + h))
    (load, friction), begin = driven(t + h), driven(t)
    sizes = jnp.abs(u) + jnp.abs(w) + jnp.abs(drift) + jnp.abs(impulse) / mass
    rounding = 64 * jnp.finfo(u.dtype).eps * sizes
    alone = (jnp.abs(w - drift) > rounding) & (jnp.abs(w - u - (h * load + impulse) / mass) <= rounding)
    change = (load - begin[0] - jnp.sign(w - drift) * (friction - begin[1])) / mass
    return Truncation(
        error=none,
        way=h / 2 * (jnp.abs(u) + jnp.abs(w)),
        time=jnp.abs(h),
        forces=unseen_forces(given, t, h, SIMPSON, u),
        surfaces=unseen_belts(slip, t, h, everywhere, u),
        blind=belts_shake(slip, t, h, everywhere).astype(u.dtype),
        blows=forces_blow(given, t, h, jnp.sqrt(mass)),
        timed=changing(h, u, w, alone, change),
    )


def glide(line: ParticleLine, params, t, s, q: Array, u: Array) -> tuple[Array, Array, Array, Array]:
    """Implicit Euler over s seconds without percussions: q', u', friction impulse s f (N,) [N s], status.

    The impulse P = s f solves  min 1/2 <P, S^-1 P> + <P, S^-1 r - E>,  |P_i| <= s gamma nu_i,  with
    S = M + s V + s^2 K and r = M u + s (p - K q): its optimality is -(u' - E) in N_{s nu C}(P) for u' = S^-1 (r + P).

    Source: S4 eq. (3.13)-(3.14), discretised by implicit Euler.
    """
    end = t + s
    mass, damping, stiffness = read(q.dtype, line.mass(params), line.damping(params), line.stiffness(params))
    load, normal, gamma, drift = read(
        q.dtype, line.load(end, params), line.normal(end, params), *contact(line, params, end)
    )
    factor = linear.cholesky(jnp.diag(mass) + s * damping + s**2 * stiffness)
    free = linear.solve_cholesky(factor, mass * u + s * (load - stiffness @ q))
    bound = s * gamma * normal
    compliance = linear.solve_cholesky(factor, jnp.eye(mass.size, dtype=q.dtype))
    reaction = qp.box(compliance, free - drift, -bound, bound)
    after = free + linear.solve_cholesky(factor, reaction.x)
    return q + s * after, after, reaction.x, reaction.status


def glide_to(line: ParticleLine, params, now: Within, time) -> Within:
    """`glide` from now to a time that is not earlier."""
    s = jnp.maximum(time - now.time, 0.0)

    def move():
        q, u, impulse, status = glide(line, params, now.time, s, now.q, now.u)
        return Within(time, q, u, now.impulse + impulse, first(now.status, status.astype(int)))

    # Nothing moves in no time, and the empty box would hold a particle at rest for good in the derivative.
    return where_wanted(s > 0, move, now)
