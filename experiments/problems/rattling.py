"""Worlds that rattle, for `rattling.py`: chains between stops, double pendulums between walls, blocks on a belt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

import diffcontact as dc

# How long a world lasts [s].
DURATION = 1.0


@dataclass(frozen=True)
class Family:
    """Worlds that share a system and differ in their parameters.

    Attributes:
        system: what is simulated.
        sample: (rng, n) -> params with `q0` and `u0`, arrays with a leading axis (n, ...).
        by: the names of the params that Jacobians are taken by.
    """

    name: str
    system: dc.System
    sample: Callable
    by: tuple[str, ...] = ("u0",)


def chains(count: int = 3) -> Family:
    """Masses on springs between two walls, with a stop between any two, shaken by forces of one frequency."""

    def gap(t, q, p):
        return jnp.concatenate([q[:1], q[1:] - q[:-1], -q[-1:]]) + p["room"]

    def force(t, q, u, p):
        stretched = p["stiffness"] * jnp.diff(jnp.concatenate([jnp.zeros(1), q, jnp.zeros(1)]))
        return jnp.diff(stretched) - p["damping"] * u + p["force"] * jnp.sin(p["frequency"] * t + p["phase"])

    def sample(rng, n):
        e = rng.choice([0.0, 0.3, 0.6, 0.9], (n, count + 1))
        return {
            "room": rng.uniform(0.02, 0.1, (n, count + 1)),
            "stiffness": rng.uniform(20, 150, (n, count + 1)),
            "damping": rng.uniform(0.0, 0.5, n),
            "force": rng.uniform(-15, 15, (n, count)),
            "frequency": rng.uniform(5, 15, n),
            "phase": rng.uniform(0, 2 * np.pi, (n, count)),
            "mass": rng.uniform(0.5, 2, (n, count)),
            "restitution": e,
            "q0": np.zeros((n, count)),
            "u0": rng.uniform(-1, 1, (n, count)),
        }

    system = dc.System(gap, force, lambda q, p: p["mass"], lambda p: p["restitution"])
    return Family("chains", system, sample)


def pendulums() -> Family:
    """A driven double pendulum whose tip swings between two walls, its elbow up to a third."""

    def mass(q, p):
        (m1, m2), (a, b), c = p["mass"], p["length"], jnp.cos(q[0] - q[1])
        return jnp.array([[(m1 + m2) * a * a, m2 * a * b * c], [m2 * a * b * c, m2 * b * b]])

    def force(t, q, u, p):
        (m1, m2), (a, b), s = p["mass"], p["length"], jnp.sin(q[0] - q[1])
        joint = p["damping"] * (u[1] - u[0])
        centrifugal = m2 * a * b * s * jnp.array([-(u[1] ** 2), u[0] ** 2])
        weight = 9.81 * jnp.array([(m1 + m2) * a * jnp.sin(q[0]), m2 * b * jnp.sin(q[1])])
        drive = jnp.array([p["torque"] * jnp.sin(p["frequency"] * t), 0.0])
        return centrifugal - weight + drive + joint * jnp.array([1.0, -1.0])

    def gap(t, q, p):
        elbow = p["length"][0] * jnp.sin(q[0])
        tip = elbow + p["length"][1] * jnp.sin(q[1])
        return jnp.array([p["room"] - tip, p["room"] + tip, p["reach"] - elbow])

    def sample(rng, n):
        return {
            "mass": rng.uniform(0.4, 1.5, (n, 2)),
            "length": rng.uniform(0.3, 0.6, (n, 2)),
            "damping": rng.uniform(0.0, 0.1, n),
            "torque": rng.uniform(-4, 4, n),
            "frequency": rng.uniform(2, 10, n),
            "room": rng.uniform(0.1, 0.35, n),
            "reach": rng.uniform(0.1, 0.3, n),
            "restitution": rng.choice([0.0, 0.3, 0.6, 0.9], (n, 3)),
            "q0": np.zeros((n, 2)),
            "u0": rng.uniform(-2, 2, (n, 2)),
        }

    return Family("double pendulums", dc.System(gap, force, mass, lambda p: p["restitution"]), sample)


def belts() -> Family:
    """A block on a belt that shakes, on a spring, pushed against a stop."""

    def belt(t, p):
        return p["belt"] + p["shake"] * jnp.sin(p["frequency"] * t)

    def force(t, q, u, p):
        along = p["push"] - p["stiffness"] * q[0] - p["damping"] * u[0]
        return jnp.stack([along, -9.81 * p["mass"]])

    def sample(rng, n):
        shaken = rng.integers(2, size=n)
        return {
            "mass": rng.uniform(0.5, 2, n),
            "belt": rng.uniform(-0.5, 0.5, n),
            "shake": shaken * rng.uniform(0.0, 0.6, n),
            "frequency": rng.uniform(3, 12, n),
            "push": rng.uniform(-2, 8, n),
            "stiffness": rng.uniform(0, 120, n),
            "damping": rng.uniform(0, 1, n),
            "room": rng.uniform(0.02, 0.1, n),
            "friction": rng.uniform(0.1, 0.7, n),
            "restitution": rng.choice([0.0, 0.3, 0.6, 0.9], n),
            "q0": np.zeros((n, 2)),
            "u0": rng.uniform(-0.5, 0.5, (n, 1)) * np.array([1.0, 0.0]),
        }

    system = dc.System(
        lambda t, q, p: jnp.stack([q[1], p["room"] - q[0]]),
        force,
        lambda q, p: p["mass"] * jnp.ones(2),
        lambda p: jnp.stack([jnp.zeros_like(p["restitution"]), p["restitution"]]),
        slip=lambda t, q, u, p: jnp.stack([u[0] - belt(t, p), u[1]])[:, None],
        friction=lambda p: jnp.stack([p["friction"], jnp.zeros_like(p["friction"])]),
    )
    return Family("belts", system, sample, by=("belt", "push"))


FAMILIES = (chains(), pendulums(), belts())
