"""A lane that cannot be simulated stays where it starts, and disturbs neither its neighbours nor any derivative."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from diffcontact.adapted import Adapted
from diffcontact.requirements import Requirement


def harmless(found: list[Requirement], stands: Array, system, params, q0: Array, u0: Array, times: Array) -> tuple:
    """System and inputs to step a lane with that cannot be simulated; those given where it can.

    Nobody looks at the result, but it costs time, and zero cotangents that go back through NaN come out as NaN. So what
    is not finite becomes zero, the lane starts from rest, and functions of the system that break a requirement of
    theirs give one (mass, gap) or zero.

    A choice is made by what the value itself shows: what the lanes of a batch share they go on sharing.

    Args:
        found: the requirements of this input.
        stands: () whether the lane stands still.
        system, params, q0, u0, times: as in `simulate`.
    """
    params, q0, u0 = jax.tree.map(_without_nan, (params, q0, jnp.where(stands, 0, u0)))
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


def stay(stands: Array, start: Array, way: Array) -> Array:
    """`way` (n, d), or `start` (d,) n times where the lane stands still."""
    return jnp.where(stands, start[None, :], way)


def _without(system, name, broken):
    def change(value):
        value = jnp.asarray(value)
        neutral = np.eye(len(value)) if value.ndim == 2 and name != "slip" else float(name in ("mass", "gap"))
        return jnp.where(broken, jnp.asarray(neutral, value.dtype), value)

    return Adapted(getattr(system, name), change)


def _without_nan(x):
    return jnp.where(jnp.isnan(x), 0, x) if jnp.issubdtype(jnp.result_type(x), jnp.floating) else x
