"""What is refused of rigid bodies, in their own words: shapes at once, values as `requirements` of the simulation."""

from __future__ import annotations

from functools import partial

import jax.numpy as jnp
import numpy as np

from diffcontact.inputs import require_functions, require_shapes
from diffcontact.requirements import finite, must, not_negative, of_system, requirements
from diffcontact.status import Status
from diffcontact.systems import laws, poses
from diffcontact.systems.solids import Bodies
from diffcontact.systems.surfaces import param


@require_shapes.register
def _(system: Bodies, params, t, q0, u0):
    solids = system.solids
    count = len(solids.of(params))
    for name, given, each in (("q0", q0, solids.coordinates), ("u0", u0, solids.velocities)):
        if given.size != count * each:
            what = "body" if count == 1 else "bodies"
            raise ValueError(f"{name}: expected shape ({count * each},), {count} {what} of {each}, got {given.shape}")
    materials, surfaces = solids.materials, count + solids.fixed + len(solids.inclined(t, params, q0.dtype)[1])
    if materials is not None and len(materials) != surfaces:
        raise ValueError(
            f"bodies(materials=...): expected {surfaces} numbers, for {count} bodies, {solids.fixed} fixed balls and "
            f"{surfaces - count - solids.fixed} planes, got {len(materials)}"
        )
    require_functions(system, params, t, q0, u0, explains=True)


@requirements.register
def _(system: Bodies, params, t, q0, u0):
    return [*_solids(system, params, t, q0), *of_system(system, params, t, q0, u0)]


def _solids(system: Bodies, params, t, q0):
    solids, dtype = system.solids, q0.dtype
    shapes, balls = solids.of(params), solids.meeting(solids.of(params))[0].size > 0
    found = []
    for number, shape in enumerate(shapes):
        sound = jnp.asarray(shape.sound())
        found.append(must(sound, Status.BAD_INPUT, partial(_unsound, number, type(shape).__name__, "positive lengths")))
        if balls:
            convex = jnp.asarray(shape.sound_beside_balls())
            line = partial(_unsound, number, type(shape).__name__, "no notches where it meets balls")
            found.append(must(convex, Status.BAD_INPUT, line))
    if solids.fixed:
        radius = param(params, "fixed_radius", (solids.fixed,), dtype)
        found += [finite("fixed_radius", radius, params), not_negative("fixed_radius", radius)]
    if solids.planes is not None:
        normals = solids.inclined(t, params, dtype)[0]
        lengths = jnp.sqrt(jnp.sum(normals**2, axis=1))
        # Unit vectors that were read from a file have some six digits.
        found.append(must(jnp.all(jnp.abs(lengths - 1) <= 1e-5), Status.BAD_INPUT, _no_units, lengths))
    if solids.dimension == 3:
        lengths = jnp.sqrt(jnp.sum(poses.of_bodies(q0, 3)[:, 3:] ** 2, axis=1))
        found.append(must(jnp.all(jnp.abs(lengths - 1) <= 1e-5), Status.BAD_INPUT, _no_rotation, lengths))
    if solids.materials is not None:
        for name in _coefficients(system, params):
            table = jnp.asarray(params[name])
            found.append(must(jnp.all(table == table.T), Status.BAD_INPUT, partial(_no_table, name), table))
    return [*found, *_inertia(solids.inertia(params, dtype), params)]


def _inertia(inertia, params):
    """Moments of inertia are positive, and none is above the sum of the others: mass is not negative anywhere."""
    found = [finite("inertia", inertia, params, of="mass")]
    if inertia.ndim == 1:
        return [*found, must(jnp.all(inertia > 0), Status.BAD_MASS, _not_positive, inertia, of="mass")]
    moments = inertia
    if inertia.ndim == 3:
        size = jnp.max(jnp.abs(inertia), axis=(1, 2))
        skew = jnp.max(jnp.abs(inertia - inertia.swapaxes(1, 2)), axis=(1, 2))
        straight = skew <= 1e-6 * size
        found.append(must(jnp.all(straight), Status.BAD_MASS, _not_symmetric, inertia, straight, of="mass"))
        clean = jnp.where(jnp.isfinite(inertia), inertia, 0)
        moments = jnp.linalg.eigvalsh((clean + clean.swapaxes(1, 2)) / 2)
    positive = jnp.all(moments > 0, axis=1)
    # A thin plate has one moment that is the sum of the others; measured ones have some five digits.
    possible = 2 * jnp.max(moments, axis=1) <= (1 + 1e-5) * jnp.sum(moments, axis=1)
    return [
        *found,
        must(jnp.all(positive), Status.BAD_MASS, _not_definite, moments, positive, of="mass"),
        must(jnp.all(possible), Status.BAD_MASS, _impossible, moments, possible, of="mass"),
    ]


def _coefficients(system: Bodies, params) -> list[str]:
    optional = ["tangential_restitution"] if "tangential_restitution" in params else []
    optional += ["tangential_compliance"] if system.tangential_compliance is not None else []
    of_law = [one.name for one in laws.LAWS[system.law].coefficients if not one.choice]
    return ["restitution", *of_law, "friction", *laws.besides_friction(system.friction_law), *optional]


def _unsound(number, kind, expected):
    return f"bodies(shapes=...): shapes[{number}]: expected a {kind} with {expected}"


def _no_units(lengths):
    return f"bodies(planes=...): expected unit normals, got lengths {lengths} at the first time"


def _no_rotation(lengths):
    body = int(np.argmax(np.abs(lengths - 1)))
    return f"q0: expected unit quaternions, but that of body {body} has length {lengths[body]:.6g}"


def _no_table(name, table):
    return f"{name}: expected a symmetric table of materials, got {table.tolist()}"


def _not_positive(inertia):
    body = int(np.argmax(~(inertia > 0)))
    return f"inertia: expected positive, but that of body {body} is {inertia[body]:.6g}"


def _not_symmetric(inertia, straight):
    body = int(np.argmin(straight))
    return f"inertia: expected symmetric matrices, but that of body {body} is {inertia[body].tolist()}"


def _not_definite(moments, positive):
    body = int(np.argmin(positive))
    return f"inertia: expected positive moments, but the principal ones of body {body} are {moments[body].tolist()}"


def _impossible(moments, possible):
    body = int(np.argmin(possible))
    return (
        f"inertia: expected no moment above the sum of the two others, but the principal ones of body {body} are "
        f"{moments[body].tolist()}; no distribution of mass has these"
    )
