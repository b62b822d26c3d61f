"""The event-exact problems of `tests/reference/exact` as systems: what schemes are measured against.

Each file holds states that were solved event by event, and their exact derivative by every parameter. A problem here
maps the vector of those parameters to (system, params, q0, u0). DIFFCONTACT_REFERENCE names another folder.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import jax.numpy as jnp
import numpy as np

import diffcontact as dc


@dataclass(frozen=True)
class ReferenceProblem:
    """A problem with exact answers."""

    name: str  # of the file
    system: dc.System | dc.ParticleLine  # what is simulated
    unpack: Callable  # theta (p,) -> (params, q0, u0), theta in the order of the file's parameters
    theta: np.ndarray  # (p,) values
    runs: list  # list of dicts with `T`, `state` (q then u) and `jacobian` (rows: state, columns: theta)

    def end(self, theta, T, h, scheme=None):
        """The state (q, u) at T, simulated with about T / h equal steps."""
        return self.trajectory(theta, T, h, scheme)[0]

    def trajectory(self, theta, T, h, scheme=None):
        """The state (q, u) at T and the trajectory that leads there."""
        params, q0, u0 = self.unpack(theta)
        times = jnp.linspace(0.0, T, round(T / h) + 1)
        run = dc.simulate(self.system, params, q0, u0, times, scheme=scheme)
        return jnp.concatenate([run.q[-1], run.u[-1]]), run


def folder() -> Path:
    """Where the reference values are."""
    default = Path(__file__).resolve().parents[2] / "tests" / "reference"
    return Path(os.environ.get("DIFFCONTACT_REFERENCE", default))


def load(name: str) -> ReferenceProblem:
    """The problem of that name, with its reference values."""
    values = json.loads((folder() / "exact" / f"{name}.json").read_text())
    system, unpack = model(name)
    return ReferenceProblem(name, system, unpack, np.array(list(values["parameters"].values())), values["runs"])


def model(name: str) -> tuple[dc.System | dc.ParticleLine, Callable]:
    """The system of that name, and unpack: theta -> (params, q0, u0); no file is needed."""
    return _PROBLEMS[name]()


def _point(gap, force=None, e=None, mass=lambda q, p: jnp.ones_like(q)) -> dc.System:
    """Unit masses without a force, unless told otherwise; gap(t, q, p), force(q, u, p)."""
    return dc.System(
        gap=gap,
        force=lambda t, q, u, p: jnp.zeros_like(q) if force is None else force(q, u, p) * jnp.ones_like(q),
        mass=mass,
        restitution=(lambda p: p["restitution"]) if e is None else lambda p: e,
    )


def _named(x, names: str, start: int = 0) -> dict:
    return dict(zip(names.split(), x[start:], strict=False))


def _weight(q, u, p):
    return jnp.array([0.0, -1.0], q.dtype) * p["gravity"]


def _bounce():
    system = _point(lambda t, q, p: q, lambda q, u, p: -p["gravity"])
    return system, lambda x: (_named(x, "gravity restitution", 2), x[:1], x[1:2])


def _two_balls_box_2d():
    def unpack(x):
        params = {"mass": x[8:10], "radius": jnp.array([0.1, 0.15]), "gravity": jnp.array([0.0, -9.81])}
        return {**params, "restitution": x[10]}, x[:4], x[4:8]

    return dc.systems.balls(2, 2, box=(0.0, 1.0)), unpack


def _vibrating_table():
    system = _point(lambda t, q, p: q - p["amplitude"] * jnp.sin(p["omega"] * t), lambda q, u, p: -p["gravity"])
    return system, lambda x: (_named(x, "amplitude omega restitution height gravity"), x[3:4], jnp.zeros(1))


def _disc():
    system = _point(lambda t, q, p: jnp.linalg.norm(q)[None] - p["radius"])
    return system, lambda x: (_named(x, "radius restitution", 4), x[:2], x[2:4])


def _growing_balls():
    system = _point(
        lambda t, q, p: (jnp.linalg.norm(q[2:] - q[:2]) - 2 * (p["radius"] + p["rate"] * t))[None],
        mass=lambda q, p: jnp.array([1.0, 1.0, 3.0, 3.0], q.dtype),
    )
    return system, lambda x: (_named(x, "radius rate restitution", 8), x[:4], x[4:8])


def _landing_slope():
    def gap(t, q, p):
        return (-q[0] * jnp.sin(p["angle"]) + q[1] * jnp.cos(p["angle"]))[None]

    return _point(gap, _weight, 0.0), lambda x: (_named(x, "gravity angle", 2), x[:2], jnp.zeros(2))


def _landing_bowl():
    system = _point(lambda t, q, p: 1.0 - jnp.linalg.norm(q)[None], _weight, 0.0)
    return system, lambda x: (_named(x, "gravity", 2), x[:2], jnp.zeros(2))


def _pendulum_stop():
    system = _point(
        lambda t, q, p: q + 0.1, lambda q, u, p: -(p["gravity"] / p["length"]) * jnp.sin(q) - p["damping"] * u
    )
    return system, lambda x: (_named(x, "length gravity damping restitution", 2), x[:1], x[1:2])


def _double_pendulum_wall():
    def gap(t, q, p):
        first = 0.35 - p["l"][0] * jnp.sin(q[0])
        return jnp.stack([first, first - p["l"][1] * jnp.sin(q[1])])

    def mass(q, p):
        (m1, m2), (l1, l2), c = p["m"], p["l"], jnp.cos(q[0] - q[1])
        return jnp.array([[(m1 + m2) * l1**2, m2 * l1 * l2 * c], [m2 * l1 * l2 * c, m2 * l2**2]])

    def force(t, q, u, p):
        (m1, m2), (l1, l2), s, g = p["m"], p["l"], jnp.sin(q[0] - q[1]), p["gravity"]
        return jnp.stack(
            [
                -m2 * l1 * l2 * s * u[1] ** 2 - (m1 + m2) * g * l1 * jnp.sin(q[0]),
                m2 * l1 * l2 * s * u[0] ** 2 - m2 * g * l2 * jnp.sin(q[1]),
            ]
        )

    system = dc.System(gap=gap, force=force, mass=mass, restitution=lambda p: p["restitution"])
    return system, lambda x: ({"m": x[4:6], "l": x[6:8], "gravity": x[8], "restitution": x[9]}, x[:2], x[2:4])


def _slider_percussions():
    line = dc.ParticleLine(
        mass=lambda p: p["mass"][None],
        damping=lambda p: jnp.zeros((1, 1)),
        stiffness=lambda p: jnp.zeros((1, 1)),
        load=lambda t, p: jnp.zeros(1),
        friction=lambda p: p["gamma"],
        normal=lambda t, p: 19.62 * jnp.ones(1),
        percussion_times=[0.1, 0.3],
        percussions=lambda p: p["percussion"],
    )
    return line, lambda x: ({"mass": x[0], "gamma": x[1], "percussion": x[4:6]}, x[2:3], x[3:4])


def _two_particle_chain():
    row = jnp.array([[2.0, -1.0], [-1.0, 1.0]])
    line = dc.ParticleLine(
        mass=lambda p: p["mass"],
        damping=lambda p: p["damping"] * row,
        stiffness=lambda p: p["stiffness"] * row,
        load=lambda t, p: jnp.array([0.0, 1.0]) * p["load"] * jnp.cos(11 * t),
        friction=lambda p: p["gamma"],
        normal=lambda t, p: jnp.array([9.81, 5.9]),
        percussion_times=[0.25],
        percussions=lambda p: p["percussion"],
    )

    def unpack(x):
        named = dict(zip(("stiffness", "damping", "gamma", "load"), x[jnp.array([2, 3, 4, 9])], strict=True))
        return {**named, "mass": x[:2], "percussion": x[10:11]}, x[5:7], x[7:9]

    return line, unpack


_PROBLEMS = {
    "bounce": _bounce,
    "two_balls_box_2d": _two_balls_box_2d,
    "vibrating_table": _vibrating_table,
    "round_obstacle": _disc,
    "inelastic_obstacle": _disc,
    "growing_balls": _growing_balls,
    "landing_slope": _landing_slope,
    "landing_bowl": _landing_bowl,
    "pendulum_stop": _pendulum_stop,
    "double_pendulum_wall": _double_pendulum_wall,
    "slider_percussions": _slider_percussions,
    "two_particle_chain": _two_particle_chain,
}
