"""Systems in the precision of the state."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from diffcontact.adapted import Adapted
from diffcontact.particle_line import ParticleLine
from diffcontact.system import System

# Those that return rows between bodies, not arrays.
_ROWS = ("normals", "tangents")


@dataclass(frozen=True)
class _Array:
    """Converts to an array of one precision; equal where precisions are."""

    dtype: Any

    def __call__(self, value):
        return jnp.asarray(value, self.dtype)


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
    optional = [name for name in system.optional if name not in _ROWS]
    names, array = ("gap", "force", "mass", "restitution", *optional), _Array(np.dtype(dtype))
    return replace(system, **{name: Adapted(getattr(system, name), array) for name in names})
