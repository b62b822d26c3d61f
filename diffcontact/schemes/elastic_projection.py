"""ElasticProjection: impacts with restitution by one projection of a mean position per step (Paoli and Schatzman)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from diffcontact.numerics import linear
from diffcontact.numerics.batching import where_wanted
from diffcontact.numerics.linear import nonzero
from diffcontact.schemes.monitor import curvature_status, passage_status, undifferentiated
from diffcontact.schemes.position_projection import project_position
from diffcontact.schemes.scheme import Info, Scheme
from diffcontact.status import Status, first
from diffcontact.system import contacts

# By which share of its length a step may differ from the one before amid an impact. What leaves it is off by about as
# much.
_UNEVEN = 1e-3


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _Started:
    """Position U^n, velocity (U^n - U^{n-1}) / h, and the length of the step before; 0 where none has been made [s]."""

    q: Array
    u: Array
    before: Array

    @property
    def begun(self) -> Array:
        """() whether the first step has been made."""
        return self.before > 0


@dataclass(frozen=True)
class ElasticProjection(Scheme):
    r"""Partially elastic impacts: one constant restitution e in [0, 1] for all contacts, inertia M(q).

    With K = {q : g_i(q) >= 0}, V^n = (U^n - U^{n-1}) / h and F^n = F(t_n, U^n, V^n, h)::

        U^0 = u_0,  U^1 in Argmin_{Z in K} |u_0 + h v_0 + h^2 F^0 - Z|_{M(u_0)}             (4)
        W^n = (2 U^n - (1 - e) U^{n-1} + h^2 F^n) / (1 + e)                                 (5)
        Z^n in Argmin_{Z in K} |W^n - Z|_{M(U^n)}                                           (7)
        U^{n+1} = -e U^{n-1} + (1 + e) Z^n                                                  (6)

    that is U^{n+1} = U^n + h V^n + h^2 F^n + (1 + e) (Z^n - W^n), and (4) is this step with e = 0 and z(h) = h F^0. In
    terms of V it also says what a step of another length does. The balance of momentum is
    M(U^n) (V^{n+1} - V^n - h F^n) = sum_i impulse_i grad g_i(Z^n) with impulse_i >= 0, zero where g_i(Z^n) > 0.

    S3 treats constraints that stand still. Z^n = (U^{n+1} + e U^{n-1}) / (1 + e) is a mean of two positions; for
    gaps that move, K is taken here at the same mean of their times, t_n + h (1 - e) / (1 + e).

    Z^n is in K, but for e > 0 the position U^{n+1} is not always: at an impact it leaves K for one or two steps, by up
    to 2 e / (1 + e) times h |V|. `hypotheses.penetration` shows how deep a trajectory went.

    Hypotheses: (H1)-(H5); active constraints orthogonal in M^-1 (H6), without which the motion is not continuous in its
    data and the limit not unique (`hypotheses.angle_condition`). The proof (proposition 2) bounds the velocity by C_0
    and needs, for nu constraints whose unit normals turn by C_e radians per metre, with r = sqrt(lambda_max /
    lambda_min) of M::

        h <= 1 / (72 nu^(3/2) C_e C_0 (nu + 4 r)),     h <= C_0 / (2 |F|)

    far less than practice does. Statuses, besides TOO_COARSE where a contact acts whose radius of curvature is below
    four times the way of a step, or the step goes right through a body, or the first step, (4), met something:

    - COUPLED_IMPACTS: another impact acts on one within its two steps, where (H6) fails, and may gain energy at any h.
      It goes away with smaller steps unless the bodies touch.
    - UNEVEN_STEPS: all steps of S3 have one length. Free flight and rest may change it, an impact may not: it sees how
      deep a step of one length led, and drives that out in one of another.

    What converges: a subsequence of the piecewise linear positions, uniformly, to a solution of the impact problem
    with u+ = -e u- + (1 + e) Proj_M(T_K(q), u-); velocities are bounded in BV (theorem 1 and 2). In practice the
    state is first order in h: a block of 1 kg that 40 N sin(2 pi t / T), T = 1 s, lifts off the floor by 3.2 m, e = 0,
    is off by 28, 21, 10 and 4 % of that with 20, 40, 80 and 160 steps for a period T, at status 0.

    Its derivative: wrong at every h where the *time* of an impact matters later: by 100 % for a bouncing ball after
    two impacts, whose dq/dq_0 has the wrong sign, by 28 % for two spheres that meet obliquely, by 5 to 20 % for a
    mass in polar coordinates (`experiments/convergence.py`). The step that sees the impact is an integer and does
    not move with the parameters. Use EventTimed where derivatives matter.

    Args:
        acceleration: None, for F(t, q, v, h) = M(q)^-1 f(t, q, v), or F(t, q, v, h, params) -> (d,) [m/s^2], equal to
            it at h = 0 (H5).

    Source: S3 (Paoli), eq. (2), (4)-(7), hypotheses (H1)-(H6); first in Paoli and Schatzman (1993).

    Example:
        >>> import jax.numpy as jnp, diffcontact as dc
        >>> ball = dc.systems.balls(1, 1, box=(0.0, 10.0))
        >>> params = dict(mass=jnp.ones(1), radius=jnp.zeros(1), gravity=jnp.zeros(1), restitution=0.5)
        >>> run = dc.simulate(ball, params, [0.5], [-2.0], jnp.arange(6) / 5, scheme=dc.ElasticProjection())
        >>> print(run.q[:, 0].round(6), run.impulse[:, 0].round(6))
        [ 0.5   0.1  -0.25 -0.05  0.15  0.35] [0.   0.25 2.75 0.   0.  ]
    """

    acceleration: Callable | None = None

    def init(self, system: Any, params: Any, t: ArrayLike, h: ArrayLike, q: Array, u: Array) -> _Started:
        """U^0 and v_0; the first step (4) is still to come."""
        shape = jax.eval_shape(lambda: jnp.asarray(system.restitution(params))).shape
        if shape not in ((), (1,)):
            raise ValueError(
                f"restitution: ElasticProjection takes one coefficient for all contacts (S3 eq. 2), got shape {shape}; "
                "for one per contact take EventTimed"
            )
        return _Started(q, u, jnp.zeros_like(h, q.dtype))

    def step(self, system: Any, params: Any, t: ArrayLike, h: ArrayLike, state: _Started) -> tuple[_Started, Info]:
        """Project the mean position W, and mirror what is missing with weight e."""
        q, u = state.q, state.u
        mass = system.mass(q, params)
        e = jnp.where(state.begun, jnp.asarray(system.restitution(params), q.dtype).reshape(()), 0.0)
        gain = h * self._acceleration(system, params, t, q, u, h, mass)
        w = q + h * ((1 - e) * u + gain) / (1 + e)
        meant = t + h * (1 - e) / (1 + e)
        z = project_position(system, params, meant, mass, q, w)
        jump = (1 + e) * z.shift / h
        after = u + gain + jump
        ahead = q + h * (u + gain) + (1 + e) * z.shift
        impulse = (1 + e) * z.multipliers / h
        mean = w + z.shift
        unlike = _unlike_the_law(system, params, t, h, meant, mass, mean, state, gain, impulse)
        # The way of a step, not that to Z: for e = 1 W stands still, and the contact pushes straight out.
        curved = curvature_status(system, params, meant, mass, mean - h * u, mean, lambda: impulse > 0, impulse, jump)
        passed = passage_status(system, params, t, h, mass, q, ahead, impulse)
        status = first(first(z.status, unlike), first(curved, passed))
        return _Started(ahead, after, jnp.asarray(h, q.dtype)), Info(impulse, status)

    def _acceleration(self, system, params, t, q, u, h, mass):
        if self.acceleration is None:
            return linear.solve_mass(mass, system.force(t, q, u, params))
        return self.acceleration(t, q, u, h, params)


@undifferentiated
def _unlike_the_law(system, params, t, h, meant, mass, z, started: _Started, gain, impulse) -> Array:
    r"""() OK, or why what this step makes of its impacts is not the impact law.

    - COUPLED_IMPACTS: an impact acts on another one, or on a resting contact. With unit normals e_i in the metric M^-1
      and the jump s_i = impulse_i |grad g_i|_{M^-1} that contact i makes in the velocity, what two of them do to each
      other is |<e_i, e_j>| min(s_i, s_j). An impact takes two steps.
    - UNEVEN_STEPS: these two, or the one that led into the impact, differ in length.
    - TOO_COARSE: an impact within the first step, (4), which knows no restitution.

    What forces do within a step is no impact: contacts at rest press on each other at every step.

    Source: S3 (H6), eq. (8); lemma 4, which keeps the two steps of an impact apart from those of another.
    """
    acts, begun = impulse > 0, started.begun
    bounces = jnp.any(jnp.asarray(system.restitution(params)) > 0)
    uneven = begun & (jnp.abs(h - started.before) > _UNEVEN * h)
    gap = system.gap(t, started.q, params)
    amid = uneven & (jnp.any(acts) | jnp.any(gap < 0))
    suspect = bounces & ((jnp.sum(acts) > jnp.where(begun, 1, 0)) | amid)

    def judge():
        here, root = contacts(system, params, meant, z), linear.root_of_mass(mass)
        rows = linear.whiten(root, here.normals.T).T
        size = jnp.linalg.norm(rows, axis=1)
        size = nonzero(size)
        cosines = jnp.abs(rows @ rows.T) / (size[:, None] * size[None, :])
        moved = _reached(acts, cosines) @ (rows != 0)
        forces, speed = (
            jnp.sqrt((moved > 0) @ linear.whiten(root, linear.apply_mass(mass, x)) ** 2) for x in (gain, started.u)
        )
        slight = forces + jnp.finfo(z.dtype).eps ** 0.75 * speed
        struck = acts & (-here.velocity(started.u) / size > 2 * slight)
        jumps = impulse * size
        mutual = cosines * (1 - jnp.eye(size.size)) * jnp.minimum(jumps[:, None], jumps[None, :])
        coupled = begun & jnp.any((mutual > slight[:, None]) & (struck[:, None] | struck[None, :]))
        within = (jumps > 2 * slight) | (-gap / size > 2 * h * slight)
        early = ~begun & jnp.any(struck)
        return first(
            jnp.where(coupled, Status.COUPLED_IMPACTS, Status.OK),
            jnp.where(uneven & jnp.any(within), Status.UNEVEN_STEPS, jnp.where(early, Status.TOO_COARSE, Status.OK)),
        ).astype(int)

    return where_wanted(suspect, judge, jnp.zeros((), int))


def _reached(acts: Array, cosines: Array) -> Array:
    """(c, c) whether contacts act on each other, directly or through others that act, and each on itself."""
    touches = acts[:, None] & acts[None, :] & (cosines > jnp.finfo(cosines.dtype).eps ** 0.75)
    touches = touches | jnp.eye(acts.size, dtype=bool)
    for _ in range(acts.size.bit_length()):
        touches = (touches.astype(cosines.dtype) @ touches) > 0
    return touches
