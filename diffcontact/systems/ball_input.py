"""What is refused of balls, in their own words: shapes at once, values as `requirements` of the simulation."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from diffcontact.inputs import Functions, require_functions, require_shapes
from diffcontact.requirements import (
    finite,
    friction_law,
    impact_law,
    must,
    no_overlap,
    not_negative,
    of_system,
    requirements,
)
from diffcontact.status import Status
from diffcontact.systems import laws
from diffcontact.systems.cell_list_balls import CellListBalls
from diffcontact.systems.spin import moments_of_inertia
from diffcontact.systems.surfaces import Balls


@require_shapes.register
def _(system: Balls, params, t, q0, u0):
    _require_lengths(system, q0, u0)
    require_functions(system, params, t, q0, u0, explains=True)


@require_shapes.register
def _(system: CellListBalls, params, t, q0, u0):
    """Without the gaps of all pairs."""
    _require_lengths(system, q0, u0)
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
        jax.eval_shape(lambda: surfaces.running(t, params, u0.dtype))


def _require_lengths(system: Balls, q0, u0):
    surfaces = system.surfaces
    for name, given, each in (("q0", q0, surfaces.coordinates), ("u0", u0, surfaces.velocities)):
        if given.size != surfaces.count * each:
            what = "balls that spin" if surfaces.spin else "balls"
            expected = f"({surfaces.count * each},), {surfaces.count} {what} of {each}"
            raise ValueError(f"{name}: expected shape {expected}, got {given.shape}")


_OPTIONAL = ("tangential_restitution", "rolling_friction", "pivoting_friction")


def _coefficients(system: Balls, params) -> list[str]:
    """The names of the parameters that belong to pairs of surfaces."""
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

    def too_wide(widest):
        return f"balls(cell={cell!r}): expected at least the largest diameter, {widest}"

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


# What `qp.project_many` leaves of overlaps, in radii: 1e-6 of the velocity at which a step would close gaps too far.
_LEFT = 1e-6


def _surfaces(system, params, t, q0):
    surfaces, dtype = system.surfaces, q0.dtype
    radius = surfaces.radii(t, params, dtype)
    found = [finite("radius", radius, params), not_negative("radius", radius)]
    if surfaces.dimension == 1:
        # Two fixed ones are no contact.
        meet = jnp.any(radius[: surfaces.count] == 0) & (jnp.sum(radius == 0) > 1)
        found.append(must(~meet, Status.BAD_INPUT, _points, radius))
    if surfaces.spin:
        found += _turning(surfaces, params, radius[: surfaces.count], q0)
    if callable(surfaces.box):
        low, high = surfaces.sides(t, params, dtype)
        found.append(must(jnp.all(low < high), Status.BAD_INPUT, _no_room, low, high))
    if surfaces.planes is not None:
        lengths = jnp.sqrt(jnp.sum(surfaces.inclined(t, params, dtype)[0] ** 2, axis=1))
        # Unit vectors that were read from a file have some six digits.
        found.append(must(jnp.all(jnp.abs(lengths - 1) <= 1e-5), Status.BAD_INPUT, _no_units, lengths))
    if surfaces.materials is not None:
        for name in _coefficients(system, params):
            table = jnp.asarray(params[name])
            found.append(must(jnp.all(table == table.T), Status.BAD_INPUT, partial(_no_table, name), table))
    return found


def _turning(surfaces, params, radius, q0):
    """What must hold of balls that spin."""
    found = [must(jnp.all(radius > 0), Status.BAD_INPUT, _no_radius, radius)]
    inertia = moments_of_inertia(surfaces, jnp.ones_like(radius), params)
    found.append(must(jnp.all(inertia > 0), Status.BAD_MASS, _no_inertia, inertia, of="mass"))
    if surfaces.dimension == 3:
        lengths = jnp.sqrt(jnp.sum(q0.reshape(surfaces.count, -1)[:, 3:] ** 2, axis=1))
        found.append(must(jnp.all(jnp.abs(lengths - 1) <= 1e-5), Status.BAD_INPUT, _no_rotation, lengths))
    return found


def _points(radius):
    return f"radius: expected no two zeros that meet on a line, where points pass through each other, got {radius}"


def _no_radius(radius):
    return f"radius: expected positive of balls that spin, got {radius}"


def _no_inertia(inertia):
    return f"inertia: expected positive, got {inertia}"


def _no_rotation(lengths):
    ball = int(np.argmax(np.abs(lengths - 1)))
    return f"q0: expected unit quaternions, but that of ball {ball} has length {lengths[ball]:.6g}"


def _no_room(low, high):
    return f"balls(box=...): expected low < high, got {low} and {high} at the first time"


def _no_units(lengths):
    return f"balls(planes=...): expected unit normals, got lengths {lengths} at the first time"


def _no_table(name, table):
    return f"{name}: expected a symmetric table of materials, got {table.tolist()}"
