"""The hypotheses of the convergence theorems, as numbers that can be computed at a state.

A theorem holds on a whole set of positions; what is computed here is its constant *there and then*. A state that fails
disproves the hypothesis; many that pass make it plausible.

Contact (S1, S2, S3), with n_i = grad g_i / |grad g_i| over the active or nearly active constraints::

    reverse triangle inequality   sum_i l_i |grad g_i| <= gamma |sum_i l_i grad g_i|  for all l >= 0      (A6, R_rho)
    prox-regularity               eta = min_i |grad g_i| / (gamma |D^2 g_i|)                       (S2 theorem 4.1)
    angle condition               <n_i, n_j> = 0 in the metric M^-1                                           (H6 of S3)

Friction (S4): the horizon T_1 and the bound a_1(T) of the velocity, eq. (4.2).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial, singledispatch
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from diffcontact import qp
from diffcontact.numerics import linear
from diffcontact.numerics.compilation import jit_fast_compile
from diffcontact.numerics.linear import nonzero
from diffcontact.status import Status
from diffcontact.system import ParticleLine, System, contacts


def active_set(system: System, params: Any, t: Any, q: Array, rho: Any = 0.0) -> Array:
    """I_rho(t, q) = {i : g_i(t, q) <= rho}, the active set I(t, q) for rho = 0 (S1 eq. 8-9), as a mask (c,).

    A gap that is zero to rounding counts as zero.

    Args:
        rho: how nearly closed a contact must be [m].

    Example:
        >>> import jax.numpy as jnp, diffcontact as dc
        >>> system, params = dc.systems.balls(1, 1, box=(0.0, 1.0)), {"radius": jnp.zeros(1)}
        >>> active_set(system, params, 0.0, jnp.zeros(1)).tolist()
        [True, False]
    """
    rounding = jnp.finfo(q.dtype).eps ** 0.75 * jnp.max(jnp.abs(q))
    return system.gap(t, q, params) <= rho + rounding


class ReverseTriangle(NamedTuple):
    """The reverse triangle inequality at a state.

    Attributes:
        gamma: () its smallest constant, at least 1; infinite where there is none.
        exists: () whether there is one: whether no positive combination of the active gradients vanishes.
        direction: (d,) unit vector along which every active gap opens, <n_i, direction> >= 1 / gamma: the "good
            direction" of S1 lemma 3.1; zero where there is none.
    """

    gamma: Array
    exists: Array
    direction: Array


def reverse_triangle(system: System, params: Any, t: Any, q: Array, rho: Any = 0.0) -> ReverseTriangle:
    r"""The constant gamma of (A6) / (R_rho) at (t, q), and whether it exists.

    1 / gamma is the distance from 0 to the convex hull of the unit gradients n_i. Its dual is a projection::

        gamma = min |v|     subject to     <n_i, v> >= 1   for all i in I_rho(t, q)

    feasible if and only if 0 is not in the hull. Lengths are Euclidean, as in the papers. Without active
    constraints the inequality is empty and gamma = 1.

    Args:
        rho: see `active_set`; (A6') and (R_0) are rho = 0.

    Source: S1 (A6), (A6'), lemma 3.1; S2 (R_rho).

    Example:
        >>> import jax.numpy as jnp, diffcontact as dc
        >>> corner, params = dc.systems.balls(1, 2, box=(0.0, 1.0)), {"radius": jnp.zeros(1)}
        >>> print(f"{reverse_triangle(corner, params, 0.0, jnp.zeros(2)).gamma:.4f}")
        1.4142
    """
    near = active_set(system, params, t, q, rho)
    normals = contacts(system, params, t, q).normals
    length = jnp.linalg.norm(normals, axis=1, keepdims=True)
    # A gradient that vanishes has no direction and cannot open: it makes the problem infeasible, as it should.
    unit = normals / nonzero(length)
    still = jnp.zeros(normals.shape[1], q.dtype)
    found = qp.project(jnp.ones_like(still), unit, jnp.where(near, -1.0, jnp.inf), still)
    exists = found.status == Status.OK
    size = jnp.linalg.norm(found.u)
    any_near = jnp.any(near)
    gamma = jnp.where(exists, jnp.where(any_near, size, 1.0), jnp.inf)
    direction = jnp.where(exists & any_near, found.u / nonzero(size), 0.0)
    return ReverseTriangle(gamma=gamma, exists=exists, direction=direction)


def prox_regularity(system: System, params: Any, t: Any, q: Array, rho: Any = 0.0) -> Array:
    r"""() estimate of eta, the radius within which positions have one nearest point in {g >= 0} [m].

        eta = min_i |grad g_i| / kappa_i / gamma,      kappa_i = the largest positive eigenvalue of D^2 g_i

    over I_rho(t, q). Theorem 4.1 of S2 proves alpha / (M gamma) with alpha <= |grad g| and |D^2 g| <= M everywhere.
    Its proof uses a bound of g from above only, so that directions in which a gap is concave do not count: a convex
    set has eta infinite. Zero where gamma does not exist.

    Source: S2 theorem 4.1 and definition 2.5.

    Example:
        >>> import jax.numpy as jnp, diffcontact as dc
        >>> disc = dc.System(
        ...     gap=lambda t, q, p: jnp.linalg.norm(q)[None] - 0.5,
        ...     force=lambda t, q, u, p: jnp.zeros(2),
        ...     mass=lambda q, p: jnp.ones(2),
        ...     restitution=lambda p: 0.0,
        ... )
        >>> print(f"{prox_regularity(disc, {}, 0.0, jnp.array([0.5, 0.0])):.3f}")
        0.500
    """
    near = active_set(system, params, t, q, rho)
    slope = jnp.linalg.norm(contacts(system, params, t, q).normals, axis=1)
    curvature = jax.hessian(lambda x: jnp.where(near, system.gap(t, x, params), 0.0))(q)
    bend = jnp.maximum(jnp.linalg.eigvalsh(curvature)[:, -1], 0.0)
    # Curvature at the level of its own rounding is none.
    bent = near & (bend > jnp.finfo(q.dtype).eps * (1 + jnp.max(jnp.abs(curvature), initial=0.0)))
    radius = jnp.min(jnp.where(bent, slope / jnp.where(bent, bend, 1.0), jnp.inf), initial=jnp.inf)
    triangle = reverse_triangle(system, params, t, q, rho)
    return jnp.where(triangle.exists, radius / jnp.where(triangle.exists, triangle.gamma, 1.0), 0.0)


class AngleCondition(NamedTuple):
    """Whether active constraints are orthogonal in the kinetic metric.

    Attributes:
        cosines: (c, c) of the angles between gradients of active constraints in M^-1; zero elsewhere.
        worst: () the largest absolute value among them.
        holds: () whether all are zero to rounding.
    """

    cosines: Array
    worst: Array
    holds: Array


def angle_condition(system: System, params: Any, t: Any, q: Array, rho: Any = 0.0) -> AngleCondition:
    """(H6) at a state: <e_i, e_j> = 0 for active i != j, with e_i = M^-1/2 grad g_i / |M^-1/2 grad g_i|.

    Where it fails and restitution is above 0, the motion is not continuous in its data: an impact on both contacts
    at once and two impacts one after the other end differently, and a scheme's limit need not be unique.

    Source: S3 (H6), eq. (8); Ballard (2000), Paoli (2005).

    Example:
        >>> import jax.numpy as jnp, diffcontact as dc
        >>> row = dc.systems.balls(3, 1)
        >>> params = dict(mass=jnp.ones(3), radius=0.5 * jnp.ones(3))
        >>> cradle = angle_condition(row, params, 0.0, jnp.array([0.0, 1.0, 2.0]))
        >>> print(bool(cradle.holds), cradle.worst.round(6))
        False 0.5
    """
    near = active_set(system, params, t, q, rho)
    root = linear.root_of_mass(system.mass(q, params))
    whitened = linear.whiten(root, jnp.where(near[:, None], contacts(system, params, t, q).normals, 0.0).T)
    length = jnp.linalg.norm(whitened, axis=0, keepdims=True)
    unit = whitened / nonzero(length)
    cosines = (unit.T @ unit) * (1 - jnp.eye(near.size, dtype=q.dtype))
    worst = jnp.max(jnp.abs(cosines), initial=0.0)
    return AngleCondition(cosines=cosines, worst=worst, holds=worst <= jnp.finfo(q.dtype).eps ** 0.75)


class VelocityBound(NamedTuple):
    """The a-priori estimate of S4.

    Attributes:
        horizon: () T_1 = (sqrt(a^2 + 4 b) - a) / (2 b) [s]: the estimate holds for T below.
        bound: () a_1(T) >= |u(t)| from t_0 to t_0 + T [m/s]; infinite for T >= T_1.
    """

    horizon: Array
    bound: Array


def velocity_bound(
    line: ParticleLine, params: Any, t: Any, q: Array, u: Array, duration: Any, samples: int = 1000
) -> VelocityBound:
    r"""T_1 and a_1(T) of S4 (4.2) for the motion from (t, q, u) over `duration` seconds.

        a_1(T) = (|u| + b T |q| + c gamma |nu| |dtheta| + c T |p|) / (1 - a T - b T^2)

    with a = |M^-1 V|, b = |M^-1 K|, c = |M^-1| (spectral norms), |dtheta| = T + the percussions within [t, t + T],
    and |nu|, |p| the largest over time.

    Args:
        q, u: (N,) position and velocity at t.
        duration: T [s].
        samples: nu and p are looked at at so many equidistant times, and nu at the percussions.

    Source: S4 eq. (4.2), proposition 4.1.

    Example:
        >>> import jax.numpy as jnp, diffcontact as dc
        >>> pendulum = dc.ParticleLine(
        ...     mass=lambda p: jnp.ones(1),
        ...     damping=lambda p: jnp.zeros((1, 1)),
        ...     stiffness=lambda p: 4.0 * jnp.ones((1, 1)),
        ...     load=lambda t, p: jnp.zeros(1),
        ...     friction=lambda p: 0.0,
        ...     normal=lambda t, p: jnp.ones(1),
        ...     percussion_times=[],
        ...     percussions=lambda p: jnp.zeros(0),
        ... )
        >>> estimate = velocity_bound(pendulum, {}, 0.0, jnp.zeros(1), jnp.ones(1), 0.25)
        >>> print(f"{estimate.horizon:.3f} {estimate.bound:.3f}")
        0.500 1.333
    """
    mass = line.mass(params)
    a, b = (jnp.linalg.norm(matrix(params) / mass[:, None], 2) for matrix in (line.damping, line.stiffness))
    c = jnp.max(1 / mass)
    atoms = jnp.asarray(line.percussion_times, q.dtype)
    within = (atoms >= t) & (atoms <= t + duration)
    measure = duration + jnp.sum(jnp.where(within, jnp.asarray(line.percussions(params), q.dtype), 0.0))
    grid = t + duration * jnp.linspace(0, 1, samples, dtype=q.dtype)
    # A percussion outside the interval is moved to its beginning, where nu counts anyway.
    at = jnp.concatenate([grid, jnp.where(within, atoms, t)])
    normal = jnp.max(jnp.linalg.norm(jax.vmap(lambda s: line.normal(s, params))(at), axis=1))
    load = jnp.max(jnp.linalg.norm(jax.vmap(lambda s: line.load(s, params))(grid), axis=1))
    # T_1 = (sqrt(a^2 + 4 b) - a) / (2 b), written so that b = 0 is its limit 1 / a.
    root = a + jnp.sqrt(a**2 + 4 * b)
    horizon = jnp.where(root > 0, 2 / nonzero(root), jnp.inf)
    left = 1 - a * duration - b * duration**2
    friction = c * line.friction(params) * normal * measure
    known = jnp.linalg.norm(u) + b * duration * jnp.linalg.norm(q) + friction + c * duration * load
    return VelocityBound(horizon, jnp.where(left > 0, known / nonzero(left), jnp.inf))


def penetration(system: System, params: Any, t: Array, q: Array) -> Array:
    """(n,) how deep each position of a trajectory lies in the deepest contact [m], 0 where it is feasible.

    Zero to rounding for VelocityProjection (convex gaps), CatchingUp and EventTimed; ElasticProjection's positions
    leave the admissible set by O(h) at impacts when e > 0.

    Args:
        t: (n,) times.
        q: (n, d) positions.

    Example:
        >>> import jax.numpy as jnp, diffcontact as dc
        >>> system, params = dc.systems.balls(1, 1, box=(0.0, 1.0)), {"radius": jnp.zeros(1)}
        >>> penetration(system, params, jnp.zeros(2), jnp.array([[0.5], [-0.25]])).tolist()
        [0.0, 0.25]
    """
    gaps = jax.vmap(lambda t, q: system.gap(t, q, params))(t, q)
    return jnp.maximum(0.0, -jnp.min(gaps, axis=1, initial=jnp.inf))


@dataclass(frozen=True)
class Report:
    """What was found, one (hypothesis, finding) per line; printing it gives the table."""

    lines: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        width = max(len(name) for name, _ in self.lines)
        return "\n".join(f"{name:<{width}}  {finding}" for name, finding in self.lines)


@singledispatch
def report(system: Any, params: Any, t: Any, q: Any, u: Any, *, rho: float = 0.0, duration: float = 1.0) -> Report:
    """Check the hypotheses of the convergence theorems at a state, in words.

    `python -m diffcontact check` prints the report.

    Args:
        system: a `System` or a `ParticleLine`.
        t, q, u: the state, q and u (d,).
        rho: contacts with a gap up to here count as active [m]; `System` only.
        duration: how long a motion the estimate (4.2) is asked for [s]; `ParticleLine` only.

    Raises:
        ValueError: for any other system.

    Example:
        >>> import jax.numpy as jnp, diffcontact as dc
        >>> params = dict(mass=jnp.ones(1), radius=0.1 * jnp.ones(1), gravity=-9.81 * jnp.ones(1), restitution=0.5)
        >>> ball = dc.systems.balls(1, 1, box=(0.0, 1.0))
        >>> print(report(ball, params, 0.0, jnp.array([0.1]), jnp.zeros(1)))
        feasible position               yes
        active contacts                 0
        admissible velocity             yes
        reverse triangle inequality     gamma = 1 (S1 A6, S2 R_rho)
        prox-regularity                 eta = inf m (S2 theorem 4.1)
        angle condition                 holds (S3 H6)
    """
    raise ValueError(f"system: expected a System or a ParticleLine, got {type(system).__name__}")


@report.register
def _(system: System, params, t, q, u, *, rho=0.0, duration=1.0):
    q, u = (jnp.asarray(x, float) for x in (q, u))
    rounding = float(np.finfo(q.dtype).eps ** 0.75 * np.max(np.abs(q)))
    gap, speed, near, triangle, angle, regularity = _facts(system, params, t, q, u, rho)
    gap, speed, near = (np.asarray(x) for x in (gap, speed, near))
    deep = [f"no: gap[{i}] = {gap[i]:.3g} m" for i in np.flatnonzero(gap < -rounding)]
    # Only a contact that is closed, not one that is nearly so, forbids a velocity (S1 eq. 7).
    closing = (gap <= rounding) & (speed < -rounding)
    fast = [f"no: gap[{i}] closes at {-speed[i]:.3g} m/s" for i in np.flatnonzero(closing)]
    found = (
        f"gamma = {triangle.gamma:.6g}" if triangle.exists else "fails: active gradients have a vanishing combination"
    )
    no = f"fails, largest cosine {angle.worst:.6g}: with e > 0 no continuity in the data"
    lines = {
        "feasible position": ", ".join(deep) or "yes",
        "active contacts": " ".join(str(i) for i in np.flatnonzero(near)) or "none",
        "admissible velocity": ", ".join(fast) or "yes",
        "reverse triangle inequality": f"{found} (S1 A6, S2 R_rho)",
        "prox-regularity": f"eta = {regularity:.6g} m (S2 theorem 4.1)",
        "angle condition": f"{'holds' if angle.holds else no} (S3 H6)",
    }
    if system.speed_dependent:
        lines["restitution"] = "depends on the speed; S3 is about a constant"
    return Report(tuple(lines.items()))


@partial(jit_fast_compile, work=lambda *_: 0, static=("system",))
def _facts(system, params, t, q, u, rho):
    here, at = contacts(system, params, t, q), (system, params, t, q, rho)
    facts = active_set, reverse_triangle, angle_condition, prox_regularity
    return here.gap, here.velocity(u), *(fact(*at) for fact in facts)


@report.register
def _(system: ParticleLine, params, t, q, u, *, rho=0.0, duration=1.0):
    q, u = (jnp.asarray(x, float) for x in (q, u))
    estimate = velocity_bound(system, params, t, q, u, duration)
    matrices = {"stiffness": system.stiffness, "damping": system.damping}
    least = {name: np.linalg.eigvalsh(np.asarray(matrix(params)))[0] for name, matrix in matrices.items()}
    bound = "none: the duration exceeds the horizon"
    if np.isfinite(estimate.bound):
        bound = f"|u| <= {estimate.bound:.6g} m/s"
    lines = {name: f"smallest eigenvalue {value:.6g}" for name, value in least.items()}
    lines["horizon T_1"] = f"{estimate.horizon:.6g} s (S4 proposition 4.1)"
    lines[f"velocity over {duration:g} s"] = f"{bound} (S4 eq. 4.2)"
    return Report(tuple(lines.items()))
