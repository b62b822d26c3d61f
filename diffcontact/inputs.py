"""What a simulation takes: which functions, shapes, names and values, and what becomes of a lane that has others.

Functions that fail, shapes that do not fit and misspelled parameters are refused at once, by one line that names the
input. What must hold of values is one list of `Requirement`s: outside transformations they are errors, inside them
statuses. A new kind of system registers its own `require_shapes` and `requirements`.

Params may hold values for others: another run of a joint fit, `initial`, `observe`. So a key that no function reads is
no error. But a key that is nearly the same as a key that is read was meant for it, and would be ignored silently.
"""

from __future__ import annotations

import difflib
import inspect
import re
import reprlib
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial, singledispatch
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.core import Tracer

from diffcontact.arguments import placed, require_real
from diffcontact.numerics.compilation import jit_fast_compile
from diffcontact.numerics.linear import nonzero
from diffcontact.qp.rows import product
from diffcontact.status import Status, first
from diffcontact.system import (
    ParticleLine,
    System,
    gap_motion,
    normalised,
    stated_friction,
    takes_two,
    tangential_restitutions,
)

# Two names with a larger share of common letters are taken for one name, misspelled; in a name of four letters two are
# swapped, or one is wrong. Shorter names than the last number are not judged.
_ALIKE, _ALIKE_IF_SHORT, _SHORT, _SHORTEST = 0.8, 0.75, 4, 3
# How names of a family differ: m1 and m2, e_floor and e_wall. None of them is misspelled.
_SUFFIXES = re.compile(r"\d*$"), re.compile(r"(_[^_]*)?$")
_JAX = "expected a function that JAX can trace, with jax.numpy in place of numpy"


def require_inputs(system, params, q0: Array, u0: Array, times: Array, scheme) -> bool:
    """Refuse inputs that cannot be simulated.

    Args:
        system: a `System` or a `ParticleLine`.
        params, q0, u0, times: as in `simulate`, arrays already.
        scheme: a `Scheme`; one that is `inelastic` is refused a restitution above 0.

    Returns:
        Whether everything that a simulation requires is known to hold; inside transformations nothing is.

    Raises:
        ValueError: one line that names the argument, what was expected and what was given.

    Example:
        >>> import jax.numpy as jnp, diffcontact as dc
        >>> require_inputs(dc.systems.balls(1, 1), {}, jnp.zeros(1), jnp.zeros(2), jnp.arange(2.0), dc.EventTimed())
        Traceback (most recent call last):
        ...
        ValueError: u0: expected the shape of q0, (1,), got (2,)
    """
    rated = getattr(system, "rate", None) is not None
    for name, x in (("q0", q0), ("u0", u0))[: 1 + rated]:
        if x.ndim != 1 or x.size == 0:
            raise ValueError(f"{name}: expected shape (d,) with d >= 1, got {x.shape}")
    if not rated and u0.shape != q0.shape:
        raise ValueError(_unlike(system, params, q0, u0))
    if times.ndim != 1 or times.size < 2:
        raise ValueError(f"times: expected shape (n + 1,) with n >= 1, got {times.shape}")
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        if not isinstance(leaf, Array | np.ndarray | np.generic | bool | int | float | complex):
            name = "params" + jax.tree_util.keystr(path)
            raise ValueError(f"{name}: expected numbers, got {reprlib.repr(leaf)}")
    began = times[0] if isinstance(times, Tracer) else placed(np.asarray(times)[0])
    traced = any(isinstance(leaf, Tracer) for leaf in (q0, u0, times, *jax.tree.leaves(params)))
    _require_functions_and_names(system, params, began, q0, u0, traced)
    scheme.require(system)
    if traced:
        return False
    system = in_precision(system, q0.dtype)
    holds = require_values(system, params, q0, u0, times)
    if isinstance(system, System):
        e = np.asarray(system.coefficients(params, q0)) if scheme.inelastic else np.zeros(())
        if np.any(e > 0):
            raise ValueError(
                f"restitution: {type(scheme).__name__} is for restitution 0, got {e}; "
                "for bounces take EventTimed, or ElasticProjection with one coefficient for all contacts"
            )
        if system.normals is not None or system.rows is not None:
            _require_rows(system, params, began, q0, u0)
    return holds


def _unlike(system, params, q0: Array, u0: Array) -> str:
    """Say which of q0 and u0 has the wrong shape: the one that the mass does not have."""
    try:
        given = (params,) if isinstance(system, ParticleLine) else (q0, params)
        mass = jax.eval_shape(lambda: jnp.asarray(system.mass(*given))).shape[-1:]
    except Exception:  # Whatever a function of the user's raises of a q0 of another shape.
        mass = ()
    if mass == u0.shape:
        return f"q0: expected the shape of u0, {u0.shape}, as the mass has it, got {q0.shape}"
    return f"u0: expected the shape of q0, {q0.shape}, got {u0.shape}"


def _require_functions_and_names(system, params, t, q0, u0, traced: bool) -> None:
    """As `require_shapes`; of a dict also keys that are misspelled."""
    if not isinstance(params, dict):
        require_shapes(system, params, t, q0, u0)
        return
    recorded = Recorded(params)
    try:
        require_shapes(system, recorded, t, q0, u0)
    except Exception:
        # What is wrong is said of the params as they were given. And functions may take no dict but Python's own.
        require_shapes(system, params, t, q0, u0)
        return
    require_names(recorded, known=not traced)


@singledispatch
def require_shapes(system, params, t, q0: Array, u0: Array) -> None:
    """Refuse functions of the system that fail, or whose results have the wrong shape."""
    raise ValueError(f"system: expected a System or a ParticleLine, got {type(system).__name__}")


@require_shapes.register
def require_functions(system: System, params, t, q0, u0, *, explains: bool = False):
    """Refuse functions of a `System` that fail or do not fit; where it `explains`, its own ValueErrors say why."""
    own, d = Functions(system, "System", params, q0, explains), u0.size
    given = {"t": t, "q": q0, "u": u0, "s": t, "theta": u0, "params": params}

    def shape(name, arguments):
        return own.shape(name, arguments, *(given[one] for one in arguments.split(", ")))

    def check(name, arguments, *allowed):
        if getattr(system, name) is not None:
            own.expect(name, shape(name, arguments), *allowed)

    gap = shape("gap", "t, q, params")
    if len(gap) != 1:
        raise ValueError(f"System.gap: expected an array of shape (c,), got {gap}")
    given["speed"] = np.zeros(gap, q0.dtype)
    check("rate", "q, u, params", q0.shape)
    check("normalise", "q, params" if system.normalise and takes_two(system.normalise) else "q", q0.shape)
    check("advance", "q, u, s, params", q0.shape)
    check("dexpinv", "theta, u, params", (d,))
    check("force", "t, q, u, params", (d,))
    check("mass", "q, params", (d,), (d, d))
    check("restitution", "params, speed" if system.speed_dependent else "params", (), gap)
    check("slip", "t, q, u, params", (*gap, 1), (*gap, 2))
    check("friction", "params, speed" if system.friction_by_speed else "params", (), gap)
    for name in ("tangential_restitution", "tangential_compliance", "adhesion"):
        check(name, "params", (), gap)
    if system.rolling is not None:
        slips, rolling = (shape(name, "t, q, u, params") for name in ("slip", "rolling"))
        if len(rolling) != 3 or rolling[::2] != slips:
            raise ValueError(f"System.rolling: expected shape ({slips[0]}, m, {slips[1]}), got {rolling}")
        check("resistance", "params", rolling[1:2], rolling[:2])
    if system.joint_slip is not None:
        joints = shape("joint_slip", "t, q, u, params")[:1]
        check("joint_slip", "t, q, u, params", (*joints, 1), (*joints, 2))
        check("joint_friction", "t, params", joints)
    across = shape("slip", "t, q, u, params")[1] if system.rubs else 0
    check("rows", "t, q, params", (*gap, 1 + across, d + 1))
    for name in ("normals", "tangents"):
        function = getattr(system, name)
        if function is not None:
            rows = jax.eval_shape(lambda function=function: function(t, q0, params))
            for one in (rows,) if name == "normals" else rows:
                own.expect(name, one.shape, (*gap, d))


@require_shapes.register
def _(system: ParticleLine, params, t, q0, u0):
    own = Functions(system, "ParticleLine", params, q0)
    vector, matrix = q0.shape, q0.shape * 2
    for name, shape in (("mass", vector), ("damping", matrix), ("stiffness", matrix), ("friction", ())):
        own.expect(name, own.shape(name, "params", params), shape)
    own.expect("percussions", own.shape("percussions", "params", params), (len(system.percussion_times),))
    optional = () if system.belt is None else (("belt", ()),)
    for name, shape in (("load", vector), ("normal", vector), *optional):
        own.expect(name, own.shape(name, "t, params", t, params), shape)


class Functions:
    """The functions of a system, called abstractly.

    Args:
        kind: how errors call the system.
        params, q0: as in `simulate`.
        explains: whether ValueErrors of the functions themselves say what is wrong.
    """

    def __init__(self, system, kind: str, params, q0: Array, explains: bool = False):
        self.system, self.kind, self.params, self.q0, self.explains = system, kind, params, q0, explains

    def shape(self, name: str, arguments: str, *given) -> tuple[int, ...]:
        """Find the shape that the function by this name returns; `arguments` says what it is given, in words."""
        function, returned = getattr(self.system, name), []

        def call(*traced):
            # As in a simulation times and states are traced; params record what they are asked for.
            state = iter(traced)
            returned.append(function(*(one if one is self.params else next(state) for one in given)))
            return jnp.asarray(returned[0])

        try:
            result = jax.eval_shape(call, *(one for one in given if one is not self.params))
        except Exception as error:
            if isinstance(error, ValueError) and self.explains and not returned:
                # Without the note on frames that JAX adds to it.
                raise ValueError(str(error)) from error
            why = self._failure(function, arguments, given, returned, error)
            raise ValueError(f"{self.kind}.{name}{why}") from error
        require_real(f"{self.kind}.{name}", result.dtype)
        return result.shape

    def expect(self, name: str, shape: tuple[int, ...], *allowed: tuple[int, ...]) -> None:
        """Raise for a shape that is not allowed."""
        if shape not in allowed:
            expected = " or ".join(str(one) for one in allowed)
            raise ValueError(
                f"{self.kind}.{name}: expected an array of shape {expected}, got {shape}; q0 has shape {self.q0.shape}"
            )

    def _failure(self, function, arguments, given, returned, error):
        if returned:
            return f": expected an array, got {type(returned[0]).__name__}"
        if why := _explained(function, arguments, given, self.params, error):
            return why
        line = str(error).partition("\n")[0]
        none = "; params is None" if self.params is None else ""
        return f"({arguments}), q of shape {self.q0.shape}: raised {type(error).__name__}: {line}{none}"


def called(name: str, arguments: str, function, params, *given):
    """Call a function; where it fails by its arguments or a name that is not there, that is said by `name`."""
    try:
        return function(*given)
    except (KeyError, TypeError, jax.errors.TracerArrayConversionError) as error:
        if why := _explained(function, arguments, given, params, error):
            raise ValueError(f"{name}{why}") from error
        raise


def _explained(function, arguments: str, given, params, error: Exception) -> str:
    """Say why a function failed that is `given` what it does not take (in words `arguments`) or has not; else ''.

    Example:
        >>> _explained(lambda p: p["m"], "params", ({"mass": 1.0},), {"mass": 1.0}, KeyError("m"))
        ": no parameter 'm' in params ('mass')"
    """
    if isinstance(error, jax.errors.TracerArrayConversionError):
        return f": {_JAX}"
    if isinstance(error, TypeError):
        try:
            signature = inspect.signature(function)
        except ValueError:
            return ""
        try:
            signature.bind(*given)
        except TypeError:
            return f": expected a function of ({arguments}), got one of {signature}"
    if isinstance(error, KeyError) and not (isinstance(params, dict) and error.args[0] in params):
        names = f" ({', '.join(map(repr, params))})" if isinstance(params, dict) else ""
        return f": no parameter {error} in params{names}"
    return ""


def _require_rows(system, params, t, q0, u0):
    for name, rates in _rates(system, params, t, q0, u0).items():
        of, (moved, expected) = _MOVED[name], map(np.asarray, rates)
        wrong = np.abs(moved - expected) > 1e3 * np.finfo(moved.dtype).eps * (q0.size + np.abs(expected))
        if np.any(wrong):
            row = int(np.argwhere(wrong)[0, 0])
            raise ValueError(f"System.{name}: expected the gradients of {of}, but row {row} is not that of {of}[{row}]")


# What the rows of a system are those of.
_MOVED = {"normals": "gap", "tangents": "slip", "rows": "gap and slip"}


@partial(jit_fast_compile, static=("system",))
def _rates(system, params, t, q0, u0):
    """How fast the gaps, and the slips, change along some direction, by the system's rows and by its functions."""
    along, still = jnp.cos(jnp.arange(u0.size, dtype=u0.dtype)), jnp.zeros_like(u0)
    gap = [gap_motion(system, params, t, q0, velocity)[1] for velocity in (along, still)]
    slip = [system.slip(t, q0, velocity, params) for velocity in (along, still)] if system.rubs else []
    found = {}
    if system.normals is not None:
        found["normals"] = (product(system.normals(t, q0, params), along), gap[0] - gap[1])
    if system.tangents is not None:
        rows = [product(rows, along) for rows in system.tangents(t, q0, params)]
        found["tangents"] = (jnp.stack(rows, axis=1), slip[0] - slip[1])
    if system.rows is not None:
        moved = jnp.concatenate([gap[0][:, None], *slip[:1]], axis=1)
        found["rows"] = (system.rows(t, q0, params) @ jnp.append(along, 1.0), moved)
    return found


@partial(jax.tree_util.register_dataclass, data_fields=["holds", "values"], meta_fields=["status", "line", "of"])
@dataclass(frozen=True)
class Requirement:
    """Something that must hold of the input.

    Attributes:
        holds: () whether it does; values: what `line` tells of.
        status: what the trajectory says where it does not hold, inside transformations.
        line: the error's line, outside them, as a function of `values`; None where a status is enough.
        of: the function of the system whose result is wrong, by name, or None.
    """

    holds: Array
    values: tuple[Array, ...]
    status: Status
    line: Callable[..., str] | None
    of: str | None = None


def must(holds, status, line, *values, of=None) -> Requirement:
    """Make a `Requirement` that `holds` or not; its line is a format of the values, or a function of them."""
    return Requirement(holds, values, status, line.format if isinstance(line, str) else line, of)


def within(name, expected: str, value, holds, status=Status.BAD_INPUT, of=None) -> Requirement:
    """Require that `holds` is true of all entries of a value; `expected` says so in words."""
    return must(jnp.all(holds), status, f"{name}: expected {expected}, got {{}}", value, of=of)


def not_negative(name, value) -> Requirement:
    """Require that no entry of `value` is negative."""
    return within(name, "at least 0", value, value >= 0)


def finite(name, value, params=(), of=None) -> Requirement:
    """Require finite entries of `value`; the line names the infinite parameter that may be the cause."""
    names, (infinite, _) = _leaves(params)

    def line(value, infinite):
        cause = f"; {names[int(np.argmax(infinite))]} is infinite" if infinite.any() else ""
        return f"{name}: expected finite numbers, got {value}{cause}"

    return must(jnp.all(jnp.isfinite(value)), Status.NOT_FINITE, line, value, infinite, of=of)


def _matrix(name, matrix, status, kind, shift: Any = 0.0) -> list[Requirement]:
    """Require a symmetric matrix that with `shift` on its diagonal has a Cholesky factor."""

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


def all_requirements(system, params, q0: Array, u0: Array, times: Array) -> list[Requirement]:
    """List what must hold of the input of a simulation; without derivatives."""
    params, q0, u0, times = lax.stop_gradient((params, q0, u0, times))

    def late(times):
        row = int(np.argmax(np.diff(times) <= 0)) + 1
        return f"times: expected increasing, but times[{row}] = {times[row]} follows {times[row - 1]}"

    def unknown(which):
        return f"{names[int(np.argmax(which))]}: expected finite numbers, got nan"

    names, (_, nan) = _leaves(params)
    return [
        finite("q0", q0),
        finite("u0", u0),
        replace(finite("times", times), status=Status.BAD_TIMES),
        must(jnp.all(jnp.diff(times) > 0), Status.BAD_TIMES, late, times),
        # A parameter may be infinite, like the open side of a box.
        must(~jnp.any(nan), Status.NOT_FINITE, unknown, nan),
        *requirements(system, params, times[0], q0, u0),
    ]


_all_requirements = jit_fast_compile(
    all_requirements, lambda system, params, q0, u0, times: q0.size**2, static=("system",)
)


def require_values(system, params, q0: Array, u0: Array, times: Array) -> bool:
    """Refuse the first requirement that does not hold; return whether all are known to hold.

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


def initial_status(found: list[Requirement]) -> Array:
    """() the `Status` of the first requirement that does not hold."""
    status = jnp.zeros((), int)
    for one in found:
        status = first(status, jnp.where(one.holds, Status.OK, one.status).astype(int))
    return status


@singledispatch
def requirements(system, params, t, q0: Array, u0: Array) -> list[Requirement]:
    """List what must hold of parameters and of the state (q0, u0) at the first time t, in the order of their reports.

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
    """List what must hold of any `System`."""
    gap, pushforward = jax.linearize(lambda q: system.gap(t, q, params), q0)
    # A gradient that is not finite shows along any direction, and |grad gap| |q| along q turned by phases.
    phases = jnp.arange(q0.size, dtype=q0.dtype)
    speed = pushforward(jnp.cos(phases))
    reach = jnp.abs(pushforward(q0 * jnp.cos(phases))) + jnp.abs(pushforward(q0 * jnp.sin(phases)))
    found = [
        *impact_law(system, params, q0),
        finite("System.force", system.force(t, q0, u0, params), params, of="force"),
        within("System.gap", "numbers", gap, gap > -jnp.inf, Status.NOT_FINITE, of="gap"),
        no_overlap(gap, reach, lambda row, gap: f"gap[{row}] = {gap:.6g} at the first time"),
        must(jnp.all(jnp.isfinite(speed)), Status.NO_DERIVATIVE, None),
    ]
    if system.rubs:
        found += _slip(system, params, t, q0, u0)
    if system.joint_friction is not None:
        bound = jnp.asarray(system.joint_friction(t, params))
        found += _affine("joint_slip", system.joint_slip, params, t, q0, u0)
        found += [finite("joint_friction", bound, params, of="joint_friction"), not_negative("joint_friction", bound)]
    if system.rate is not None:
        found.append(finite("System.rate", system.rate(q0, u0, params), params, of="rate"))
    if system.adhesion is not None:
        e, what = jnp.asarray(system.restitution(params)), "0 of contacts with an adhesion"
        found.append(not_negative("adhesion", jnp.asarray(system.adhesion(params))))
        found.append(within("restitution", what, e, e == 0, Status.BAD_RESTITUTION, of="restitution"))
    return [*found, _configuration(system, params, q0)] if system.normalise is not None else found


def _configuration(system: System, params, q0) -> Requirement:
    """Require a q0 that stands for itself."""
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
    """Require a finite slip that is affine in u, and a friction; likewise rolling and its resistance."""
    count = system.gap(t, q0, params).size
    mu = stated_friction(system, params, count, q0.dtype)
    e_t = tangential_restitutions(system, params, count, q0.dtype)
    if system.rows is None:
        slips = _affine("slip", system.slip, params, t, q0, u0)
    else:
        slips = [finite("System.rows", system.rows(t, q0, params), params, of="rows")]
    found = [*slips, *friction_law(mu, e_t, params)]
    if system.flows:
        none, of = f"0 with impact_law={system.impact_law!r}, which has none", "tangential_restitution"
        found.append(within("tangential_restitution", none, e_t, e_t == 0, Status.BAD_RESTITUTION, of=of))
    if system.tangential_compliance is not None:
        compliance = jnp.asarray(system.tangential_compliance(params))
        found.append(finite("tangential_compliance", compliance, params, of="tangential_compliance"))
        found.append(not_negative("tangential_compliance", compliance))
    if system.resistance is not None:
        resistance = jnp.asarray(system.resistance(params))
        found += _affine("rolling", system.rolling, params, t, q0, u0)
        found += [finite("resistance", resistance, params), not_negative("resistance", resistance)]
    return found


def _affine(name, slip, params, t, q0, u0) -> list[Requirement]:
    """Require that the velocities `slip`, the system's function by this name, are finite and affine in u."""

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


def friction_law(mu, e_t, params) -> list[Requirement]:
    """Require that no friction is negative, and that no impact turns a slip round to a faster one."""
    mu, e_t, of = jnp.asarray(mu), jnp.asarray(e_t), "tangential_restitution"
    return [
        finite("friction", mu, params, of="friction"),
        not_negative("friction", mu),
        within(of, "within [-1, 1]", e_t, jnp.abs(e_t) <= 1, Status.BAD_RESTITUTION, of=of),
    ]


def impact_law(system: System, params, q0: Array) -> list[Requirement]:
    """Require coefficients of restitution within [0, 1], and a positive definite mass.

    Of a law of the speed only its value at 0 is looked at here; each impact looks at that of its own speed.
    """
    e, mass = jnp.asarray(system.coefficients(params, q0)), system.mass(q0, params)
    name, inside = "restitution at speed 0" if system.speed_dependent else "restitution", (e >= 0) & (e <= 1)
    return [
        within(name, "within [0, 1]", e, inside, Status.BAD_RESTITUTION, of="restitution"),
        finite("mass", mass, params, of="mass"),
        *([_positive(mass)] if mass.ndim == 1 else _matrix("mass", mass, Status.BAD_MASS, "positive definite")),
    ]


def no_overlap(gap, reach, where, *more, left: Array | float = 0.0) -> Requirement:
    """Require that no gap is negative, but for what rounding makes of a gap that is meant to be zero.

    Args:
        gap: (c,) [m]; reach: (c,) or () the sizes of the terms that cancel in it [m], 1 m where all are zero.
        left: what a solver may leave of an overlap [m]: what a run ends with the next one begins with.
    """
    if not gap.size:
        return must(jnp.array(True), Status.OVERLAP, None)
    size = jnp.max(jnp.where(jnp.isfinite(gap) & jnp.isfinite(reach), reach, 0.0))
    tolerance = left + jnp.finfo(gap.dtype).eps ** 0.75 * nonzero(size)
    row = jnp.argmin(gap)

    def line(row, gap, *more):
        return f"q0: expected no overlap, but {where(row, gap, *more)}"

    return must(gap[row] >= -tolerance, Status.OVERLAP, line, row, gap[row], *more)


@requirements.register
def _(system: ParticleLine, params, t, q0, u0):
    timed = ("load", "normal")
    names = ("mass", "damping", "stiffness", "load", "friction", "normal", "percussions")
    given = {name: (t, params) if name in timed else (params,) for name in names}
    values = {name: jnp.asarray(getattr(system, name)(*given[name]), q0.dtype) for name in names}
    found = [finite(name, value, params, of=name) for name, value in values.items()]
    found.append(_positive(values["mass"]))
    found += [not_negative(name, values[name]) for name in ("friction", "normal", "percussions")]
    for name in ("damping", "stiffness"):
        # Semidefinite is enough: a particle may have no spring (S4 asks for definite matrices to have a rate).
        found += _matrix(name, values[name], Status.BAD_INPUT, "positive semidefinite", 4 * _rounding(values[name]))
    return found


def _positive(mass) -> Requirement:
    return within("mass", "positive", mass, mass > 0, Status.BAD_MASS, of="mass")


def _largest(x):
    return float(np.max(np.abs(x)))


@dataclass(frozen=True)
class MappedOutput:
    """Map the results of a function by another one; two are equal if both functions are, whatever made them.

    Example:
        >>> MappedOutput(sum, abs)([-3, -4])
        7
    """

    function: Callable
    change: Callable[[Any], Any]

    def __call__(self, *args):
        return self.change(self.function(*args))

    @property
    def __signature__(self):
        return inspect.signature(self.function)


def core(function: Callable | None) -> Callable | None:
    """Return the original function without its maps.

    Example:
        >>> core(MappedOutput(MappedOutput(sum, abs), float)) is sum, core(sum) is sum, core(None)
        (True, True, None)
    """
    return core(function.function) if isinstance(function, MappedOutput) else function


@dataclass(frozen=True)
class _Array:
    """Convert to an array of one precision; two are equal if their precisions are."""

    dtype: Any

    def __call__(self, value):
        return jnp.asarray(value, self.dtype)


def in_precision(system: System | ParticleLine, dtype) -> System | ParticleLine:
    """Make the functions of a system return arrays of the state's precision.

    A `ParticleLine` converts its own where they are used.

    Example:
        >>> ball = System(lambda t, q, p: [q[0]], lambda t, q, u, p: -9.81 * q, lambda q, p: [1], lambda p: 1)
        >>> in_precision(ball, jnp.float32).mass(jnp.zeros(1), {})
        Array([1.], dtype=float32)
    """
    if not isinstance(system, System):
        return system
    # Rows between bodies are no arrays.
    optional = [name for name in system.optional if name not in ("normals", "tangents")]
    names, array = ("gap", "force", "mass", "restitution", *optional), _Array(np.dtype(dtype))
    return replace(system, **{name: MappedOutput(getattr(system, name), array) for name in names})


def sanitised(found: list[Requirement], invalid: Array, system, params, q0: Array, u0: Array, times: Array) -> tuple:
    """Replace inputs by harmless ones in a lane that cannot be simulated; inputs that lanes share stay shared.

    The result of an invalid lane is not used. But it costs time, and zero cotangents become NaN on their way back
    through NaN. So NaN becomes zero, the lane starts from rest, and a function that breaks a requirement returns one
    (mass, gap) or zero.
    """

    def known(x):
        return jnp.where(jnp.isnan(x), 0, x) if jnp.issubdtype(jnp.result_type(x), jnp.floating) else x

    def harmless(name, broken):
        def change(value):
            value = jnp.asarray(value)
            neutral = np.eye(len(value)) if value.ndim == 2 and name == "mass" else float(name in ("mass", "gap"))
            return jnp.where(broken, jnp.asarray(neutral, value.dtype), value)

        return MappedOutput(getattr(system, name), change)

    params, q0, u0 = jax.tree.map(known, (params, q0, jnp.where(invalid, 0, u0)))
    increasing = jnp.all(jnp.isfinite(times)) & jnp.all(jnp.diff(times) > 0)
    times = jnp.where(increasing, times, jnp.arange(times.size, dtype=times.dtype))
    broken: dict[str, Array] = {}
    for one in found:
        if one.of and getattr(system, one.of) is not None:
            broken[one.of] = broken.get(one.of, False) | ~one.holds
    system = replace(system, **{name: harmless(name, flag) for name, flag in broken.items()})
    return system, params, q0, u0, times


def _recording(name: str, every: bool) -> Any:
    """Make a method of dict that first records which keys are asked for: every one, or its first argument."""

    def method(self, *args):
        self.asked.update(dict.keys(self) if every else args[:1])
        return getattr(dict, name)(self, *args)

    return method


@jax.tree_util.register_pytree_with_keys_class
class Recorded(dict):
    """Params that record which of their keys are asked for, those of the dicts within, too.

    Whoever looks at all of them, or hands them to JAX, has asked for all.

    Example:
        >>> params = Recorded({"mass": 1.0, "ball": {"radius": 0.1, "radios": 0.2}})
        >>> params["ball"]["radius"], params.get("drag", 0.0), "spin" in params
        (0.1, 0.0, False)
        >>> sorted(params.asked), sorted(params["ball"].asked)
        (['ball', 'drag', 'spin'], ['radius'])
    """

    def __init__(self, params: dict[Any, Any]):
        super().__init__({key: Recorded(value) if type(value) is dict else value for key, value in params.items()})
        self.params, self.asked = params, set()

    def __getattr__(self, name: str) -> Any:
        # What a subclass of dict holds beside its entries.
        return getattr(self.__dict__["params"], name)

    __getitem__, __contains__, get = (_recording(name, False) for name in ("__getitem__", "__contains__", "get"))
    __iter__, keys, values, items, copy, __or__, __ror__ = (
        _recording(name, True) for name in ("__iter__", "keys", "values", "items", "copy", "__or__", "__ror__")
    )

    def tree_flatten_with_keys(self) -> tuple[list[tuple[Any, Any]], tuple[Any, ...]]:
        names = sorted(self)
        return [(jax.tree_util.DictKey(name), self[name]) for name in names], tuple(names)

    @classmethod
    def tree_unflatten(cls, names: Iterable[Any], values: Iterable[Any]) -> Recorded:
        return cls(dict(zip(names, values, strict=True)))


def require_names(recorded: Recorded, known: bool) -> None:
    """Refuse keys that nothing reads and that are all but one that is missing; warn of those all but one that is there.

    Inside a transformation, as in a fit, where nothing is `known`, other readers may follow.

    Example:
        >>> params = Recorded({"mass": 1.0, "intertia": 1.0, "inertia_of_rotor": 1.0})
        >>> params.get("inertia")
        >>> require_names(params, True)
        Traceback (most recent call last):
        ...
        ValueError: params['intertia']: no parameter of this system, did you mean 'inertia'?
    """
    for told, missing in list(_misspelled(recorded, "params")):
        if missing:
            raise ValueError(told)
        if known:
            # Where `simulate` is called.
            warnings.warn(told, UserWarning, stacklevel=5)


def _misspelled(recorded: Recorded, where: str) -> Iterator[tuple[str, bool]]:
    """List a line on each misspelled key, and whether the key that was meant is missing."""
    asked = {key.lower(): key for key in recorded.asked if isinstance(key, str) and len(key) >= _SHORTEST}
    for key, value in dict.items(recorded):
        if key in recorded.asked:
            if isinstance(value, Recorded):
                yield from _misspelled(value, f"{where}[{key!r}]")
        elif near := _meant(key, asked):
            missing = not dict.__contains__(recorded, near)
            yield f"{where}[{key!r}]: no parameter of this system, did you mean {near!r}?", missing


def _meant(key: Any, asked: dict[str, str]) -> str | None:
    """Find the name that was asked for and that a key is all but the same as."""
    if not isinstance(key, str):
        return None
    name = key.lower()
    others = [low for low in asked if name == low or not _of_one_family(name, low)]
    near = difflib.get_close_matches(name, others, n=1, cutoff=_cutoff(name))
    return asked[near[0]] if near else None


def _cutoff(name: str) -> float:
    return _ALIKE if len(name) > _SHORT else _ALIKE_IF_SHORT


def _of_one_family(name: str, other: str) -> bool:
    """Tell whether they differ by a number (m1, m2), another word behind an underscore, or a word more (e_wall, e)."""
    short, long = sorted((name, other), key=len)
    if long.startswith(f"{short}_") or long.endswith(f"_{short}"):
        return True
    for suffix in _SUFFIXES:
        (stem, end), (same, another) = (
            (text[: at.start()], at[0]) for text in (name, other) if (at := suffix.search(text))
        )
        if stem == same and not difflib.get_close_matches(end, [another], cutoff=_cutoff(end)):
            return True
    return False
