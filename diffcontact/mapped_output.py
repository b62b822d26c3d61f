"""Systems with mapped outputs: in the precision of the state, and harmless where the inputs are invalid.

The original function stays known, so that systems can be compared by it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from diffcontact.particle_line import ParticleLine
from diffcontact.requirements import Requirement
from diffcontact.system import System

# Those that return rows between bodies, not arrays.
_ROWS = ("normals", "tangents")


@dataclass(frozen=True)
class MappedOutput:
    """Map the results of a function by another one; two are equal if both functions are.

    Example:
        >>> MappedOutput(sum, abs)([-3, -4])
        7
    """

    function: Callable
    change: Callable[[Any], Any]

    def __call__(self, *args):
        return self.change(self.function(*args))

    @property
    def __signature__(self):
        return inspect.signature(self.function)


def core(function: Callable | None) -> Callable | None:
    """Return the original function without its maps.

    Example:
        >>> core(MappedOutput(MappedOutput(sum, abs), float)) is sum, core(sum) is sum, core(None)
        (True, True, None)
    """
    return core(function.function) if isinstance(function, MappedOutput) else function


@dataclass(frozen=True)
class _Array:
    """Convert to an array of one precision; two are equal if their precisions are."""

    dtype: Any

    def __call__(self, value):
        return jnp.asarray(value, self.dtype)


def in_precision(system: System | ParticleLine, dtype) -> System | ParticleLine:
    """Make the functions of a system return arrays of the state's precision.

    A `ParticleLine` converts its own where they are used.

    Example:
        >>> ball = System(lambda t, q, p: [q[0]], lambda t, q, u, p: -9.81 * q, lambda q, p: [1], lambda p: 1)
        >>> in_precision(ball, jnp.float32).mass(jnp.zeros(1), {})
        Array([1.], dtype=float32)
    """
    if not isinstance(system, System):
        return system
    optional = [name for name in system.optional if name not in _ROWS]
    names, array = ("gap", "force", "mass", "restitution", *optional), _Array(np.dtype(dtype))
    return replace(system, **{name: MappedOutput(getattr(system, name), array) for name in names})


def sanitised(found: list[Requirement], invalid: Array, system, params, q0: Array, u0: Array, times: Array) -> tuple:
    """Replace invalid inputs of a lane by harmless ones; valid inputs stay.

    The result of an invalid lane is not used. But it costs time, and zero cotangents become NaN on their way back
    through NaN. So NaN becomes zero, the lane starts from rest, and a function that breaks a requirement returns one
    (mass, gap) or zero.

    Each value is judged by itself: values that the lanes of a batch share stay shared.

    Args:
        found: the requirements of this input.
        invalid: () whether the lane cannot be simulated.
        system, params, q0, u0, times: as in `simulate`.
    """
    params, q0, u0 = jax.tree.map(_without_nan, (params, q0, jnp.where(invalid, 0, u0)))
    increasing = jnp.all(jnp.isfinite(times)) & jnp.all(jnp.diff(times) > 0)
    times = jnp.where(increasing, times, jnp.arange(times.size, dtype=times.dtype))
    broken: dict[str, Array] = {}
    for one in found:
        if one.of and getattr(system, one.of) is not None:
            broken[one.of] = broken.get(one.of, False) | ~one.holds
    return (
        replace(system, **{name: _without(system, name, flag) for name, flag in broken.items()}),
        params,
        q0,
        u0,
        times,
    )


def frozen_if_invalid(invalid: Array, start: Array, way: Array) -> Array:
    """Return `way` (n, d), or n times `start` (d,) where the lane is invalid."""
    return jnp.where(invalid, start[None, :], way)


def _without(system, name, broken):
    def change(value):
        value = jnp.asarray(value)
        neutral = np.eye(len(value)) if value.ndim == 2 and name == "mass" else float(name in ("mass", "gap"))
        return jnp.where(broken, jnp.asarray(neutral, value.dtype), value)

    return MappedOutput(getattr(system, name), change)


def _without_nan(x):
    return jnp.where(jnp.isnan(x), 0, x) if jnp.issubdtype(jnp.result_type(x), jnp.floating) else x
