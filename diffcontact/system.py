r"""What is simulated: a mechanical system with unilateral constraints, as pure functions of (t, q, u, params).

The reaction is a measure (S3 eq. 2, S1 section 4)::

    M(q) du = f(t, q, u) dt + sum_i grad g_i(t, q) dlambda_i,      dlambda_i >= 0,   supp dlambda_i in {g_i = 0}
    u+ = -e u- + (1 + e) Proj_M(T_K(q), u-)

with an absolutely continuous part (resting contact) and atoms (impacts)::

    gap g_i > 0: open          .  q          normal = grad g_i, points away from the obstacle
    gap g_i = 0: closed        |  ^ grad g   impulse lambda_i >= 0 along grad g_i  [N s]
    ___________________________|__|____

Between percussions the reaction of a contact that rubs is (lambda, beta) [N], in a percussion (P, B) [N s]::

    M du = f dt + sum_i (N_i^T dlambda_i + S_i^T dbeta_i),        v_N = N u + n0,      v_T = slip(t, q, u) = S u + s0
    |beta_i| <= mu_i lambda_i,        beta_i = -mu_i lambda_i v_T/|v_T|  where it slides
    v_N+ >= -e v_N-,  P >= 0;         |B| <= mu P,       B = -mu P w/|w|  where  w = v_T+ + e_t v_T-  is not zero
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from diffcontact.numerics.linear import solve_mass
from diffcontact.qp.rows import BodyRows, Rows, magnitudes
from diffcontact.status import Status, first

Params = Any

IMPACT_LAWS = ("newton", "poisson", "stronge", "compliant")
# What a system may have besides.
_OPTIONAL = (
    *("normals", "slip", "friction", "tangential_restitution", "tangential_compliance", "rate", "tangents"),
    *("normalise", "advance", "dexpinv", "adhesion", "rolling", "resistance", "joint_slip", "joint_friction", "rows"),
)


class AllContacts:
    """A system that looks at all its contacts in every step: the base of `System` and of `ParticleLine`.

    One with too many of them keeps a neighbour list, found anew before each step (`systems.cell_list_balls`)::

        listed = system.neighbours(params, t, h, q, u)            the contacts that may close in a step
        after, info = scheme.step(listed, params, t, h, state)    a scheme sees a `System` like any other
        status = listed.overlooked(q, after.q)                    whether another contact may have closed
        impulse = listed.reported(info.impulse)                   as the trajectory of the whole system tells it
        larger = system.larger(status)                            with more places, or with a longer reach

    Example:
        >>> import diffcontact as dc
        >>> ball = dc.systems.balls(1, 1)
        >>> ball.neighbours({}, 0.0, 0.1, jnp.zeros(1), jnp.zeros(1)) is ball, ball.larger()
        (True, None)
    """

    @property
    def numbers(self) -> Array | None:
        """(c,) int, increasing, by which numbers the whole system knows these contacts; None where they are all.

        The largest integer stands where a place of the list is free.
        """
        return None

    def neighbours(self, params, t, h, q: Array, u: Array) -> Any:
        """Find the system of the contacts that may close in the step of length h from (t, q, u)."""
        return self

    def overlooked(self, q: Array, after: Array) -> Array:
        """() OK, or the `Status` of a step from q to `after` in which a contact beside these may have closed."""
        return jnp.zeros((), int)

    def reported(self, impulse: Array) -> Array:
        """Convert the impulses (c,) of these contacts to those that a trajectory of the whole system tells [N s]."""
        return impulse

    def larger(self, status: Status = Status.NEIGHBOURS_FULL) -> Any:
        """Enlarge what this status says was too small; None where there is nothing to enlarge."""
        return None


@dataclass(frozen=True)
class System(AllContacts):
    """A mechanical system with `d` coordinates and `c` unilateral constraints `gap >= 0`.

    The four functions must be pure and traceable by JAX; everything one may want to differentiate by or to identify
    goes through `params` (any pytree; a dict where it is to be fitted).

    Args:
        gap: `gap(t, q, params) -> (c,)`, the gaps [m]; positive is open. May depend on time (moving walls, growing
            radii). Use a gap that is differentiable where it is zero.
        force: `force(t, q, u, params) -> (d,)`, everything but the contact reactions [N], Coriolis and
            gyroscopic terms included when the mass depends on `q`.
        mass: `mass(q, params) -> (d,)` for a diagonal or `(d, d)` for a full symmetric positive definite matrix [kg].
        restitution: `restitution(params) -> ()` or `(c,)`, the coefficient(s) e in [0, 1]. Or, where they depend on it,
            `restitution(params, speed) -> (c,)` with the speeds of approach (c,) [m/s]; see below.
        normals: None, or `normals(t, q, params)`, the rows grad g_i as `qp.BodyRows`, where each gap belongs to one
            body or two and the mass is diagonal. `VelocityProjection` uses them; the other schemes, and without them
            it too, differentiate the gaps in forward mode: d tangents for c gaps.
        slip: None where contacts do not rub, or `slip(t, q, u, params) -> (c, k)`, the slip velocities v_T [m/s],
            affine in u: k = 1 in a plane, 2 in space, along orthonormal directions of the plane of contact.
        friction: `friction(params) -> ()` or `(c,)`, Coulomb's coefficient mu >= 0; needed where there is a slip. Or,
            in impacts, `friction(params, speed) -> (c,)` with the speeds of approach (c,) [m/s]; see below.
        tangential_restitution: None for 0, or `tangential_restitution(params) -> ()` or `(c,)`, the e_t in [-1, 1] by
            which an impact that grips turns the slip round, v_T+ = -e_t v_T-.
        rate: None where q' = u, or `rate(q, u, params) -> (n,)`, q' [m/s], affine in u (d,); q may then be longer than
            u (a quaternion). All that follows holds with N = d(d gap/dt)/du in place of the gradient.
        impact_law: "newton", "poisson" or "stronge", what restitution means where a contact rubs; or "compliant",
            Stronge's of contacts that spring sideways, too; see below.
        tangential_compliance: None, or with `impact_law="compliant"` `tangential_compliance(params) -> ()` or `(c,)`,
            the ratio of the contact's stiffnesses eta^2 = k_n / k_t >= 0, normal over tangential; 0 is rigid.
        tangents: None, or `tangents(t, q, params)`, the rows of the slip as a tuple of k `qp.BodyRows`, one for each
            direction and all for the bodies of `normals`; used like these.
        normalise: None, or `normalise(q) -> (n,)` or `normalise(q, params)`, the configuration that q stands for, at
            the first time and at the end of each step: where the `rate` is that of unit quaternions, or of bodies under
            constraints, they keep their length, or obey these, to the order of the scheme only.
        advance: None, or `advance(q, u, s, params) -> (n,)`, where the `rate` leads to from q within s seconds of one
            velocity u; without it by Runge's and Kutta's rule of fourth order.
        dexpinv: None, or `dexpinv(theta, u, params) -> (d,)`: theta' for which advance(q, theta, 1) moves from q with
            the velocities u; it is u itself where theta is parallel to it. `EventTimed` integrates theta in place of q
            then, so that what turns about one axis is exact at every step. Without it the `rate` is integrated.
        rolling: None, or `rolling(t, q, u, params) -> (c, m, k)`, with the k of the slip: m further velocities of each
            contact, affine in u, whose frictions its load bounds besides that of the slip: of bodies that roll and
            pivot a radius times their relative angular velocities [m/s]. A zero stands where one has fewer directions.
        resistance: `resistance(params) -> (m,)` or `(c, m)`, the coefficients of these frictions, at least 0.
        joint_slip: None, or `joint_slip(t, q, u, params) -> (j, 1)` or `(j, 2)`, affine in u: velocities against which
            a dry friction acts whose bound is given, not a load's: of a hinge that rubs its rate [rad/s], of a body
            that is pressed onto a belt its slip [m/s].
        joint_friction: `joint_friction(t, params) -> (j,)`, these bounds, at least 0 [N m or N].
        rows: None, or `rows(t, q, params) -> (c, 1 + k, d + 1)`, R and r of the velocities of contacts, d gap/dt and
            v_T, which are R u + r. `EventTimed` uses them; without them it differentiates gap and slip, which are long
            programs where bodies turn.
        adhesion: None, or `adhesion(params) -> ()` or `(c,)`, the largest impulse that a contact holds back [N s], at
            least 0, infinite where it has no bound: contacts glue like those of bodies on a viscous film. They have no
            slip and no restitution; `VelocityProjection` steps them and says more of them.
        draw: None, or `draw(t, q, params) -> shapes`, what it looks like in reports; see `diffcontact.drawing`.

    A `restitution` with two arguments that must be given is a function of the speed of approach, max(-v_N-, 0). It must
    be within [0, 1] at all speeds that occur, at 0 too, where contacts are that do not approach (there it is asked for
    a speed hardly above 0, so that powers of it have derivatives). An impact then makes no energy whatever the law,
    since each impact knows one number e for each contact; and the derivative behind it includes de/dspeed. A law that
    leaves [0, 1] is followed with the nearest of 0 and 1, and the status is BAD_RESTITUTION; `systems.laws` has laws
    that do not. Where e vanishes bodies stick: they are at rest on each other from that impact on.

    A `friction` with two arguments that must be given is likewise one of the speed of approach: an impact has the mu of
    its speed, and contacts that last have that of speed 0. One that comes out negative is taken as 0, and the status is
    NO_FRICTION. As a function of the slip itself mu cannot be given.

    An impact law says what e is a ratio of: velocities, v_N+ = -e v_N- ("newton"); normal impulses, that of restitution
    to that of compression ("poisson"); or energies, work of the normal force in restitution = -e^2 that in compression
    ("stronge"). Without friction, and where normal and tangential rows do not couple (balls), the three agree. Where a
    body is struck off its centre they do not. Then Newton's may make energy where the slip reverses (Kane and
    Levinson), and is blended with the impact of e = e_t = 0 just so far that it does not. Poisson's and Stronge's make
    none: with them the velocity follows Coulomb's law over the normal impulse that accumulates, as in the impact of a
    stiff spring (`schemes.event_timed.flow`). They are laws of one contact and have no e_t. Where an impact
    takes several closed contacts at once, it is Moreau's law that acts, with the same e as Newton's, whatever the
    `impact_law`.

    In an impact of a "compliant" contact a tangential spring k_t in series with Coulomb's slider lies beside the normal
    one, k_n (Stronge, James and Ravani). Slow slips are then turned round, fast ones slide throughout, as of elastic
    spheres, for which Mindlin's k_t / k_n = 1 / eta^2 is (1 - nu) / (1 - nu / 2). It is a law of contacts whose normal
    and tangential directions do not couple, N M^-1 S^T = 0, and whose slip keeps its line: of balls; elsewhere the
    status is NO_FRICTION.

    Systems whose functions have the same code, and refer to the same numbers, arrays and functions, share compiled
    programs, also where they were made anew. A function that refers to an object, a class or a module of one's own
    shares with itself only. Numbers that vary belong into `params`. All contacts are looked at in every step; a system
    with too many of them overrides what `AllContacts` says of it.

    Source: the model of S1 (section 4) and S3 (eq. 1-2).

    Example:
        >>> import jax.numpy as jnp
        >>> ball = System(
        ...     gap=lambda t, q, p: q,
        ...     force=lambda t, q, u, p: -p["gravity"] * jnp.ones(1),
        ...     mass=lambda q, p: jnp.ones(1),
        ...     restitution=lambda p: p["restitution"],
        ... )
        >>> ball.restitution({"restitution": 0.8})
        0.8
    """

    gap: Callable[[Any, Array, Params], Array]
    force: Callable[[Any, Array, Array, Params], Array]
    mass: Callable[[Array, Params], Array]
    restitution: Callable[..., Any]
    normals: Callable[[Any, Array, Params], BodyRows] | None = None
    _: KW_ONLY
    slip: Callable[[Any, Array, Array, Params], Array] | None = None
    friction: Callable[..., Any] | None = None
    tangential_restitution: Callable[[Params], Any] | None = None
    tangential_compliance: Callable[[Params], Any] | None = None
    rate: Callable[[Array, Array, Params], Array] | None = None
    impact_law: str = "newton"
    tangents: Callable[[Any, Array, Params], tuple[BodyRows, ...]] | None = None
    normalise: Callable[..., Array] | None = None
    advance: Callable[[Array, Array, Any, Params], Array] | None = None
    dexpinv: Callable[[Array, Array, Params], Array] | None = None
    adhesion: Callable[[Params], Any] | None = None
    rolling: Callable[[Any, Array, Array, Params], Array] | None = None
    resistance: Callable[[Params], Any] | None = None
    joint_slip: Callable[[Any, Array, Array, Params], Array] | None = None
    joint_friction: Callable[[Any, Params], Array] | None = None
    rows: Callable[[Any, Array, Params], Array] | None = None
    # Systems that only look different share their compilations.
    draw: Callable[[Any, Any, Params], Any] | None = field(default=None, compare=False)

    def __post_init__(self):
        for name in ("gap", "force", "mass", "restitution", *self.optional):
            if not callable(getattr(self, name)):
                raise ValueError(f"System({name}=...): expected a function, got {type(getattr(self, name)).__name__}")

        def refuse(wrong: bool, argument: str, expected: str) -> None:
            if wrong:
                raise ValueError(f"System({argument}): expected {expected}")

        pairs = [("slip", "friction"), ("rolling", "resistance"), ("joint_slip", "joint_friction")]
        needs = [*pairs, *(pair[::-1] for pair in pairs), ("advance", "rate"), ("dexpinv", "advance")]
        needs += [(name, "slip") for name in ("tangential_restitution", "tangential_compliance", "tangents")]
        has = self.optional
        for name, needed in needs:
            refuse(name in has and getattr(self, needed) is None, f"{name}=...", f"{needed}=... with it, got None")
        law, glues, rolls = self.impact_law, "adhesion" in has, "rolling" in has
        springs, only = "tangential_compliance" in has, 'with impact_law="compliant", and with no other law'
        refuse(springs != (law == "compliant"), "tangential_compliance=...", only)
        rubs = self.rubs and law == "newton"
        refuse(rolls and not rubs, "rolling=...", 'slip=... and impact_law="newton" with it')
        refuse(glues and "joint_slip" in has, "adhesion=...", "no joint_slip=... with it")
        refuse(glues and self.rubs, "adhesion=...", "no slip=... with it: what glues has no law of friction here")
        by_speed = "restitution 0 with it, got one that depends on the speed"
        refuse(glues and self.speed_dependent, "adhesion=...", by_speed)
        refuse(law not in IMPACT_LAWS, f"impact_law={law!r}", f"one of {', '.join(IMPACT_LAWS)}")

    @property
    def optional(self) -> list[str]:
        """Which optional functions it has, by name."""
        return [name for name in _OPTIONAL if getattr(self, name) is not None]

    @property
    def rubs(self) -> bool:
        """Whether its contacts have friction."""
        return self.slip is not None

    @property
    def layered(self) -> bool:
        """Whether it has friction besides that of its slips: against rolling, or in joints."""
        return self.rolling is not None or self.joint_slip is not None

    @property
    def flows(self) -> bool:
        """Whether an impact of one contact has phases: Poisson's or Stronge's law, or that of a compliant contact."""
        return self.rubs and self.impact_law != "newton"

    @property
    def speed_dependent(self) -> bool:
        """Whether restitution is a function of the speed of approach, too."""
        return takes_two(self.restitution)

    @property
    def friction_by_speed(self) -> bool:
        """Whether friction is a function of the speed of approach, too."""
        return self.friction is not None and takes_two(self.friction)

    def coefficients(self, params: Params, q: Array) -> Any:
        """All coefficients of restitution that contacts may have, in an array of any shape; those at speed 0 where they
        depend on it. Of q only the shape counts."""
        if not self.speed_dependent:
            return self.restitution(params)
        gap = jax.eval_shape(lambda q: self.gap(jnp.zeros((), q.dtype), q, params), q)
        return self.restitution(params, approach(jnp.zeros(gap.shape, q.dtype)))

    def restitution_of(self, params: Params, before: Array) -> Array:
        """() or (c,) coefficients of restitution in an impact before which the gap velocities are these (c,) [m/s].

        Within [0, 1] whatever the law says at these speeds; `law_status` tells.
        """
        if not self.speed_dependent:
            return jnp.asarray(self.restitution(params), before.dtype)
        e = jnp.asarray(self.restitution(params, approach(before)), before.dtype)
        return jnp.where((e >= 0) & (e <= 1), e, jnp.clip(e, 0, 1))

    def linearised(self, params: Params, t: Any, q: Array) -> tuple[Array, Rows]:
        """Gaps (c,) [m] and their gradients (c, d) at (t, q), sparse where the system brings its own."""
        if self.normals is None:
            here = contacts(self, params, t, q)
            return here.gap, here.normals
        t = jnp.asarray(t, q.dtype)
        return self.gap(t, q, params), self.normals(t, q, params)

    def terms(self, params: Params, t: Any, q: Array, gap: Array, rows: Rows) -> Array:
        """(c,) sizes of the terms of the gaps [m], which their rounding is relative to; rows are the gradients."""
        places = q if self.rate is None else jnp.full(rows.shape[1], jnp.max(jnp.abs(q)))
        return magnitudes(rows, places) + jnp.abs(gap)

    @property
    def convex(self) -> bool:
        """Whether all gaps are known to be convex in q: between two places on one line none is below its tangents."""
        return False

    def turning(self, params: Params, t: Any, mass: Array, start: Array, x: Array) -> tuple[Array, Array] | None:
        """What bounds, for all contacts, the sine of the angle by which its normal n turns from one place to another,
        and n M^-1 n; both (). None where nothing is known without looking at each."""
        return None


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Contacts:
    """All constraints of a system, linearised at (t, q).

    Attributes:
        gap: (c,) gaps g(t, q) [m].
        normals: (c, d) rows grad g_i(t, q), the matrix G of every projection; with a `rate`, N = d(dg/dt)/du.
        drift: (c,) what dg_i/dt is at u = 0 [m/s] (moving walls, growing radii).
    """

    gap: Array
    normals: Array
    drift: Array

    def velocity(self, u: Array) -> Array:
        """(c,) gap velocities G u + dg/dt [m/s]; negative approaches."""
        return self.normals @ u + self.drift


def contacts(system: System, params: Params, t, q: Array) -> Contacts:
    """Gaps, their gradients and their drift at (t, q), in one pass of forward mode (d + 1 tangents)."""
    t = jnp.asarray(t, q.dtype)
    gap, pushforward = jax.linearize(lambda t, q: system.gap(t, q, params), t, q)
    still = jnp.zeros_like(q)
    directions = jnp.eye(q.size, dtype=q.dtype)
    if system.rate is not None:
        size = jax.eval_shape(lambda q: system.mass(q, params), q).shape[0]
        still, directions = _rates(system, params, q, size)
    normals = jax.vmap(lambda e: pushforward(jnp.zeros_like(t), e), out_axes=1)(directions)
    return Contacts(gap=gap, normals=normals, drift=pushforward(jnp.ones_like(t), still))


def _rates(system: System, params: Params, q: Array, size: int) -> tuple[Array, Array]:
    """q' (n,) at u = 0, and what each of the d entries of u adds to it (d, n)."""
    still, pushforward = jax.linearize(lambda u: rate(system, params, q, u), jnp.zeros(size, q.dtype))
    return still, jax.vmap(pushforward)(jnp.eye(size, dtype=q.dtype))


def rate(system: System, params: Params, q: Array, u: Array) -> Array:
    """(n,) q' where the velocity is u (d,) [m/s]."""
    return u if system.rate is None else system.rate(q, u, params)


def advanced(system: System, params: Params, q: Array, u: Array, s) -> Array:
    """(n,) the place that one velocity u (d,) leads to from q within s seconds [m]."""
    if system.rate is None:
        return q + s * u
    if system.advance is not None:
        return system.advance(q, u, s, params)

    def stage(slope, at):
        fraction, weight = at
        slope = rate(system, params, q + fraction * s * slope, u)
        return slope, weight * slope

    nodes = jnp.array([0, 1 / 2, 1 / 2, 1], q.dtype), jnp.array([1 / 6, 1 / 3, 1 / 3, 1 / 6], q.dtype)
    return q + s * jnp.sum(lax.scan(stage, jnp.zeros_like(q), nodes)[1], axis=0)


def displaced(system: System, params: Params, q: Array, step: Array) -> Array:
    """(n,) the place that a small displacement `step` (d,) leads to from q, in the coordinates of u [m]."""
    if system.rate is None:
        return q + step
    return q + (rate(system, params, q, step) - rate(system, params, q, jnp.zeros_like(step)))


def normalised(system: System, params: Params, q: Array) -> Array:
    """(n,) the configuration that q (n,) stands for."""
    if system.normalise is None:
        return q
    return system.normalise(q, params) if takes_two(system.normalise) else system.normalise(q)


def gap_motion(system: System, params: Params, t, q: Array, u: Array) -> tuple[Array, Array]:
    """Gaps (c,) and their velocities (c,) along (1, u), without forming any gradient."""
    t = jnp.asarray(t, q.dtype)
    way = rate(system, params, q, u)
    return jax.jvp(lambda t, q: system.gap(t, q, params), (t, q), (jnp.ones_like(t), way))


def acceleration(system: System, params: Params, t, q: Array, u: Array) -> Array:
    """(d,) acceleration M(q)^-1 f(t, q, u) without any reaction [m/s^2]."""
    return solve_mass(system.mass(q, params), system.force(t, q, u, params))


def takes_two(function: Callable) -> bool:
    """Whether two arguments must be given: a coefficient then is a function of (params, speed), not of params alone.

    Example:
        >>> takes_two(lambda params: 0.5), takes_two(lambda params, speed: 0.5), takes_two(lambda p, k=2: 0.5)
        (False, True, False)
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    return sum(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters) > 1


def approach(before: Array) -> Array:
    """The speeds of approach that belong to these gap velocities before an impact [m/s], hardly above 0 where it is 0.

    So powers of the speed have a derivative there, and it is multiplied with zero.

    Example:
        >>> import jax, numpy as np
        >>> speed = np.asarray(jax.jit(approach)(np.array([-0.5, 2.0])))
        >>> speed.round(9).tolist(), bool(speed[1] > 0)
        ([0.5, 0.0], True)
    """
    return jnp.maximum(-before, jnp.finfo(before.dtype).tiny ** 0.5)


class Slip(NamedTuple):
    """The slip velocities of all contacts at (t, q): rows S (c, k, d), and their drift (c, k) at u = 0 [m/s]."""

    tangents: Array
    drift: Array

    def velocity(self, u: Array) -> Array:
        """(c, k) slip velocities S u + s0 [m/s]."""
        return self.tangents @ u + self.drift


def slips(system: System, params: Params, t, q: Array, size: int) -> Slip:
    """The slip velocities at (t, q) of a system that rubs, with `size` velocities."""
    assert system.slip is not None
    slip, t = system.slip, jnp.asarray(t, q.dtype)
    drift, pushforward = jax.linearize(lambda u: slip(t, q, u, params), jnp.zeros(size, q.dtype))
    return Slip(jax.vmap(pushforward, out_axes=2)(jnp.eye(size, dtype=q.dtype)), drift)


def slip_rows(system: System, params: Params, t, q: Array, size: int) -> tuple[tuple[Rows, ...], Array]:
    """The rows S of the slip velocities at (t, q), (c, d) for each of the k directions, and their drift (c, k).

    As `slips`, but sparse where the system brings its own rows: `normals` and `tangents` then go together.
    """
    if system.tangents is None:
        slip = slips(system, params, t, q, size)
        return tuple(slip.tangents[:, k] for k in range(slip.tangents.shape[1])), slip.drift
    assert system.slip is not None
    t = jnp.asarray(t, q.dtype)
    return system.tangents(t, q, params), system.slip(t, q, jnp.zeros(size, q.dtype), params)


def friction_coefficients(system: System, params: Params, count: int, dtype, before: Array | None = None) -> Array:
    """(c,) mu of contacts that last, or in an impact before which the gap velocities are these (c,) [m/s]."""
    mu = stated_friction(system, params, count, dtype, before)
    return jnp.where(mu < 0, 0.0, mu) if system.friction_by_speed else mu


def stated_friction(system: System, params: Params, count: int, dtype, before: Array | None = None) -> Array:
    """(c,) mu as `friction_coefficients`, as the system states it: negative perhaps."""
    if not system.friction_by_speed:
        return _each(system.friction, params, count, dtype)
    assert system.friction is not None
    speed = approach(jnp.zeros(count, dtype) if before is None else before)
    return jnp.broadcast_to(jnp.asarray(system.friction(params, speed), dtype), (count,))


def law_status(system: System, params: Params, before: Array, taking_part: Array) -> Array:
    """() OK, BAD_RESTITUTION where a law of the speed leaves [0, 1], or NO_FRICTION where it is negative.

    Asked of the contacts (c,) that take part in an impact before which gap velocities are these (c,) [m/s].
    """
    status = jnp.zeros((), jnp.int32)
    if system.speed_dependent:
        e = jnp.asarray(system.restitution(params, approach(before)))
        lawful = jnp.all(~taking_part | (e >= 0) & (e <= 1))
        status = jnp.where(lawful, Status.OK, Status.BAD_RESTITUTION).astype(jnp.int32)
    if system.friction_by_speed:
        lawful = jnp.all(~taking_part | (stated_friction(system, params, before.size, before.dtype, before) >= 0))
        status = first(status, jnp.where(lawful, Status.OK, Status.NO_FRICTION).astype(jnp.int32))
    return status


def tangential_restitutions(system: System, params: Params, count: int, dtype) -> Array:
    """(c,) e_t."""
    return _each(system.tangential_restitution, params, count, dtype)


def tangential_compliances(system: System, params: Params, count: int, dtype) -> Array:
    """(c,) eta^2 = k_n / k_t, 0 where contacts do not spring sideways."""
    return _each(system.tangential_compliance, params, count, dtype)


def _each(function, params, count, dtype):
    value = jnp.zeros((), dtype) if function is None else jnp.asarray(function(params), dtype)
    return jnp.broadcast_to(value, (count,))


def taken(numbers: Array) -> Array:
    """(c,) bool, which places of a list hold a contact."""
    return numbers < jnp.iinfo(numbers.dtype).max


def carried_over(values: Array, earlier: Array, numbers: Array) -> Array:
    """(c,) values of the contacts numbered `earlier`, put where the same contacts are in `numbers`; elsewhere zero.

    Example:
        >>> import jax
        >>> jax.jit(carried_over)(jnp.array([1.0, 2.0, 3.0]), jnp.array([2, 5, 7]), jnp.array([5, 6, 7])).tolist()
        [2.0, 0.0, 3.0]
    """
    place = jnp.minimum(jnp.searchsorted(earlier, numbers), earlier.size - 1)
    return jnp.where(taken(numbers) & (earlier[place] == numbers), values[place], 0)


@dataclass(frozen=True)
class ParticleLine(AllContacts):
    r"""N particles on a line with springs, dashpots and Coulomb friction under a prescribed normal reaction.

    `EventTimed` steps it as a `System` whose joints rub, explicitly: springs that are stiff for the step are told there
    (TOO_COARSE), and `PercussionFriction` takes them.

    The law of S4 (1.4)-(1.7), positions q and velocities u relative to the rest, v = u - E(t) relative to a belt::

        M du + V u dt + K q dt = f dtheta + p dt,      -v+ in N_{nu C}(f),      C = [-gamma, gamma]
        dtheta = dt + sum_k a_k delta_{t_k},           nu(t) >= 0 the density of the normal reaction

    so that friction has a density while sliding, |f_i| <= gamma nu_i, and at each percussion time t_k an atom a_k f.

    Args:
        mass: `mass(params) -> (N,)` [kg].
        damping: `damping(params) -> (N, N)`, V [N s/m].
        stiffness: `stiffness(params) -> (N, N)`, K [N/m].
        load: `load(t, params) -> (N,)`, p [N].
        friction: `friction(params) -> ()`, gamma, the friction coefficient (with nu in newton).
        normal: `normal(t, params) -> (N,)`, nu [N].
        percussion_times: (m,) times t_k [s], increasing; several at one time act in the order of their index.
        percussions: `percussions(params) -> (m,)`, weights a_k >= 0 [s].
        belt: None, or `belt(t, params) -> ()`, transport velocity E [m/s].
        draw: None, or `draw(t, q, params) -> shapes`, what it looks like in reports; see `diffcontact.drawing`.

    Source: S4 (Laghdir, Monteiro Marques), section 1.

    Example:
        >>> import jax.numpy as jnp
        >>> slider = ParticleLine(
        ...     mass=lambda p: jnp.ones(1),
        ...     damping=lambda p: jnp.zeros((1, 1)),
        ...     stiffness=lambda p: jnp.zeros((1, 1)),
        ...     load=lambda t, p: jnp.zeros(1),
        ...     friction=lambda p: p["gamma"],
        ...     normal=lambda t, p: 9.81 * jnp.ones(1),
        ...     percussion_times=[0.1],
        ...     percussions=lambda p: jnp.array([0.05]),
        ... )
        >>> slider.percussion_times
        (0.1,)
    """

    mass: Callable[[Params], Array]
    damping: Callable[[Params], Array]
    stiffness: Callable[[Params], Array]
    load: Callable[[Any, Params], Array]
    friction: Callable[[Params], Any]
    normal: Callable[[Any, Params], Array]
    percussion_times: Any
    percussions: Callable[[Params], Array]
    belt: Callable[[Any, Params], Any] | None = None
    draw: Callable[[Any, Any, Params], Any] | None = field(default=None, compare=False, kw_only=True)

    def __post_init__(self):
        for name in ("mass", "damping", "stiffness", "load", "friction", "normal", "percussions"):
            if not callable(getattr(self, name)):
                raise ValueError(f"ParticleLine({name}=...): expected a function, got {getattr(self, name)!r}")
        times = np.asarray(self.percussion_times, float)
        if times.ndim != 1 or not np.all(np.isfinite(times)) or np.any(np.diff(times) < 0):
            raise ValueError(
                f"ParticleLine(percussion_times={self.percussion_times!r}): expected finite times that do not decrease"
            )
        # A tuple, so that equal lines are equal and hash alike.
        object.__setattr__(self, "percussion_times", tuple(times.tolist()))

    @property
    def between_percussions(self) -> System:
        """The `System` without contacts that the line is between percussions: joints with a given friction."""

        def force(t, q, u, params):
            parts = self.load(t, params), self.damping(params), self.stiffness(params)
            load, damping, stiffness = (jnp.asarray(x, q.dtype) for x in parts)
            return load - damping @ u - stiffness @ q

        def slip(t, q, u, params):
            return (u - (0.0 if self.belt is None else jnp.asarray(self.belt(t, params), q.dtype)))[:, None]

        return System(
            gap=lambda t, q, params: jnp.zeros(0, q.dtype),
            force=force,
            mass=lambda q, params: jnp.asarray(self.mass(params), q.dtype),
            restitution=lambda params: 0.0,
            joint_slip=slip,
            joint_friction=lambda t, params: self.friction(params) * jnp.asarray(self.normal(t, params)),
        )
