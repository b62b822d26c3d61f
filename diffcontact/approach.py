"""Coefficients of restitution and friction as functions of the speed of approach: what such a function looks like."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import jax.numpy as jnp
from jax import Array


def takes_speed(function: Callable) -> bool:
    """Whether a coefficient is a function of (params, speed), not of params alone: two arguments must be given.

    Example:
        >>> takes_speed(lambda params: 0.5), takes_speed(lambda params, speed: 0.5), takes_speed(lambda p, k=2: 0.5)
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
