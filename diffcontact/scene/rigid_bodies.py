"""Rigid bodies of known shapes among planes, as a scene names them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from diffcontact import shapes
from diffcontact.host.messages import shown
from diffcontact.scene.contacts import (
    FRICTION_OPTION,
    LAW_OPTION,
    friction_law,
    of_friction,
    of_law,
    places,
    restitution_law,
    state,
    told,
    turns,
    unit_normals,
)
from diffcontact.scene.keys import Table
from diffcontact.scene.ready import Quantity, ReadySystem
from diffcontact.shapes import Shape
from diffcontact.systems import bodies

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

    Options: those of `BODIES`, and of each body those of `BODY`.

    Parameters: `mass` (count,), `gravity`, `restitution`, `friction`, with planes `plane_offset` (p,), by Newton's law
    `tangential_restitution` where it is not 0. `inertia` is (count,) in a plane, and in space of bodies that are alike
    about all axes (cubes, balls); (count, 3), about the axes of each body, of others; without it they are homogeneous.
    At the first time `q0` and `u0`, places and velocities of the centres of mass, `angle0`, how they are turned,
    (count,) or as rotation vectors (3 count,), and `spin0`, alike.
    """
    options.expect("kind", *BODIES)
    dimension = options.integer("dimension", least=2, most=3)
    own = _bodies(options, dimension)
    law, rubbing, count = restitution_law(options), friction_law(options), len(own)
    impact_law = options.choice("impact_law", _RESTITUTION, "newton")
    normals = unit_normals(options, dimension) if "planes" in options else None
    pairs = options.flag("pairs", True)

    def planes(t, params):
        del t
        return normals, params["plane_offset"]

    try:
        system = bodies(
            own,
            dimension,
            None if normals is None else planes,
            pairs=pairs,
            restitution=law,
            friction=rubbing,
            impact_law=impact_law,
        )
    except ValueError as error:
        raise options.fail("bodies", str(error)) from None
    quantities = {
        "mass": Quantity("kg", (count,), low=0.0, positive=True, what="of each body"),
        "inertia": _inertia(own, dimension),
        "gravity": Quantity("m/s^2", (dimension,), what="an acceleration along each axis"),
        "restitution": Quantity(low=0.0, high=1.0),
        **of_law(law),
        **of_friction(rubbing),
    }
    if normals is not None:
        quantities["plane_offset"] = Quantity("m", (len(normals),), what="from the origin along each plane's normal")
    if impact_law == "newton":
        quantities["tangential_restitution"] = Quantity(
            low=-1.0, high=1.0, optional=True, what="by how much an impact that grips turns the slip round"
        )
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
    try:
        made = build(lengths.tolist())
    except ValueError as error:
        raise body.fail(size, str(error)) from None
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
