"""Compute the slip of spinning balls on what they touch, and how they turn.

Of a contact with the unit vector d from the first body to the second, and r d x t for the moment of a tangent t::

                  t                   slip of two balls, the second on the first, v_j - v_i - (r_i w_i + r_j w_j) x d
               d  |  .                slip of a ball on a wall                     v_i + r_i w_i x d - belt
          (i)---->|(j)
                  |                   in a plane t = (-d_y, d_x); w x d = w t
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from diffcontact.numerics.linear import nonzero
from diffcontact.qp.rows import BodyRows, product
from diffcontact.systems import poses
from diffcontact.systems.surfaces import Surfaces
from diffcontact.systems.surroundings import param

# No field of frames is smooth on the whole sphere. The frames of pairs of balls are smooth but in one direction, which
# is opposite to this one. No geometry prefers it: it is not along an axis, nor level like between balls on a table.
_POLE = np.array([1.0, np.sqrt(2.0), np.pi]) / np.sqrt(3.0 + np.pi**2)
_UP = np.array([0.0, 0.0, 1.0])
# The axes x and y, reflected like the pole is into z.
_AXES = np.eye(3)[:2] - 2 * np.outer((_UP + _POLE)[:2], _UP + _POLE) / ((_UP + _POLE) @ (_UP + _POLE))


def rubbing(surfaces: Surfaces, facing: Callable, coefficient: Callable) -> dict[str, Any]:
    """Return the further functions of a `System` of balls that spin, by name.

    Args:
        facing: (t, q, params) -> first, second (c,), direction (c, m), the contacts as in `tangent_rows`.
        coefficient: name -> a function of params, the coefficient by this name of these contacts, () or (c,).
    """
    e_t = coefficient("tangential_restitution")
    functions = {
        "slip": lambda t, q, u, params: slip(surfaces, t, u, params, *facing(t, q, params)),
        "tangents": lambda t, q, params: tangent_rows(surfaces, t, params, *facing(t, q, params)),
        "friction": coefficient("friction"),
        "tangential_restitution": lambda params: e_t(params) if "tangential_restitution" in params else 0.0,
    }
    return functions | (SPACE if surfaces.dimension == 3 else {})


def resisting(surfaces: Surfaces, facing: Callable, coefficient: Callable) -> dict[str, Any]:
    """Return the further functions of balls that resist rolling; arguments as of `rubbing`."""
    names = ("rolling_friction",) if surfaces.dimension == 2 else ("rolling_friction", "pivoting_friction")

    def resistance(params):
        each = [jnp.asarray(coefficient(name)(params) if name in params else 0.0) for name in names]
        return jnp.stack(jnp.broadcast_arrays(*each), axis=-1)

    return {
        "rolling": lambda t, q, u, params: rolling(surfaces, t, u, params, *facing(t, q, params)),
        "resistance": resistance,
    }


def rolling(surfaces: Surfaces, t, u: Array, params, first, second, direction: Array) -> Array:
    """Return r times turning of surfaces on each other (c, m, k) [m/s], and about the normal.

    r is the radius of a ball on a wall, and r_i r_j / (r_i + r_j) of two; in a plane m = 1. Arguments as in `slip`.
    """
    wall = jnp.asarray(second) >= surfaces.spheres
    radius = surfaces.radii(t, params, direction.dtype)
    near, far = radius[first], radius[jnp.where(wall, 0, second)]
    lever = jnp.where(wall, near, near * far / (near + far))[:, None]
    spins = u.reshape(surfaces.count, -1)[:, surfaces.dimension :]
    free = jnp.asarray(second) < surfaces.count
    turning = lever * (spins[first] - jnp.where(free[:, None], spins[jnp.where(free, second, 0)], 0))
    if surfaces.dimension == 2:
        return turning[:, None]
    along = jnp.stack([jnp.sum(axis * turning, axis=1) for axis in (*tangents(direction, wall), direction)], axis=1)
    return jnp.stack([along[:, :2], jnp.pad(along[:, 2:], ((0, 0), (0, 1)))], axis=1)


def tangent_rows(surfaces: Surfaces, t, params, first, second, direction: Array) -> tuple[BodyRows, ...]:
    """Return the rows of the slip, for each direction of the contact plane.

    Args:
        first, second: (c,) numbers of the surfaces, -1 in free places.
        direction: (c, m) unit vectors from the first to the second.
    """
    wall = jnp.asarray(second) >= surfaces.spheres
    radius = surfaces.radii(t, params, direction.dtype)
    near, far = radius[first][:, None], jnp.where(wall, 0, radius[jnp.where(wall, 0, second)])[:, None]
    bodies, sign = surfaces.bodies(first, second), jnp.where(wall, 1, -1)[:, None]
    rows = []
    for tangent in tangents(direction, wall):
        moment = _cross(direction, tangent)
        at_first = sign * jnp.concatenate([tangent, near * moment], axis=1)
        at_second = jnp.concatenate([tangent, -far * moment], axis=1)
        rows.append(BodyRows(bodies, jnp.stack([at_first, at_second], axis=1), surfaces.count))
    return tuple(rows)


def slip(surfaces: Surfaces, t, u: Array, params, first, second, direction: Array) -> Array:
    """Return slip velocities (c, k) between these surfaces [m/s], as in `tangent_rows`."""
    rows = tangent_rows(surfaces, t, params, first, second, direction)
    velocity = jnp.stack([product(row, u) for row in rows], axis=1)
    if surfaces.belt is None:
        return velocity
    wall = jnp.asarray(second) - surfaces.spheres
    walls = len(surfaces.normals(t, params, u.dtype))
    running = surfaces.running(t, params, walls, u.dtype)
    running = jnp.where((wall >= 0)[:, None], running[jnp.maximum(wall, 0)], 0)
    along = [jnp.sum(tangent * running, axis=1) for tangent in tangents(direction, wall >= 0)]
    return velocity - jnp.stack(along, axis=1)


def tangents(direction: Array, wall) -> list[Array]:
    """Return k arrays (c, m), unit vectors that span the contact planes.

    They are smooth in the direction (c, m), and finite for any. In a plane: the direction turned to the left. In space:
    the axes of a pole, reflected like the pole is into the direction: Duff et al.'s frame (JCGT 6(1), 2017), whose pole
    is z or -z. Walls have that pole: along x and y on a floor and a ceiling, along two axes on any side of a box.
    Another pole serves pairs, whose directions move.
    """
    if direction.shape[1] == 2:
        return [jnp.stack([-direction[:, 1], direction[:, 0]], axis=1)]
    wall = jnp.asarray(wall)[:, None]
    up = jnp.where(direction[:, 2:] <= 0, _UP[None], -_UP[None])
    normal = jnp.where(wall, -direction, direction)
    turned = normal + jnp.where(wall, up, _POLE[None]).astype(direction.dtype)
    size = jnp.sum(turned**2, axis=1, keepdims=True)
    frame = []
    for axis, other in zip(np.eye(3)[:2], _AXES, strict=True):
        axis = jnp.where(wall, axis[None], other[None]).astype(direction.dtype)
        share = jnp.sum(axis * turned, axis=1, keepdims=True) / nonzero(size)
        frame.append(axis - 2 * share * turned)
    return frame


def _cross(a: Array, b: Array) -> Array:
    """Return cross products, (c, 1) in a plane, (c, 3) in space."""
    return (a[:, :1] * b[:, 1:] - a[:, 1:] * b[:, :1]) if a.shape[1] == 2 else jnp.cross(a, b)


def moments_of_inertia(surfaces: Surfaces, mass: Array, params) -> Array:
    """Return `params["inertia"]`, or that of homogeneous discs and spheres (count,) [kg m^2]."""
    if "inertia" in params or surfaces.radius is not None:
        return param(params, "inertia", (surfaces.count,), mass.dtype)
    radius = surfaces.radii(0.0, params, mass.dtype)[: surfaces.count]
    return {2: 1 / 2, 3: 2 / 5}[surfaces.dimension] * mass * radius**2


def turning(q: Array, u: Array, params=None) -> Array:
    """Return q' of spheres (7 count,), quaternions by 1/2 (0, w) * quaternion."""
    del params
    scalar, vector = q.reshape(-1, 7)[:, 3:4], q.reshape(-1, 7)[:, 4:]
    velocity, w = u.reshape(-1, 6)[:, :3], u.reshape(-1, 6)[:, 3:]
    real = -jnp.sum(w * vector, axis=1, keepdims=True) / 2
    return jnp.concatenate([velocity, real, (scalar * w + jnp.cross(w, vector)) / 2], axis=1).ravel()


def turned(q: Array, u: Array, s, params=None) -> Array:
    """Return the places of spheres (7 count,) after s seconds of velocities u (6 count,)."""
    del params
    each, move = q.reshape(-1, 7), s * u.reshape(-1, 6)
    turned = poses.product(poses.quaternion(move[:, 3:]), each[:, 3:])
    return jnp.concatenate([each[:, :3] + move[:, :3], turned], axis=1).ravel()


def dexpinv(theta: Array, u: Array, params=None) -> Array:
    """Return theta' (6 count,) for which `turned`(q, theta, 1) moves with u; `poses.dexpinv`."""
    del params
    turn, (velocity, w) = theta.reshape(-1, 6)[:, 3:], jnp.split(u.reshape(-1, 6), 2, axis=1)
    return jnp.concatenate([velocity, poses.dexpinv(turn, w)], axis=1).ravel()


def of_unit_length(q: Array) -> Array:
    """Return the same places of spheres (7 count,), with quaternions of length one."""
    each = q.reshape(-1, 7)
    quaternion = each[:, 3:]
    length = jnp.linalg.norm(quaternion, axis=1, keepdims=True)
    return jnp.concatenate([each[:, :3], quaternion / nonzero(length)], axis=1).ravel()


# Further functions of a `System` of bodies in space, by name.
SPACE: dict[str, Any] = {"rate": turning, "normalise": of_unit_length, "advance": turned, "dexpinv": dexpinv}
