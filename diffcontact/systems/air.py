"""What the air does to balls that fly."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array


def of_the_air(u: Array, dimension: int, params) -> Array:
    """(count, dimension) accelerations of balls by the air [m/s^2], a = -damping v - drag |v| v + magnus w x v.

    The coefficients are constant, drag = rho C_d A / 2 m as for a sphere at high Reynolds numbers and magnus likewise:
    the side force then grows with the spin without an end, which it does up to r w of about the speed.

    Args:
        u: (count, velocities) [m/s] and, of balls that spin, [rad/s].
        dimension: of the space; what is behind it in `u` is the spin w, one number in a plane, three in space.
        params: `drag` [1/m], of balls that spin `magnus` [1], and of a film of air `damping` [1/s], () or (count,); the
            last may be missing.

    Raises:
        ValueError: a parameter is missing, or has another shape.

    Example:
        A disc with topspin, which turns clockwise as it flies to the right:

        >>> of_the_air(jnp.array([[10.0, 0.0, -50.0]]), 2, {"drag": 0.1, "magnus": 0.01}).tolist()
        [[-10.0, -5.0]]
    """
    v, w = u[:, :dimension], u[:, dimension:]
    square = jnp.sum(v * v, axis=1, keepdims=True)
    # The root has no derivative at rest, where the drag has: none.
    speed = jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1)), 0)
    slowed = -_of_each("drag", params, u) * speed * v
    if "damping" in params:
        slowed -= _of_each("damping", params, u) * v
    if w.shape[1] == 0:
        return slowed
    across = jnp.cross(w, v) if dimension == 3 else w * jnp.stack([-v[:, 1], v[:, 0]], axis=1)
    return slowed + _of_each("magnus", params, u) * across


def _of_each(name: str, params, u: Array) -> Array:
    """() or (count, 1)."""
    count = u.shape[0]
    if name not in params:
        raise ValueError(f"params: expected {name!r} of shape () or ({count},), got {sorted(params)}")
    value = jnp.asarray(params[name], u.dtype)
    if value.shape not in ((), (count,)):
        raise ValueError(f"params[{name!r}]: expected shape () or ({count},), got {value.shape}")
    return value[:, None] if value.ndim else value
