"""Steps that end where a force jumps."""

from __future__ import annotations

import copy
from typing import Any

import jax.numpy as jnp
from jax import Array

from diffcontact.particle_line import ParticleLine
from diffcontact.system import System

# What adding up times can do to one, in units of eps |t|.
_ROUNDINGS = 16


def with_breaks(times: Array, breaks: Array) -> tuple[Array, Array, Array]:
    """A grid of times that contains the breaks, and where the times stand in it.

    Args:
        times: (n + 1,) increasing [s].
        breaks: (m,) in any order; those outside of the times have no effect.

    Returns:
        grid (n + m + 1,), not decreasing; the places (n + 1,) of the times in it; for each of its n + m pieces the
        interval between two times that it lies in. A break at one of the times, up to rounding, makes a piece of
        length zero.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> grid, places, intervals = jax.jit(with_breaks)(jnp.array([0.0, 1.0, 2.0]), jnp.array([0.25, 1.0]))
        >>> grid.tolist(), places.tolist(), intervals.tolist()
        ([0.0, 0.25, 1.0, 1.0, 2.0], [0, 3, 4], [0, 0, 1, 1])
    """
    breaks = jnp.clip(breaks, times[0], times[-1])
    after = jnp.clip(jnp.searchsorted(times, breaks), 1, times.size - 1)
    nearest = jnp.where(breaks - times[after - 1] < times[after] - breaks, times[after - 1], times[after])
    breaks = jnp.where(jnp.abs(breaks - nearest) <= rounding(breaks, nearest), nearest, breaks)
    grid = jnp.sort(jnp.concatenate([times, breaks]))
    places = jnp.searchsorted(grid, times, side="right") - 1
    intervals = jnp.clip(jnp.searchsorted(times, grid[:-1], side="right") - 1, 0, times.size - 2)
    return grid, places.at[0].set(0), intervals


def rounding(a: Array, b: Array) -> Array:
    """How far two times may be apart and be the same one [s]."""
    return _ROUNDINGS * jnp.finfo(a.dtype).eps * jnp.maximum(jnp.abs(a), jnp.abs(b))


def between(system: Any, begin: Array, end: Array) -> Any:
    """The system with forces that do not see what comes before `begin` and after `end`.

    A force that jumps at `end` has its left limit there, one that jumps at `begin` its right limit, whatever the
    rounding of these times.

    Args:
        system: a `System` or a `ParticleLine`.
        begin, end: () the piece of time between two breaks [s].

    Example:
        >>> import jax, jax.numpy as jnp, diffcontact as dc
        >>> switched = dc.System(
        ...     gap=lambda t, q, p: q,
        ...     force=lambda t, q, u, p: p[(10 * t).astype(int)] * jnp.ones(1),
        ...     mass=lambda q, p: jnp.ones(1),
        ...     restitution=lambda p: 0.0,
        ... )
        >>> force = jax.jit(lambda begin, end, *at: between(switched, begin, end).force(*at))
        >>> force(0.1, 0.2, 0.2, jnp.ones(1), jnp.zeros(1), jnp.array([5.0, 6.0, 7.0])).tolist()
        [6.0]
    """
    margin = rounding(begin, end)

    def inside(function):
        return lambda t, *args: function(jnp.clip(t, begin + margin, end - margin), *args)

    piece = copy.copy(system)
    for name in ("force",) if isinstance(system, System) else ("load", "normal"):
        if isinstance(system, System | ParticleLine):
            object.__setattr__(piece, name, inside(getattr(system, name)))
    return piece
