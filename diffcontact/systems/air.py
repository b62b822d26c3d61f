"""Compute the air's forces on flying balls."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from diffcontact.numerics.linear import nonzero
from diffcontact.systems.surroundings import length


def of_the_air(u: Array, dimension: int, params) -> Array:
    """Return accelerations (count, dimension) of balls by the air [m/s^2]::

        a = -damping v - drag |v| v + magnus w x v / (1 + magnus_saturation |w| / |v|)

    drag = rho C_d A / 2 m with a constant C_d, as for a sphere at high Reynolds numbers. The side force grows with the
    spin, and without `magnus_saturation` it does so without an end: good up to r |w| of about a fifth of |v|. Measured
    lift coefficients level off. The usual law, C_L = 1 / (A |v| / (r |w|) + B), is magnus = rho A_0 r / (2 m A) with
    the cross section A_0, and magnus_saturation = r B / A.

    Args:
        u: (count, velocities) [m/s] and, of balls that spin, one number or three behind `dimension` [rad/s].
        params: `drag` [1/m], of spinning balls `magnus` [1], perhaps `damping` [1/s] and `magnus_saturation` [m];
            each () or (count,). ValueError if one is missing, or has another shape.

    Source: A. Stepanek, Am. J. Phys. 56 (1988) 138, of tennis balls: A = 0.981, B = 2.022.
    """
    v, w = u[:, :dimension], u[:, dimension:]
    speed = length(v)[:, None]
    slowed = -_of_each("drag", params, u) * speed * v
    if "damping" in params:
        slowed -= _of_each("damping", params, u) * v
    if w.shape[1] == 0:
        return slowed
    across = jnp.cross(w, v) if dimension == 3 else w * jnp.stack([-v[:, 1], v[:, 0]], axis=1)
    if "magnus_saturation" in params:
        whole = speed + _of_each("magnus_saturation", params, u) * length(w)[:, None]
        across *= jnp.where(whole > 0, speed / nonzero(whole), 1)
    return slowed + _of_each("magnus", params, u) * across


def _of_each(name: str, params, u: Array) -> Array:
    """Return a parameter, () or (count, 1)."""
    count = u.shape[0]
    if name not in params:
        raise ValueError(f"params: expected {name!r} of shape () or ({count},), got {sorted(params)}")
    value = jnp.asarray(params[name], u.dtype)
    if value.shape not in ((), (count,)):
        raise ValueError(f"params[{name!r}]: expected shape () or ({count},), got {value.shape}")
    return value[:, None] if value.ndim else value
