"""Problems with solutions in closed form, for every step map: what `convergence.py` measures errors against.

The exact state is a differentiable function of all parameters, impact times included, so its Jacobian is exact too. The
problems are of the papers' own kinds: spheres with radii r_i(t) and moving walls (S1), nonconvex sets with corners that
turn or shrink (S2), restitution and an inertia that depends on the position (S3).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

import diffcontact as dc


@dataclass(frozen=True)
class ExactProblem:
    """A problem whose end state is known.

    Attributes:
        name: what it is.
        system: what is simulated.
        unpack: theta (p,) -> (params, q0, u0).
        theta: (p,) values of the parameters.
        T: end time [s].
        exact: theta -> (2 d,) state (q, u) at T.
    """

    name: str
    system: dc.System
    unpack: Callable
    theta: np.ndarray
    T: float
    exact: Callable


def growing_spheres(count: int, pairs, theta, T: float, e: float, name: str) -> ExactProblem:
    """Spheres of radius r_i + rate_i t in the plane, no force, hit pair after pair (S1 section 4).

    theta: positions (2 count), velocities (2 count), masses, radii and rates (count each).
    """
    first, second = (np.asarray(index) for index in np.triu_indices(count, k=1))
    parts = np.cumsum([2 * count, 2 * count, count, count])

    def radius_at(t, p):
        return p["radius"] + p["rate"] * t

    def gap(t, q, p):
        centre, radius = q.reshape(count, 2), radius_at(t, p)
        return jnp.linalg.norm(centre[second] - centre[first], axis=1) - radius[first] - radius[second]

    system = dc.System(
        gap=gap,
        force=lambda t, q, u, p: jnp.zeros_like(q),
        mass=lambda q, p: jnp.repeat(p["mass"], 2),
        restitution=lambda p: e,
    )

    def unpack(x):
        q, u, mass, radius, rate = jnp.split(x, parts)
        return {"mass": mass, "radius": radius, "rate": rate}, q, u

    def exact(x):
        p, q, u = unpack(x)
        q, u, now = q.reshape(count, 2), u.reshape(count, 2), 0.0
        for i, j in pairs:
            apart, closing = q[j] - q[i], u[j] - u[i]
            reach, growth = jnp.sum(radius_at(now, p)[jnp.array([i, j])]), p["rate"][i] + p["rate"][j]
            # |apart + s closing|^2 = (reach + s growth)^2, the first root.
            a, b = closing @ closing - growth**2, closing @ apart - reach * growth
            s = (-b - jnp.sqrt(b**2 - a * (apart @ apart - reach**2))) / a
            q, now = q + s * u, now + s
            normal = (q[j] - q[i]) / jnp.linalg.norm(q[j] - q[i])
            impulse = -(1 + e) * (normal @ closing - growth) / (1 / p["mass"][i] + 1 / p["mass"][j]) * normal
            u = u.at[i].add(-impulse / p["mass"][i]).at[j].add(impulse / p["mass"][j])
        return jnp.concatenate([(q + (T - now) * u).ravel(), u.ravel()])

    return ExactProblem(name, system, unpack, np.asarray(theta, float), T, exact)


def two_spheres(e: float = 0.0) -> ExactProblem:
    """One oblique impact of two spheres."""
    theta = [0, 0, 1, 0.2, 1, 0, -0.5, 0.1, 1, 2, 0.3, 0.2, 0, 0]
    return growing_spheres(2, [(0, 1)], theta, 1.0, e, f"two spheres, e = {e:g}")


def three_spheres() -> ExactProblem:
    """The first hits the second, the second the third."""
    theta = [0, 0, 1, 0.25, 1.75, 0.62, 1.5, 0, 0, 0, 0, 0, 1, 1, 2, 0.2, 0.2, 0.2, 0, 0, 0]
    return growing_spheres(3, [(0, 1), (1, 2)], theta, 1.6, 0.0, "three spheres")


def swelling_spheres() -> ExactProblem:
    """Radii r_i(t) that grow until the spheres meet."""
    theta = [0, 0, 1, 0.2, 0.4, 0, -0.2, 0.1, 1, 3, 0.3, 0.2, 0.15, 0.25]
    return growing_spheres(2, [(0, 1)], theta, 1.0, 0.0, "radii r_i(t)")


def swinging_wall() -> ExactProblem:
    """A wall at amplitude sin(omega t) meets a ball at rest and, slowing down, lets it go at once; e = 0."""
    system = dc.System(
        gap=lambda t, q, p: q - p["amplitude"] * jnp.sin(p["omega"] * t),
        force=lambda t, q, u, p: jnp.zeros_like(q),
        mass=lambda q, p: jnp.ones_like(q),
        restitution=lambda p: 0.0,
    )
    T = 0.8

    def exact(x):
        amplitude, omega, height = x
        impact = jnp.arcsin(height / amplitude) / omega
        speed = amplitude * omega * jnp.cos(omega * impact)
        return jnp.stack([height + (T - impact) * speed, speed])

    def unpack(x):
        return {"amplitude": x[0], "omega": x[1]}, x[2:3], jnp.zeros(1, x.dtype)

    return ExactProblem("moving wall", system, unpack, np.array([0.3, 2.0, 0.2]), T, exact)


def shrinking_pocket() -> ExactProblem:
    """Two growing discs, a nonconvex set with a corner: a mass falls into it and is carried up (S2)."""
    T = 0.8

    def radius(t, p):
        return p["radius"] + p["rate"] * t

    def gap(t, q, p):
        centres = jnp.array([[-1.0, 0.0], [1.0, 0.0]], q.dtype) * p["half"]
        return jnp.linalg.norm(q[None, :] - centres, axis=1) - radius(t, p)

    system = dc.System(
        gap=gap,
        force=lambda t, q, u, p: jnp.array([0.0, -9.81], q.dtype),
        mass=lambda q, p: jnp.ones_like(q),
        restitution=lambda p: 0.0,
    )

    def corner(x, t):
        return jnp.sqrt((x[2] + x[3] * t) ** 2 - x[1] ** 2)

    def exact(x):
        height, speed = jax.jvp(lambda t: corner(x, t), (T,), (1.0,))
        zero = jnp.zeros_like(height)
        return jnp.stack([zero, height, zero, speed])

    def unpack(x):
        zero = jnp.zeros_like(x[0])
        return {"half": x[1], "radius": x[2], "rate": x[3]}, jnp.stack([zero, x[0]]), jnp.zeros(2, x.dtype)

    return ExactProblem("shrinking pocket", system, unpack, np.array([1.0, 0.4, 0.5, 0.2]), T, exact)


def rotating_discs() -> ExactProblem:
    """Two discs that turn about the origin like a dumbbell, a nonconvex set with corners, strike a mass (S2)."""
    T = 1.0

    def centres(t, p):
        angle = p["phase"] + p["omega"] * t
        return p["half"] * jnp.stack([jnp.cos(angle), jnp.sin(angle)])[None, :] * jnp.array([[1.0], [-1.0]])

    system = dc.System(
        gap=lambda t, q, p: jnp.linalg.norm(q[None, :] - centres(t, p), axis=1) - p["radius"],
        force=lambda t, q, u, p: jnp.zeros_like(q),
        mass=lambda q, p: jnp.ones_like(q),
        restitution=lambda p: 0.0,
    )

    def unpack(x):
        return {"half": x[4], "radius": x[5], "phase": x[6], "omega": x[7]}, x[:2], x[2:4]

    def exact(x):
        p, q, u = unpack(x)

        def gap(t):
            return system.gap(t, q + t * u, p)[0]

        impact = 0.3
        # Newton's iteration to rounding; its last steps carry the derivative.
        for _ in range(12):
            value, slope = jax.jvp(gap, (impact,), (1.0,))
            impact = impact - value / slope
        place = q + impact * u
        _, wall = jax.jvp(lambda t: centres(t, p)[0], (impact,), (1.0,))
        normal = (place - centres(impact, p)[0]) / p["radius"]
        after = u - normal * (normal @ (u - wall))
        return jnp.concatenate([place + (T - impact) * after, after])

    theta = np.array([1.2, 0.3, -1.0, 0.2, 0.4, 0.5, 0.1, 0.8])
    return ExactProblem("rotating discs", system, unpack, theta, T, exact)


def bouncing_ball(e: float) -> ExactProblem:
    """A ball on the floor under gravity, two impacts. theta: height, speed, gravity, restitution."""
    system = dc.System(
        gap=lambda t, q, p: q,
        force=lambda t, q, u, p: -p["gravity"] * jnp.ones_like(q),
        mass=lambda q, p: jnp.ones_like(q),
        restitution=lambda p: p["restitution"],
    )
    fall = np.sqrt(2 / 9.81)
    # In the middle of the flight after the second impact.
    T = float(fall * (1 + 2 * e + e**2))

    def exact(x):
        height, speed, gravity, e = x
        impact = jnp.sqrt(speed**2 + 2 * gravity * height)
        late = T - (speed + impact) / gravity - 2 * e * impact / gravity
        return jnp.stack([late * e**2 * impact - gravity * late**2 / 2, e**2 * impact - gravity * late])

    def unpack(x):
        return {"gravity": x[2], "restitution": x[3]}, x[:1], x[1:2]

    return ExactProblem(f"bouncing ball, e = {e:g}", system, unpack, np.array([1.0, 0.0, 9.81, e]), T, exact)


def polar(e: float) -> ExactProblem:
    """A free mass in polar coordinates, M(q) = diag(m, m r^2), bounces off a straight wall (S3).

    theta: q0, u0, place of the wall, restitution.
    """
    T = 1.0

    def force(t, q, u, p):
        return jnp.stack([q[0] * u[1] ** 2, -2 * q[0] * u[0] * u[1]])

    system = dc.System(
        gap=lambda t, q, p: (p["wall"] - q[0] * jnp.cos(q[1]))[None],
        force=force,
        mass=lambda q, p: jnp.stack([jnp.ones_like(q[0]), q[0] ** 2]),
        restitution=lambda p: p["restitution"],
    )

    def unpack(x):
        return {"wall": x[4], "restitution": x[5]}, x[:2], x[2:4]

    def cartesian(q):
        return q[0] * jnp.stack([jnp.cos(q[1]), jnp.sin(q[1])])

    def back(x):
        return jnp.stack([jnp.linalg.norm(x), jnp.arctan2(x[1], x[0])])

    def exact(theta):
        p, q, u = unpack(theta)
        x, v = jax.jvp(cartesian, (q,), (u,))
        impact = (p["wall"] - x[0]) / v[0]
        after = v * jnp.array([-1.0, 0.0]) * p["restitution"] + v * jnp.array([0.0, 1.0])
        q, u = jax.jvp(back, (x + impact * v + (T - impact) * after,), (after,))
        return jnp.concatenate([q, u])

    return ExactProblem(
        f"M(q), polar coordinates, e = {e:g}", system, unpack, np.array([0.8, 0.6, 0.9, -0.4, 1.0, e]), T, exact
    )
