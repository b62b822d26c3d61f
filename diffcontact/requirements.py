"""What must hold of the values a simulation starts from: one list, for errors outside transformations and for statuses
inside them.

Each kind of system registers its own. They are evaluated by JAX and serve where values are traced, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial, singledispatch
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.core import Tracer

from diffcontact.status import Status, first
from diffcontact.system import ParticleLine, System
from diffcontact.systems.cell_list_balls import Crowd
from diffcontact.systems.surfaces import Balls


@partial(jax.tree_util.register_dataclass, data_fields=["holds", "values"], meta_fields=["status", "line", "of"])
@dataclass(frozen=True)
class Requirement:
    """Something that must hold of the input.

    Attributes:
        holds: () whether it does.
        values: what `line` tells of.
        status: what the trajectory says where it does not hold, inside transformations.
        line: the error's line, outside them, as a function of `values`; None where a status is enough.
        of: the function of the system whose result is wrong, by name, or None.
    """

    holds: Array
    values: tuple[Array, ...]
    status: Status
    line: Callable[..., str] | None
    of: str | None = None


def all_requirements(system, params, q0: Array, u0: Array, times: Array) -> list[Requirement]:
    """What must hold of the input of a simulation; without derivatives."""
    params, q0, u0, times = lax.stop_gradient((params, q0, u0, times))
    return [*arguments(params, q0, u0, times), *requirements(system, params, times[0], q0, u0)]


def initial_status(found: list[Requirement]) -> Array:
    """() the `Status` of the first requirement that does not hold."""
    status = jnp.zeros((), int)
    for one in found:
        status = first(status, jnp.where(one.holds, Status.OK, one.status).astype(int))
    return status


def require_values(system, params, q0: Array, u0: Array, times: Array) -> None:
    """Refuse the first requirement that does not hold.

    Raises:
        ValueError: its line.
    """
    for one in _all_requirements(system, params, q0, u0, times):
        # Functions may close over traced values.
        if one.line and not isinstance(one.holds, Tracer) and not one.holds:
            raise ValueError(one.line(*map(np.asarray, one.values)))


def arguments(params, q0: Array, u0: Array, times: Array) -> list[Requirement]:
    """What must hold of the arguments of any simulation."""

    def late(times):
        row = int(np.argmax(np.diff(times) <= 0)) + 1
        return f"times: expected increasing, but times[{row}] = {times[row]} follows {times[row - 1]}"

    names, (_, unknown) = _leaves(params)
    return [
        _finite("q0", q0),
        _finite("u0", u0),
        replace(_finite("times", times), status=Status.BAD_TIMES),
        _must(jnp.all(jnp.diff(times) > 0), Status.BAD_TIMES, late, times),
        # A parameter may be infinite, like the open side of a box.
        _must(
            ~jnp.any(unknown),
            Status.NOT_FINITE,
            lambda which: f"{_first(names, which)}: expected finite numbers, got nan",
            unknown,
        ),
    ]


@singledispatch
def requirements(system, params, t, q0: Array, u0: Array) -> list[Requirement]:
    """What must hold of parameters and of the state at the first time, in the order in which it is reported.

    Args:
        system: a `System` or a `ParticleLine` whose functions have the right shapes.
        params: as in `simulate`.
        t: the first time [s].
        q0, u0: (d,) arrays.

    Raises:
        ValueError: for systems of another kind.

    Example:
        >>> import diffcontact as dc
        >>> params = dict(mass=jnp.ones(1), radius=-jnp.ones(1), gravity=jnp.zeros(1), restitution=1.0)
        >>> found = requirements(dc.systems.balls(1, 1), params, 0.0, jnp.zeros(1), jnp.zeros(1))
        >>> [(one.status.name, one.line(*one.values)) for one in found if not one.holds]
        [('BAD_INPUT', 'radius: expected at least 0, got [-1.]')]
    """
    raise ValueError(f"system: expected a System or a ParticleLine, got {type(system).__name__}")


@requirements.register
def _(system: System, params, t, q0, u0):
    # A gradient that is not finite shows along any direction.
    direction = jnp.cos(jnp.arange(q0.size, dtype=q0.dtype))
    gap, rate = jax.jvp(lambda q: system.gap(t, q, params), (q0,), (direction,))
    return [
        *_impact_law(jnp.asarray(system.restitution(params)), system.mass(q0, params), params),
        _finite("System.force", system.force(t, q0, u0, params), params, of="force"),
        _must(
            jnp.all(gap > -jnp.inf),
            Status.NOT_FINITE,
            lambda gap: f"System.gap: expected numbers, got {gap}",
            gap,
            of="gap",
        ),
        _apart(gap, q0, lambda row, gap: f"gap[{row}] = {gap:.6g} at the first time"),
        _must(jnp.all(jnp.isfinite(rate)), Status.NO_DERIVATIVE, None),
    ]


@requirements.register
def _(system: Balls, params, t, q0, u0):
    contacts = requirements.dispatch(System)(system, params, t, q0, u0)
    return [*_surfaces(system.surfaces, params, t, q0.dtype), *contacts]


@requirements.register
def _(system: Crowd, params, t, q0, u0):
    surfaces, cell = system.surfaces, system.cell
    widest = 2 * jnp.max(surfaces.radii(t, params, q0.dtype))
    near = system.near(params, t, q0, jnp.zeros((), q0.dtype))

    def too_wide(widest):
        return f"balls(cell={cell!r}): expected at least the largest diameter, {widest}"

    def overlap(row, gap, first, partner):
        return f"ball {first[row]} overlaps {surfaces.name(int(partner[row]))} by {-gap:.6g}"

    return [
        *_surfaces(surfaces, params, t, q0.dtype),
        *_impact_law(jnp.asarray(params["restitution"]), system.mass(q0, params), params),
        _finite("System.force", system.force(t, q0, u0, params), params, of="force"),
        _must(widest <= cell, Status.BAD_INPUT, too_wide, widest),
        _apart(system.gaps(near, params, t, q0), q0, overlap, near.first, near.partner),
    ]


@requirements.register
def _(system: ParticleLine, params, t, q0, u0):
    values = {
        "mass": system.mass(params),
        "damping": system.damping(params),
        "stiffness": system.stiffness(params),
        "load": system.load(t, params),
        "friction": system.friction(params),
        "normal": system.normal(t, params),
        "percussions": system.percussions(params),
    }
    values = {name: jnp.asarray(value, q0.dtype) for name, value in values.items()}
    found = [_finite(name, value, params, of=name) for name, value in values.items()]
    found.append(_positive("mass", values["mass"]))
    found += [_not_negative(name, values[name]) for name in ("friction", "normal", "percussions")]
    for name in ("damping", "stiffness"):
        # Semidefinite is enough: a particle may have no spring (S4 asks for definite matrices to have a rate).
        found += _matrix(name, values[name], Status.BAD_INPUT, "positive semidefinite", 4 * _rounding(values[name]))
    return found


def _impact_law(e, mass, params):
    inside = jnp.all((e >= 0) & (e <= 1))
    return [
        _must(
            inside,
            Status.BAD_RESTITUTION,
            lambda e: f"restitution: expected within [0, 1], got {e}",
            e,
            of="restitution",
        ),
        _finite("mass", mass, params, of="mass"),
        *([_positive("mass", mass)] if mass.ndim == 1 else _matrix("mass", mass, Status.BAD_MASS, "positive definite")),
    ]


def _surfaces(surfaces, params, t, dtype):
    radius = surfaces.radii(t, params, dtype)
    found = [_finite("radius", radius, params), _not_negative("radius", radius)]
    if callable(surfaces.box):
        low, high = surfaces.sides(t, params, dtype)
        found.append(_must(jnp.all(low < high), Status.BAD_INPUT, _no_room, low, high))
    if surfaces.planes is not None:
        lengths = jnp.sqrt(jnp.sum(surfaces.inclined(t, params, dtype)[0] ** 2, axis=1))
        # Unit vectors that were read from a file have some six digits.
        found.append(_must(jnp.all(jnp.abs(lengths - 1) <= 1e-5), Status.BAD_INPUT, _no_units, lengths))
    if surfaces.materials is not None:
        table = jnp.asarray(params["restitution"])
        found.append(_must(jnp.all(table == table.T), Status.BAD_INPUT, _no_table, table))
    return found


def _no_room(low, high):
    return f"balls(box=...): expected low < high, got {low} and {high} at the first time"


def _no_units(lengths):
    return f"balls(planes=...): expected unit normals, got lengths {lengths} at the first time"


def _no_table(table):
    return f"restitution: expected a symmetric table of materials, got {table.tolist()}"


def _apart(gap, q0, where, *more):
    """No gap is negative; what rounding of the positions makes of a gap that is meant to be zero does not count."""
    if not gap.size:
        return _must(jnp.array(True), Status.OVERLAP, None)
    tolerance = jnp.finfo(q0.dtype).eps ** 0.75 * (1 + jnp.max(jnp.abs(q0)))
    row = jnp.argmin(gap)

    def line(row, gap, *more):
        return f"q0: expected no overlap, but {where(row, gap, *more)}"

    return _must(gap[row] >= -tolerance, Status.OVERLAP, line, row, gap[row], *more)


def _finite(name, value, params=(), of=None):
    names, (infinite, _) = _leaves(params)

    def line(value, infinite):
        cause = f"; {_first(names, infinite)} is infinite" if infinite.any() else ""
        return f"{name}: expected finite numbers, got {value}{cause}"

    return _must(jnp.all(jnp.isfinite(value)), Status.NOT_FINITE, line, value, infinite, of=of)


def _positive(name, value):
    return _must(
        jnp.all(value > 0), Status.BAD_MASS, lambda value: f"{name}: expected positive, got {value}", value, of=name
    )


def _not_negative(name, value):
    return _must(
        jnp.all(value >= 0), Status.BAD_INPUT, lambda value: f"{name}: expected at least 0, got {value}", value
    )


def _matrix(name, matrix, status, kind, shift: Any = 0.0):
    """It is symmetric, and with `shift` on the diagonal it has a Cholesky factor."""

    def line(kind, matrix):
        return f"{name}: expected a {kind} matrix, got {matrix.tolist()}"

    shift = jnp.maximum(shift, jnp.finfo(matrix.dtype).tiny)
    factor = lax.linalg.cholesky((matrix + matrix.T) / 2 + shift * jnp.eye(len(matrix), dtype=matrix.dtype))
    symmetric = jnp.max(jnp.abs(matrix - matrix.T)) <= _rounding(matrix)
    return [
        _must(symmetric, status, partial(line, "symmetric"), matrix, of=name),
        _must(jnp.all(jnp.isfinite(factor)), status, partial(line, kind), matrix, of=name),
    ]


def _rounding(matrix):
    return jnp.finfo(matrix.dtype).eps * len(matrix) * jnp.max(jnp.abs(matrix))


def _leaves(params):
    """Names of the real arrays in params, and (k,) bool, which of them hold an infinity, and which NaN."""
    paths = jax.tree_util.tree_leaves_with_path(params)
    real = [(path, leaf) for path, leaf in paths if jnp.issubdtype(jnp.result_type(leaf), jnp.floating)]
    names = tuple("params" + jax.tree_util.keystr(path) for path, _ in real)
    return names, [jnp.array([jnp.any(has(leaf)) for _, leaf in real], bool) for has in (jnp.isinf, jnp.isnan)]


def _first(names, which):
    return names[int(np.argmax(which))]


def _must(holds, status, line, *values, of=None):
    return Requirement(holds, values, status, line, of)


_all_requirements = jax.jit(all_requirements, static_argnums=0)
