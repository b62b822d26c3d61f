"""CatchingUp: project the position onto the admissible set itself (Moreau; Bernicot and Venel)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from jax import Array
from jax.typing import ArrayLike

from diffcontact.numerics.linear import solve_mass
from diffcontact.schemes.monitor import curvature_status, inelastic_status, passage_status
from diffcontact.schemes.position_projection import project_position
from diffcontact.schemes.scheme import Info, Scheme, State
from diffcontact.status import first


@dataclass(frozen=True)
class CatchingUp(Scheme):
    r"""Inelastic impacts by one projection of the position per step, onto sets that need not be convex; e = 0 only.

    With t' = t + h, C(t) = {q : g_i(t, q) >= 0}, f = the mean of the force over the step at fixed (q, u), and the
    metric M = M(q)::

        q^1 = q_0 + h u_0 + h^2 M^-1 f^0                                                    (25)
        q^{n+1} in Proj_M( C(t'), 2 q^n - q^{n-1} + h^2 M^-1 f^n )                          (26)
        u' = (q' - q) / h                                                                   (28)

    In velocities, q' in Proj_M(C(t'), q + h u + h^2 M^-1 f), which contains the first step (25) and says what a step of
    another length does. The projection is a true local one (`position_projection.project_position`), and
    M (u' - u) = h f + sum_i impulse_i grad g_i(t', q') with impulse_i >= 0, zero where g_i(t', q') > 0. The mean force
    is taken by the midpoint rule, exact for forces affine in t.

    Hypotheses: C(t) uniformly prox-regular, Lipschitz in t and admissible (theorem 1.3); for constraints (A1)-(A4)
    and the reverse triangle inequality (R_rho), gaps convex or not (theorem 4.6); for a constant C, (R_0) is
    enough, however many constraints are active (4.7). See `diffcontact.hypotheses`. The proof of the velocity's bound
    needs h |u + h M^-1 f| <= eta / 4 (lemma 5.2), eta the radius of prox-regularity: a step at a contact that is not
    convex then gains little energy. Where the way of a step is longer than a quarter of the radius of a contact that
    acts, convex or not, or goes right through one, the status is TOO_COARSE; where the projection is not reached,
    PROJECTION_LIMIT.

    What converges: all positions are feasible, eq. (29); u is bounded in BV; a subsequence of (q, u) converges to a
    solution. In practice the state is first order in h: a place is off by about the way of a step, and hops of few
    steps by as much as with VelocityProjection, which has the figures.

    Its derivative: as that of VelocityProjection, with which it agrees to O(h): wrong at every h where the *time* of an
    impact matters later (`experiments/convergence.py`). Use EventTimed where derivatives matter.

    A restitution above 0 is refused by `simulate`; inside transformations it is taken as 0 and the status is
    RESTITUTION_IGNORED. For bounces take ElasticProjection or EventTimed.

    Source: S2 (Bernicot, Venel), eq. (25)-(29), theorems 1.3, 4.6, 4.7.

    Example:
        >>> import jax.numpy as jnp, diffcontact as dc
        >>> ball = dc.systems.balls(1, 1, box=(0.0, 10.0))
        >>> params = dict(mass=jnp.ones(1), radius=jnp.zeros(1), gravity=-10 * jnp.ones(1), restitution=0.0)
        >>> run = dc.simulate(ball, params, [0.1], [0.0], [0.0, 0.1, 0.2, 0.3], scheme=dc.CatchingUp())
        >>> print(run.q[:, 0].round(6), run.impulse[:, 0].round(6))
        [0.1 0.  0.  0. ] [0. 2. 1.]
    """

    inelastic: ClassVar[bool] = True

    def init(self, system: Any, params: Any, t: ArrayLike, h: ArrayLike, q: Array, u: Array) -> State:
        """The velocity stands for the position before: q^{-1} = q_0 - h u_0 makes (26) begin with (25)."""
        return State(q, u)

    def step(self, system: Any, params: Any, t: ArrayLike, h: ArrayLike, state: State) -> tuple[State, Info]:
        """Predict the position and project it; the velocity is what it takes to get there."""
        q, u = state.q, state.u
        mass = system.mass(q, params)
        free = u + h * solve_mass(mass, system.force(t + h / 2, q, u, params))
        predicted = q + h * free
        caught = project_position(system, params, t + h, mass, q, predicted)
        # (q' - q) / h, written so that free flight does not round positions into velocities.
        after = free + caught.shift / h
        ahead, impulse = predicted + caught.shift, caught.multipliers / h
        curved = curvature_status(system, params, t + h, mass, q, ahead, lambda: impulse > 0, impulse, caught.shift / h)
        passed = passage_status(system, params, t, h, mass, q, ahead, impulse)
        status = first(first(caught.status, inelastic_status(system, params)), first(curved, passed))
        return State(ahead, after), Info(impulse, status)
