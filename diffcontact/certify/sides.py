"""By which parameters the derivatives of the two sides differ."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from diffcontact.numerics.compilation import jit_fast_compile
from diffcontact.numerics.differentiation_targets import entries, gather, names, put
from diffcontact.simulate import simulate
from diffcontact.status import Status

# Half a difference of such a relative width is right to the root of it, and slopes of the two sides of a smooth motion
# differ by about the width.
_WIDTH = 0.4
# By such a share, at least, derivatives differ where they do.
_DIFFERS = 1e-3


def differing(system: Any, params: Any, q0, u0, times, scheme, breaks) -> tuple[str, ...]:
    """The entries of params, q0 and u0 by which derivatives of the state at the last time differ between the sides.

    Each entry is moved a little to either side, by x, and the state z at the end compared::

        D+ = (z(x) - z(0)) / x,      D- = (z(0) - z(-x)) / x

    Where one of the two motions cannot begin, as with bodies that overlap, there is no derivative of that side, and the
    entry is named. A restitution at the edge of its range has one side only, and is not.

    Returns:
        Names such as "mass[1]", in alphabetical order.
    """
    known = [name for name in params if name not in ("q0", "u0")] if isinstance(params, dict) else ["params"]
    start = gather(params, q0, u0, names(params, [*known, "q0", "u0"]))
    at = np.asarray(ravel_pytree(start)[0])
    eps = float(jnp.finfo(at.dtype).eps)
    steps = eps**_WIDTH * np.where(at == 0, 1.0, np.abs(at))
    moves = np.concatenate([np.zeros((1, at.size)), np.diag(steps), -np.diag(steps)])
    ends, status, largest = moved_ends(system, params, q0, u0, start, moves, times, scheme, breaks=breaks)
    here, above, below = ends[0], *np.split(ends[1:], 2)
    outside = np.isin(status, (Status.BAD_INPUT, Status.BAD_RESTITUTION, Status.BAD_MASS))[1:].reshape(2, -1)
    overlaps = ((status == Status.OVERLAP) & (status[0] != Status.OVERLAP))[1:].reshape(2, -1)
    up, down = above - here, here - below
    sizes = np.maximum(np.linalg.norm(up, axis=1), np.linalg.norm(down, axis=1))
    rounded = eps ** (1 / 3) * steps * np.linalg.norm(largest[0])
    apart = np.linalg.norm(up - down, axis=1)
    share = max(_DIFFERS, 2 * eps ** (1 / 3))
    differs = ~(apart <= share * np.maximum(sizes, rounded)) | np.any(overlaps, axis=0)
    return tuple(name for name, one in zip(entries(start), differs & ~np.any(outside, axis=0), strict=True) if one)


def moved_ends(system, params, q0, u0, start: dict, moves, times, scheme, substeps: int = 1, breaks=None) -> Any:
    """Simulate with the values `start` moved by each row of moves (m, p): states at the end, status, largest values."""
    at, unravel = ravel_pytree(start)
    batch = jax.vmap(unravel)(jnp.asarray(np.asarray(at) + moves, at.dtype))
    return jax.tree.map(np.asarray, _ends(system, params, q0, u0, batch, times, scheme, substeps, breaks))


@partial(jit_fast_compile, static=("system", "scheme", "substeps"))
def _ends(system, params, q0, u0, batch, times, scheme, substeps, breaks):
    def run(moved):
        at = put(params, q0, u0, moved)
        end = simulate(system, *at, times, scheme=scheme, substeps=substeps, breaks=breaks)
        states = jnp.concatenate([end.q, end.u], axis=1)
        return states[-1], end.status, jnp.max(jnp.abs(states), axis=0)

    return jax.vmap(run)(batch)
