"""Differentiate a motion by parameters and the initial state, by name; and by differences to either side of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree

from diffcontact.numerics.compilation import jit_fast_compile
from diffcontact.simulate import simulate
from diffcontact.status import Status


def names(params: Any, wrt: Sequence[str]) -> tuple[str, ...]:
    """Check the names to differentiate by; ValueError where one is unknown, ambiguous or double."""
    if isinstance(wrt, str):
        raise ValueError(f"wrt: expected a list of names, got {wrt!r}; write [{wrt!r}]")
    if not isinstance(wrt, Iterable):
        raise ValueError(f"wrt: expected a list of names, got {wrt!r}")
    known = list(params) if isinstance(params, dict) else ["params"]
    for name in wrt:
        if name in ("q0", "u0") and name in known:
            raise ValueError(f"wrt: {name!r} is ambiguous, it is in params too; rename that parameter")
        if name not in (*known, "q0", "u0"):
            raise ValueError(f"wrt: {name!r} is neither in params ({', '.join(map(str, known))}) nor 'q0' or 'u0'")
    if len(set(wrt)) != len(list(wrt)):
        raise ValueError(f"wrt: expected each name once, got {list(wrt)}")
    return tuple(wrt)


def gather(params: Any, q0: Array, u0: Array, wrt: Sequence[str]) -> dict[str, Any]:
    """Collect the values behind the names, as arrays of the state's precision."""
    known = {**(params if isinstance(params, dict) else {"params": params}), "q0": q0, "u0": u0}
    return {name: jax.tree.map(lambda x: jnp.asarray(x, q0.dtype), known[name]) for name in wrt}


def put(params: Any, q0: Array, u0: Array, new: dict[str, Any]) -> tuple[Any, Array, Array]:
    """Return params, q0 and u0 with the new values behind their names."""
    q0, u0 = new.get("q0", q0), new.get("u0", u0)
    if not isinstance(params, dict):
        return new.get("params", params), q0, u0
    return {name: new.get(name, value) for name, value in params.items()}, q0, u0


def entries(start: dict[str, Any]) -> tuple[str, ...]:
    """Name every number, in the order of `ravel_pytree`."""
    found = []
    for path, leaf in jax.tree_util.tree_leaves_with_path(start):
        name = jax.tree_util.keystr(path[:1], simple=True) + jax.tree_util.keystr(path[1:])
        places = np.ndindex(leaf.shape)
        found += [f"{name}[{', '.join(map(str, place))}]" if place else name for place in places]
    return tuple(found)


# Half a difference of such a relative width is right to the root of it, and slopes of the two sides of a smooth motion
# differ by about the width.
_WIDTH = 0.4


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
    differs = ~(apart <= agreement(eps) * np.maximum(sizes, rounded)) | np.any(overlaps, axis=0)
    return tuple(name for name, one in zip(entries(start), differs & ~np.any(outside, axis=0), strict=True) if one)


def agreement(eps: float) -> float:
    """Return the share by which derivatives of two sides differ at least where they do.

    Differences of a smooth map agree far better, in single precision to the cube root of its eps. At a tie they are off
    by half of a jump.
    """
    return max(1e-3, 2 * eps ** (1 / 3))


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
