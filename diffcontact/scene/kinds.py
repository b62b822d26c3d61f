"""The ready-made systems that a scene can name, and what their parameters are.

A kind turns the scene's options into a system together with a `Quantity` for each parameter: its unit, its shape and
what is physically possible. A new system is one more function here, registered in `KINDS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import jax.numpy as jnp
import numpy as np

from diffcontact.messages import shown
from diffcontact.scene.keys import Table
from diffcontact.system import ParticleLine, System
from diffcontact.systems import balls, bouncing_ball, carts, particle_line
from diffcontact.systems.surfaces import Balls

# More bodies or bounces than that no scene holds, and every pair of them is a contact.
_BODIES = 1000
_MATERIALS = 100

IMPACT_LAW = "M(q) du = f dt + impacts, u+ = -e u- + (1 + e) Proj_M(T_K(q), u-), every impact at its own time"
RUBBING_LAW = (
    "M(q) du = f dt + impacts and Coulomb's friction |beta| <= mu lambda opposite to the slip, also in impacts, where "
    "v_N+ = -e v_N- and, while they grip, v_T+ = -e_t v_T-; every impact, stick and slip at its own time"
)
FRICTION_LAW = (
    "M du/dt + V u + K (q - rest) = p + f, dry friction |f| <= gamma nu opposite to the slip and independent of its "
    "speed (no Stribeck term), each stick and slip at its own time"
)


@dataclass(frozen=True)
class Quantity:
    """A parameter as physics sees it.

    Attributes:
        unit: that of the system's functions, SI; px and frames for films.
        shape: of its value.
        low, high: what is possible; restitution lies in [0, 1].
        positive: whether low = 0 itself is impossible, as for a mass.
        optional: whether a scene may leave it out; the system then has a value of its own.
    """

    unit: str = "1"
    shape: tuple[int, ...] = ()
    low: float = -np.inf
    high: float = np.inf
    positive: bool = False
    optional: bool = False

    @property
    def range(self) -> str:
        """In words, for messages."""
        if self.positive:
            return "above 0"
        if np.isfinite(self.low) and np.isfinite(self.high):
            return f"within [{self.low:g}, {self.high:g}]"
        return f"at least {self.low:g}" if np.isfinite(self.low) else "finite"

    def allows(self, value: np.ndarray) -> bool:
        """Whether every element is possible."""
        inside = (value > self.low) if self.positive else (value >= self.low)
        return bool(np.all(inside & (value <= self.high) & np.isfinite(value)))


@dataclass(frozen=True)
class Drive:
    """A measured column that drives a system: its name, and the factor from its unit to the system's."""

    column: str
    factor: float


@dataclass(frozen=True)
class Derived:
    """A starting value that follows from something a preparation finds.

    Attributes:
        source: name of what is found.
        value: (what was found, the parameters that the scene gives) -> starting value.
    """

    source: str
    value: Callable[[Any, Mapping[str, Any]], Any]


# Plain functions, not lambdas made per scene: runs and studies that share them share the compiled simulation.
def _initial(params):
    return params["q0"], params["u0"]


def _positions(trajectory, params):
    del params
    return trajectory.q


@dataclass(frozen=True)
class ReadySystem:
    """A system with its parameters; `q0` and `u0`, places and velocities at the first time, are among them.

    Attributes:
        system: as it is simulated.
        quantities: its parameters by name.
        law: what it obeys, for the report.
        length, time: units of its coordinates and of time.
        given: parameters that a scene does not name since the measurements hold them: name -> shape, None any.
        drive: the column that drives it, or None.
        derived: starting values that follow from what a preparation finds, by parameter.
        initial: params -> (q0, u0), the state at the first time.
        observe: (trajectory, params) -> (n, k), the coordinates that are measured.
    """

    system: System | ParticleLine
    quantities: Mapping[str, Quantity]
    law: str = IMPACT_LAW
    length: str = "m"
    time: str = "s"
    given: Mapping[str, tuple[int, ...] | None] = field(default_factory=dict)
    drive: Drive | None = None
    derived: Mapping[str, Derived] = field(default_factory=dict)
    initial: Callable[[Any], tuple] = _initial
    observe: Callable[[Any, Any], Any] = _positions


def _carts(options: Table) -> ReadySystem:
    options.expect("kind")
    quantities = {
        "restitution": Quantity(low=0.0, high=1.0),
        "mass_ratio": Quantity(low=0.0, positive=True),
        "distance": Quantity("m", low=0.0),
        "tilt": Quantity("m/s^2"),
        "sag": Quantity("1/s^2"),
        "drag": Quantity("1/s", low=0.0),
    }
    return ReadySystem(carts(), quantities | _state(2))


def _balls(options: Table) -> ReadySystem:
    """Balls and what stands around them; see `systems.balls`.

    Options: `count`; `dimension`; `box` = [low, high] in `unit` ("m"); `planes`, a list of their normals, which point
    towards the balls and may have any length; `fixed`, how many fixed balls there are; `materials`, the number, from 0,
    of the material of each ball, fixed ball, low side, high side and plane; `spin` = true for discs and spheres that
    turn and rub.

    Parameters: with planes also `plane_offset` (p,), their distances from the origin along the normals; with fixed
    balls `fixed_centre` (fixed, dimension) and `fixed_radius` (fixed,); with materials, instead of `restitution`, one
    `restitution_0_1` for each two of them that may meet, the lower number first. With spin also `friction` and, where
    an impact turns the slip round, `tangential_restitution`, like `restitution`; `spin0`, the angular velocities at the
    first time, (count,) or (3 count,); and, of what is not homogeneous, `inertia` (count,). Centres are measured.
    """
    options.expect("kind", "count", "dimension", "box", "unit", "planes", "fixed", "materials", "spin")
    count, fixed = options.integer("count", most=_BODIES), options.integer("fixed", 0, most=_BODIES)
    dimension = options.integer("dimension", most=3)
    box = options.numbers("box") * options.factor("unit", "m") if "box" in options else None
    if box is not None and (box.ndim < 1 or len(box) != 2):
        raise options.fail("box", f"{shown(box.tolist())}, expected [low, high]")
    normals = _normals(options, dimension) if "planes" in options else None

    def planes(t, params):
        del t
        return normals, params["plane_offset"]

    try:
        system = balls(
            count,
            dimension,
            None if box is None else tuple(box.tolist()),
            planes=None if normals is None else planes,
            fixed=fixed,
            spin=options.flag("spin", False),
        )
    except ValueError as error:
        raise options.fail("kind", str(error)) from None
    quantities = {
        "mass": Quantity("kg", (count,), low=0.0, positive=True),
        "radius": Quantity("m", (count,), low=0.0),
        "gravity": Quantity("m/s^2", (dimension,)),
    }
    if normals is not None:
        quantities["plane_offset"] = Quantity("m", (len(normals),))
    if fixed:
        quantities["fixed_centre"] = Quantity("m", (fixed, dimension))
        quantities["fixed_radius"] = Quantity("m", (fixed,), low=0.0)
    coefficients = {"restitution": Quantity(low=0.0, high=1.0)}
    if system.rubs:
        coefficients["friction"] = Quantity(low=0.0)
        coefficients["tangential_restitution"] = Quantity(low=-1.0, high=1.0, optional=True)
    if "materials" in options:
        walls = (0 if box is None else 2 * dimension) + (0 if normals is None else len(normals))
        system, coefficients = _of_materials(system, _materials(options, count, fixed, walls), coefficients)
    quantities |= coefficients | _state(count * dimension)
    return _spinning(system, quantities) if system.rubs else ReadySystem(system, quantities)


def _spinning(system: Balls, quantities: Mapping[str, Quantity]) -> ReadySystem:
    """Balls that spin, which are turned by nothing at the first time."""
    count, turns = system.surfaces.count, system.surfaces.velocities - system.surfaces.dimension
    more = {
        "spin0": Quantity("rad/s", (count * turns,)),
        "inertia": Quantity("kg*m^2", (count,), low=0.0, positive=True, optional=True),
    }
    initial, observe = _places(count, system.surfaces.dimension)
    return ReadySystem(system, {**quantities, **more}, law=RUBBING_LAW, initial=initial, observe=observe)


@lru_cache(maxsize=128)
def _places(count: int, dimension: int) -> tuple[Callable, Callable]:
    """The state at the first time of so many balls that spin, and the centres in a trajectory of theirs."""
    straight = np.tile({2: [0.0], 3: [1.0, 0.0, 0.0, 0.0]}[dimension], (count, 1))

    def initial(params):
        place, velocity, turning = (jnp.reshape(params[name], (count, -1)) for name in ("q0", "u0", "spin0"))
        q0 = jnp.concatenate([place, jnp.asarray(straight, place.dtype)], axis=1)
        return q0.ravel(), jnp.concatenate([velocity, turning], axis=1).ravel()

    def observe(trajectory, params):
        del params
        samples = trajectory.q.shape[0]
        return trajectory.q.reshape(samples, count, -1)[:, :, :dimension].reshape(samples, -1)

    return initial, observe


def _normals(options: Table, dimension: int) -> np.ndarray:
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


def _materials(options: Table, count: int, fixed: int, walls: int) -> tuple[int, ...]:
    numbers = options.numbers("materials")
    if count + fixed + walls == 1:
        raise options.fail("materials", "of one ball alone, expected none")
    whole = np.all((numbers >= 0) & (numbers == np.floor(numbers)) & np.isfinite(numbers))
    if numbers.shape != (count + fixed + walls,) or not whole or np.max(numbers) >= _MATERIALS:
        raise options.fail(
            "materials",
            f"{shown(options.data['materials'])}, expected {count + fixed + walls} whole numbers of at least 0 and "
            f"below {_MATERIALS}, for {count} balls, {fixed} fixed balls and {walls} walls",
        )
    return tuple(numbers.astype(int).tolist())


def _of_materials(
    system: Balls, materials: tuple[int, ...], coefficients: Mapping[str, Quantity]
) -> tuple[Balls, dict[str, Quantity]]:
    """The system with coefficients for each two materials that may meet, and these parameters."""
    surfaces, kinds = replace(system.surfaces, materials=materials), max(materials) + 1
    low, high = np.sort(np.indices((kinds, kinds)), axis=0)
    number = low * kinds + high
    met = np.unique(surfaces.coefficients("number", {"number": number}))

    def of_pairs(name):
        names = [f"{name}_{pair // kinds}_{pair % kinds}" for pair in met]

        def coefficient(params):
            values = jnp.stack([jnp.asarray(params.get(pair, 0.0)) for pair in names])
            table = jnp.zeros(kinds**2, values.dtype).at[met].set(values)[number]
            return surfaces.coefficients(name, {name: table})

        return names, coefficient

    pairs = {name: of_pairs(name) for name in coefficients}
    system = replace(system, **{name: coefficient for name, (_, coefficient) in pairs.items()})
    return system, {pair: coefficients[name] for name, (names, _) in pairs.items() for pair in names}


def _bouncing_ball(options: Table) -> ReadySystem:
    """A ball in a film: lengths in `length`, "px" by default, times in `time`, "frame" by default."""
    options.expect("kind", "bounces", "length", "time")
    bounces = options.integer("bounces", 1, most=_BODIES)
    length, time = options.choice("length", ("px", "m"), "px"), options.choice("time", ("frame", "s"), "frame")
    try:
        system = bouncing_ball(bounces)
    except ValueError as error:
        raise options.fail("bounces", str(error)) from None
    quantities = {
        "restitution": Quantity(low=0.0, high=1.0),
        "gravity": Quantity(f"{length}/{time}^2", low=0.0, positive=True),
        "drag": Quantity(f"1/{length}", low=0.0),
        "floor": Quantity(length),
        "floor_drift": Quantity(f"{length}/{time}"),
    }
    later = {"later_restitution": Quantity(shape=(bounces - 1,), low=0.0, high=1.0)} if bounces > 1 else {}
    return ReadySystem(
        system,
        quantities | later | _state(1, length, time),
        length=length,
        time=time,
        given={"apexes": (bounces - 1,)},
    )


def _particle_line(options: Table) -> ReadySystem:
    """Particles with springs and dry friction; see `systems.particle_line` for the two ways to give friction."""
    options.expect("kind", "count", "friction", "per_unit_mass", "drive")
    count = options.integer("count", 1, most=_BODIES)
    per_unit_mass = options.flag("per_unit_mass", False)
    mass, force, stiffness, damping = ("1", "m/s^2", "1/s^2", "1/s") if per_unit_mass else ("kg", "N", "N/m", "N*s/m")
    friction = options.choice("friction", ("force", "coefficient"), "force")
    drive = None
    if "drive" in options:
        table = options.table("drive")
        table.expect("column", "unit")
        drive = Drive(table.text("column"), table.factor("unit", force))
    try:
        system = particle_line(count, driven=drive is not None)
    except ValueError as error:
        raise options.fail("count", str(error)) from None
    shape = () if count == 1 else (count,)
    quantities = {
        "mass": Quantity(mass, shape, low=0.0, positive=True),
        "stiffness": Quantity(stiffness, shape, low=0.0),
        "damping": Quantity(damping, shape, low=0.0),
        "gamma": Quantity(force if friction == "force" else "1", low=0.0),
        "normal": Quantity("1" if friction == "force" else force, shape, low=0.0),
        "rest": Quantity("m", shape),
    }
    alone = {"stiffness": Derived("angular_frequency", lambda omega, known: known["mass"] * omega**2)}
    return ReadySystem(
        system,
        quantities | _state(count),
        law=FRICTION_LAW,
        given={"drive_times": None, "drive": None} if drive else {},
        drive=drive,
        derived=alone if count == 1 else {},
    )


def _state(d: int, length: str = "m", time: str = "s") -> dict[str, Quantity]:
    return {"q0": Quantity(length, (d,)), "u0": Quantity(f"{length}/{time}", (d,))}


KINDS: Mapping[str, Callable[[Table], ReadySystem]] = {
    "carts": _carts,
    "balls": _balls,
    "bouncing ball": _bouncing_ball,
    "particle line": _particle_line,
}
