"""ElasticProjection: impacts with restitution by one projection of a mean position per step (Paoli and Schatzman)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
from jax import Array

from diffcontact.mass import solve
from diffcontact.schemes.applicability import require
from diffcontact.schemes.nearest import nearest
from diffcontact.schemes.scheme import Info
from diffcontact.system import System


@partial(jax.tree_util.register_dataclass, data_fields=["q", "u", "begun"], meta_fields=[])
@dataclass(frozen=True)
class _Started:
    """Position U^n, velocity (U^n - U^{n-1}) / h, and whether the first step has been made."""

    q: Array
    u: Array
    begun: Array


@dataclass(frozen=True)
class ElasticProjection:
    r"""Partially elastic impacts: one restitution coefficient e in [0, 1] for all contacts, inertia M(q).

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
    data and the limit not unique (`hypotheses.angle_condition`). Where (H6) fails, two impacts within a few steps of
    each other may even gain energy, at any h; where it holds the energy exceeds the work of F by O(h) at most.

    What converges: a subsequence of the piecewise linear positions, uniformly, to a solution of the impact problem
    with u+ = -e u- + (1 + e) Proj_M(T_K(q), u-); velocities are bounded in BV (theorem 1 and 2). In practice the
    state is first order in h.

    Its derivative: wrong at every h where the *time* of an impact matters later: by 100 % for a bouncing ball after
    two impacts, whose dq/dq_0 has the wrong sign, by 28 % for two spheres that meet obliquely, by 5 to 20 % for a
    mass in polar coordinates (`experiments/convergence.py`). The step that sees the impact is an integer and does
    not move with the parameters. Right: the row -e of the position for a ball that flies without gravity. Use
    EventTimed where derivatives matter.

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

    def init(self, system, params, t, h, q, u) -> _Started:
        """U^0 and v_0; the first step (4) is still to come."""
        require(System, system, self)
        shape = jax.eval_shape(lambda: jnp.asarray(system.restitution(params))).shape
        if shape not in ((), (1,)):
            raise ValueError(
                f"restitution: ElasticProjection takes one coefficient for all contacts (S3 eq. 2), got shape {shape}; "
                "for one per contact take EventTimed"
            )
        return _Started(q, u, jnp.zeros((), bool))

    def step(self, system, params, t, h, state: _Started) -> tuple[_Started, Info]:
        """Project the mean position W, and mirror what is missing with weight e."""
        q, u = state.q, state.u
        mass = system.mass(q, params)
        e = jnp.where(state.begun, jnp.asarray(system.restitution(params), q.dtype).reshape(()), 0.0)
        gain = h * self._acceleration(system, params, t, q, u, h, mass)
        w = q + h * ((1 - e) * u + gain) / (1 + e)
        z = nearest(system, params, t + h * (1 - e) / (1 + e), mass, q, w)
        after = u + gain + (1 + e) * z.shift / h
        ahead = q + h * (u + gain) + (1 + e) * z.shift
        return _Started(ahead, after, jnp.ones((), bool)), Info((1 + e) * z.multipliers / h, z.status)

    def _acceleration(self, system, params, t, q, u, h, mass):
        if self.acceleration is None:
            return solve(mass, system.force(t, q, u, params))
        return self.acceleration(t, q, u, h, params)
