"""Systems with friction, with the vector of parameters that `tests/reference/coulomb` differentiates by.

Each file there names its parameters in order; the systems here are built from such a vector.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import diffcontact as dc


class Rubbing(NamedTuple):
    """A system, and where it starts, (q0, u0), both from one vector of parameters."""

    system: dc.System
    start: Callable[[Any], tuple[Any, Any]]


def _block() -> Rubbing:
    """A point mass on a slope, q = (along it, across it): v0, mu, angle, gravity, drive's amplitude and frequency."""

    def force(t, q, u, p):
        _, _, angle, g, amplitude, frequency = p
        return jnp.stack([amplitude * jnp.sin(frequency * t) - g * jnp.sin(angle), -g * jnp.cos(angle)])

    system = dc.System(
        gap=lambda t, q, p: q[1:],
        force=force,
        mass=lambda q, p: np.ones(2),
        restitution=lambda p: 0.0,
        slip=lambda t, q, u, p: u[None, :1],
        friction=lambda p: p[1],
    )
    return Rubbing(system, lambda p: (np.zeros(2), jnp.stack([p[0], 0 * p[0]])))


def _disc(bounces: bool) -> Rubbing:
    """A disc of mass 1 over the floor, q = (x, y, angle): mu, e, e_t, r, inertia, gravity, y0, then u0."""
    system = dc.System(
        gap=lambda t, q, p: q[1:2] - p[3],
        force=lambda t, q, u, p: -p[5] * np.array([0.0, 1.0, 0.0]),
        mass=lambda q, p: jnp.stack([np.ones(()), np.ones(()), p[4]]),
        restitution=lambda p: p[1] if bounces else 0.0,
        slip=lambda t, q, u, p: (u[0] + p[3] * u[2])[None, None],
        friction=lambda p: p[0],
        tangential_restitution=lambda p: p[2],
    )
    return Rubbing(system, lambda p: (p[6] * np.array([0.0, 1.0, 0.0]), p[7:10]))


def _box() -> Rubbing:
    """A rectangle of mass 1, halves a by b, over the floor, q = (x, y, angle): mu, e, a, b, gravity, y0, angle0, u0."""

    def corners(q, p):
        """(2, 4) from the centre, counted from the lower left one."""
        x, y = p[2] * np.array([-1.0, 1.0, 1.0, -1.0]), p[3] * np.array([-1.0, -1.0, 1.0, 1.0])
        cos, sin = jnp.cos(q[2]), jnp.sin(q[2])
        return jnp.stack([cos * x - sin * y, sin * x + cos * y])

    system = dc.System(
        gap=lambda t, q, p: q[1] + corners(q, p)[1],
        force=lambda t, q, u, p: -p[4] * np.array([0.0, 1.0, 0.0]),
        mass=lambda q, p: jnp.stack([np.ones(()), np.ones(()), (p[2] ** 2 + p[3] ** 2) / 3]),
        restitution=lambda p: p[1],
        slip=lambda t, q, u, p: (u[0] - corners(q, p)[1] * u[2])[:, None],
        friction=lambda p: p[0],
    )
    return Rubbing(system, lambda p: (jnp.stack([0 * p[5], p[5], p[6]]), p[7:10]))


def _two_discs() -> Rubbing:
    """Two discs in a plane, q = (x, y, angle) each: mu, e, radii, masses, q0, u0."""

    def normal(q):
        way = q[3:5] - q[:2]
        distance = jnp.sqrt(way @ way)
        return distance, way / distance

    def slip(t, q, u, p):
        n = normal(q)[1]
        return ((u[3:5] - u[:2]) @ jnp.stack([-n[1], n[0]]) - p[2] * u[2] - p[3] * u[5])[None, None]

    def mass(q, p):
        return jnp.stack([p[4], p[4], p[4] * p[2] ** 2 / 2, p[5], p[5], p[5] * p[3] ** 2 / 2])

    system = dc.System(
        gap=lambda t, q, p: (normal(q)[0] - p[2] - p[3])[None],
        force=lambda t, q, u, p: np.zeros(6),
        mass=mass,
        restitution=lambda p: p[1],
        slip=slip,
        friction=lambda p: p[0],
    )
    return Rubbing(system, lambda p: (p[6:12], p[12:18]))


def _sphere(lies: bool) -> Rubbing:
    """A solid sphere over the floor, q = its centre: mu, e, e_t, r, gravity, (unused), z0, u0."""

    def slip(t, q, u, p):
        return (u[:3] + p[3] * jnp.cross(u[3:], np.array([0.0, 0.0, -1.0])))[None, :2]

    def mass(q, p):
        return jnp.concatenate([np.ones(3), 0.4 * p[3] ** 2 * np.ones(3)])

    def start(p):
        if lies:
            return p[3] * np.array([0.0, 0.0, 1.0]), p[7:13] * np.array([1.0, 1.0, 0.0, 1.0, 1.0, 1.0])
        return p[6] * np.array([0.0, 0.0, 1.0]), p[7:13]

    system = dc.System(
        gap=lambda t, q, p: q[2:] - p[3],
        force=lambda t, q, u, p: -p[4] * np.array([0.0, 0.0, 1.0, 0.0, 0.0, 0.0]),
        mass=mass,
        restitution=lambda p: p[1],
        slip=slip,
        friction=lambda p: p[0],
        tangential_restitution=lambda p: p[2],
        rate=lambda q, u, p: u[:3],
    )
    return Rubbing(system, start)


def _ladder() -> Rubbing:
    """A rod of mass 1 between floor and wall, q = (x, y, angle), sliding down: L, mu, gravity, angle0, spin0."""

    def slip(t, q, u, p):
        turn = p[0] / 2 * u[2]
        return jnp.stack([u[0] + turn * jnp.sin(q[2]), u[1] + turn * jnp.cos(q[2])])[:, None]

    def start(p):
        half, angle, spin = p[0] / 2, p[3], p[4]
        x, y = half * jnp.cos(angle), half * jnp.sin(angle)
        return jnp.stack([-x, y, angle]), spin * jnp.stack([y, x, np.ones(())])

    system = dc.System(
        gap=lambda t, q, p: jnp.stack([q[1] - p[0] / 2 * jnp.sin(q[2]), -q[0] - p[0] / 2 * jnp.cos(q[2])]),
        force=lambda t, q, u, p: -p[2] * np.array([0.0, 1.0, 0.0]),
        mass=lambda q, p: jnp.stack([np.ones(()), np.ones(()), p[0] ** 2 / 12]),
        restitution=lambda p: 0.0,
        slip=slip,
        friction=lambda p: p[1],
    )
    return Rubbing(system, start)


_BLOCK, _LANDING, _BOUNCING = _block(), _disc(bounces=False), _disc(bounces=True)

PROBLEMS = {
    "slope_stop": _BLOCK,
    "slope_back": _BLOCK,
    "driven_block": _BLOCK,
    "disc_land": _LANDING,
    "disc_bounce": _BOUNCING,
    "disc_superball": _BOUNCING,
    "two_discs": _two_discs(),
    "box_corner": _box(),
    "sphere_bounce": _sphere(lies=False),
    "sphere_masse": _sphere(lies=True),
    "ladder": _ladder(),
}


@cache
def _ended(problem: Rubbing, reverse: bool, order: int):
    """(theta, end time, count) -> the Jacobian, and (the state, the status): one program for all runs of a problem."""

    def end(theta, until, count):
        q0, u0 = problem.start(theta)
        times = jnp.stack([np.zeros(()), until])
        motion = dc.simulate(problem.system, theta, q0, u0, times, scheme=dc.EventTimed(order=order), substeps=count)
        state = jnp.concatenate([motion.q[-1], motion.u[-1]])
        return state, (state, motion.status)

    # Reverse mode has to know how many steps it goes back.
    return (
        jax.jit(jax.jacrev(end, has_aux=True), static_argnums=2) if reverse else jax.jit(jax.jacfwd(end, has_aux=True))
    )


def errors(problem: Rubbing, run: dict, theta, counts, *, reverse: bool = False, order: int = 4):
    """For each number of steps the error of the state and of its Jacobian, (m, 2), and all statuses (m,)."""
    found, truth = _ended(problem, reverse, order), [np.array(run[key]) for key in ("state", "jacobian")]
    rows, statuses = [], []
    for count in counts:
        jacobian, (state, status) = found(theta, jnp.asarray(run["T"]), int(count) if reverse else jnp.asarray(count))
        values = zip((state, jacobian), truth, strict=True)
        rows.append([np.max(np.abs(x - y)) / np.max(np.abs(y)) for x, y in values])
        statuses.append(int(status))
    return np.array(rows), np.array(statuses)
