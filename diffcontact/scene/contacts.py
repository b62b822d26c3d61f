"""What kinds of systems with contacts share: the law of restitution, planes, the state at the first time."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import jax.numpy as jnp
import numpy as np

from diffcontact.host.messages import shown
from diffcontact.scene.keys import Table
from diffcontact.scene.ready import IMPACT_LAW, Quantity, Turned
from diffcontact.systems import laws, poses

LAW_OPTION = f"how restitution depends on the speed of approach: {', '.join(map(repr, laws.LAWS))}"
FRICTION_OPTION = f"how friction in impacts does: {', '.join(map(repr, laws.FRICTION_LAWS))}"
RUBBING_LAW = (
    "M(q) du = f dt + impacts and Coulomb's friction |beta| <= mu lambda opposite to the slip, also in impacts, where "
    "v_N+ = -e v_N- and, while they grip, v_T+ = -e_t v_T-; every impact, stick and slip at its own time"
)


def restitution_law(options: Table, *more: str) -> str:
    """How restitution depends on the speed of approach: one of `systems.laws.LAWS`, or one of these."""
    return options.choice("restitution", (*laws.LAWS, *more), "constant")


def friction_law(options: Table) -> str:
    """How friction depends on the speed of approach: one of `systems.laws.FRICTION_LAWS`."""
    return options.choice("friction", tuple(laws.FRICTION_LAWS), "constant")


def of_friction(law: str) -> dict[str, Quantity]:
    """The parameters of a law of friction."""
    loss = {name: Quantity("s/m", what=f"of the law {law!r}") for name in laws.besides_friction(law)}
    return {"friction": Quantity(low=0.0, what="Coulomb's coefficient")} | loss


def of_law(law: str, length: str = "m", time: str = "s") -> dict[str, Quantity]:
    """What a law of restitution has besides `restitution`."""
    units = {1: f"{length}/{time}", 0: "1", -1: f"{time}/{length}"}
    return {
        one.name: Quantity(
            units[one.speed], low=one.low, positive=one.choice, optional=one.choice, what=f"of the law {law!r}"
        )
        for one in laws.LAWS[law].coefficients
    }


def told(law: str, text: str = IMPACT_LAW, friction: str = "constant") -> str:
    """What a system with a law of restitution, and one of friction, obeys."""
    parts = [] if law == "constant" else [f"e = {laws.LAWS[law].formula}"]
    parts += [] if friction == "constant" else ["in impacts mu = friction - friction_loss v"]
    return f"{text}; {' and '.join(parts)} at the speed of approach v" if parts else text


def unit_normals(options: Table, dimension: int) -> np.ndarray:
    """(p, dimension) unit normals of the planes."""
    normals = options.numbers("planes")
    if normals.ndim != 2 or normals.shape[1] != dimension or not np.all(np.isfinite(normals)):
        raise options.fail(
            "planes", f"{shown(normals.tolist())}, expected a list of normals of {dimension} numbers each"
        )
    lengths = np.linalg.norm(normals, axis=1, keepdims=True)
    if not np.all(lengths > 0):
        raise options.fail("planes", f"{shown(normals.tolist())}, expected normals that are not zero")
    return normals / lengths


# Measured quaternions, a row for each sample and four columns for each body, among the params of a run.
_ORIENTATION = "measured_orientation"


def turns(count: int, dimension: int) -> dict[str, Quantity]:
    """How so many bodies are turned at the first time, and how they turn."""
    each = {2: 1, 3: 3}[dimension]
    what = {2: "of each body at the first time", 3: "rotation vector of each body at the first time"}[dimension]
    return {
        "spin0": Quantity("rad/s", (count * each,), what="angular velocities at the first time"),
        "angle0": Quantity("rad", (count * each,), optional=True, what=what),
    }


@lru_cache(maxsize=128)
def places(count: int, dimension: int) -> tuple[Callable, Callable, Turned]:
    """The state at the first time of so many bodies that turn, the centres in a trajectory, and how they are turned."""
    straight = np.tile({2: [0.0], 3: [1.0, 0.0, 0.0, 0.0]}[dimension], (count, 1))

    def initial(params):
        place, velocity, turning = (jnp.reshape(params[name], (count, -1)) for name in ("q0", "u0", "spin0"))
        turn = jnp.asarray(straight, place.dtype)
        if "angle0" in params:
            angle = jnp.asarray(jnp.reshape(params["angle0"], (count, -1)), place.dtype)
            turn = angle if dimension == 2 else poses.quaternion(angle)
        q0 = jnp.concatenate([place, turn], axis=1)
        return q0.ravel(), jnp.concatenate([velocity, turning], axis=1).ravel()

    def observe(trajectory, params):
        del params
        samples = trajectory.q.shape[0]
        return trajectory.q.reshape(samples, count, -1)[:, :, :dimension].reshape(samples, -1)

    def turned(trajectory, params):
        angles = trajectory.q.reshape(trajectory.q.shape[0], count, -1)[:, :, dimension]
        return jnp.concatenate([observe(trajectory, params), angles], axis=1)

    def oriented(trajectory, params):
        seen = {str(body): columns for body, columns in enumerate(jnp.split(params[_ORIENTATION], count, axis=1))}
        off = [poses.orientation(name, int(name))(trajectory, seen) for name in seen]
        return jnp.concatenate([observe(trajectory, params), *off], axis=1)

    if dimension == 2:
        return initial, observe, Turned(turned, count, 1)
    return initial, observe, Turned(oriented, count, 4, _ORIENTATION)


def state(d: int, length: str = "m", time: str = "s") -> dict[str, Quantity]:
    """Coordinates and velocities at the first time, d of each."""
    return {
        "q0": Quantity(length, (d,), what="coordinates at the first time"),
        "u0": Quantity(f"{length}/{time}", (d,), what="velocities at the first time"),
    }
