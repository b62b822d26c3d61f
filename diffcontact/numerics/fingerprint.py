"""Key functions and systems that are interchangeable: a program compiled for one serves for the other.

A notebook's cell or a loop makes its functions anew each time. Two of them are interchangeable where their code is the
same and everything that the code refers to is: constants, numbers, arrays, and functions of which the same holds. What
may change between two looks at it (an object, a class or a module of the user's) makes a function equal to itself only.
"""

from __future__ import annotations

import dis
import hashlib
import sys
from collections.abc import Callable, Hashable, Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import partial
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any
from weakref import WeakKeyDictionary

import jax
import numpy as np
from jax.core import Tracer

# Modules whose names mean the same at any time, and what is defined in them.
_LIBRARIES = frozenset({"builtins", "math", "operator", "functools", "numpy", "scipy", "jax", "jaxlib", "diffcontact"})
_LARGE = 256


class TracedError(Exception):
    """A function refers to a value that JAX traces."""


class _OpaqueError(Exception):
    """A function refers to something that may change."""


def fingerprint(value: Any) -> Hashable:
    """Return a key, equal for values that are interchangeable in a program.

    Raises `TracedError` where a function refers to a value that JAX traces.
    """
    return _of(value, _outside)


def known_fingerprint(value: Any) -> Hashable:
    """Return the fingerprint that a value brings along, or else find it."""
    return value.fingerprint if hasattr(type(value), "fingerprint") else fingerprint(value)


def digest(found: Any) -> str | None:
    """Hash a fingerprint for any process; None: a part is this process's own.

    Example:
        >>> def scaled(factor):
        ...     return lambda x: factor * x
        >>> digest(fingerprint(scaled(2.0))) == digest(fingerprint(scaled(3.0)))
        False
        >>> changeable = object()
        >>> print(digest(fingerprint(lambda x: changeable)))
        None
    """
    try:
        return hashlib.sha256("".join(_written(found)).encode()).hexdigest()
    except _OpaqueError:
        return None


def _written(part: Any) -> Iterator[str]:
    match part:
        case tuple() | frozenset():
            inner = ["".join(_written(x)) for x in part]
            yield f"{type(part).__name__}{len(inner)}("
            yield from sorted(inner) if isinstance(part, frozenset) else inner
            yield ")"
        case None | bool() | int() | float() | complex() | str() | bytes():
            yield f"{type(part).__name__} {part!r} "
        case CodeType():
            yield from _written((part.co_code, part.co_consts, part.co_names, part.co_varnames, part.co_freevars))
            yield from _written((part.co_cellvars, part.co_argcount, part.co_kwonlyargcount, part.co_flags))
        case Enum():
            yield from _written((type(part), part.name))
        case np.dtype():
            yield part.str
        case _Same() if _is_settled(part.held):
            yield from _written(part.held)
        case _ if callable(part) and "<" not in (name := getattr(part, "__qualname__", getattr(part, "__name__", "<"))):
            yield f"{getattr(part, '__module__', '')}.{name} "
        case ModuleType():
            yield part.__name__
        case _:
            raise _OpaqueError(type(part).__name__)


class _Same:
    """Hold an object that equals itself only."""

    def __init__(self, held: Any):
        self.held = held

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.held is other.held

    def __hash__(self) -> int:
        return id(self.held)


# What a function in use refers to must not change: it is looked at once. None: it is equal to itself only.
_KNOWN: WeakKeyDictionary[FunctionType, Hashable | None] = WeakKeyDictionary()


def _outside(value: Any) -> Hashable:
    """Key a function, or an object that is compared by its own equality."""
    if isinstance(value, FunctionType):
        if value not in _KNOWN:
            try:
                _KNOWN[value] = _of_function(value, frozenset())
            except (_OpaqueError, RecursionError):
                _KNOWN[value] = None
        return _KNOWN[value] or _Same(value)
    try:
        hash(value)
    except TypeError:
        return _Same(value)
    return type(value), value


def _inside(value: Any, reading: frozenset[int]) -> Hashable:
    """Key a value inside a function: whoever makes the function anew sees changes since."""
    if not isinstance(value, FunctionType):
        raise _OpaqueError(type(value).__name__)
    return ("recursion", value.__code__) if id(value) in reading else _of_function(value, reading)


def _of(value: Any, other: Callable[[Any], Hashable]) -> Hashable:
    match value:
        case None | bool() | int() | str() | bytes():
            return type(value), value
        case float() | complex():
            # Zeros of either sign are equal, and NaN is not.
            return type(value), repr(value)
        case tuple() | list():
            return type(value), tuple(_of(x, other) for x in value)
        case dict():
            return type(value), tuple((_of(key, other), _of(x, other)) for key, x in value.items())
        case Tracer():
            raise TracedError
        case np.ndarray() | np.generic() | jax.Array():
            return _of_array(value, other)
        case MethodType():
            return MethodType, _of(value.__func__, other), _of(value.__self__, other)
        case partial():
            return partial, *(_of(x, other) for x in (value.func, value.args, value.keywords))
    if _is_settled(value):
        return _Same(value)
    if is_dataclass(value) and not isinstance(value, type) and _is_frozen(value):
        compared = (getattr(value, field.name, None) for field in fields(value) if field.compare)
        return type(value), tuple(_of(x, other) for x in compared)
    return other(value)


def _is_frozen(value: Any) -> bool:
    return value.__dataclass_params__.frozen


def _is_settled(value: Any) -> bool:
    """Tell whether a value stands at the top of a library's module, for good."""
    match value:
        case ModuleType():
            return _is_library(value.__name__)
        case np.ufunc() | np.dtype():
            return True
        case type() | FunctionType() | BuiltinFunctionType():
            return _is_library(value.__module__) and "<" not in value.__qualname__
    # Functions of JAX that are compiled, or have a rule for derivatives.
    return callable(value) and hasattr(value, "__wrapped__") and _is_settled(value.__wrapped__)


def _is_library(module: str | None) -> bool:
    return isinstance(module, str) and module.partition(".")[0] in _LIBRARIES


def _of_array(value: Any, other: Callable[[Any], Hashable]) -> Hashable:
    if isinstance(value, jax.Array) and not value.is_fully_addressable:
        return _Same(value)
    array = np.asarray(value)
    if array.dtype.hasobject:
        return other(value)
    content = array.tobytes()
    if len(content) > _LARGE:
        content = hashlib.sha256(content).digest()
    return type(value), array.dtype.str, array.shape, getattr(value, "weak_type", False), content


def _of_function(function: FunctionType, reading: frozenset[int]) -> Hashable:
    reading = reading | {id(function)}
    referred = tuple(_of(x, lambda value: _inside(value, reading)) for x in _referred(function))
    return FunctionType, function.__code__, referred


def _referred(function: FunctionType) -> Iterator[Any]:
    """List defaults, closure variables and globals of a function."""
    yield function.__defaults__
    yield function.__kwdefaults__
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:
            raise _OpaqueError("a variable that has no value yet") from None
    module = sys.modules.get(function.__module__ or "")
    if _is_library(function.__module__) and module is not None and function.__globals__ is module.__dict__:
        return
    for name in sorted(_globals_of(function.__code__)):
        if name in function.__globals__:
            yield name
            yield function.__globals__[name]


def _globals_of(code: CodeType) -> set[str]:
    found = {one.argval for one in dis.get_instructions(code) if one.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return found.union(*(_globals_of(inner) for inner in code.co_consts if isinstance(inner, CodeType)))
