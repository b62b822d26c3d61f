r"""Where bodies are and how they are turned: poses (x, y, angle), or in space (centre, unit quaternion w x y z).

A quaternion stands for the rotation R(p) from the body's frame to the world's; -p stands for the same. Functions take
any leading axes, of times or of bodies. A quaternion of another length than 1 stands for the rotation of its direction.

What a camera sees of bodies, as `Observations(observe=...)` takes it: `markers`, `angles` and `orientation`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from diffcontact.numerics.linear import nonzero

# No field of frames is smooth on the whole sphere. The frames of pairs of balls are smooth but in one direction, which
# is opposite to this one. No geometry prefers it: it is not along an axis, nor level like between balls on a table.
_POLE = np.array([1.0, np.sqrt(2.0), np.pi]) / np.sqrt(3.0 + np.pi**2)
_UP = np.array([0.0, 0.0, 1.0])
# The axes x and y, reflected like the pole is into z.
_AXES = np.eye(3)[:2] - 2 * np.outer((_UP + _POLE)[:2], _UP + _POLE) / ((_UP + _POLE) @ (_UP + _POLE))


def of_bodies(q: Any, dimension: int) -> Array:
    """Return the poses (..., count, 3 or 7) of the bodies in configurations q (..., n)."""
    q = jnp.asarray(q)
    return q.reshape(*q.shape[:-1], -1, {2: 3, 3: 7}[dimension])


def rotation(pose: Any) -> Array:
    """Return the rotations R (..., m, m) from the body's frame to the world's, of poses (..., 3) or (..., 7).

    Example:
        >>> import jax
        >>> jax.jit(rotation)(np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])).tolist()  # half a turn about z
        [[-1.0, 0.0, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    pose = jnp.asarray(pose)
    if pose.shape[-1] == 3:
        c, s = jnp.cos(pose[..., 2]), jnp.sin(pose[..., 2])
        return jnp.stack([jnp.stack([c, -s], -1), jnp.stack([s, c], -1)], -2)
    quaternion = pose[..., 3:]
    w, x, y, z = jnp.moveaxis(quaternion, -1, 0)
    squared = jnp.sum(quaternion**2, axis=-1)
    twice = 2 / nonzero(squared)
    rows = (
        (1 - twice * (y * y + z * z), twice * (x * y - w * z), twice * (x * z + w * y)),
        (twice * (x * y + w * z), 1 - twice * (x * x + z * z), twice * (y * z - w * x)),
        (twice * (x * z - w * y), twice * (y * z + w * x), 1 - twice * (x * x + y * y)),
    )
    return jnp.stack([jnp.stack(row, -1) for row in rows], -2)


def placed(points: Any, pose: Any) -> Array:
    """Place points (k, m) of a body in the world (..., k, m), for its poses (..., 3) or (..., 7) [m].

    For the markers on a body, and with `shapes.outline` for what is drawn of it.

    Example:
        >>> import jax
        >>> print(jax.jit(placed)(np.array([[0.2, 0.0]]), np.array([1.0, 2.0, np.pi / 2])))
        [[1.  2.2]]
    """
    points, pose = jnp.asarray(points), jnp.asarray(pose)
    rotations = rotation(pose)[..., None, :, :]
    turned = turn(rotations, points.reshape(*[1] * (rotations.ndim - 3), *points.shape))
    return pose[..., None, : points.shape[-1]] + turned


def turn(rotations: Array, vectors: Array) -> Array:
    """Return R v (..., m), not as a product of matrices: accelerators round these to less than single precision."""
    return jnp.sum(rotations * vectors[..., None, :], axis=-1)


def rotation_vector(measured: Any, fitted: Any) -> Array:
    """Return the rotation (..., 3) from the `fitted` to the `measured` quaternion (..., 4), along world axes [rad].

    Its length is at most pi: whether a quaternion or its negative was measured makes no difference. Measured
    quaternions may have any length but zero; the vector has derivatives at zero.

    Example:
        >>> import jax
        >>> about_z = np.array([np.cos(0.25), 0.0, 0.0, np.sin(0.25)])
        >>> print(np.abs(jax.jit(rotation_vector)(-about_z, np.array([1.0, 0.0, 0.0, 0.0]))))
        [0.  0.  0.5]
    """
    measured, fitted = jnp.asarray(measured), jnp.asarray(fitted)
    a, u = measured[..., :1], measured[..., 1:]
    b, v = fitted[..., :1], fitted[..., 1:]
    real = a * b + jnp.sum(u * v, axis=-1, keepdims=True)
    vector = b * u - a * v - jnp.cross(u, v)
    sign = jnp.where(real < 0, -1.0, 1.0).astype(real.dtype)
    real, vector = sign * real, sign * vector
    squared = jnp.sum(vector**2, axis=-1, keepdims=True)
    # 2 atan(x)/x of x = |vector|/real: by its series where the quotient has no derivative.
    small = squared <= jnp.sqrt(jnp.finfo(real.dtype).eps) * real**2
    size = jnp.sqrt(jnp.where(small, 1.0, squared))
    base = nonzero(real)
    ratio = jnp.where(small, squared, 0.0) / base**2
    factor = jnp.where(small, (2 - 2 / 3 * ratio + 2 / 5 * ratio**2) / base, 2 * jnp.atan2(size, real) / size)
    return factor * vector


def quaternion(vector: Any) -> Array:
    """Return the unit quaternion (..., 4) of the rotation about a vector (..., 3) by its length [rad].

    The inverse of `rotation_vector` up to half a turn; it has derivatives at zero.

    Example:
        >>> import jax
        >>> print(np.round(jax.jit(quaternion)(np.array([0.0, 0.0, np.pi / 2])), 4))  # a quarter turn about z
        [0.7071 0.     0.     0.7071]
    """
    vector = jnp.asarray(vector)
    squared = jnp.sum(vector**2, axis=-1, keepdims=True)
    small = squared <= jnp.sqrt(jnp.finfo(vector.dtype).eps)
    angle = jnp.sqrt(jnp.where(small, 1.0, squared))
    real = jnp.where(small, 1 - squared / 8 + squared**2 / 384, jnp.cos(angle / 2))
    share = jnp.where(small, 1 / 2 - squared / 48 + squared**2 / 3840, jnp.sin(angle / 2) / angle)
    return jnp.concatenate([real, share * vector], axis=-1)


def product(a: Array, b: Array) -> Array:
    """Multiply quaternions w x y z (k, 4)."""
    s, v, r, w = a[:, :1], a[:, 1:], b[:, :1], b[:, 1:]
    real = s * r - jnp.sum(v * w, axis=1, keepdims=True)
    return jnp.concatenate([real, s * w + r * v + jnp.cross(v, w)], axis=1)


def dexpinv(theta: Array, w: Array) -> Array:
    r"""Return theta' (..., 3) for which the rotation about a vector theta (..., 3) has the spin w (..., 3) [rad/s].

    With phi = |theta|, of a spin in the space at rest,

        theta' = w - theta x w / 2 + (1 - phi / 2 cot(phi / 2)) / phi^2 theta x (theta x w)

    and of a spin in the frame of the body the same of -theta. About one axis it is w.

    Source: A. Iserles, H. Munthe-Kaas, S. Norsett, A. Zanna, Acta Numerica 9 (2000) 215, section 2.4, with the closed
    form of the series for rotations.

    Example:
        >>> import jax
        >>> turned = jax.jit(dexpinv)(np.array([0.0, 0.0, 0.2]), np.array([1.0, 0.0, 5.0]))
        >>> [round(float(x), 3) for x in turned]
        [0.997, -0.1, 5.0]
    """
    square = jnp.sum(theta**2, axis=-1, keepdims=True)
    small = square < 0.1
    half = jnp.sqrt(jnp.where(small, 1.0, square)) / 2
    # After a whole turn the coordinates end; about one axis their rate does not ask for this factor.
    sine = jnp.sin(half)
    sine = jnp.where(jnp.abs(sine) > 1e-3, sine, 1e-3)
    series = 1 / 12 + square * (1 / 720 + square * (1 / 30240 + square * (1 / 1209600 + square / 47900160)))
    factor = jnp.where(small, series, (1 - half * jnp.cos(half) / sine) / (4 * half**2))
    across = jnp.cross(theta, w)
    return w - across / 2 + factor * jnp.cross(theta, across)


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


def turning(q: Array, u: Array, params=None) -> Array:
    """Return q' of spheres (7 count,), quaternions by 1/2 (0, w) * quaternion."""
    scalar, vector = q.reshape(-1, 7)[:, 3:4], q.reshape(-1, 7)[:, 4:]
    velocity, w = u.reshape(-1, 6)[:, :3], u.reshape(-1, 6)[:, 3:]
    real = -jnp.sum(w * vector, axis=1, keepdims=True) / 2
    return jnp.concatenate([velocity, real, (scalar * w + jnp.cross(w, vector)) / 2], axis=1).ravel()


def turned(q: Array, u: Array, s, params=None) -> Array:
    """Return the places of spheres (7 count,) after s seconds of velocities u (6 count,)."""
    each, move = q.reshape(-1, 7), s * u.reshape(-1, 6)
    turn = product(quaternion(move[:, 3:]), each[:, 3:])
    return jnp.concatenate([each[:, :3] + move[:, :3], turn], axis=1).ravel()


def turning_dexpinv(theta: Array, u: Array, params=None) -> Array:
    """Return theta' (6 count,) for which `turned`(q, theta, 1) moves with u; `dexpinv`."""
    turn, (velocity, w) = theta.reshape(-1, 6)[:, 3:], jnp.split(u.reshape(-1, 6), 2, axis=1)
    return jnp.concatenate([velocity, dexpinv(turn, w)], axis=1).ravel()


def of_unit_length(q: Array) -> Array:
    """Return the same places of spheres (7 count,), with quaternions of length one."""
    each = q.reshape(-1, 7)
    quaternion = each[:, 3:]
    length = jnp.linalg.norm(quaternion, axis=1, keepdims=True)
    return jnp.concatenate([each[:, :3], quaternion / nonzero(length)], axis=1).ravel()


# Further functions of a `System` of bodies in space, by name.
SPACE: dict[str, Any] = {"rate": turning, "normalise": of_unit_length, "advance": turned, "dexpinv": turning_dexpinv}


def markers(points: Any, body: int = 0) -> Callable[[Any, Any], Array]:
    """Observe points of a body: an `observe` for the tracks of markers.

    Args:
        points: (k, m) in the body's frame [m], or the name of a parameter that has them: where markers sit may be
            fitted.
        body: its number.

    Returns:
        (trajectory, params) -> (n, k m): x, y (and z) of the first marker, then of the next [m].

    Example:
        >>> import jax
        >>> from types import SimpleNamespace
        >>> seen = markers([[0.5, 0.0], [0.0, 0.0]])
        >>> print(jax.jit(lambda q: seen(SimpleNamespace(q=q), {}))(np.array([[1.0, 2.0, np.pi / 2]])))
        [[1.  2.5 1.  2. ]]
    """
    if not isinstance(points, str):
        array = np.asarray(points, float)
        if array.ndim != 2 or array.shape[1] not in (2, 3):
            raise ValueError(f"markers(points): expected shape (k, 2) or (k, 3), got {array.shape}")
        points = tuple(map(tuple, array.tolist()))
    return _Markers(points, int(body))


def angles(body: int = 0) -> Callable[[Any, Any], Array]:
    """Observe the angle of a body in a plane: (trajectory, params) -> (n, 1) [rad].

    Full turns count: measured angles are to be unwrapped (`numpy.unwrap`).
    """
    return _Angle(int(body))


def orientation(name: str, body: int = 0) -> Callable[[Any, Any], Array]:
    """Observe the rotation from measured quaternions, an `observe` of zeros.

    The residual of such a channel is the `rotation_vector` from the fitted to the measured orientation, so that the
    sign of a measured quaternion is free and its noise is an angle [rad] about each axis. The quaternions are in the
    parameters, where many runs can have their own, and the values are zeros::

        dc.Observations(times, np.zeros((n, 3)), 0.01, dc.systems.poses.orientation("seen"))      params["seen"] (n, 4)

    with NaN for zero where one is missing, and any quaternion in its place.

    Args:
        name: of the parameter with the measured quaternions (n, 4), w x y z, those of the observations' times.
        body: its number.

    Returns:
        (trajectory, params) -> (n, 3), the rotation vector from the measured to the simulated orientation [rad].
    """
    return _Orientation(name, int(body))


@dataclass(frozen=True)
class _Markers:
    points: Any
    body: int

    def __call__(self, trajectory, params):
        points = jnp.asarray(params[self.points] if isinstance(self.points, str) else self.points, trajectory.q.dtype)
        seen = placed(points, of_bodies(trajectory.q, points.shape[-1])[:, self.body])
        return seen.reshape(len(seen), -1)


@dataclass(frozen=True)
class _Angle:
    body: int

    def __call__(self, trajectory, params):
        return of_bodies(trajectory.q, 2)[:, self.body, 2:]


@dataclass(frozen=True)
class _Orientation:
    name: str
    body: int

    def __call__(self, trajectory, params):
        simulated = of_bodies(trajectory.q, 3)[:, self.body, 3:]
        measured = jnp.asarray(params[self.name], simulated.dtype)
        # Runs may be simulated on, behind their last sample.
        return rotation_vector(simulated, measured[np.minimum(np.arange(len(simulated)), len(measured) - 1)])
