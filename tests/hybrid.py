"""Systems that land, rest, let go and strike, with the parameters that `tests/reference/hybrid` differentiates by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

import diffcontact as dc


class Hybrid(NamedTuple):
    """A system, and how the vector of its parameters becomes (params, q0, u0)."""

    system: dc.System
    unpack: Callable[[Any], tuple[Any, Any, Any]]


def _block() -> Hybrid:
    """A rigid block a by b (halves) over the floor: q = (x, y, angle), the gaps of its two lower corners."""

    def gap(t, q, p):
        tilt = p["b"] * jnp.sin(q[2])
        return q[1] - p["a"] * jnp.cos(q[2]) + np.array([-1.0, 1.0]) * tilt

    def mass(q, p):
        return p["m"] * jnp.stack([np.ones(()), np.ones(()), (p["a"] ** 2 + p["b"] ** 2) / 3])

    system = dc.System(
        gap, lambda t, q, u, p: -9.81 * p["m"] * np.array([0.0, 1.0, 0.0]), mass, restitution=lambda p: p["e"]
    )
    return Hybrid(system, lambda x: (dict(zip("abme", x[:4], strict=True)), x[4:7], x[7:10]))


def _hopper() -> Hybrid:
    """Two masses on a spring with a dashpot, the lower one over the floor."""

    def force(t, q, u, p):
        spring = p["k"] * (p["rest"] - (q[0] - q[1])) - p["c"] * (u[0] - u[1])
        return spring * np.array([1.0, -1.0]) - p["g"] * p["m"]

    system = dc.System(lambda t, q, p: q[1:], force, lambda q, p: p["m"], restitution=lambda p: 0.0)

    def unpack(x):
        return {"m": x[:2], "k": x[2], "c": x[3], "rest": x[4], "g": x[5]}, x[6:8], x[8:10]

    return Hybrid(system, unpack)


def _cartpole() -> Hybrid:
    """A driven cart on a spring with a pole, whose tip meets a wall on either side."""

    def gap(t, q, p):
        tip = q[0] + p["l"] * jnp.sin(q[1])
        return p["w"] + np.array([-1.0, 1.0]) * tip

    def mass(q, p):
        coupling = p["m"] * p["l"] * jnp.cos(q[1])
        return jnp.array([[p["M"] + p["m"], coupling], [coupling, p["m"] * p["l"] ** 2]])

    def force(t, q, u, p):
        cart = p["m"] * p["l"] * jnp.sin(q[1]) * u[1] ** 2 - p["k"] * q[0] - p["b"] * u[0] + p["F"] * jnp.cos(3 * t)
        return jnp.stack([cart, p["m"] * p["g"] * p["l"] * jnp.sin(q[1])])

    system = dc.System(gap, force, mass, restitution=lambda p: p["e"])

    def unpack(x):
        params = dict(zip("Mmlgw", x[:5], strict=True)) | {"e": x[5:7]} | dict(zip("kbF", x[7:10], strict=True))
        return params, x[10:12], x[12:14]

    return Hybrid(system, unpack)


def _table() -> Hybrid:
    """A ball on a table that shakes: it chatters, rests, and is thrown up."""
    system = dc.System(
        gap=lambda t, q, p: q - p[0] * jnp.sin(p[1] * t),
        force=lambda t, q, u, p: -p[2] * np.ones(1),
        mass=lambda q, p: np.ones(1),
        restitution=lambda p: p[3],
    )
    return Hybrid(system, lambda x: (x[:4], x[4:5], x[5:6]))


PROBLEMS = {
    "block_bounce": _block(),
    "hopper": _hopper(),
    "cartpole_walls": _cartpole(),
    "table_chatter": _table(),
}
