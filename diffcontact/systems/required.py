"""Refuse wrong shapes of balls and rigid bodies at once, and wrong values by `requirements` of the simulation."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from diffcontact.inputs import (
    Functions,
    finite,
    friction_law,
    impact_law,
    must,
    no_overlap,
    not_negative,
    of_system,
    require_functions,
    require_shapes,
    requirements,
    within,
)
from diffcontact.status import Status
from diffcontact.systems import laws, poses
from diffcontact.systems.bodies import Bodies
from diffcontact.systems.cell_list_balls import CellListBalls
from diffcontact.systems.surfaces import Balls, moments_of_inertia
from diffcontact.systems.surroundings import Surroundings, param


@require_shapes.register
def _(system: Balls, params, t, q0, u0):
    _require_balls(system, q0, u0)
    require_functions(system, params, t, q0, u0, explains=True)


@require_shapes.register
def _(system: CellListBalls, params, t, q0, u0):
    """Require it without the gaps of all pairs."""
    _require_balls(system, q0, u0)
    own = Functions(system, "System", params, q0, explains=True)
    own.expect("mass", own.shape("mass", "q, params", q0, params), u0.shape)
    own.expect("force", own.shape("force", "t, q, u, params", t, q0, u0, params), u0.shape)
    surfaces = system.surfaces
    names = _coefficients(system, params)
    for name in names:
        if name not in params:
            raise ValueError(f"params: expected {name!r}, got {sorted(params)}")
        if surfaces.materials is None and np.shape(params[name]) != ():
            raise ValueError(f"params[{name!r}]: expected shape () with a cell list, got {np.shape(params[name])}")
    # The surfaces refuse by themselves what does not fit them.
    jax.eval_shape(lambda q: (surfaces.centres(q, params), surfaces.wall_gaps(t, q, params)), q0)
    jax.eval_shape(lambda: [jnp.asarray(surfaces.coefficients_between(name, params, 0, 0)) for name in names])
    if surfaces.belt is not None:
        walls = jax.eval_shape(lambda: surfaces.normals(t, params, u0.dtype)).shape[0]
        jax.eval_shape(lambda: surfaces.running(t, params, walls, u0.dtype))


def _require_balls(system: Balls, q0, u0):
    surfaces = system.surfaces
    _require_lengths(surfaces, surfaces.count, "balls that spin" if surfaces.spin else "balls", q0, u0)


@require_shapes.register
def _(system: Bodies, params, t, q0, u0):
    solids = system.solids
    count = len(solids.of(params))
    _require_lengths(solids, count, "body" if count == 1 else "bodies", q0, u0)
    materials, surfaces = solids.materials, count + solids.fixed + len(solids.inclined(t, params, q0.dtype)[1])
    if materials is not None and len(materials) != surfaces:
        raise ValueError(
            f"bodies(materials=...): expected {surfaces} numbers, for {count} bodies, {solids.fixed} fixed balls and "
            f"{surfaces - count - solids.fixed} planes, got {len(materials)}"
        )
    require_functions(system, params, t, q0, u0, explains=True)


def _require_lengths(surfaces, count, what, q0, u0):
    for name, given, each in (("q0", q0, surfaces.coordinates), ("u0", u0, surfaces.velocities)):
        if given.size != count * each:
            raise ValueError(f"{name}: expected shape ({count * each},), {count} {what} of {each}, got {given.shape}")


_OPTIONAL = ("tangential_restitution", "rolling_friction", "pivoting_friction", "tangential_compliance")


def _coefficients(system: Balls | Bodies, params) -> list[str]:
    """Name the parameters that belong to pairs of surfaces."""
    optional = [name for name in _OPTIONAL if name in params]
    of_law = [one.name for one in laws.LAWS[system.law].coefficients if not one.choice]
    rubbing = ["friction", *laws.besides_friction(system.friction_law), *optional] if system.rubs else []
    return ["restitution", *of_law, *rubbing]


@requirements.register
def _(system: Balls, params, t, q0, u0):
    return [*_surfaces(system, params, t, q0), *of_system(system, params, t, q0, u0)]


@requirements.register
def _(system: CellListBalls, params, t, q0, u0):
    surfaces, cell = system.surfaces, system.cell
    radius = surfaces.radii(t, params, q0.dtype)
    widest, reach = 2 * jnp.max(radius), jnp.max(jnp.abs(surfaces.translation(q0)))
    listed = system.within(params, t, q0, jnp.zeros((), q0.dtype))
    gap = system.listed_contacts(listed).gap(t, q0, params)
    too_wide = f"balls(cell={cell!r}): expected at least the largest diameter, {{}}"

    def overlap(row, gap, first, partner):
        return f"ball {first[row]} overlaps {surfaces.name(int(partner[row]))} by {-gap:.6g}"

    return [
        *_surfaces(system, params, t, q0),
        *impact_law(system, params, q0),
        *(friction_law(params["friction"], params.get("tangential_restitution", 0.0), params) if surfaces.spin else []),
        finite("System.force", system.force(t, q0, u0, params), params, of="force"),
        must(widest <= cell, Status.BAD_INPUT, too_wide, widest),
        no_overlap(gap, reach, overlap, listed.first, listed.partner, left=_LEFT * jnp.min(radius)),
    ]


# Overlaps that `qp.project_many` leaves, in radii: 1e-6 of the velocity at which a step would close gaps too far.
_LEFT = 1e-6


def _surfaces(system, params, t, q0):
    surfaces, dtype = system.surfaces, q0.dtype
    radius = surfaces.radii(t, params, dtype)
    found = [finite("radius", radius, params), not_negative("radius", radius)]
    if surfaces.dimension == 1:
        # Two fixed ones are no contact.
        meet = jnp.any(radius[: surfaces.count] == 0) & (jnp.sum(radius == 0) > 1)
        found.append(must(~meet, Status.BAD_INPUT, _POINTS, radius))
    if surfaces.spin:
        found += _turning(surfaces, params, radius[: surfaces.count], q0)
    if callable(surfaces.box):
        low, high = surfaces.sides(t, params, dtype)
        room = "balls(box=...): expected low < high, got {} and {} at the first time"
        found.append(must(jnp.all(low < high), Status.BAD_INPUT, room, low, high))
    return [*found, *_around(system, surfaces, params, t, dtype)]


def _around(system, surfaces: Surroundings, params, t, dtype):
    """Require normals of length one, and symmetric tables of materials."""
    found = []
    if surfaces.planes is not None:
        lengths = jnp.sqrt(jnp.sum(surfaces.inclined(t, params, dtype)[0] ** 2, axis=1))
        units = f"{surfaces.maker}(planes=...): expected unit normals, got lengths {{}} at the first time"
        found.append(must(jnp.all(_are_one(lengths)), Status.BAD_INPUT, units, lengths))
    if surfaces.materials is not None:
        for name in _coefficients(system, params):
            table = jnp.asarray(params[name])
            line = f"{name}: expected a symmetric table of materials, got {{}}"
            found.append(
                must(jnp.all(table == table.T), Status.BAD_INPUT, lambda x, line=line: line.format(x.tolist()), table)
            )
    return found


def _are_one(lengths):
    """Allow for six digits in a file."""
    return jnp.abs(lengths - 1) <= 1e-5


def _rotation(what, quaternions):
    lengths = jnp.sqrt(jnp.sum(quaternions**2, axis=1))
    line = f"q0: expected unit quaternions, but that of {what} {{}} has length {{:.6g}}"
    return _each(_are_one(lengths), Status.BAD_INPUT, line, lengths)


def _turning(surfaces, params, radius, q0):
    """Require what balls that spin need."""
    inertia = moments_of_inertia(surfaces, jnp.ones_like(radius), params)
    found = [
        within("radius", "positive of balls that spin", radius, radius > 0),
        within("inertia", "positive", inertia, inertia > 0, Status.BAD_MASS, of="mass"),
    ]
    if surfaces.dimension == 3:
        found.append(_rotation("ball", q0.reshape(surfaces.count, -1)[:, 3:]))
    return found


_POINTS = "radius: expected no two zeros that meet on a line, where points pass through each other, got {}"


def _each(holds, status, line: str, values, of=None):
    """Require what `holds` (n,) of each; the line is a format of the first one's number and values."""

    def told(holds, values):
        first = int(np.argmin(holds))
        return line.format(first, values[first].tolist())

    return must(jnp.all(holds), status, told, holds, values, of=of)


@requirements.register
def _(system: Bodies, params, t, q0, u0):
    return [*_solids(system, params, t, q0), *of_system(system, params, t, q0, u0)]


def _solids(system: Bodies, params, t, q0):
    solids, dtype = system.solids, q0.dtype
    shapes, balls = solids.of(params), solids.meeting(solids.of(params))[0].size > 0
    found = []
    for number, shape in enumerate(shapes):
        expected = f"bodies(shapes=...): shapes[{number}]: expected a {type(shape).__name__} with"
        found.append(must(jnp.asarray(shape.sound()), Status.BAD_INPUT, f"{expected} positive lengths"))
        if balls:
            convex = jnp.asarray(shape.sound_beside_balls())
            found.append(must(convex, Status.BAD_INPUT, f"{expected} no notches where it meets balls"))
    if solids.fixed:
        radius = param(params, "fixed_radius", (solids.fixed,), dtype)
        found += [finite("fixed_radius", radius, params), not_negative("fixed_radius", radius)]
    if solids.dimension == 3:
        found.append(_rotation("body", poses.of_bodies(q0, 3)[:, 3:]))
    return [*found, *_around(system, solids, params, t, dtype), *_inertia(solids.inertia(params, dtype), params)]


def _inertia(inertia, params):
    """Require positive moments of inertia, none above the others' sum: no mass is negative."""
    found = [finite("inertia", inertia, params, of="mass")]
    require = partial(_each, status=Status.BAD_MASS, of="mass")
    if inertia.ndim == 1:
        line = "inertia: expected positive, but that of body {} is {:.6g}"
        return [*found, require(inertia > 0, line=line, values=inertia)]
    moments = inertia
    if inertia.ndim == 3:
        size = jnp.max(jnp.abs(inertia), axis=(1, 2))
        skew = jnp.max(jnp.abs(inertia - inertia.swapaxes(1, 2)), axis=(1, 2))
        line = "inertia: expected symmetric matrices, but that of body {} is {}"
        found.append(require(skew <= 1e-6 * size, line=line, values=inertia))
        clean = jnp.where(jnp.isfinite(inertia), inertia, 0)
        moments = jnp.linalg.eigvalsh((clean + clean.swapaxes(1, 2)) / 2)
    # A thin plate has one moment that is the sum of the others; measured ones have some five digits.
    possible = 2 * jnp.max(moments, axis=1) <= (1 + 1e-5) * jnp.sum(moments, axis=1)
    principal, end = "but the principal ones of body {} are {}", "; no distribution of mass has these"
    sums = f"inertia: expected no moment above the sum of the two others, {principal}{end}"
    return [
        *found,
        require(jnp.all(moments > 0, axis=1), line=f"inertia: expected positive moments, {principal}", values=moments),
        require(possible, line=sums, values=moments),
    ]
