"""What is refused of balls, in their own words: shapes at once, values as `requirements` of the simulation."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from diffcontact.inputs import Functions, require_functions, require_shapes
from diffcontact.requirements import finite, impact_law, must, no_overlap, not_negative, of_system, requirements
from diffcontact.status import Status
from diffcontact.systems.cell_list_balls import CellListBalls
from diffcontact.systems.surfaces import Balls


@require_shapes.register
def _(system: Balls, params, t, q0, u0):
    _require_length(system, q0)
    require_functions(system, params, t, q0, u0, explains=True)


@require_shapes.register
def _(system: CellListBalls, params, t, q0, u0):
    """Without the gaps of all pairs."""
    _require_length(system, q0)
    own = Functions(system, "System", params, q0, explains=True)
    own.expect("mass", own.shape("mass", "q, params", q0, params), q0.shape)
    own.expect("force", own.shape("force", "t, q, u, params", t, q0, u0, params), q0.shape)
    surfaces = system.surfaces
    if surfaces.materials is None and np.shape(params.get("restitution")) != ():
        raise ValueError(
            f"params['restitution']: expected shape () with a cell list, got {np.shape(params['restitution'])}"
        )
    # The surfaces refuse by themselves what does not fit them.
    jax.eval_shape(lambda q: (surfaces.centres(q, params), surfaces.wall_gaps(t, q, params)), q0)
    jax.eval_shape(lambda: jnp.asarray(surfaces.restitution_between(params, 0, 0)))


def _require_length(system: Balls, q0):
    surfaces = system.surfaces
    if q0.size != surfaces.count * surfaces.dimension:
        expected = f"({surfaces.count * surfaces.dimension},), {surfaces.count} balls of {surfaces.dimension}"
        raise ValueError(f"q0: expected shape {expected}, got {q0.shape}")


@requirements.register
def _(system: Balls, params, t, q0, u0):
    return [*_surfaces(system.surfaces, params, t, q0.dtype), *of_system(system, params, t, q0, u0)]


@requirements.register
def _(system: CellListBalls, params, t, q0, u0):
    surfaces, cell = system.surfaces, system.cell
    widest = 2 * jnp.max(surfaces.radii(t, params, q0.dtype))
    listed = system.within(params, t, q0, jnp.zeros((), q0.dtype))
    gap = system.listed_contacts(listed).gap(t, q0, params)

    def too_wide(widest):
        return f"balls(cell={cell!r}): expected at least the largest diameter, {widest}"

    def overlap(row, gap, first, partner):
        return f"ball {first[row]} overlaps {surfaces.name(int(partner[row]))} by {-gap:.6g}"

    return [
        *_surfaces(surfaces, params, t, q0.dtype),
        *impact_law(system, params, q0),
        finite("System.force", system.force(t, q0, u0, params), params, of="force"),
        must(widest <= cell, Status.BAD_INPUT, too_wide, widest),
        no_overlap(gap, q0, overlap, listed.first, listed.partner),
    ]


def _surfaces(surfaces, params, t, dtype):
    radius = surfaces.radii(t, params, dtype)
    found = [finite("radius", radius, params), not_negative("radius", radius)]
    if callable(surfaces.box):
        low, high = surfaces.sides(t, params, dtype)
        found.append(must(jnp.all(low < high), Status.BAD_INPUT, _no_room, low, high))
    if surfaces.planes is not None:
        lengths = jnp.sqrt(jnp.sum(surfaces.inclined(t, params, dtype)[0] ** 2, axis=1))
        # Unit vectors that were read from a file have some six digits.
        found.append(must(jnp.all(jnp.abs(lengths - 1) <= 1e-5), Status.BAD_INPUT, _no_units, lengths))
    if surfaces.materials is not None:
        table = jnp.asarray(params["restitution"])
        found.append(must(jnp.all(table == table.T), Status.BAD_INPUT, _no_table, table))
    return found


def _no_room(low, high):
    return f"balls(box=...): expected low < high, got {low} and {high} at the first time"


def _no_units(lengths):
    return f"balls(planes=...): expected unit normals, got lengths {lengths} at the first time"


def _no_table(table):
    return f"restitution: expected a symmetric table of materials, got {table.tolist()}"
