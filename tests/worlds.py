"""Worlds that nobody chose: families of systems, and how their parameters are drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
import zoo

import diffcontact as dc

# How long a world lasts [s].
DURATION = 1.0


@dataclass(frozen=True)
class Family:
    """Worlds that share a system and differ in their parameters.

    Attributes:
        system: what is simulated.
        sample: (rng, n) -> params with `q0` and `u0`, arrays with a leading axis (n, ...).
        energy: (params, q, u) -> kinetic and potential energy [J]; None where something from outside does work.
        turn: params -> how fast velocities change between impacts, forces and curvature together, as
            (acceleration [m/s^2], 1 / smallest radius of curvature [1/m]).
    """

    name: str
    system: dc.System | dc.ParticleLine
    sample: Callable
    energy: Callable | None
    turn: Callable


def clearance(family: Family, p, q):
    """The smallest gap of a position at the start [m]."""
    line = isinstance(family.system, dc.ParticleLine)
    return jnp.asarray(jnp.inf) if line else jnp.min(family.system.gap(0.0, q, p))


def uniform(rng, low, high, *shape):
    return rng.uniform(low, high, shape)


def restitutions(rng, n):
    """One in four elastic, one in eight inelastic."""
    e, which = rng.uniform(0.1, 1.0, n), rng.integers(8, size=n)
    return np.where(which < 2, 1.0, np.where(which == 2, 0.0, e))


def velocities(rng, n, d):
    """Slow and fast ones, 0.3 to 10 m/s."""
    way = rng.normal(size=(n, d))
    return way / np.linalg.norm(way, axis=1, keepdims=True) * 10 ** rng.uniform(-0.5, 1.0, (n, 1))


def balls(count: int, dimension: int, box=(0.0, 2.0), gravity: float = 10.0) -> Family:
    """Balls of 0.1 to 0.25 m in a box of 2 m, with gravity or without."""
    d = count * dimension

    def sample(rng, n):
        radius = uniform(rng, 0.1, 0.25, n, count)
        pull = gravity * uniform(rng, -1, 1, n, dimension) * (rng.random((n, 1)) < 0.5)
        return {
            "mass": uniform(rng, 0.3, 3.0, n, count),
            "radius": radius,
            "gravity": pull,
            "restitution": restitutions(rng, n),
            "q0": uniform(rng, 0.1, 1.9, n, d),
            "u0": velocities(rng, n, d),
        }

    def energy(p, q, u):
        mass = jnp.repeat(p["mass"], dimension)
        return mass @ u**2 / 2 - mass @ (jnp.tile(p["gravity"], count) * q)

    def turn(p):
        # The pair's gap bends over the distance of the centres, by the relative velocity.
        bend = 2 / (p["radius"][0] + p["radius"][1]) if count > 1 and dimension > 1 else 0.0
        return jnp.linalg.norm(p["gravity"]), jnp.asarray(bend)

    return Family(f"balls {count} in {dimension}D", dc.systems.balls(count, dimension, box), sample, energy, turn)


def curved() -> Family:
    """A point mass of 1 kg, thrown inside a bowl, above a wavy floor and around a disc, with gravity or without."""

    def gap(t, q, p):
        floor = q[1] + 0.5 - p["wave"] * jnp.sin(4.0 * q[0])
        return jnp.stack([jnp.linalg.norm(q - p["centre"]) - p["radius"], 1.0 - jnp.linalg.norm(q), floor])

    def sample(rng, n):
        return {
            "centre": uniform(rng, -0.4, 0.4, n, 2),
            "radius": uniform(rng, 0.15, 0.35, n),
            "wave": uniform(rng, 0.0, 0.15, n),
            "gravity": 10.0 * rng.random(n) * (rng.random(n) < 0.7),
            "restitution": restitutions(rng, n),
            "q0": uniform(rng, -0.8, 0.8, n, 2),
            "u0": velocities(rng, n, 2),
        }

    def turn(p):
        return p["gravity"], jnp.maximum(1 / p["radius"], jnp.maximum(1.0, 16.0 * p["wave"]))

    system = zoo.system(
        gap,
        force=lambda t, q, u, p: np.array([0.0, -1.0], q.dtype) * p["gravity"],
        restitution=lambda p: p["restitution"],
    )
    return Family("curved gaps", system, sample, lambda p, q, u: u @ u / 2 + p["gravity"] * q[1], turn)


def cart_pole() -> Family:
    """A cart on a rail with a pendulum, both between walls at +-1: M(q), and centrifugal forces."""

    def mass(q, p):
        m, cart, length = p["bob"], p["cart"], p["length"]
        cross = m * length * jnp.cos(q[1])
        return jnp.array([[cart + m, cross], [cross, m * length**2]])

    def force(t, q, u, p):
        m, length = p["bob"], p["length"]
        return jnp.stack([m * length * jnp.sin(q[1]) * u[1] ** 2, -m * p["gravity"] * length * jnp.sin(q[1])])

    def gap(t, q, p):
        bob = q[0] + p["length"] * jnp.sin(q[1])
        return jnp.stack([1.0 - bob, 1.0 + bob, 0.8 - q[0], 0.8 + q[0]])

    def sample(rng, n):
        return {
            "bob": uniform(rng, 0.3, 2.0, n),
            "cart": uniform(rng, 0.3, 3.0, n),
            "length": uniform(rng, 0.4, 0.9, n),
            "gravity": 10.0 * rng.random(n),
            "restitution": restitutions(rng, n),
            "q0": np.stack([rng.uniform(-0.7, 0.7, n), rng.uniform(-1.2, 1.2, n)], axis=1),
            "u0": velocities(rng, n, 2) / 2,
        }

    def energy(p, q, u):
        return u @ mass(q, p) @ u / 2 - p["bob"] * p["gravity"] * p["length"] * jnp.cos(q[1])

    def turn(p):
        # The pendulum bends the bob's path over its length; the bob pulls the cart along.
        return p["gravity"] * (1 + p["bob"] / p["cart"]), (1 + p["bob"] / p["cart"]) / p["length"]

    system = dc.System(gap=gap, force=force, mass=mass, restitution=lambda p: p["restitution"])
    return Family("cart-pole M(q)", system, sample, energy, turn)


def hopper() -> Family:
    """Two masses on a spring above a table that may shake: landing, rest, lift-off."""

    def gap(t, q, p):
        table = p["shake"] * jnp.sin(p["omega"] * t)
        return jnp.stack([q[0] - table, q[1] - q[0]])

    def force(t, q, u, p):
        pull = p["stiffness"] * (q[1] - q[0] - 0.5 - 0.3 * jnp.sin(p["drive"] * t))
        return jnp.stack([pull, -pull]) - p["mass"] * p["gravity"]

    def sample(rng, n):
        foot = rng.uniform(0.04, 0.3, n)
        return {
            "mass": uniform(rng, 0.3, 2.0, n, 2),
            "stiffness": 10 ** rng.uniform(1.0, 2.3, n),
            "drive": uniform(rng, 0.0, 12.0, n),
            "shake": uniform(rng, 0.0, 0.03, n) * (rng.random(n) < 0.5),
            "omega": uniform(rng, 5.0, 25.0, n),
            "gravity": 10.0 * (0.2 + rng.random(n)),
            "restitution": restitutions(rng, n) * (rng.random(n) < 0.7),
            "q0": np.stack([foot, foot + rng.uniform(0.3, 0.6, n)], axis=1),
            "u0": rng.normal(size=(n, 2)),
        }

    system = dc.System(gap=gap, force=force, mass=lambda q, p: p["mass"], restitution=lambda p: p["restitution"])

    def turn(p):
        spring = 0.5 * p["stiffness"] / jnp.min(p["mass"])
        return p["gravity"] + spring + p["shake"] * p["omega"] ** 2, np.zeros(())

    return Family("hopper", system, sample, None, turn)


def sliders() -> Family:
    """Three particles with springs and dashpots that rub on the ground and are struck twice."""
    times = (0.31, 0.62)

    def chain(p):
        k = p["stiffness"]
        return k * np.array([[2.0, -1.0, 0.0], [-1.0, 2.0, -1.0], [0.0, -1.0, 1.0]])

    system = dc.ParticleLine(
        mass=lambda p: p["mass"],
        damping=lambda p: p["damping"] * np.eye(3),
        stiffness=chain,
        load=lambda t, p: p["load"] * jnp.sin(p["drive"] * t),
        friction=lambda p: p["friction"],
        normal=lambda t, p: 10.0 * p["mass"],
        percussion_times=times,
        percussions=lambda p: p["struck"],
    )

    def sample(rng, n):
        return {
            "mass": uniform(rng, 0.3, 2.0, n, 3),
            "damping": uniform(rng, 0.0, 0.5, n),
            "stiffness": 10 ** rng.uniform(0.0, 2.0, n),
            "load": uniform(rng, -5.0, 5.0, n, 3) * (rng.random((n, 1)) < 0.5),
            "drive": uniform(rng, 0.0, 12.0, n),
            "friction": uniform(rng, 0.05, 0.6, n),
            "struck": uniform(rng, 0.0, 0.1, n, 2),
            "q0": 0.1 * rng.normal(size=(n, 3)),
            "u0": rng.normal(size=(n, 3)),
        }

    def turn(p):
        heaviest = (p["stiffness"] + jnp.max(jnp.abs(p["load"])) + p["damping"]) / jnp.min(p["mass"])
        return heaviest + 10.0 * p["friction"], np.zeros(())

    return Family("sliders", system, sample, None, turn)


def spinning(count: int, dimension: int) -> Family:
    """Discs or spheres that spin and rub, in a box of 2 m, with gravity or without."""
    system = dc.systems.balls(count, dimension, (0.0, 2.0), spin=True)
    places, speeds = (3, 3) if dimension == 2 else (7, 6)

    def sample(rng, n):
        q0, u0 = np.zeros((n, count, places)), np.zeros((n, count, speeds))
        q0[..., :dimension] = uniform(rng, 0.1, 1.9, n, count, dimension)
        if dimension == 3:
            q0[..., 3] = 1.0
        u0[..., :dimension] = velocities(rng, n, count * dimension).reshape(n, count, dimension)
        u0[..., dimension:] = 10.0 * rng.normal(size=(n, count, speeds - dimension))
        return {
            "mass": uniform(rng, 0.3, 3.0, n, count),
            "radius": uniform(rng, 0.1, 0.25, n, count),
            "gravity": 10.0 * uniform(rng, -1, 1, n, dimension) * (rng.random((n, 1)) < 0.5),
            "restitution": restitutions(rng, n),
            "friction": uniform(rng, 0.0, 1.5, n) * (rng.random(n) < 0.9),
            "tangential_restitution": uniform(rng, 0.0, 1.0, n) * (rng.random(n) < 0.3),
            "q0": q0.reshape(n, -1),
            "u0": u0.reshape(n, -1),
        }

    def energy(p, q, u):
        place = q.reshape(count, places)[:, :dimension]
        return u @ (system.mass(q, p) * u) / 2 - p["mass"] @ (place @ p["gravity"])

    def turn(p):
        bend = 2 / (p["radius"][0] + p["radius"][1]) if count > 1 else 0.0
        # Friction turns a ball by its lever: 2 mu g / r for a disc.
        pull = jnp.linalg.norm(p["gravity"]) * (1 + 2.5 * p["friction"] / jnp.min(p["radius"]))
        return pull, jnp.asarray(bend)

    kind = "discs" if dimension == 2 else "spheres"
    return Family(f"{kind} that spin", system, sample, energy, turn)


def tumbling() -> Family:
    """A rectangle that tumbles and slides between four walls: sixteen gaps, and many that close together."""
    corners = np.array([[-1.0, 1.0, 1.0, -1.0], [-1.0, -1.0, 1.0, 1.0]])

    def levers(q, p):
        """(2, 4) from the centre to the corners."""
        cos, sin = jnp.cos(q[2]), jnp.sin(q[2])
        x, y = p["half"][:, None] * corners
        return jnp.stack([cos * x - sin * y, sin * x + cos * y])

    def gap(t, q, p):
        x, y = q[:2, None] + levers(q, p)
        return jnp.concatenate([y, 2.0 - x, 2.0 - y, x])

    def slip(t, q, u, p):
        x, y = levers(q, p)
        across, up = u[0] - y * u[2], u[1] + x * u[2]
        return jnp.concatenate([across, up, across, up])[:, None]

    def inertia(p):
        return p["mass"][0] * jnp.sum(p["half"] ** 2) / 3

    def sample(rng, n):
        return {
            "mass": uniform(rng, 0.3, 3.0, n, 1),
            "half": uniform(rng, 0.1, 0.3, n, 2),
            "gravity": 10.0 * rng.random(n),
            "restitution": restitutions(rng, n) * (rng.random(n) < 0.8),
            "friction": uniform(rng, 0.0, 1.0, n) * (rng.random(n) < 0.9),
            "q0": np.concatenate([rng.uniform(0.5, 1.5, (n, 2)), rng.uniform(-3, 3, (n, 1))], axis=1),
            "u0": np.concatenate([velocities(rng, n, 2) / 2, 3.0 * rng.normal(size=(n, 1))], axis=1),
        }

    system = dc.System(
        gap=gap,
        force=lambda t, q, u, p: -p["mass"][0] * p["gravity"] * jnp.array([0.0, 1.0, 0.0], q.dtype),
        mass=lambda q, p: jnp.stack([p["mass"][0], p["mass"][0], inertia(p)]),
        restitution=lambda p: p["restitution"],
        slip=slip,
        friction=lambda p: p["friction"],
    )

    def energy(p, q, u):
        return u @ (system.mass(q, p) * u) / 2 + p["mass"][0] * p["gravity"] * q[1]

    def turn(p):
        return p["gravity"] * (1 + 3 * p["friction"] / jnp.min(p["half"])), 1 / jnp.min(p["half"])

    return Family("tumbling box", system, sample, energy, turn)


RUBBING = (spinning(2, 2), spinning(2, 3), tumbling())
# By the seed of its worlds.
SMOOTH = {0: balls(3, 1), 1: balls(4, 2), 2: balls(2, 3), 3: curved(), 5: cart_pole(), 6: hopper(), 8: sliders()}
FAMILIES = SMOOTH | dict(enumerate(RUBBING, 9))
