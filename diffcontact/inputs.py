"""Checks of the inputs of a simulation, before it starts: each error is one line that names the input.

Refused are functions of the system that fail, shapes that do not fit and misspelled parameters. Outside
transformations, where values are known, the `requirements` of the values are checked, too.

There is one set of rules per kind of system; a new kind registers its own.

Params may hold values for others: another run of a joint fit, `initial`, `observe`. So a key that no function reads is
no error. But a key that is nearly the same as a key that is read was meant for it, and would be ignored silently.
"""

from __future__ import annotations

import difflib
import inspect
import re
import reprlib
import warnings
from collections.abc import Iterable, Iterator
from functools import partial, singledispatch
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

from diffcontact.arguments import placed, require_real
from diffcontact.mapped_output import in_precision
from diffcontact.numerics.compilation import jit_fast_compile
from diffcontact.particle_line import ParticleLine
from diffcontact.qp.rows import product
from diffcontact.requirements import require_values
from diffcontact.schemes.scheme import Scheme
from diffcontact.system import System, gap_motion, takes_two

# Two names with a larger share of common letters are taken for one name, misspelled.
# In a name of four letters two are swapped, or one is wrong.
_ALIKE, _ALIKE_IF_SHORT, _SHORT = 0.8, 0.75, 4
# Letters of the shortest names that are judged.
_SHORTEST = 3
# How names of a family differ: m1 and m2, e_floor and e_wall. None of them is misspelled.
_SUFFIXES = re.compile(r"\d*$"), re.compile(r"(_[^_]*)?$")


def require_inputs(system, params, q0: Array, u0: Array, times: Array, scheme) -> bool:
    """Refuse inputs that cannot be simulated.

    Args:
        system: a `System` or a `ParticleLine`.
        params, q0, u0, times: as in `simulate`, arrays already.
        scheme: the step map; one that is `inelastic` is refused a restitution above 0.

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
    if not isinstance(scheme, Scheme):
        raise ValueError(f"scheme: expected a step map like EventTimed(), got {scheme!r}")
    if q0.ndim != 1 or q0.size == 0:
        raise ValueError(f"q0: expected shape (d,) with d >= 1, got {q0.shape}")
    if getattr(system, "rate", None) is not None:
        if u0.ndim != 1 or u0.size == 0:
            raise ValueError(f"u0: expected shape (d,) with d >= 1, got {u0.shape}")
    elif u0.shape != q0.shape:
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
    _require_restitution(system, params, q0, scheme)
    if isinstance(system, System) and system.normals is not None:
        _require_rows(system, params, began, q0, u0)
    return holds


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
    gap = own.shape("gap", "t, q, params", t, q0, params)
    if len(gap) != 1:
        raise ValueError(f"System.gap: expected an array of shape (c,), got {gap}")
    if system.rate is not None:
        own.expect("rate", own.shape("rate", "q, u, params", q0, u0, params), q0.shape)
    if system.normalise is not None:
        given = (q0, params) if takes_two(system.normalise) else (q0,)
        own.expect("normalise", own.shape("normalise", ", ".join(("q", "params")[: len(given)]), *given), q0.shape)
    if system.advance is not None:
        own.expect("advance", own.shape("advance", "q, u, s, params", q0, u0, t, params), q0.shape)
    if system.dexpinv is not None:
        own.expect("dexpinv", own.shape("dexpinv", "theta, u, params", u0, u0, params), (d,))
    own.expect("force", own.shape("force", "t, q, u, params", t, q0, u0, params), (d,))
    own.expect("mass", own.shape("mass", "q, params", q0, params), (d,), (d, d))
    speed = (np.zeros(gap, q0.dtype),) if system.speed_dependent else ()
    arguments = "params, speed" if system.speed_dependent else "params"
    own.expect("restitution", own.shape("restitution", arguments, params, *speed), (), gap)
    if system.rubs:
        slips = own.shape("slip", "t, q, u, params", t, q0, u0, params)
        own.expect("slip", slips, (*gap, 1), (*gap, 2))
        speed = (np.zeros(gap, q0.dtype),) if system.friction_by_speed else ()
        arguments = "params, speed" if system.friction_by_speed else "params"
        own.expect("friction", own.shape("friction", arguments, params, *speed), (), gap)
        for name in ("tangential_restitution", "tangential_compliance"):
            if getattr(system, name) is not None:
                own.expect(name, own.shape(name, "params", params), (), gap)
        if system.rolling is not None:
            rolling = own.shape("rolling", "t, q, u, params", t, q0, u0, params)
            if len(rolling) != 3 or rolling[::2] != slips:
                raise ValueError(f"System.rolling: expected shape ({slips[0]}, m, {slips[1]}), got {rolling}")
            own.expect("resistance", own.shape("resistance", "params", params), rolling[1:2], rolling[:2])
    if system.joint_slip is not None:
        joints = own.shape("joint_slip", "t, q, u, params", t, q0, u0, params)
        own.expect("joint_slip", joints, (*joints[:1], 1), (*joints[:1], 2))
        own.expect("joint_friction", own.shape("joint_friction", "t, params", t, params), joints[:1])
    if system.adhesion is not None:
        own.expect("adhesion", own.shape("adhesion", "params", params), (), gap)
    if system.normals is not None:
        normals = system.normals
        own.expect("normals", jax.eval_shape(lambda: normals(t, q0, params)).shape, (*gap, d))
    if system.tangents is not None:
        tangents = system.tangents
        for rows in jax.eval_shape(lambda: tangents(t, q0, params)):
            own.expect("tangents", rows.shape, (*gap, d))


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


_JAX = "expected a function that JAX can trace, with jax.numpy in place of numpy"


def _unlike(system, params, q0: Array, u0: Array) -> str:
    """Which of q0 and u0 has the wrong shape: the one that the mass does not have."""
    try:
        given = (params,) if isinstance(system, ParticleLine) else (q0, params)
        mass = jax.eval_shape(lambda: jnp.asarray(system.mass(*given))).shape[-1:]
    except Exception:  # Whatever a function of the user's raises of a q0 of another shape.
        mass = ()
    if mass == u0.shape:
        return f"q0: expected the shape of u0, {u0.shape}, as the mass has it, got {q0.shape}"
    return f"u0: expected the shape of q0, {q0.shape}, got {u0.shape}"


class Functions:
    """The functions of a system, called abstractly.

    Args:
        system: a `System` or a `ParticleLine`.
        kind: how errors call it.
        params, q0: as in `simulate`.
        explains: whether ValueErrors of the functions themselves say what is wrong.
    """

    def __init__(self, system, kind: str, params, q0: Array, explains: bool = False):
        self.system, self.kind, self.params, self.q0, self.explains = system, kind, params, q0, explains

    def shape(self, name: str, arguments: str, *given) -> tuple[int, ...]:
        """The shape of what the function by this name returns; `arguments` says what it is given, in words."""
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
            raise ValueError(
                f"{self.kind}.{name}{self._failure(function, arguments, given, returned, error)}"
            ) from error
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
        if isinstance(error, jax.errors.TracerArrayConversionError):
            return f": {_JAX}"
        line = str(error).partition("\n")[0]
        none = "; params is None" if self.params is None else ""
        return f"({arguments}), q of shape {self.q0.shape}: raised {type(error).__name__}: {line}{none}"


def called(name: str, arguments: str, function, params, *given):
    """What a function returns; where it fails by its arguments or a name that is not there, that is said by `name`."""
    try:
        return function(*given)
    except jax.errors.TracerArrayConversionError as error:
        raise ValueError(f"{name}: {_JAX}") from error
    except (KeyError, TypeError) as error:
        if why := _explained(function, arguments, given, params, error):
            raise ValueError(f"{name}{why}") from error
        raise


def _explained(function, arguments: str, given, params, error: Exception) -> str:
    """Why a function failed, for the end of a message, where it is called with what it does not take or has; else ''.

    Args:
        function: that failed.
        arguments: what it is given, in words.
        given: the same.
        params: the user's parameters.
        error: what it raised.

    Example:
        >>> _explained(lambda p: p["m"], "params", ({"mass": 1.0},), {"mass": 1.0}, KeyError("m"))
        ": no parameter 'm' in params ('mass')"
    """
    if isinstance(error, TypeError) and (signature := _other_signature(function, given)):
        return f": expected a function of ({arguments}), got one of {signature}"
    if isinstance(error, KeyError) and not (isinstance(params, dict) and error.args[0] in params):
        names = f" ({', '.join(map(repr, params))})" if isinstance(params, dict) else ""
        return f": no parameter {error} in params{names}"
    return ""


def _other_signature(function, given):
    """The signature of a function that does not take what is given, in text; None of one that does, or has none."""
    try:
        signature = inspect.signature(function)
    except ValueError:
        return None
    try:
        signature.bind(*given)
    except TypeError:
        return str(signature)
    return None


def _require_restitution(system, params, q0, scheme: Scheme):
    if not scheme.inelastic or not isinstance(system, System):
        return
    e = np.asarray(system.coefficients(params, q0))
    if np.any(e > 0):
        raise ValueError(
            f"restitution: {type(scheme).__name__} is for restitution 0, got {e}; "
            "for bounces take EventTimed, or ElasticProjection with one coefficient for all contacts"
        )


def _require_rows(system, params, t, q0, u0):
    for name, rates in _rates(system, params, t, q0, u0).items():
        of, (moved, expected) = _OF_ROWS[name], map(np.asarray, rates)
        wrong = np.abs(moved - expected) > 1e3 * np.finfo(moved.dtype).eps * (q0.size + np.abs(expected))
        if np.any(wrong):
            row = int(np.argwhere(wrong)[0, 0])
            raise ValueError(f"System.{name}: expected the gradients of {of}, but row {row} is not that of {of}[{row}]")


_OF_ROWS = {"normals": "gap", "tangents": "slip"}


@partial(jit_fast_compile, static=("system",))
def _rates(system, params, t, q0, u0):
    """How fast the gaps, and the slips, change along some direction, by the system's rows and by its functions."""
    along, still = jnp.cos(jnp.arange(u0.size, dtype=u0.dtype)), jnp.zeros_like(u0)
    gap = [gap_motion(system, params, t, q0, velocity)[1] for velocity in (along, still)]
    found = {"normals": (product(system.normals(t, q0, params), along), gap[0] - gap[1])}
    if system.tangents is not None:
        rows = [product(rows, along) for rows in system.tangents(t, q0, params)]
        slip = system.slip(t, q0, along, params) - system.slip(t, q0, still, params)
        found["tangents"] = (jnp.stack(rows, axis=1), slip)
    return found


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

    def __getitem__(self, key: Any) -> Any:
        self.asked.add(key)
        return super().__getitem__(key)

    def __contains__(self, key: Any) -> bool:
        self.asked.add(key)
        return super().__contains__(key)

    def get(self, key: Any, default: Any = None) -> Any:
        self.asked.add(key)
        return super().get(key, default)

    def __iter__(self) -> Iterator[Any]:
        self.asked.update(dict.keys(self))
        return super().__iter__()

    def keys(self) -> Any:
        self.asked.update(dict.keys(self))
        return super().keys()

    def values(self) -> Any:
        self.keys()
        return super().values()

    def items(self) -> Any:
        self.keys()
        return super().items()

    def copy(self) -> dict[Any, Any]:
        return dict(self.items())

    def __or__(self, other: Any) -> dict[Any, Any]:
        return self.copy() | other

    def __ror__(self, other: Any) -> dict[Any, Any]:
        return other | self.copy()

    def tree_flatten_with_keys(self) -> tuple[list[tuple[Any, Any]], tuple[Any, ...]]:
        names = sorted(self)
        return [(jax.tree_util.DictKey(name), self[name]) for name in names], tuple(names)

    @classmethod
    def tree_unflatten(cls, names: Iterable[Any], values: Iterable[Any]) -> Recorded:
        return cls(dict(zip(names, values, strict=True)))


def require_names(recorded: Recorded, known: bool) -> None:
    """Refuse keys that nothing reads and that are all but one that is missing; warn of those all but one that is there.

    Args:
        recorded: what the functions of a system were given.
        known: whether to warn; inside a transformation, as in a fit, other readers may follow.

    Raises:
        ValueError: a key that was asked for is not there, but misspelled.

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
    """A line on each misspelled key, and whether the key that was meant is missing."""
    asked = {key.lower(): key for key in recorded.asked if isinstance(key, str) and len(key) >= _SHORTEST}
    for key, value in dict.items(recorded):
        if key in recorded.asked:
            if isinstance(value, Recorded):
                yield from _misspelled(value, f"{where}[{key!r}]")
        elif near := _meant(key, asked):
            missing = not dict.__contains__(recorded, near)
            yield f"{where}[{key!r}]: no parameter of this system, did you mean {near!r}?", missing


def _meant(key: Any, asked: dict[str, str]) -> str | None:
    """The name that was asked for and that a key is all but the same as."""
    if not isinstance(key, str):
        return None
    name = key.lower()
    others = [low for low in asked if name == low or not _of_one_family(name, low)]
    near = difflib.get_close_matches(name, others, n=1, cutoff=_cutoff(name))
    return asked[near[0]] if near else None


def _cutoff(name: str) -> float:
    return _ALIKE if len(name) > _SHORT else _ALIKE_IF_SHORT


def _of_one_family(name: str, other: str) -> bool:
    """Whether they differ by a number, by another word behind an underscore, or by a word more.

    Example:
        >>> _of_one_family("e_wall1", "e_wall2"), _of_one_family("e_wall", "e_floor"), _of_one_family("mass2", "mass")
        (True, True, True)
        >>> _of_one_family("e_wall", "e_wal"), _of_one_family("masss", "mass")
        (False, False)
    """
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
