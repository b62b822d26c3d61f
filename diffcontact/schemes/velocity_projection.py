"""VelocityProjection: project the velocity onto the linearised constraints (Maury; Bernicot and Lefebvre-Lepot)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, cast

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from diffcontact import qp
from diffcontact.numerics import linear
from diffcontact.qp.rows import NONE, Rows, dense, transposed_product
from diffcontact.schemes.layers import Layers
from diffcontact.schemes.monitor import curvature_status, inelastic_status
from diffcontact.schemes.scheme import Info, Scheme, State
from diffcontact.status import first
from diffcontact.system import advanced, carried_over, friction_coefficients, rate, slip_rows, taken


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class WarmState(State):
    """Position, velocity, and where the next projection starts: the multipliers (c,) of the last step's contacts
    [N s], with the numbers of these in the whole system (c,), and where they rub their friction (c, k) [N s]."""

    numbers: Array
    multipliers: Array
    friction: Array | None = None


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class GluedState(State):
    """Position, velocity, and the adhesions (c,) of contacts that hold back [N s]."""

    adhesion: Array


@dataclass(frozen=True)
class VelocityProjection(Scheme):
    r"""Inelastic impacts, with friction or without, by one projection of the velocity per step; restitution 0 only.

    With t' = t + h, f = the mean of the force over the step at fixed (q, u), and the metric M = M(q)::

        u' = Proj_M( K_h(t', q), u + h M^-1 f )                                             (13)
        K_h(t', q) = { v :  g_i(t', q) + h <grad g_i(t', q), v> >= 0 }                      (11)
        q' = q + h u'                                                                       (14)
        M (u' - u) = h f + sum_i impulse_i grad g_i(t', q),   impulse_i >= 0,
        impulse_i = 0  where  g_i(t', q) + h <grad g_i(t', q), u'> > 0                      (15)

    The projection is exact (`qp.project`). Among the contacts of a neighbour list, which may be thousands, it is
    matrix-free and starts from the last step's multipliers; it stops at a stated residual (`qp.project_many`).

    The multipliers are measures: `impulse` is that of the step [N s], impulse / h its density lambda_h [N]. The
    mean force is taken by the midpoint rule, exact for forces affine in t.

    Hypotheses: gaps convex in q and twice differentiable, gradients bounded away from zero (A0-A5), and the reverse
    triangle inequality (A6), see `diffcontact.hypotheses`. M is the identity in the theorem, constant in remark 4.1;
    here it may depend on q.

    What converges: every computed position is feasible (proposition 2.1, for convex gaps, also when they move); the
    total variation of u is bounded (2.4); a subsequence of (q, u, lambda) converges to a solution, u in L1, lambda
    weakly as a measure (theorem 1.3). In practice the state is first order in h: a place is off by about the way of a
    step, which is much of a hop of few steps. A block of 1 kg that 15 N sin(2 pi t / T), T = 1 s, lifts off the floor
    by 22 cm is off by 24, 16, 8 and 4 % of that with 20, 40, 80 and 160 steps for a period, at status 0; EventTimed by
    0.4 % with 40. Where such a force changes so much within steps that this alone may come to 1/32 of the way of a
    coordinate, as with 15 steps for a period, the status is TOO_COARSE.

    A contact is a tangent within a step: the status is TOO_COARSE where the normal of one that acts, or ends in an
    overlap, turns by more than 1/4. It is ILL_CONDITIONED where bodies are wedged in, so that their impulses cancel but
    for one part in eps^(-1/4), 8000 in double precision: spheres that are pressed into a line that they just fill.

    Where contacts rub, with slip velocities v_T = S v + s at (t', q), the step obeys Coulomb's law::

        M (u' - u) = h f + N^T P + S^T B,      w_N = N u' + g(t', q) / h >= 0,  P >= 0,  P w_N = 0
        |B| <= mu P,                           B = -mu P w_T/|w_T|  where  w_T = S u' + s  is not zero

    exactly (`qp.coulomb`), or among the contacts of a neighbour list to a stated residual (`qp.coulomb_many`, without a
    derivative). With `iterate=False` it is the published convex scheme, without derivatives too: the projection onto
    N v + g/h >= mu |S v + s|, which takes slip for a part of the gap velocity. What slips then lifts off: it floats
    where g = h mu |w_T|, and its speed is right all the same.

    Where slip presses a contact together as fast as its load opens it (Painleve's paradox), no finite reaction exists.
    The step then takes an impulse that ends the slip at once, at status 0; close to that it does the same though the
    reaction is finite. EventTimed, which seeks a reaction, has the status NO_FRICTION.

    Contacts may hold back (`System(adhesion=...)`), like bodies on a viscous film. Each has an adhesion a_i >= 0, the
    impulse that it has taken up and not given back, up to the system's bound A_i; it begins with 0::

        M (u' - u) = h f + sum_i impulse_i grad g_i(t', q),    impulse_i + a_i >= 0,
        impulse_i + a_i = 0  where  g_i(t', q) + h <grad g_i(t', q), u'> > 0,
        a_i' = min(impulse_i + a_i, A_i)

    A contact that is pressed or struck stores that impulse, and stays exactly closed until a pull has used it up: a
    sphere that has struck the film with m v and is pulled by F lets go after m v / F. These are the gluey particles of
    Maury, the limit of the force of lubrication for a thin film: gamma = -a is that of mu log(gap), a microscopic gap.
    Of spheres this force is 6 pi mu r^2 v / gap, r = r_i r_j / (r_i + r_j), r_i on a wall; where roughness rho ends a
    film of thickness h_0, A = 6 pi mu r^2 log(h_0 / rho), and beyond that the contact is dry: that is what can be known
    of the viscosity mu [Pa s]. An infinite A is Maury's model, in which the viscosity has gone. Hypotheses: films thin
    against the way of the bodies, no rebound (e = 0), no friction.

    A contact opens by the adhesion at the end of the step: none gives back more than it has. No step gains energy, but
    for what closes gaps that bodies open where they roll about each other, of second order. Where a contact lets go
    within a step, u' and its derivative are right for constant forces and flat contacts, q' to first order. Of contacts
    whose rows depend on each other the sum of the adhesions acts, and its split is one of many.

    Where a system has a `rate` (14) is q advanced along it by h with u'.

    Its derivative: right where e = 0 forgets the approach altogether: flat walls that stand still. Wrong, by about
    the same at every h, where the *time* of an impact matters later: 26 % for two spheres that meet obliquely, 6 %
    for growing ones, 62 % for a ball that a moving wall strikes (`experiments/convergence.py`). The step that sees
    the impact is an integer and does not move with the parameters. Use EventTimed where derivatives matter.

    A restitution above 0, or a tangential one, is taken as 0 inside transformations, and the status is
    RESTITUTION_IGNORED; outside `simulate` refuses the former. For bounces take ElasticProjection or EventTimed.

    Args:
        iterate: whether friction obeys Coulomb's law; False: the convex scheme.

    Source: S1 (Bernicot, Lefebvre-Lepot), eq. (11)-(15), theorem 1.3, remark 4.1; first in Maury, Numer. Math. 102
    (2006). Friction, convex: M. Anitescu, Math. Program. 105 (2006); A. Tasora, M. Anitescu, Comput. Methods Appl.
    Mech. Eng. 200 (2011); iterated: V. Acary, F. Cadoux, C. Lemarechal, J. Malick, ZAMM 91 (2011). Gluey: S1 remark
    4.3; B. Maury, ESAIM: Proc. 18 (2007); A. Lefebvre, Math. Model. Numer. Anal. 43 (2009); the step is ours.

    Example:
        >>> import jax.numpy as jnp, diffcontact as dc
        >>> ball = dc.systems.balls(1, 1, box=(0.0, 10.0))
        >>> params = dict(mass=jnp.ones(1), radius=jnp.zeros(1), gravity=-10 * jnp.ones(1), restitution=0.0)
        >>> run = dc.simulate(ball, params, [0.1], [0.0], [0.0, 0.1, 0.2, 0.3], scheme=dc.VelocityProjection())
        >>> print(run.q[:, 0].round(6), run.impulse[:, 0].round(6))
        [0.1 0.  0.  0. ] [0. 2. 1.]

        A sphere of 1 kg strikes a film at 1 m/s, is pulled with 2 N, and lets go after half a second:

        >>> film = dc.System(
        ...     gap=lambda t, q, p: q,
        ...     force=lambda t, q, u, p: p["pull"] * jnp.ones(1),
        ...     mass=lambda q, p: jnp.ones(1),
        ...     restitution=lambda p: 0.0,
        ...     adhesion=lambda p: p["adhesion"],
        ... )
        >>> params, times = {"pull": 2.0, "adhesion": jnp.inf}, [0.0, 0.2, 0.4, 0.6, 0.8]
        >>> run = dc.simulate(film, params, [0.0], [-1.0], times, scheme=dc.VelocityProjection())
        >>> print(run.adhesion[:, 0].round(6), run.u[:, 0].round(6))
        [0.  0.6 0.2 0.  0. ] [-1.   0.   0.   0.2  0.6]
    """

    iterate: bool = True

    inelastic: ClassVar[bool] = True
    rubs: ClassVar[bool] = True
    glues: ClassVar[bool] = True
    keeps: ClassVar[tuple[str, ...]] = (qp.WORKING_SET,)

    def init(self, system: Any, params: Any, t: ArrayLike, h: ArrayLike, q: Array, u: Array) -> State:
        """(q, u) at t = 0 are the initial data, eq. (12)."""
        if system.adhesion is not None:
            gap = jax.eval_shape(lambda: system.gap(jnp.asarray(t, q.dtype), q, params))
            return GluedState(q, u, jnp.zeros(gap.shape, q.dtype))
        if system.numbers is None:
            return State(q, u)
        none = jnp.zeros(system.numbers.shape, q.dtype)
        if not system.rubs:
            return WarmState(q, u, system.numbers, none)
        slip = jax.eval_shape(lambda: slip_rows(system, params, t, q, u.size)[1])
        return WarmState(q, u, system.numbers, none, jnp.zeros(slip.shape, q.dtype))

    def step(self, system: Any, params: Any, t: ArrayLike, h: ArrayLike, state: State) -> tuple[State, Info]:
        """Predict the velocity, project it, and move with it."""
        if system.layered:
            layers = Layers.under(system, params, t, state.q, state.u)
            lying = replace(state, q=layers.lying(state.q), u=layers.lying(state.u))
            after, info = self.step(layers.system, layers.params, t, h, lying)
            return replace(after, q=layers.without(after.q), u=layers.without(after.u)), layers.reported(info, t, h)
        q, u = state.q, state.u
        mass, force = system.mass(q, params), system.force(t + h / 2, q, u, params)
        gap, rows = reached(system, params, t + h, h, q)
        friction = None
        if isinstance(state, WarmState) and isinstance(rows, qp.BodyRows):
            # From where the same contacts ended in the last step; a free place of the list has no contact. Rows between
            # bodies have a diagonal mass.
            start = carried_over(state.multipliers, state.numbers, system.numbers)
            offset, free = jnp.where(taken(system.numbers), gap / h, jnp.inf), u + h * force / mass
            if state.friction is None:
                move = qp.project_many(mass, rows, offset, free, multipliers=start)
                normal = move.multipliers
            else:
                rub = jax.vmap(carried_over, in_axes=(1, None, None), out_axes=1)
                start = jnp.column_stack([start, rub(state.friction, state.numbers, system.numbers)])
                move = rubbed_many(system, params, t + h, q, mass, rows, offset, free, start, self.iterate)
                normal, friction = move.normal, move.tangential
            multipliers, rubbing = lax.stop_gradient((normal, friction))
            after = WarmState(advanced(system, params, q, move.u, h), move.u, system.numbers, multipliers, rubbing)
        else:
            # Bodies that just fit contradict each other by the rounding of their places.
            rounding = 4 * jnp.finfo(q.dtype).eps * system.terms(params, t + h, q, gap, rows)
            offset, free = (gap + lax.stop_gradient(rounding)) / h, u + h * linear.solve_mass(mass, force)
            if system.rubs:
                move = rubbed(system, params, t + h, q, mass, rows, offset, free, self.iterate)
                normal, friction = move.normal, move.tangential
            elif isinstance(state, GluedState):
                move = glued(system, params, mass, rows, offset, free, state.adhesion)
                normal, state = move.impulse, replace(state, adhesion=move.adhesion)
            else:
                move = qp.project(mass, rows, offset, free)
                normal = move.multipliers
            after = replace(state, q=advanced(system, params, q, move.u, h), u=move.u)
        # Of a gap that is concave in q, as inside of a bowl, the linearised constraint may never act.
        acts = lambda: (normal != 0) | (system.gap(t + h, after.q, params) < 0)  # noqa: E731
        curved = curvature_status(system, params, t + h, mass, q, after.q, acts, normal, move.u - free)
        status = first(first(move.status, inelastic_status(system, params)), curved)
        return after, Info(normal, status, friction=friction)


def reached(system: Any, params: Any, t, h, q: Array) -> tuple[Array, Rows]:
    """The gaps (c,) at (t, q), where a velocity of zero leads to within h seconds, and their rows (c, d)."""
    gap, rows = system.linearised(params, t, q)
    if system.rate is None:
        return gap, rows
    t, still = jnp.asarray(t, q.dtype), jnp.zeros(rows.shape[1], q.dtype)
    way = rate(system, params, q, still)
    return gap + h * jax.jvp(lambda q: system.gap(t, q, params), (q,), (way,))[1], rows


def rubbed(
    system: Any, params: Any, t, q: Array, mass, normals: Rows, b: Array, v: Array, iterate: bool
) -> qp.Reaction:
    """Find the velocity behind contacts with friction, from v (d,), by Coulomb's law or convex; b are offsets (c,)."""
    directions, s = slip_rows(system, params, t, q, v.size)
    N, S = dense(normals), jnp.stack([dense(one) for one in directions], axis=1)
    mu = friction_coefficients(system, params, b.size, q.dtype)
    if iterate:
        return qp.coulomb(mass, N, S, b, s, mu, v)
    # In the metric of the mass dense rows are those of one body of mass 1.
    root, bodies = linear.root_of_mass(mass), jnp.tile(jnp.array([[NONE, 0]]), (b.size, 1))

    def rows(G):
        return qp.BodyRows(bodies, linear.whiten(root, G.T).T[:, None], 1)

    one, tolerance = jnp.ones_like(v), max(1e-10, 64 * float(jnp.finfo(v.dtype).eps))
    tangents = tuple(rows(S[:, i]) for i in range(S.shape[1]))
    begin = linear.whiten(root, linear.apply_mass(mass, v))
    found = qp.coulomb_many(one, rows(N), tangents, b, s, mu, begin, tolerance=tolerance, iterate=False)
    return replace(found, u=v + linear.unwhiten(root, found.u - begin))


def rubbed_many(
    system: Any, params: Any, t, q: Array, mass, normals: qp.BodyRows, b: Array, v: Array, start: Array, iterate: bool
) -> qp.Reaction:
    """Do as `rubbed` for the contacts of a list, beginning with the reactions `start` (c, 1 + k)."""
    directions, drift = slip_rows(system, params, t, q, v.size)
    tangents = cast(tuple[qp.BodyRows, ...], directions)
    mu = friction_coefficients(system, params, b.size, q.dtype)
    return qp.coulomb_many(mass, normals, tangents, b, drift, mu, v, reactions=start, iterate=iterate)


class Glued(NamedTuple):
    """The velocity u (d,), impulses of either sign, the adhesions behind (c,) [N s], and a status."""

    u: Array
    impulse: Array
    adhesion: Array
    status: Array


def glued(system: Any, params: Any, mass: Array, rows: Rows, b: Array, v: Array, adhesion: Array) -> Glued:
    """Find the velocity nearest to v whose contacts push, and pull with no more than their adhesion a (c,).

        M (u - v) = G^T P,      G u + b >= 0,      P + a >= 0,      (P + a)_i (G u + b)_i = 0

    P + a are the multipliers of `qp.project` from v - M^-1 G^T a, and the adhesions behind, up to the system's bound.
    """
    found = qp.project(mass, rows, b, v - linear.solve_mass(mass, transposed_product(rows, adhesion)))
    most = jnp.broadcast_to(jnp.asarray(system.adhesion(params), adhesion.dtype), adhesion.shape)
    left = jnp.minimum(found.multipliers, most)
    return Glued(found.u, found.multipliers - adhesion, left, found.status)
