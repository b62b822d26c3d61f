"""A system whose functions have been traced, once each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from diffcontact.system import System


def traced(system: System, params: Any, t: Array, q: Array, u: Array) -> tuple[System, Any]:
    """The system with functions that are programs, traced once each, and its params with what they close over.

    So a step evaluates a user's function once while it is traced, however often the equations need it, and what the
    functions close over (a wall that is given to the function around a simulation) is differentiated like params.

    Args:
        system, params: as given.
        t, q, u: of which only the shapes count.
    """
    gap = jax.eval_shape(lambda: system.gap(t, q, params))
    speed = (jnp.zeros(gap.shape, q.dtype),)
    arguments: dict[str, tuple] = {"gap": (t, q), "force": (t, q, u), "mass": (q,), "slip": (t, q, u), "rate": (q, u)}
    arguments["rows"] = (t, q)
    arguments |= {"tangential_restitution": (), "tangential_compliance": (), "advance": (q, u, t), "dexpinv": (u, u)}
    arguments["restitution"] = speed if system.speed_dependent else ()
    arguments["friction"] = speed if system.friction_by_speed else ()
    programs, constants = {}, {}
    for name, args in arguments.items():
        function = getattr(system, name)
        if function is None:
            continue
        # Coefficients have params first, all else last.
        first = name in ("restitution", "friction")
        given = (params, *args) if first else (*args, params)
        closed = jax.make_jaxpr(function)(*given)
        constants[name] = closed.consts
        programs[name] = _program(closed.jaxpr, name, first, bool(args))
    return replace(system, normals=None, tangents=None, **programs), (params, constants)


def _program(jaxpr, name, first: bool, more: bool):
    def run(params, *args):
        own, constants = params
        leaves = jax.tree.leaves((own, *args) if first else (*args, own))
        return jaxpr_as_fun(ClosedJaxpr(jaxpr, constants[name]))(*leaves)[0]

    # A coefficient that depends on the speed is known by its two arguments.
    if first:
        return (lambda params, speed: run(params, speed)) if more else (lambda params: run(params))
    return lambda *args: run(args[-1], *args[:-1])
