"""Ready-made systems of scenes: options, parameters, equations of motion.

A kind turns the options of a scene into a `ReadySystem`: a system and a `Quantity` for each of its parameters. A new
kind is one more function here, registered by `KINDS.add`, which also names its options for the reference of scenes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import jax.numpy as jnp
import numpy as np

from diffcontact import shapes
from diffcontact.host.messages import shown
from diffcontact.scene.keys import Kinds, Table
from diffcontact.shapes import Shape
from diffcontact.system import IMPACT_LAWS, ParticleLine, System
from diffcontact.systems import balls, bodies, bouncing_ball, carts, laws, particle_line, pendulum, poses, single_impact
from diffcontact.systems.surfaces import Balls
from diffcontact.systems.textbook import KINDS as STRUCK

IMPACT_LAW = "M(q) du = f dt + impacts, u+ = -e u- + (1 + e) Proj_M(T_K(q), u-), every impact at its own time"
RUBBING_LAW = (
    "M(q) du = f dt + impacts and Coulomb's friction |beta| <= mu lambda opposite to the slip, also in impacts, "
    "where {}; every impact, stick and slip at its own time"
)
RESTITUTION_OF = {
    "newton": "v_N+ = -e v_N- (Newton) and, while they grip, v_T+ = -e_t v_T-",
    "poisson": "the normal impulse of restitution is e times that of compression (Poisson)",
    "stronge": "the normal force gives back e^2 of the work that compression took (Stronge)",
    "compliant": "the contact gives back e^2 of that work and springs sideways, k_n / k_t = tangential_compliance",
}
# No scene holds more bodies or bounces, bodies of any shape, or materials: every pair of bodies is a contact.
_MOST, _MOST_SHAPES, _MOST_MATERIALS = 1000, 100, 100


@dataclass(frozen=True)
class Quantity:
    """A parameter as physics sees it."""

    unit: str = "1"  # that of the system's functions, SI; px and frames for films
    shape: tuple[int, ...] = ()  # of its value
    low: float = -np.inf  # low, high: the possible values; restitution lies in [0, 1]
    high: float = np.inf
    positive: bool = False  # whether low = 0 itself is impossible, as for a mass
    optional: bool = False  # whether a scene may leave it out; the system then has a value of its own, 0 of a term
    term: bool = False  # whether it is a small term (a slope, a drag) that a fit may set free where it is held
    what: str = ""  # its meaning, for the reference of scenes

    @property
    def range(self) -> str:
        """The possible values in words, for messages."""
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
    """A measured column that drives a system, and its factor to SI."""

    column: str
    factor: float


@dataclass(frozen=True)
class Derived:
    """A starting value that follows from a finding of the preparation."""

    source: str  # name of the finding
    value: Callable[[Any, Mapping[str, Any]], Any]  # (finding, the parameters that the scene gives) -> starting value


@dataclass(frozen=True)
class Turned:
    """Observation of orientations: angles in a plane, rotations in space."""

    # (trajectory, params) -> (n, k), the measured coordinates and behind them the angles
    observe: Callable[[Any, Any], Any]
    count: int  # how many bodies
    columns: int  # columns of a recording for the orientation of one body: its angle, or its quaternion w x y z
    # of quaternions, the parameter with the measured ones (n, 4 count), from which `observe` counts
    orientation: str = ""


# Plain functions, not lambdas made per scene: runs and studies that share them share the compiled simulation.
def _initial(params):
    return params["q0"], params["u0"]


def _positions(trajectory, params):
    del params
    return trajectory.q


@dataclass(frozen=True)
class ReadySystem:
    """A system with its parameters, among them the initial `q0` and `u0`."""

    system: System | ParticleLine  # as it is simulated
    quantities: Mapping[str, Quantity]  # its parameters by name
    law: str = IMPACT_LAW  # the equation of motion, for the report
    length: str = "m"  # length, time: units of its coordinates and of time
    time: str = "s"
    # parameters that the measurements hold, so that a scene does not name them: name -> shape, None any
    given: Mapping[str, tuple[int, ...] | None] = field(default_factory=dict)
    drive: Drive | None = None  # the column that drives it, or None
    # starting values that follow from findings of the preparation, by parameter
    derived: Mapping[str, Derived] = field(default_factory=dict)
    initial: Callable[[Any], tuple] = _initial  # params -> (q0, u0), the state at the first time
    observe: Callable[[Any, Any], Any] = _positions  # (trajectory, params) -> (n, k), the measured coordinates
    turned: Turned | None = None  # the same with the angles behind them, or None for bodies that do not turn


KINDS = Kinds("which ready-made system")
_LAW = f"how restitution depends on the speed of approach: {', '.join(map(repr, laws.LAWS))}"
_FRICTION = f"how friction in impacts does: {', '.join(map(repr, laws.FRICTION_LAWS))}"
_DRAG = "deceleration by the air over squared velocity"
_RATIO = Quantity(low=0.0, positive=True, what="first cart over second")
# A coefficient for each contact, in place of a law that all share.
_PER_CONTACT = "per contact"


def _built(options: Table, key: str, build: Callable[..., Any], *arguments: Any, **settings: Any) -> Any:
    try:
        return build(*arguments, **settings)
    except ValueError as error:
        raise options.fail(key, str(error)) from None


def _of_restitution(
    law: str, length: str = "m", time: str = "s", shape: tuple[int, ...] = (), what: str = ""
) -> dict[str, Quantity]:
    """The parameters of a law of restitution."""
    units = {1: f"{length}/{time}", 0: "1", -1: f"{time}/{length}"}
    return {"restitution": Quantity(shape=shape, low=0.0, high=1.0, what=what)} | {
        one.name: Quantity(
            units[one.speed], low=one.low, positive=one.choice, optional=one.choice, what=f"of the law {law!r}"
        )
        for one in laws.LAWS[law].coefficients
    }


def _of_friction(law: str) -> dict[str, Quantity]:
    loss = {name: Quantity("s/m", what=f"of the law {law!r}") for name in laws.besides_friction(law)}
    return {"friction": Quantity(low=0.0, what="Coulomb's coefficient")} | loss


def _grip() -> dict[str, Quantity]:
    what = "by how much an impact that grips turns the slip round"
    return {"tangential_restitution": Quantity(low=-1.0, high=1.0, optional=True, what=what)}


def _dry_friction(by: str) -> Quantity:
    return Quantity("m/s^2", low=0.0, optional=True, term=True, what=f"deceleration at any speed, {by}")


def _of_impact(impact_law: str) -> dict[str, Quantity]:
    """The parameter of an impact law, where it has one."""
    what = "normal over tangential stiffness of the contact, k_n / k_t; of elastic bodies (1 - nu/2) / (1 - nu)"
    return {"tangential_compliance": Quantity(low=0.0, what=what)} if impact_law == "compliant" else {}


def _with_laws(text: str, restitution: str, friction: str = "constant") -> str:
    parts = [] if restitution == "constant" else [f"e = {laws.LAWS[restitution].formula}"]
    parts += [] if friction == "constant" else ["in impacts mu = friction - friction_loss v"]
    return f"{text}; {' and '.join(parts)} at the speed of approach v" if parts else text


def _state(d: int, length: str = "m", time: str = "s") -> dict[str, Quantity]:
    return {
        "q0": Quantity(length, (d,), what="coordinates at the first time"),
        "u0": Quantity(f"{length}/{time}", (d,), what="velocities at the first time"),
    }


def _planes(options: Table, dimension: int) -> tuple[Callable | None, dict[str, Quantity]]:
    """Planes as (t, params) -> normals and offsets, and their parameter."""
    if "planes" not in options:
        return None, {}
    normals = options.numbers("planes")
    if normals.ndim != 2 or normals.shape[1] != dimension or not np.all(np.isfinite(normals)):
        expected = f"expected a list of normals of {dimension} numbers each"
        raise options.fail("planes", f"{shown(normals.tolist())}, {expected}")
    lengths = np.linalg.norm(normals, axis=1, keepdims=True)
    if not np.all(lengths > 0):
        raise options.fail("planes", f"{shown(normals.tolist())}, expected normals that are not zero")
    normals = normals / lengths

    def planes(t, params):
        del t
        return normals, params["plane_offset"]

    what = "from the origin along each plane's normal"
    return planes, {"plane_offset": Quantity("m", (len(normals),), what=what)}


# Measured quaternions, a row for each sample and four columns for each body, among the params of a run.
_ORIENTATION = "measured_orientation"


@lru_cache(maxsize=128)
def _turning(count: int, dimension: int) -> tuple[Callable, Callable, Turned]:
    """Initial state and observations of bodies that turn."""
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


def _ready_turning(
    system: Any, quantities: Mapping[str, Quantity], count: int, dimension: int, law: str
) -> ReadySystem:
    """Bodies that turn, with `angle0` and `spin0` among the parameters."""
    size = (count * {2: 1, 3: 3}[dimension],)
    what = {2: "of each body at the first time", 3: "rotation vector of each body at the first time"}[dimension]
    turns = {
        "spin0": Quantity("rad/s", size, what="angular velocities at the first time"),
        "angle0": Quantity("rad", size, optional=True, what=what),
    }
    initial, observe, turned = _turning(count, dimension)
    return ReadySystem(system, {**quantities, **turns}, law=law, initial=initial, observe=observe, turned=turned)


@KINDS.add("carts", restitution=_LAW)
def _carts(options: Table) -> ReadySystem:
    law = options.choice("restitution", laws.LAWS, "constant")
    drag = "deceleration of the second cart over its velocity; the air's force is the same on both"
    quantities = _of_restitution(law) | {
        "mass_ratio": _RATIO,
        "distance": Quantity("m", low=0.0, what="between the markers at contact"),
        "tilt": Quantity("m/s^2", term=True, what="of the track: an acceleration along it"),
        "sag": Quantity("1/s^2", term=True, what="how much that grows along the track"),
        "drag": Quantity("1/s", low=0.0, term=True, what=drag),
        "dry_friction": _dry_friction("of both carts by wheels or a track that rubs"),
    }
    return ReadySystem(carts(restitution=law), quantities | _state(2), law=_with_laws(IMPACT_LAW, law))


@KINDS.add(
    "balls",
    count="how many",
    dimension="1, 2 or 3",
    box="[low, high] of a box around them, numbers or one for each axis; inf: open there",
    unit='of the box ("m")',
    planes="a list of their normals, which point towards the balls and may have any length",
    fixed="how many fixed balls there are (0)",
    materials="the number, from 0, of the material of each ball, fixed ball, low side, high side and plane; "
    "coefficients are then called restitution_0_1, the lower number first",
    spin="true: discs and spheres turn and rub (false)",
    air="true: the air slows them down, and bends the paths of those that spin (false)",
    restitution=f"{_LAW}; {_PER_CONTACT!r}: a coefficient for each",
    friction=f"{_FRICTION}, of balls that spin",
)
def _balls(options: Table) -> ReadySystem:
    """Balls in a box, among planes and fixed balls; see `systems.balls`.

    With materials there is one `restitution_0_1` for each pair of them that may meet, the lower number first.
    """
    law = options.choice("restitution", (*laws.LAWS, _PER_CONTACT), "constant")
    each, law = law == _PER_CONTACT, "constant" if law == _PER_CONTACT else law
    rubbing = options.choice("friction", laws.FRICTION_LAWS, "constant")
    count, fixed = options.integer("count", most=_MOST), options.integer("fixed", 0, most=_MOST)
    dimension, spin, air = options.integer("dimension", most=3), options.flag("spin", False), options.flag("air", False)
    if "unit" in options and "box" not in options:
        raise options.fail("unit", "of no box, expected system.box with it")
    if "friction" in options and not spin:
        raise options.fail("friction", "of balls that do not spin, expected spin = true")
    box = options.numbers("box") * options.factor("unit", "m") if "box" in options else None
    if box is not None and (box.ndim < 1 or len(box) != 2):
        raise options.fail("box", f"{shown(box.tolist())}, expected [low, high]")
    planes, offsets = _planes(options, dimension)
    inside = None if box is None else tuple(box.tolist())
    more = {"planes": planes, "fixed": fixed, "spin": spin, "air": air, "restitution": law, "friction": rubbing}
    system = _built(options, "kind", balls, count, dimension, inside, **more)
    quantities = {
        "mass": Quantity("kg", (count,), low=0.0, positive=True, what="of each ball"),
        "radius": Quantity("m", (count,), low=0.0, what="of each ball"),
        "gravity": Quantity("m/s^2", (dimension,), term=True, what="an acceleration along each axis"),
    }
    if air:
        damping = "deceleration over velocity, on a film of air"
        quantities["drag"] = Quantity("1/m", low=0.0, term=True, what=_DRAG)
        quantities["damping"] = Quantity("1/s", low=0.0, optional=True, term=True, what=damping)
        quantities["dry_friction"] = _dry_friction("by a table on which they glide")
    if air and spin:
        magnus = "sideways acceleration by the air over spin times velocity, of a slow spin"
        half = "the speed over the spin at which it is half of that"
        quantities["magnus"] = Quantity(what=magnus)
        quantities["magnus_saturation"] = Quantity("m", low=0.0, optional=True, what=half)
    quantities |= offsets
    if fixed:
        quantities["fixed_centre"] = Quantity("m", (fixed, dimension), what="of each fixed ball")
        quantities["fixed_radius"] = Quantity("m", (fixed,), low=0.0, what="of each fixed ball")
    standing = sum(quantity.shape[0] for quantity in offsets.values())
    contacts = system.surfaces.pairs(standing)[0].size
    coefficients = _of_restitution(law, shape=(contacts,) if each else ())
    if system.rubs:
        coefficients |= _of_friction(rubbing) | _grip()
    if "materials" in options:
        walls = (0 if box is None else 2 * dimension) + standing
        if each:
            raise options.fail("materials", 'with restitution = "per contact", expected one of the two')
        system, coefficients = _of_materials(system, _materials(options, count, fixed, walls), coefficients)
    quantities |= coefficients | _state(count * dimension)
    if system.rubs:
        what = "of balls that are not homogeneous"
        inertia = Quantity("kg*m^2", (count,), low=0.0, positive=True, optional=True, what=what)
        ready = _ready_turning(system, quantities, count, dimension, RUBBING_LAW.format(RESTITUTION_OF["newton"]))
        ready = replace(ready, quantities={**ready.quantities, "inertia": inertia})
    else:
        ready = ReadySystem(system, quantities)
    if air and spin and count == 1:
        ready = replace(ready, derived={"spin0": Derived("flight", _bending)})
    slowed = (
        "; in the air dv/dt = gravity - damping v - drag |v| v - dry_friction v / |v| + magnus w x v / "
        "(1 + magnus_saturation |w| / |v|), with damping, dry_friction and magnus_saturation 0 where they are not given"
    )
    return replace(ready, law=_with_laws(ready.law + (slowed if air else ""), law, rubbing))


def _bending(flight: np.ndarray, known: Mapping[str, np.ndarray]) -> np.ndarray:
    """The least spin by which air bends a flight as measured.

    As if the side force did not level off: a start that takes that into account blows up the noise of the curve.
    """
    velocity, acceleration = flight
    speed, magnus = np.linalg.norm(velocity), float(known.get("magnus", 0.0))
    bend = acceleration - known["gravity"] + known.get("drag", 0.0) * speed * velocity
    turned = velocity[0] * bend[1] - velocity[1] * bend[0] if velocity.size == 2 else np.cross(velocity, bend)
    return np.atleast_1d(turned / (magnus * speed**2) if magnus and speed else 0.0 * turned)


def _materials(options: Table, count: int, fixed: int, walls: int) -> tuple[int, ...]:
    numbers, total = options.numbers("materials"), count + fixed + walls
    if total == 1:
        raise options.fail("materials", "of one ball alone, expected none")
    whole = np.all((numbers >= 0) & (numbers == np.floor(numbers)) & np.isfinite(numbers))
    if numbers.shape != (total,) or not whole or np.max(numbers) >= _MOST_MATERIALS:
        raise options.fail(
            "materials",
            f"{shown(options.data['materials'])}, expected {total} whole numbers of at least 0 and below "
            f"{_MOST_MATERIALS}, for {count} balls, {fixed} fixed balls and {walls} walls",
        )
    return tuple(numbers.astype(int).tolist())


def _of_materials(
    system: Balls, materials: tuple[int, ...], coefficients: Mapping[str, Quantity]
) -> tuple[Balls, dict[str, Quantity]]:
    """The system with coefficients for pairs of materials, and these parameters."""
    surfaces, kinds = replace(system.surfaces, materials=materials), max(materials) + 1
    low, high = np.sort(np.indices((kinds, kinds)), axis=0)
    number = low * kinds + high
    first, second = (np.asarray(materials)[numbers] for numbers in surfaces.all_pairs())
    met = np.unique(number[first, second])

    def of_pairs(name):
        names = [f"{name}_{pair // kinds}_{pair % kinds}" for pair in met]

        def coefficient(params):
            values = jnp.stack([jnp.asarray(params.get(pair, 0.0)) for pair in names])
            table = jnp.zeros(kinds**2, values.dtype).at[met].set(values)[number]
            return surfaces.coefficients(name, {name: table})

        return names, coefficient

    # A speed of reference is no property of a pair.
    common = {one.name for one in laws.LAWS[system.law].coefficients if one.choice}
    pairs = {name: of_pairs(name) for name in coefficients if name not in common}
    own = {name: pairs[name][1] for name in ("tangential_restitution",) if name in pairs}
    own["restitution"] = laws.built(system.law, lambda name, params: pairs[name][1](params))
    if system.rubs:
        own["friction"] = laws.built_friction(system.friction_law, lambda name, params: pairs[name][1](params))
    of_each = {pair: coefficients[name] for name, (names, _) in pairs.items() for pair in names}
    return replace(system, **own), of_each | {name: coefficients[name] for name in common}


BODY: Mapping[str, str] = {
    "shape": "box, polygon, polyhedron, ellipse, ellipsoid or ball",
    "sides": "of a box: its two or three lengths",
    "vertices": "of a polygon, in order, or of a polyhedron: places from the centre of mass",
    "semi_axes": "of an ellipse or ellipsoid: half its extent along each axis",
    "radius": "of a ball",
    "unit": 'of these lengths ("m")',
}
# Each shape with the key that says how large it is.
_SHAPES: Mapping[str, tuple[Callable[[Any], Shape], str]] = {
    "box": (shapes.Box, "sides"),
    "polygon": (shapes.Polygon, "vertices"),
    "polyhedron": (shapes.Polyhedron, "vertices"),
    "ellipse": (shapes.Ellipse, "semi_axes"),
    "ellipsoid": (shapes.Ellipsoid, "semi_axes"),
    "ball": (shapes.Ball, "radius"),
}


@KINDS.add(
    "bodies",
    dimension="2 or 3",
    bodies="one table for each body, by its name",
    planes="a list of their normals, which point towards the bodies and may have any length",
    pairs="false: they do not meet each other (true); of two that meet one must be a ball",
    restitution=_LAW,
    friction=_FRICTION,
    impact_law='what restitution is a ratio of: velocities, "newton" (default), impulses, "poisson", or energies, '
    '"stronge"; or of balls "compliant", which spring sideways, too',
)
def _rigid_bodies(options: Table) -> ReadySystem:
    """Rigid bodies that fall, tumble and slide on planes; see `systems.bodies`.

    `inertia` is (count,) in a plane, and of cubes and balls in space. Of other bodies in space it is (count, 3), about
    their axes. Without it bodies are homogeneous.
    """
    dimension = options.integer("dimension", least=2, most=3)
    tables = options.table("bodies")
    if not 0 < len(tables.data) <= _MOST_SHAPES:
        raise options.fail("bodies", f"{len(tables.data)} of them, expected from 1 to {_MOST_SHAPES}")
    own = tuple(_shape(tables.table(name), dimension) for name in tables.data)
    law = options.choice("restitution", laws.LAWS, "constant")
    rubbing, count = options.choice("friction", laws.FRICTION_LAWS, "constant"), len(own)
    impact_law = options.choice("impact_law", RESTITUTION_OF, "newton")
    planes, offsets = _planes(options, dimension)
    laws_of_impact = {"restitution": law, "friction": rubbing, "impact_law": impact_law}
    pairs = options.flag("pairs", True)
    system = _built(options, "bodies", bodies, own, dimension, planes, pairs=pairs, **laws_of_impact)
    quantities = {
        "mass": Quantity("kg", (count,), low=0.0, positive=True, what="of each body"),
        "inertia": _inertia(own, dimension),
        "gravity": Quantity("m/s^2", (dimension,), what="an acceleration along each axis"),
        **_of_restitution(law),
        **_of_friction(rubbing),
        **offsets,
        **(_grip() if impact_law == "newton" else _of_impact(impact_law)),
        **_state(count * dimension),
    }
    text = _with_laws(RUBBING_LAW.format(RESTITUTION_OF[impact_law]), law, rubbing)
    return _ready_turning(system, quantities, count, dimension, text)


def _shape(body: Table, dimension: int) -> Shape:
    body.expect(*BODY)
    kind = body.choice("shape", _SHAPES)
    build, size = _SHAPES[kind]
    for other in dict.fromkeys(key for _, key in _SHAPES.values()):
        if other in body and other != size:
            raise body.fail(other, f"of a {kind}, expected {size} alone")
    lengths = body.numbers(size) * body.factor("unit", "m")
    if not np.all(np.isfinite(lengths)):
        raise body.fail(size, f"{shown(lengths.tolist())}, expected finite lengths")
    made = _built(body, size, build, lengths.tolist())
    if not made.fits(dimension):
        raise body.fail("shape", f"a {kind} like this is none of {dimension} dimensions, as system.dimension says")
    return made


def _inertia(own: tuple[Shape, ...], dimension: int) -> Quantity:
    """Moments of inertia: one of each body where all axes are alike."""
    try:
        moments, homogeneous = [np.asarray(shape.inertia(dimension)) for shape in own], True
    except ValueError:  # Their origin is not where the centre of mass of a homogeneous one is.
        moments, homogeneous = [], False
    alike = dimension == 2 or (homogeneous and all(moment.ndim == 0 for moment in moments))
    what = "of bodies that are not homogeneous" if homogeneous else "of each body; one is not homogeneous"
    shape = (len(own),) if alike else (len(own), 3)
    return Quantity("kg*m^2", shape, low=0.0, positive=True, optional=homogeneous, what=what)


@KINDS.add(
    "bouncing ball",
    bounces="how many have a restitution of their own (1)",
    length='"px" (default) or "m"',
    time='"frame" (default) or "s"',
    restitution=_LAW,
)
def _bouncing_ball(options: Table) -> ReadySystem:
    law = options.choice("restitution", laws.LAWS, "constant")
    bounces = options.integer("bounces", 1, most=_MOST)
    length, time = options.choice("length", ("px", "m"), "px"), options.choice("time", ("frame", "s"), "frame")
    system = _built(options, "bounces", bouncing_ball, bounces, restitution=law)
    floor = "where the ball's centre is on the floor, at the first time; downwards"
    approach = "how fast the picture of the ball's height grows"
    quantities = _of_restitution(law, length, time, what="of the first bounce") | {
        "gravity": Quantity(f"{length}/{time}^2", low=0.0, positive=True),
        "drag": Quantity(f"1/{length}", low=0.0, term=True, what=_DRAG),
        "floor": Quantity(length, what=floor),
        "floor_drift": Quantity(f"{length}/{time}", term=True, what="how fast that sinks in the picture"),
        "approach": Quantity(f"1/{time}", optional=True, term=True, what=approach),
        "perspective": Quantity(f"1/{length}", optional=True, term=True, what="how much larger lengths look higher up"),
    }
    if law == "constant" and bounces > 1:
        later = "of the bounces after the first"
        quantities["later_restitution"] = Quantity(shape=(bounces - 1,), low=0.0, high=1.0, what=later)
    return ReadySystem(
        system,
        quantities | _state(1, length, time),
        law=_with_laws(IMPACT_LAW, law),
        length=length,
        time=time,
        given={"apexes": (bounces - 1,)},
        observe=_filmed,
        # Upwards is negative; half a flight after it left the ball turns.
        derived={"u0": Derived("half_flight", lambda half, known: np.array([-known["gravity"] * half]))},
    )


def _filmed(trajectory, params):
    """Place (n, 1) in the picture, downwards: floor - (1 + approach t) (1 + perspective height) height."""
    floor = params["floor"] + params["floor_drift"] * trajectory.t
    height = floor - trajectory.q[:, 0]
    nearer = 1 + params.get("approach", 0.0) * trajectory.t
    return (floor - nearer * (1 + params.get("perspective", 0.0) * height) * height)[:, None]


# Plain functions, as above: a motion that is struck after a second, of which velocities are measured.
def _before(params):
    return -params["u0"], params["u0"]


def _velocities(trajectory, params):
    del params
    return trajectory.u


@KINDS.add(
    "impact",
    of=f"what is struck: {', '.join(map(repr, STRUCK))}",
    restitution=_LAW,
    impact_law=f"of a body, what restitution means: {', '.join(map(repr, IMPACT_LAWS))}",
)
def _impact(options: Table) -> ReadySystem:
    """One impact; a table has the velocities before and after it."""
    law, of = options.choice("restitution", laws.LAWS, "constant"), options.choice("of", STRUCK, "ball")
    impact_law = options.choice("impact_law", IMPACT_LAWS, "newton")
    if of != "body" and "impact_law" in options:
        raise options.fail("impact_law", f"of {of}, where all are one, expected of = 'body' with it")
    quantities = _of_restitution(law)
    quantities |= {"mass_ratio": _RATIO} if of == "carts" else _of_friction("constant") if of == "body" else {}
    quantities |= _of_impact(impact_law)
    what = "velocities before the impact; of a spin times the gyration"
    return ReadySystem(
        single_impact(of, restitution=law, impact_law=impact_law),
        quantities | {"u0": Quantity("m/s", (STRUCK[of],), what=what)},
        law=_with_laws(RUBBING_LAW.format(RESTITUTION_OF[impact_law]) if of == "body" else IMPACT_LAW, law),
        length="m/s",
        time="frame",
        given={"levers": (2,)} if of == "body" else {},
        initial=_before,
        observe=_velocities,
    )


@KINDS.add("pendulum")
def _pendulum(options: Table) -> ReadySystem:
    """A body that swings about an axis; angles are its coordinates."""
    del options
    quantities = {
        "stiffness": Quantity("1/s^2", low=0.0, positive=True, what="m g l / I: g / l of a point on a thread"),
        "rest": Quantity("rad", what="the angle at which it hangs"),
        "damping": Quantity("1/s", low=0.0, term=True, what="viscous: deceleration over velocity"),
        "drag": Quantity("1/rad", low=0.0, term=True, what=_DRAG),
    }
    return ReadySystem(
        pendulum(),
        quantities | _state(1, "rad"),
        law="theta'' = -stiffness sin(theta - rest) - damping theta' - drag |theta'| theta'",
        length="rad",
        derived={"stiffness": Derived("angular_frequency", lambda omega, known: omega**2)},
    )


DRIVE = {"column": "of the recording", "unit": "of it"}


@KINDS.add(
    "particle line",
    count="how many (1)",
    friction='"force" (default): gamma is one and normal a number; "coefficient": the other way round',
    per_unit_mass="true: forces are per mass, so that no mass need be known (false)",
    drive="{ column, unit }: the measured force that drives the last particle",
)
def _particle_line(options: Table) -> ReadySystem:
    """Particles with springs and dry friction; see `systems.particle_line`."""
    count, per_unit_mass = options.integer("count", 1, most=_MOST), options.flag("per_unit_mass", False)
    mass, force, stiffness, damping = ("1", "m/s^2", "1/s^2", "1/s") if per_unit_mass else ("kg", "N", "N/m", "N*s/m")
    friction = options.choice("friction", ("force", "coefficient"), "force")
    gamma, normal = (force, "1") if friction == "force" else ("1", force)
    drive = None
    if "drive" in options:
        table = options.table("drive")
        table.expect(*DRIVE)
        drive = Drive(table.text("column"), table.factor("unit", force))
    system = _built(options, "count", particle_line, count, driven=drive is not None)
    shape = () if count == 1 else (count,)
    spring, reaction = (
        "of the spring that ties each particle to the one before",
        "1 where gamma is a force, else the normal reaction",
    )
    quantities = {
        "mass": Quantity(mass, shape, low=0.0, positive=True, what="of each particle"),
        "stiffness": Quantity(stiffness, shape, low=0.0, what=spring),
        "damping": Quantity(damping, shape, low=0.0, term=True, what="of the dashpot beside it"),
        "gamma": Quantity(gamma, low=0.0, term=True, what="dry friction, force or coefficient"),
        "normal": Quantity(normal, shape, low=0.0, what=reaction),
        "rest": Quantity("m", shape, what="where each particle is with its springs slack"),
    }
    alone = {
        "stiffness": Derived("angular_frequency", lambda omega, known: known["mass"] * omega**2),
        "gamma": Derived("deceleration", lambda slower, known: known["mass"] * slower / known["normal"]),
    }
    return ReadySystem(
        system,
        quantities | _state(count),
        law="M du/dt + V u + K (q - rest) = p + f, dry friction |f| <= gamma nu opposite to the slip and independent "
        "of its speed (no Stribeck term), each stick and slip at its own time",
        given={"drive_times": None, "drive": None} if drive else {},
        drive=drive,
        derived=alone if count == 1 else {},
    )
