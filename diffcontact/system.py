r"""What is simulated: a mechanical system with unilateral constraints, as pure functions of (t, q, u, params).

The reaction is a measure (S3 eq. 2, S1 section 4)::

    M(q) du = f(t, q, u) dt + sum_i grad g_i(t, q) dlambda_i,      dlambda_i >= 0,   supp dlambda_i in {g_i = 0}
    u+ = -e u- + (1 + e) Proj_M(T_K(q), u-)

with an absolutely continuous part (resting contact) and atoms (impacts)::

    gap g_i > 0: open          .  q          normal = grad g_i, points away from the obstacle
    gap g_i = 0: closed        |  ^ grad g   impulse lambda_i >= 0 along grad g_i  [N s]
    ___________________________|__|____
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from diffcontact.mass import solve
from diffcontact.neighbours import AllContacts
from diffcontact.qp.rows.body_rows import BodyRows, Rows

Params = Any


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
        restitution: `restitution(params) -> ()` or `(c,)`, the coefficient(s) e in [0, 1].
        normals: None, or `normals(t, q, params)`, the rows grad g_i as `qp.BodyRows`, where each gap belongs to one
            body or two and the mass is diagonal. `VelocityProjection` uses them; the other schemes, and without them
            it too, differentiate the gaps in forward mode: d tangents for c gaps.

    Systems are compared by their functions: build one once and reuse it, and nothing is compiled twice. All contacts
    are looked at in every step; a system with too many of them overrides what `neighbours.AllContacts` says of it.

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
    restitution: Callable[[Params], Any]
    normals: Callable[[Any, Array, Params], BodyRows] | None = None

    def __post_init__(self):
        optional = () if self.normals is None else ("normals",)
        for name in ("gap", "force", "mass", "restitution", *optional):
            if not callable(getattr(self, name)):
                raise ValueError(f"System({name}=...): expected a function, got {type(getattr(self, name)).__name__}")

    def coefficients(self, params: Params) -> Any:
        """All coefficients of restitution that contacts may have, in an array of any shape."""
        return self.restitution(params)

    def linearised(self, params: Params, t: Any, q: Array) -> tuple[Array, Rows]:
        """Gaps (c,) [m] and their gradients (c, d) at (t, q), sparse where the system brings its own."""
        if self.normals is None:
            here = contacts(self, params, t, q)
            return here.gap, here.normals
        t = jnp.asarray(t, q.dtype)
        return self.gap(t, q, params), self.normals(t, q, params)


@dataclass(frozen=True)
class ParticleLine(AllContacts):
    r"""N particles on a line with springs, dashpots and Coulomb friction under a prescribed normal reaction.

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


@dataclass(frozen=True)
class _In:
    """A function whose result is converted to an array of one precision; equal where functions and precisions are."""

    dtype: Any
    function: Callable

    def __call__(self, *args):
        return jnp.asarray(self.function(*args), self.dtype)


def in_precision(system: System | ParticleLine, dtype) -> System | ParticleLine:
    """The same system, whose functions return arrays of the state's precision whatever they are written with.

    Those of a `ParticleLine` are converted where they are used.

    Example:
        >>> ball = System(lambda t, q, p: [q[0]], lambda t, q, u, p: -9.81 * q, lambda q, p: [1], lambda p: 1)
        >>> in_precision(ball, jnp.float32).mass(jnp.zeros(1), {})
        Array([1.], dtype=float32)
    """
    if not isinstance(system, System):
        return system
    functions = {name: getattr(system, name) for name in ("gap", "force", "mass", "restitution")}
    return replace(system, **{name: _In(np.dtype(dtype), function) for name, function in functions.items()})


@partial(jax.tree_util.register_dataclass, data_fields=["gap", "normals", "drift"], meta_fields=[])
@dataclass(frozen=True)
class Contacts:
    """All constraints of a system, linearised at (t, q).

    Attributes:
        gap: (c,) gaps g(t, q) [m].
        normals: (c, d) rows grad g_i(t, q), the matrix G of every projection.
        drift: (c,) explicit time derivatives dg_i/dt [m/s] (moving walls, growing radii).
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
    normals = jax.vmap(lambda e: pushforward(jnp.zeros_like(t), e), out_axes=1)(jnp.eye(q.size, dtype=q.dtype))
    return Contacts(gap=gap, normals=normals, drift=pushforward(jnp.ones_like(t), jnp.zeros_like(q)))


def gap_motion(system: System, params: Params, t, q: Array, u: Array) -> tuple[Array, Array]:
    """Gaps (c,) and their velocities (c,) along (1, u), without forming any gradient."""
    t = jnp.asarray(t, q.dtype)
    return jax.jvp(lambda t, q: system.gap(t, q, params), (t, q), (jnp.ones_like(t), u))


def gap_acceleration(system: System, params: Params, t, q: Array, u: Array, a: Array) -> Array:
    """(c,) second derivatives of the gaps along q + s u + s^2 a / 2 [m/s^2]: curvature and moving walls included."""
    zero, one = jnp.zeros((), q.dtype), jnp.ones((), q.dtype)

    def along(s):
        return system.gap(t + s, q + s * u + s**2 / 2 * a, params)

    return jax.jvp(lambda s: jax.jvp(along, (s,), (one,))[1], (zero,), (one,))[1]


def acceleration(system: System, params: Params, t, q: Array, u: Array) -> Array:
    """(d,) acceleration M(q)^-1 f(t, q, u) without any reaction [m/s^2]."""
    return solve(system.mass(q, params), system.force(t, q, u, params))
