"""Differentiate a motion by parameters and the initial state, by name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array


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
