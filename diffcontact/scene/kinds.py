"""The ready-made systems that a scene can name, and what their parameters are.

A kind turns the scene's options into a system together with a `Quantity` for each parameter: its unit, its shape and
what is physically possible. A new system is one more function here, registered in `KINDS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import jax.numpy as jnp
import numpy as np

from diffcontact import shapes
from diffcontact.host.messages import shown
from diffcontact.scene.keys import Table
from diffcontact.scene.ready import IMPACT_LAW, Derived, Drive, Quantity, ReadySystem, Turned
from diffcontact.shapes import Shape
from diffcontact.system import IMPACT_LAWS
from diffcontact.systems import balls, bodies, bouncing_ball, carts, laws, particle_line, pendulum, poses, single_impact
from diffcontact.systems.single_impact import KINDS as STRUCK
from diffcontact.systems.surfaces import Balls

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


def _built(options: Table, key: str, build: Callable[..., Any], *arguments: Any, **settings: Any) -> Any:
    try:
        return build(*arguments, **settings)
    except ValueError as error:
        raise options.fail(key, str(error)) from None


def _grip() -> dict[str, Quantity]:
    what = "by how much an impact that grips turns the slip round"
    return {"tangential_restitution": Quantity(low=-1.0, high=1.0, optional=True, what=what)}


def _planes(options: Table, dimension: int) -> tuple[Callable | None, dict[str, Quantity]]:
    """The planes as systems take them, (t, params) -> normals (p, dimension) and offsets (p,); their parameter."""
    if "planes" not in options:
        return None, {}
    normals = unit_normals(options, dimension)

    def planes(t, params):
        del t
        return normals, params["plane_offset"]

    what = "from the origin along each plane's normal"
    return planes, {"plane_offset": Quantity("m", (len(normals),), what=what)}


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


BODIES: Mapping[str, str] = {
    "dimension": "2 or 3",
    "bodies": "one table for each body, by its name",
    "planes": "a list of their normals, which point towards the bodies and may have any length",
    "pairs": "false: they do not meet each other (true); of two that meet one must be a ball",
    "restitution": LAW_OPTION,
    "friction": FRICTION_OPTION,
    "impact_law": 'what restitution is a ratio of: velocities, "newton" (default), impulses, "poisson", or energies, '
    '"stronge"',
}
BODY: Mapping[str, str] = {
    "shape": "box, polygon, polyhedron, ellipse, ellipsoid or ball",
    "sides": "of a box: its two or three lengths",
    "vertices": "of a polygon, in order, or of a polyhedron: places from the centre of mass",
    "semi_axes": "of an ellipse or ellipsoid: half its extent along each axis",
    "radius": "of a ball",
    "unit": 'of these lengths ("m")',
}
# What says how large each of them is.
_SHAPES: Mapping[str, tuple[Callable[[Any], Shape], str]] = {
    "box": (shapes.Box, "sides"),
    "polygon": (shapes.Polygon, "vertices"),
    "polyhedron": (shapes.Polyhedron, "vertices"),
    "ellipse": (shapes.Ellipse, "semi_axes"),
    "ellipsoid": (shapes.Ellipsoid, "semi_axes"),
    "ball": (shapes.Ball, "radius"),
}
_SIZES = tuple(dict.fromkeys(size for _, size in _SHAPES.values()))
# Contacts of more bodies than that no scene holds.
_MOST = 100

_RESTITUTION = {
    "newton": "v_N+ = -e v_N- (Newton) and, while they grip, v_T+ = -e_t v_T-",
    "poisson": "the normal impulse of restitution is e times that of compression (Poisson)",
    "stronge": "the normal force gives back e^2 of the work that compression took (Stronge)",
}


def rigid_bodies(options: Table) -> ReadySystem:
    """Rigid bodies that fall, tumble and slide on planes; see `systems.bodies`.

    `inertia` is (count,) in a plane, and in space of bodies that are alike about all axes (cubes, balls); (count, 3),
    about the axes of each body, of others; without it they are homogeneous. `angle0` and `spin0` are (count,), or
    rotation vectors (3 count,).
    """
    options.expect("kind", *BODIES)
    dimension = options.integer("dimension", least=2, most=3)
    own = _bodies(options, dimension)
    law, rubbing, count = restitution_law(options), friction_law(options), len(own)
    impact_law = options.choice("impact_law", _RESTITUTION, "newton")
    planes, offsets = _planes(options, dimension)
    laws_of_impact = {"restitution": law, "friction": rubbing, "impact_law": impact_law}
    pairs = options.flag("pairs", True)
    system = _built(options, "bodies", bodies, own, dimension, planes, pairs=pairs, **laws_of_impact)
    quantities = {
        "mass": Quantity("kg", (count,), low=0.0, positive=True, what="of each body"),
        "inertia": _inertia(own, dimension),
        "gravity": Quantity("m/s^2", (dimension,), what="an acceleration along each axis"),
        "restitution": Quantity(low=0.0, high=1.0),
        **of_law(law),
        **of_friction(rubbing),
        **offsets,
        **(_grip() if impact_law == "newton" else {}),
    }
    initial, observe, turned = places(count, dimension)
    text = (
        "M(q) du = f dt + impacts and Coulomb's friction |beta| <= mu lambda opposite to the slip, also in impacts, "
        f"where {_RESTITUTION[impact_law]}; every impact, stick and slip at its own time"
    )
    return ReadySystem(
        system,
        quantities | state(count * dimension) | turns(count, dimension),
        law=told(law, text, rubbing),
        initial=initial,
        observe=observe,
        turned=turned,
    )


def _bodies(options: Table, dimension: int) -> tuple[Shape, ...]:
    """The shape of each body, in the order of the scene."""
    tables = options.table("bodies")
    if not 0 < len(tables.data) <= _MOST:
        raise options.fail("bodies", f"{len(tables.data)} of them, expected from 1 to {_MOST}")
    return tuple(_shape(tables.table(name), dimension) for name in tables.data)


def _shape(body: Table, dimension: int) -> Shape:
    body.expect(*BODY)
    kind = body.choice("shape", _SHAPES)
    build, size = _SHAPES[kind]
    for other in _SIZES:
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
    count = len(own)
    try:
        moments, homogeneous = [np.asarray(shape.inertia(dimension)) for shape in own], True
    except ValueError:  # Their origin is not where the centre of mass of a homogeneous one is.
        moments, homogeneous = [], False
    alike = dimension == 2 or (homogeneous and all(moment.ndim == 0 for moment in moments))
    what = "of bodies that are not homogeneous" if homogeneous else "of each body; one is not homogeneous"
    shape = (count,) if alike else (count, 3)
    return Quantity("kg*m^2", shape, low=0.0, positive=True, optional=homogeneous, what=what)


# More bodies or bounces than that no scene holds, and every pair of them is a contact.
_BODIES = 1000
_MATERIALS = 100

AIR_LAW = (
    "in the air dv/dt = gravity - damping v - drag |v| v + magnus w x v / (1 + magnus_saturation |w| / |v|), with "
    "damping and magnus_saturation 0 where they are not given"
)
FRICTION_LAW = (
    "M du/dt + V u + K (q - rest) = p + f, dry friction |f| <= gamma nu opposite to the slip and independent of its "
    "speed (no Stribeck term), each stick and slip at its own time"
)


_DRAG = "deceleration by the air over squared velocity"

# A coefficient for each contact, in place of a law that all share.
_PER_CONTACT = "per contact"

_KIND = {"kind": "which ready-made system"}
OPTIONS: Mapping[str, Mapping[str, str]] = {
    "carts": _KIND | {"restitution": LAW_OPTION},
    "balls": _KIND
    | {
        "count": "how many",
        "dimension": "1, 2 or 3",
        "box": "[low, high] of a box around them, numbers or one for each axis; inf: open there",
        "unit": 'of the box ("m")',
        "planes": "a list of their normals, which point towards the balls and may have any length",
        "fixed": "how many fixed balls there are (0)",
        "materials": (
            "the number, from 0, of the material of each ball, fixed ball, low side, high side and plane; "
            "coefficients are then called restitution_0_1, the lower number first"
        ),
        "spin": "true: discs and spheres turn and rub (false)",
        "air": "true: the air slows them down, and bends the paths of those that spin (false)",
        "restitution": f"{LAW_OPTION}; {_PER_CONTACT!r}: a coefficient for each",
        "friction": f"{FRICTION_OPTION}, of balls that spin",
    },
    "bodies": {**_KIND, **BODIES},
    "bouncing ball": _KIND
    | {
        "bounces": "how many have a restitution of their own (1)",
        "length": '"px" (default) or "m"',
        "time": '"frame" (default) or "s"',
        "restitution": LAW_OPTION,
    },
    "impact": _KIND
    | {
        "of": f"what is struck: {', '.join(map(repr, STRUCK))}",
        "restitution": LAW_OPTION,
        "impact_law": f"of a body, what restitution means: {', '.join(map(repr, IMPACT_LAWS))}",
    },
    "pendulum": _KIND,
    "particle line": _KIND
    | {
        "count": "how many (1)",
        "friction": '"force" (default): gamma is one and normal a number; "coefficient": the other way round',
        "per_unit_mass": "true: forces are per mass, so that no mass need be known (false)",
        "drive": "{ column, unit }: the measured force that drives the last particle",
    },
}
DRIVE = {"column": "of the recording", "unit": "of it"}


def _carts(options: Table) -> ReadySystem:
    options.expect(*OPTIONS["carts"])
    law = restitution_law(options)
    quantities = {
        "restitution": Quantity(low=0.0, high=1.0),
        "mass_ratio": Quantity(low=0.0, positive=True, what="first cart over second"),
        "distance": Quantity("m", low=0.0, what="between the markers at contact"),
        "tilt": Quantity("m/s^2", term=True, what="of the track: an acceleration along it"),
        "sag": Quantity("1/s^2", term=True, what="how much that grows along the track"),
        "drag": Quantity(
            "1/s",
            low=0.0,
            term=True,
            what="deceleration of the second cart over its velocity; the air's force is the same on both",
        ),
    }
    return ReadySystem(carts(restitution=law), quantities | of_law(law) | state(2), law=told(law))


def _balls(options: Table) -> ReadySystem:
    """Balls and what stands around them; see `systems.balls`.

    With materials there is one `restitution_0_1` for each two of them that may meet, the lower number first. Of balls
    that spin it is measured, too, how they are turned: angles, or of spheres quaternions; `angle0` and `spin0` are
    (count,), or rotation vectors (3 count,).
    """
    options.expect(*OPTIONS["balls"])
    law = restitution_law(options, _PER_CONTACT)
    each, law = law == _PER_CONTACT, "constant" if law == _PER_CONTACT else law
    rubbing = friction_law(options)
    count, fixed = options.integer("count", most=_BODIES), options.integer("fixed", 0, most=_BODIES)
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
        quantities["drag"] = Quantity("1/m", low=0.0, term=True, what=_DRAG)
        quantities["damping"] = Quantity(
            "1/s", low=0.0, optional=True, term=True, what="deceleration over velocity, on a film of air"
        )
    if air and spin:
        quantities["magnus"] = Quantity(
            what="sideways acceleration by the air over spin times velocity, of a slow spin"
        )
        quantities["magnus_saturation"] = Quantity(
            "m",
            low=0.0,
            optional=True,
            what="the speed over the spin at which it is half of that",
        )
    quantities |= offsets
    if fixed:
        quantities["fixed_centre"] = Quantity("m", (fixed, dimension), what="of each fixed ball")
        quantities["fixed_radius"] = Quantity("m", (fixed,), low=0.0, what="of each fixed ball")
    standing = sum(quantity.shape[0] for quantity in offsets.values())
    contacts = system.surfaces.pairs(standing)[0].size
    coefficients = {"restitution": Quantity(shape=(contacts,) if each else (), low=0.0, high=1.0)} | of_law(law)
    if system.rubs:
        coefficients |= of_friction(rubbing) | _grip()
    if "materials" in options:
        walls = (0 if box is None else 2 * dimension) + standing
        if each:
            raise options.fail("materials", 'with restitution = "per contact", expected one of the two')
        system, coefficients = _of_materials(system, _materials(options, count, fixed, walls), coefficients)
    quantities |= coefficients | state(count * dimension)
    ready = _spinning(system, quantities) if system.rubs else ReadySystem(system, quantities)
    if air and spin and count == 1:
        ready = replace(ready, derived={"spin0": Derived("flight", _bending)})
    return replace(ready, law=told(law, f"{ready.law}; {AIR_LAW}" if air else ready.law, rubbing))


def _bending(flight: np.ndarray, known: Mapping[str, np.ndarray]) -> np.ndarray:
    """The least spin by which the air bends a flight as much, from its velocity and acceleration (2, dimension).

    As if the side force did not level off: a start that takes that into account blows up the noise of the curve.
    """
    velocity, acceleration = flight
    speed, magnus = np.linalg.norm(velocity), float(known.get("magnus", 0.0))
    bend = acceleration - known["gravity"] + known.get("drag", 0.0) * speed * velocity
    turned = velocity[0] * bend[1] - velocity[1] * bend[0] if velocity.size == 2 else np.cross(velocity, bend)
    return np.atleast_1d(turned / (magnus * speed**2) if magnus and speed else 0.0 * turned)


def _spinning(system: Balls, quantities: Mapping[str, Quantity]) -> ReadySystem:
    """Balls that spin, turned by `angle0` at the first time."""
    count, dimension = system.surfaces.count, system.surfaces.dimension
    more = turns(count, dimension) | {
        "inertia": Quantity(
            "kg*m^2", (count,), low=0.0, positive=True, optional=True, what="of balls that are not homogeneous"
        ),
    }
    initial, observe, turned = places(count, dimension)
    return ReadySystem(system, {**quantities, **more}, law=RUBBING_LAW, initial=initial, observe=observe, turned=turned)


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


def _bouncing_ball(options: Table) -> ReadySystem:
    """A ball in a film: lengths in `length`, "px" by default, times in `time`, "frame" by default."""
    options.expect(*OPTIONS["bouncing ball"])
    law = restitution_law(options)
    bounces = options.integer("bounces", 1, most=_BODIES)
    length, time = options.choice("length", ("px", "m"), "px"), options.choice("time", ("frame", "s"), "frame")
    system = _built(options, "bounces", bouncing_ball, bounces, restitution=law)
    quantities = {
        "restitution": Quantity(low=0.0, high=1.0, what="of the first bounce"),
        "gravity": Quantity(f"{length}/{time}^2", low=0.0, positive=True),
        "drag": Quantity(f"1/{length}", low=0.0, term=True, what=_DRAG),
        "floor": Quantity(length, what="where the ball's centre is on the floor, at the first time; downwards"),
        "floor_drift": Quantity(f"{length}/{time}", term=True, what="how fast that sinks in the picture"),
        "approach": Quantity(
            f"1/{time}", optional=True, term=True, what="how fast the picture of the ball's height grows"
        ),
        "perspective": Quantity(f"1/{length}", optional=True, term=True, what="how much larger lengths look higher up"),
    }
    own = law == "constant" and bounces > 1
    later = (
        {"later_restitution": Quantity(shape=(bounces - 1,), low=0.0, high=1.0, what="of the bounces after the first")}
        if own
        else {}
    )
    return ReadySystem(
        system,
        quantities | of_law(law, length, time) | later | state(1, length, time),
        law=told(law),
        length=length,
        time=time,
        given={"apexes": (bounces - 1,)},
        observe=_filmed,
        # Upwards is negative; half a flight after it left the ball turns.
        derived={"u0": Derived("half_flight", lambda half, known: np.array([-known["gravity"] * half]))},
    )


def _filmed(trajectory, params):
    """(n, 1) where a camera sees the ball: floor - (1 + approach t) (1 + perspective height) height, downwards."""
    floor = params["floor"] + params["floor_drift"] * trajectory.t
    height = floor - trajectory.q[:, 0]
    nearer = 1 + params.get("approach", 0.0) * trajectory.t
    return (floor - nearer * (1 + params.get("perspective", 0.0) * height) * height)[:, None]


def _particle_line(options: Table) -> ReadySystem:
    """Particles with springs and dry friction; see `systems.particle_line` for the two ways to give friction."""
    options.expect(*OPTIONS["particle line"])
    count = options.integer("count", 1, most=_BODIES)
    per_unit_mass = options.flag("per_unit_mass", False)
    mass, force, stiffness, damping = ("1", "m/s^2", "1/s^2", "1/s") if per_unit_mass else ("kg", "N", "N/m", "N*s/m")
    friction = options.choice("friction", ("force", "coefficient"), "force")
    drive = None
    if "drive" in options:
        table = options.table("drive")
        table.expect(*DRIVE)
        drive = Drive(table.text("column"), table.factor("unit", force))
    system = _built(options, "count", particle_line, count, driven=drive is not None)
    shape = () if count == 1 else (count,)
    quantities = {
        "mass": Quantity(mass, shape, low=0.0, positive=True, what="of each particle"),
        "stiffness": Quantity(
            stiffness, shape, low=0.0, what="of the spring that ties each particle to the one before"
        ),
        "damping": Quantity(damping, shape, low=0.0, term=True, what="of the dashpot beside it"),
        "gamma": Quantity(
            force if friction == "force" else "1", low=0.0, term=True, what="dry friction, force or coefficient"
        ),
        "normal": Quantity(
            "1" if friction == "force" else force,
            shape,
            low=0.0,
            what="1 where gamma is a force, else the normal reaction",
        ),
        "rest": Quantity("m", shape, what="where each particle is with its springs slack"),
    }
    alone = {
        "stiffness": Derived("angular_frequency", lambda omega, known: known["mass"] * omega**2),
        "gamma": Derived("deceleration", lambda slower, known: known["mass"] * slower / known["normal"]),
    }
    return ReadySystem(
        system,
        quantities | state(count),
        law=FRICTION_LAW,
        given={"drive_times": None, "drive": None} if drive else {},
        drive=drive,
        derived=alone if count == 1 else {},
    )


# Plain functions, as in `ready`: a motion that is struck after a second, of which velocities are measured.
def _before(params):
    return -params["u0"], params["u0"]


def _velocities(trajectory, params):
    del params
    return trajectory.u


def _impact(options: Table) -> ReadySystem:
    """One impact, of which a table has the velocities before and after it."""
    options.expect(*OPTIONS["impact"])
    law, of = restitution_law(options), options.choice("of", tuple(STRUCK), "ball")
    impact_law = options.choice("impact_law", IMPACT_LAWS, "newton")
    if of != "body" and "impact_law" in options:
        raise options.fail("impact_law", f"of {of}, where all are one, expected of = 'body' with it")
    quantities = {"restitution": Quantity(low=0.0, high=1.0)} | of_law(law)
    if of == "carts":
        quantities["mass_ratio"] = Quantity(low=0.0, positive=True, what="first cart over second")
    if of == "body":
        quantities |= of_friction("constant")
    quantities["u0"] = Quantity("m/s", (STRUCK[of],), what="velocities before the impact; of a spin times the gyration")
    return ReadySystem(
        single_impact(of, restitution=law, impact_law=impact_law),
        quantities,
        law=told(law, RUBBING_LAW if of == "body" else IMPACT_LAW),
        length="m/s",
        time="frame",
        given={"levers": (2,)} if of == "body" else {},
        initial=_before,
        observe=_velocities,
    )


def _pendulum(options: Table) -> ReadySystem:
    """A body that swings about an axis; angles are its coordinates."""
    options.expect(*OPTIONS["pendulum"])
    quantities = {
        "stiffness": Quantity("1/s^2", low=0.0, positive=True, what="m g l / I: g / l of a point on a thread"),
        "rest": Quantity("rad", what="the angle at which it hangs"),
        "damping": Quantity("1/s", low=0.0, term=True, what="viscous: deceleration over velocity"),
        "drag": Quantity("1/rad", low=0.0, term=True, what=_DRAG),
    }
    return ReadySystem(
        pendulum(),
        quantities | state(1, "rad"),
        law="theta'' = -stiffness sin(theta - rest) - damping theta' - drag |theta'| theta'",
        length="rad",
        derived={"stiffness": Derived("angular_frequency", lambda omega, known: omega**2)},
    )


KINDS: Mapping[str, Callable[[Table], ReadySystem]] = {
    "carts": _carts,
    "balls": _balls,
    "bodies": rigid_bodies,
    "bouncing ball": _bouncing_ball,
    "impact": _impact,
    "pendulum": _pendulum,
    "particle line": _particle_line,
}
