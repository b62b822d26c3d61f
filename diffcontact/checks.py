"""What is refused before a simulation starts: shapes that do not fit, values that make no sense.

One rule set per kind of system; a new kind registers its own. Shapes are known everywhere, values only outside
transformations: what cannot be seen there comes back as the trajectory's status.
"""

from __future__ import annotations

from functools import partial, singledispatch

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

from diffcontact.qp import bodies
from diffcontact.status import Status
from diffcontact.system import ParticleLine, System
from diffcontact.systems.crowd import Crowd
from diffcontact.systems.surfaces import Balls


def check(system, params, q0: Array, u0: Array, times: Array, scheme) -> None:
    """Refuse inputs that cannot be simulated.

    Args:
        system: a `System` or a `ParticleLine`.
        params, q0, u0, times: as in `simulate`, arrays already.
        scheme: the step map; one whose `inelastic` is true is refused a restitution above 0.

    Raises:
        ValueError: one line that names the argument, what was expected and what was given.

    Example:
        >>> import jax.numpy as jnp, diffcontact as dc
        >>> check(dc.systems.balls(1, 1), {}, jnp.zeros(1), jnp.zeros(2), jnp.arange(2.0), dc.EventTimed())
        Traceback (most recent call last):
        ...
        ValueError: u0: expected the shape of q0, (1,), got (2,)
    """
    if q0.ndim != 1 or q0.size == 0:
        raise ValueError(f"q0: expected shape (d,) with d >= 1, got {q0.shape}")
    if u0.shape != q0.shape:
        raise ValueError(f"u0: expected the shape of q0, {q0.shape}, got {u0.shape}")
    if times.ndim != 1 or times.size < 2:
        raise ValueError(f"times: expected shape (n + 1,) with n >= 1, got {times.shape}")
    check_shapes(system, params, times[0], q0, u0)
    if any(isinstance(leaf, Tracer) for leaf in (q0, u0, times, *jax.tree.leaves(params))):
        return
    for name, value in (("q0", q0), ("u0", u0), ("times", times)):
        if not np.all(np.isfinite(value)):
            raise ValueError(f"{name}: expected finite numbers, got {np.asarray(value)}")
    steps = np.diff(np.asarray(times))
    if np.any(steps <= 0):
        row = int(np.argmax(steps <= 0)) + 1
        raise ValueError(f"times: expected increasing, but times[{row}] = {times[row]} follows {times[row - 1]}")
    check_values(system, params, times[0], q0, scheme)


@singledispatch
def check_shapes(system, params, t, q0: Array, u0: Array) -> None:
    """Refuse functions of the system whose results have the wrong shape."""
    raise ValueError(f"system: expected a System or a ParticleLine, got {type(system).__name__}")


@singledispatch
def check_values(system, params, t, q0: Array, scheme) -> None:
    """Refuse parameters and positions that the system's own functions show to be wrong."""
    raise ValueError(f"system: expected a System or a ParticleLine, got {type(system).__name__}")


@singledispatch
def initial_status(system, params, t, q0: Array) -> Array:
    """() what can be said of the initial position inside transformations, as a `Status`."""
    raise ValueError(f"system: expected a System or a ParticleLine, got {type(system).__name__}")


def _expect(kind, shapes):
    """Raise for the first (name, shape, allowed shapes) whose shape is not allowed."""
    for name, shape, allowed in shapes:
        if shape not in allowed:
            expected = " or ".join(str(one) for one in allowed)
            raise ValueError(f"{kind}.{name}: expected an array of shape {expected}, got {shape}")


def _shape(function, *args):
    return jax.eval_shape(lambda: jnp.asarray(function(*args))).shape


@check_shapes.register
def _(system: System, params, t, q0, u0):
    gap, d = _shape(system.gap, t, q0, params), q0.size
    if len(gap) != 1:
        raise ValueError(f"System.gap: expected an array of shape (c,), got {gap}")
    shapes = (
        ("force", _shape(system.force, t, q0, u0, params), ((d,),)),
        ("mass", _shape(system.mass, q0, params), ((d,), (d, d))),
        ("restitution", _shape(system.restitution, params), ((), gap)),
    )
    _expect("System", shapes)
    normals = system.normals
    if normals is not None:
        rows = jax.eval_shape(lambda: normals(t, q0, params))
        _expect("System", (("normals", rows.shape, ((*gap, d),)),))


@check_shapes.register
def _(system: ParticleLine, params, t, q0, u0):
    count = q0.size
    vector, matrix = ((count,),), ((count, count),)
    shapes = (
        ("mass", _shape(system.mass, params), vector),
        ("damping", _shape(system.damping, params), matrix),
        ("stiffness", _shape(system.stiffness, params), matrix),
        ("load", _shape(system.load, t, params), vector),
        ("friction", _shape(system.friction, params), ((),)),
        ("normal", _shape(system.normal, t, params), vector),
        ("percussions", _shape(system.percussions, params), ((len(system.percussion_times),),)),
    )
    _expect("ParticleLine", shapes)
    if system.belt is not None:
        _expect("ParticleLine", (("belt", _shape(system.belt, t, params), ((),)),))


@check_shapes.register
def _(system: Crowd, params, t, q0, u0):
    d = system.count * system.dimension
    if q0.size != d:
        raise ValueError(f"q0: expected shape ({d},), {system.count} balls of {system.dimension}, got {q0.shape}")
    shapes = (
        ("mass", np.shape(params["mass"]), ((system.count,),)),
        ("gravity", np.shape(params["gravity"]), ((system.dimension,),)),
    )
    _expect("balls(cell=...)", shapes)
    if system.surfaces.materials is None:
        _expect("balls(cell=...)", (("restitution", np.shape(params["restitution"]), ((),)),))
    # The surfaces refuse by themselves what does not fit them.
    surfaces = system.surfaces
    jax.eval_shape(lambda q: (surfaces.centres(q, params), surfaces.wall_gaps(t, q, params)), q0)
    jax.eval_shape(lambda: jnp.asarray(surfaces.restitution_between(params, 0, 0)))


@check_values.register
def _(system: System, params, t, q0, scheme):
    gap, mass, restitution = (np.asarray(value) for value in _contact_values(system, params, t, q0))
    _check_impact_law(mass, restitution, scheme)
    worst = int(np.argmin(gap)) if gap.size else 0
    if gap.size and not gap[worst] >= -_overlap_tolerance(q0):
        raise ValueError(f"q0: expected no overlap, but gap[{worst}] = {gap[worst]:.6g} at the first time")
    if system.normals is not None:
        moved, expected = (np.asarray(value) for value in _gap_rates(system, params, t, q0))
        wrong = np.abs(moved - expected) > 1e3 * np.finfo(moved.dtype).eps * (q0.size + np.abs(expected))
        if np.any(wrong):
            row = int(np.argmax(wrong))
            raise ValueError(f"System.normals: expected the gradients of gap, but row {row} is not that of gap[{row}]")


@check_values.register
def _(system: Balls, params, t, q0, scheme):
    _check_surfaces(system.surfaces, params, t, q0.dtype)
    check_values.dispatch(System)(system, params, t, q0, scheme)


@check_values.register
def _(system: Crowd, params, t, q0, scheme):
    surfaces = system.surfaces
    _check_surfaces(surfaces, params, t, q0.dtype)
    _check_impact_law(np.asarray(params["mass"]), np.asarray(params["restitution"]), scheme)
    widest = 2 * float(np.max(surfaces.radii(t, params, q0.dtype)))
    if widest > system.cell:
        raise ValueError(f"balls(cell={system.cell!r}): expected at least the largest diameter, {widest}")
    near, gap = _closest(system, params, t, q0)
    worst = int(np.argmin(gap)) if gap.size else 0
    if gap.size and not gap[worst] >= -_overlap_tolerance(q0):
        ball, other = int(near.first[worst]), surfaces.name(int(near.partner[worst]))
        raise ValueError(f"q0: expected no overlap, but ball {ball} overlaps {other} by {-gap[worst]:.6g}")


def _check_surfaces(surfaces, params, t, dtype):
    radius = np.asarray(surfaces.radii(t, params, dtype))
    if not np.all(radius >= 0):
        raise ValueError(f"radius: expected at least 0, got {radius}")
    if callable(surfaces.box):
        low, high = (np.asarray(side) for side in surfaces.sides(t, params, dtype))
        if not np.all(low < high):
            raise ValueError(f"balls(box=...): expected low < high, got {low} and {high} at the first time")
    if surfaces.planes is not None:
        lengths = np.linalg.norm(surfaces.inclined(t, params, dtype)[0], axis=1)
        # Unit vectors that were read from a file have some six digits.
        if not np.all(np.abs(lengths - 1) <= 1e-5):
            raise ValueError(f"balls(planes=...): expected unit normals, got lengths {lengths} at the first time")
    if surfaces.materials is not None:
        table = np.asarray(params["restitution"])
        if not np.array_equal(table, table.T):
            raise ValueError(f"restitution: expected a symmetric table of materials, got {table.tolist()}")


def _check_impact_law(mass, restitution, scheme):
    if not np.all((restitution >= 0) & (restitution <= 1)):
        raise ValueError(f"restitution: expected within [0, 1], got {restitution}")
    if getattr(scheme, "inelastic", False) and np.any(restitution > 0):
        raise ValueError(
            f"restitution: {type(scheme).__name__} is for restitution 0, got {restitution}; "
            "for bounces take EventTimed, or ElasticProjection with one coefficient for all contacts"
        )
    diagonal = mass if mass.ndim == 1 else np.linalg.eigvalsh((mass + mass.T) / 2)
    if not np.all(diagonal > 0):
        raise ValueError(f"mass: expected positive (definite), got {mass}")


@check_values.register
def _(system: ParticleLine, params, t, q0, scheme):
    values = {name: np.asarray(value) for name, value in _line_values(system, params, t).items()}
    for name, value in values.items():
        if not np.all(np.isfinite(value)):
            raise ValueError(f"{name}: expected finite numbers, got {value}")
    if not np.all(values["mass"] > 0):
        raise ValueError(f"mass: expected positive, got {values['mass']}")
    for name in ("friction", "normal", "percussions"):
        if not np.all(values[name] >= 0):
            raise ValueError(f"{name}: expected at least 0, got {values[name]}")
    for name in ("damping", "stiffness"):
        matrix = values[name]
        rounding = np.finfo(matrix.dtype).eps * matrix.shape[0] * np.max(np.abs(matrix))
        if not np.max(np.abs(matrix - matrix.T)) <= rounding:
            raise ValueError(f"{name}: expected a symmetric matrix, got {matrix.tolist()}")
        # Semidefinite is enough: a particle may have no spring (S4 asks for definite matrices to have a rate).
        if not np.min(np.linalg.eigvalsh(matrix)) >= -4 * rounding:
            raise ValueError(f"{name}: expected a positive semidefinite matrix, got {matrix.tolist()}")


@initial_status.register
def _(system: System, params, t, q0):
    overlap = jnp.any(system.gap(t, q0, params) < -_overlap_tolerance(q0))
    return jnp.where(overlap, Status.OVERLAP, Status.OK).astype(int)


@initial_status.register
def _(system: Crowd, params, t, q0):
    _, gap = _closest(system, params, t, q0)
    return jnp.where(jnp.any(gap < -_overlap_tolerance(q0)), Status.OVERLAP, Status.OK).astype(int)


@initial_status.register
def _(system: ParticleLine, params, t, q0):
    # Particles on their line do not meet: every position is admissible.
    return jnp.zeros((), int)


def _overlap_tolerance(q0):
    """What rounding of the positions can make of a gap that is meant to be zero."""
    return jnp.finfo(q0.dtype).eps ** 0.75 * (1 + jnp.max(jnp.abs(q0), initial=0.0))


@partial(jax.jit, static_argnames="system")
def _closest(system, params, t, q0):
    """The near contacts of a crowd and their gaps."""
    near = system.near(params, t, q0, jnp.zeros((), q0.dtype))
    return near, system.gaps(near, params, t, q0)


@partial(jax.jit, static_argnames="system")
def _contact_values(system, params, t, q0):
    return system.gap(t, q0, params), system.mass(q0, params), jnp.asarray(system.restitution(params))


@partial(jax.jit, static_argnames="system")
def _gap_rates(system, params, t, q0):
    """How fast the gaps change along some direction, by the system's normals and by its gap function."""
    direction = jnp.cos(jnp.arange(q0.size, dtype=q0.dtype))
    rate = jax.jvp(lambda q: system.gap(t, q, params), (q0,), (direction,))[1]
    return bodies.times(system.normals(t, q0, params), direction), rate


@partial(jax.jit, static_argnames="system")
def _line_values(system, params, t):
    return {
        "mass": system.mass(params),
        "damping": system.damping(params),
        "stiffness": system.stiffness(params),
        "load": system.load(t, params),
        "friction": jnp.asarray(system.friction(params)),
        "normal": system.normal(t, params),
        "percussions": system.percussions(params),
    }
