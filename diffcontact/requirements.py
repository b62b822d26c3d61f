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

from diffcontact.friction import stated_friction, tangential_restitutions
from diffcontact.numerics.compilation import jit_fast_compile
from diffcontact.particle_line import ParticleLine
from diffcontact.status import Status, first
from diffcontact.system import System, normalised


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


def require_values(system, params, q0: Array, u0: Array, times: Array) -> bool:
    """Refuse the first requirement that does not hold; whether all are known to hold.

    Raises:
        ValueError: its line.
    """
    found = _all_requirements(system, params, q0, u0, times)
    # Functions may close over traced values.
    known = [one for one in found if not isinstance(one.holds, Tracer)]
    for one in known:
        if one.line and not one.holds:
            raise ValueError(one.line(*map(np.asarray, one.values)))
    return len(known) == len(found) and all(one.holds for one in known)


def arguments(params, q0: Array, u0: Array, times: Array) -> list[Requirement]:
    """What must hold of the arguments of any simulation."""

    def late(times):
        row = int(np.argmax(np.diff(times) <= 0)) + 1
        return f"times: expected increasing, but times[{row}] = {times[row]} follows {times[row - 1]}"

    names, (_, unknown) = _leaves(params)
    return [
        finite("q0", q0),
        finite("u0", u0),
        replace(finite("times", times), status=Status.BAD_TIMES),
        must(jnp.all(jnp.diff(times) > 0), Status.BAD_TIMES, late, times),
        # A parameter may be infinite, like the open side of a box.
        must(
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
        >>> params = dict(mass=np.ones(1), radius=-np.ones(1), gravity=np.zeros(1), restitution=1.0)
        >>> found = jax.jit(partial(requirements, dc.systems.balls(1, 1)))(params, 0.0, np.zeros(1), np.zeros(1))
        >>> [(one.status.name, one.line(*one.values)) for one in found if not one.holds]
        [('BAD_INPUT', 'radius: expected at least 0, got [-1.]')]
    """
    raise ValueError(f"system: expected a System or a ParticleLine, got {type(system).__name__}")


@requirements.register
def of_system(system: System, params, t, q0, u0):
    """What must hold of any `System`."""
    gap, pushforward = jax.linearize(lambda q: system.gap(t, q, params), q0)
    # A gradient that is not finite shows along any direction, and |grad gap| |q| along q turned by phases.
    phases = jnp.arange(q0.size, dtype=q0.dtype)
    speed = pushforward(jnp.cos(phases))
    reach = jnp.abs(pushforward(q0 * jnp.cos(phases))) + jnp.abs(pushforward(q0 * jnp.sin(phases)))
    return [
        *impact_law(system, params, q0),
        finite("System.force", system.force(t, q0, u0, params), params, of="force"),
        must(
            jnp.all(gap > -jnp.inf),
            Status.NOT_FINITE,
            lambda gap: f"System.gap: expected numbers, got {gap}",
            gap,
            of="gap",
        ),
        no_overlap(gap, reach, lambda row, gap: f"gap[{row}] = {gap:.6g} at the first time"),
        must(jnp.all(jnp.isfinite(speed)), Status.NO_DERIVATIVE, None),
        *(_slip(system, params, t, q0, u0) if system.rubs else []),
        *([] if system.joint_slip is None else _joints(system, params, t, q0, u0)),
        *([] if system.rate is None else [finite("System.rate", system.rate(q0, u0, params), params, of="rate")]),
        *([] if system.adhesion is None else _glue(system, params)),
        *([] if system.normalise is None else [_configuration(system, params, q0)]),
    ]


def _configuration(system: System, params, q0) -> Requirement:
    """The configuration that q0 stands for is one: it stands for itself."""
    found = normalised(system, params, q0)
    off = normalised(system, params, found) - found
    size = 1 + jnp.max(jnp.abs(found), initial=0.0)
    return must(
        jnp.max(jnp.abs(off), initial=0.0) <= jnp.finfo(q0.dtype).eps ** 0.5 * size,
        Status.BAD_INPUT,
        lambda off: f"q0: expected one that System.normalise makes final, but it moves it on by {_largest(off):.6g}",
        off,
        of="normalise",
    )


def _slip(system: System, params, t, q0, u0) -> list[Requirement]:
    """The slip is finite and affine in u, and the friction is one; likewise rolling and its resistance."""
    count = system.gap(t, q0, params).size
    mu = stated_friction(system, params, count, q0.dtype)
    e_t = tangential_restitutions(system, params, count, q0.dtype)
    found = [
        *_affine("slip", system.slip, params, t, q0, u0),
        *friction_law(mu, e_t, params),
        *([_no_turning(system, e_t)] if system.flows else []),
    ]
    if system.tangential_compliance is not None:
        compliance = jnp.asarray(system.tangential_compliance(params))
        found.append(finite("tangential_compliance", compliance, params, of="tangential_compliance"))
        found.append(not_negative("tangential_compliance", compliance))
    if system.rolling is None or system.resistance is None:
        return found
    resistance = jnp.asarray(system.resistance(params))
    rolling = _affine("rolling", system.rolling, params, t, q0, u0)
    return [*found, *rolling, finite("resistance", resistance, params), not_negative("resistance", resistance)]


def _joints(system: System, params, t, q0, u0) -> list[Requirement]:
    """The slips of joints are finite and affine in u, and their friction is none that drives."""
    assert system.joint_friction is not None
    bound = jnp.asarray(system.joint_friction(t, params))
    return [
        *_affine("joint_slip", system.joint_slip, params, t, q0, u0),
        finite("joint_friction", bound, params, of="joint_friction"),
        not_negative("joint_friction", bound),
    ]


def _glue(system: System, params) -> list[Requirement]:
    """What holds back does not bounce."""

    def bounces(e):
        return f"restitution: expected 0 of contacts with an adhesion, got {e}"

    assert system.adhesion is not None
    e = jnp.asarray(system.restitution(params))
    return [
        not_negative("adhesion", jnp.asarray(system.adhesion(params))),
        must(jnp.all(e == 0), Status.BAD_RESTITUTION, bounces, e, of="restitution"),
    ]


def _affine(name, slip, params, t, q0, u0) -> list[Requirement]:
    """The velocities `slip`, the system's function by this name, are finite and affine in u."""

    def bent(curved):
        is_not = f"{name}(u) + {name}(-u) - 2 {name}(0) is {_largest(curved):.6g} at u0"
        return f"System.{name}: expected affine in u, but {is_not}"

    at = u0 + jnp.cos(jnp.arange(u0.size, dtype=u0.dtype))
    there, still, back = (slip(t, q0, u, params) for u in (at, jnp.zeros_like(at), -at))
    size = sum(jnp.max(jnp.abs(slip), initial=0.0) for slip in (there, back, still))
    curved = there + back - 2 * still
    affine = jnp.max(jnp.abs(curved), initial=0.0) <= jnp.finfo(q0.dtype).eps ** 0.75 * size
    return [
        finite(f"System.{name}", there, params, of=name),
        must(affine, Status.BAD_INPUT, bent, curved, of=name),
    ]


def _no_turning(system: System, e_t):
    """Laws of a flow over the normal impulse have no tangential restitution."""
    law = system.impact_law
    return must(
        jnp.all(e_t == 0),
        Status.BAD_RESTITUTION,
        lambda e_t: f"tangential_restitution: expected 0 with impact_law={law!r}, which has none, got {e_t}",
        e_t,
        of="tangential_restitution",
    )


def friction_law(mu, e_t, params) -> list[Requirement]:
    """No friction is negative, and no impact turns a slip round to a faster one."""
    mu, e_t = jnp.asarray(mu), jnp.asarray(e_t)
    return [
        finite("friction", mu, params, of="friction"),
        not_negative("friction", mu),
        must(
            jnp.all(jnp.abs(e_t) <= 1),
            Status.BAD_RESTITUTION,
            lambda e_t: f"tangential_restitution: expected within [-1, 1], got {e_t}",
            e_t,
            of="tangential_restitution",
        ),
    ]


def _largest(x):
    return float(np.max(np.abs(x)))


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
    found = [finite(name, value, params, of=name) for name, value in values.items()]
    found.append(_positive("mass", values["mass"]))
    found += [not_negative(name, values[name]) for name in ("friction", "normal", "percussions")]
    for name in ("damping", "stiffness"):
        # Semidefinite is enough: a particle may have no spring (S4 asks for definite matrices to have a rate).
        found += _matrix(name, values[name], Status.BAD_INPUT, "positive semidefinite", 4 * _rounding(values[name]))
    return found


def impact_law(system: System, params, q0: Array) -> list[Requirement]:
    """Coefficients of restitution are within [0, 1], and the mass is positive definite.

    Of a law of the speed only its value at 0 is looked at here; each impact looks at that of its own speed.
    """
    e, mass = jnp.asarray(system.coefficients(params, q0)), system.mass(q0, params)
    inside = jnp.all((e >= 0) & (e <= 1))
    what = "restitution at speed 0" if system.speed_dependent else "restitution"
    return [
        must(
            inside,
            Status.BAD_RESTITUTION,
            lambda e: f"{what}: expected within [0, 1], got {e}",
            e,
            of="restitution",
        ),
        finite("mass", mass, params, of="mass"),
        *([_positive("mass", mass)] if mass.ndim == 1 else _matrix("mass", mass, Status.BAD_MASS, "positive definite")),
    ]


def no_overlap(gap, reach, where, *more, left: Array | float = 0.0):
    """No gap is negative, but for what rounding of the positions makes of a gap that is meant to be zero.

    Args:
        gap: (c,) [m].
        reach: (c,) or () the sizes of the terms that cancel in the gaps [m]. Where all are zero nothing is known of
            them, and it is 1 m.
        left: what a solver may leave of an overlap [m]: what a run ends with the next one begins with.
    """
    if not gap.size:
        return must(jnp.array(True), Status.OVERLAP, None)
    size = jnp.max(jnp.where(jnp.isfinite(gap) & jnp.isfinite(reach), reach, 0.0))
    tolerance = left + jnp.finfo(gap.dtype).eps ** 0.75 * jnp.where(size > 0, size, 1.0)
    row = jnp.argmin(gap)

    def line(row, gap, *more):
        return f"q0: expected no overlap, but {where(row, gap, *more)}"

    return must(gap[row] >= -tolerance, Status.OVERLAP, line, row, gap[row], *more)


def finite(name, value, params=(), of=None):
    """All entries of `value` are finite; the line names the infinite parameter that may be the cause."""
    names, (infinite, _) = _leaves(params)

    def line(value, infinite):
        cause = f"; {_first(names, infinite)} is infinite" if infinite.any() else ""
        return f"{name}: expected finite numbers, got {value}{cause}"

    return must(jnp.all(jnp.isfinite(value)), Status.NOT_FINITE, line, value, infinite, of=of)


def _positive(name, value):
    return must(
        jnp.all(value > 0), Status.BAD_MASS, lambda value: f"{name}: expected positive, got {value}", value, of=name
    )


def not_negative(name, value):
    """No entry of `value` is negative."""
    return must(jnp.all(value >= 0), Status.BAD_INPUT, lambda value: f"{name}: expected at least 0, got {value}", value)


def _matrix(name, matrix, status, kind, shift: Any = 0.0):
    """A matrix is symmetric, and with `shift` on the diagonal it has a Cholesky factor."""

    def line(kind, matrix):
        return f"{name}: expected a {kind} matrix, got {matrix.tolist()}"

    shift = jnp.maximum(shift, jnp.finfo(matrix.dtype).tiny)
    factor = lax.linalg.cholesky((matrix + matrix.T) / 2 + shift * jnp.eye(len(matrix), dtype=matrix.dtype))
    symmetric = jnp.max(jnp.abs(matrix - matrix.T)) <= _rounding(matrix)
    return [
        must(symmetric, status, partial(line, "symmetric"), matrix, of=name),
        must(jnp.all(jnp.isfinite(factor)), status, partial(line, kind), matrix, of=name),
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


def must(holds, status, line, *values, of=None):
    """A `Requirement` that `holds` or not, with the values that its line tells of."""
    return Requirement(holds, values, status, line, of)


_all_requirements = jit_fast_compile(
    all_requirements, lambda system, params, q0, u0, times: q0.size**2, static=("system",)
)
