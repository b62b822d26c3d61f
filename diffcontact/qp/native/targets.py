"""Which of the kernel's handlers a primitive is lowered to, compiled when a program first needs it."""

from __future__ import annotations

import ctypes
import threading
import warnings
from collections.abc import Callable

import jax
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import mlir

from diffcontact.qp.native import library

# The names by which XLA knows the handlers, None of those that could not be compiled.
_targets: dict[str, str | None] = {}
_one_at_a_time = threading.Lock()


def named(what: str, dtype) -> str:
    """The handler of "projections" or "searches" for numbers of a type, float32 or float64."""
    return f"{what}_{np.dtype(dtype).name}"


def register(handler: str) -> None:
    """Make the handler known to XLA, under the name that `target` gives then.

    Raises:
        Exception: of any kind, where it cannot be compiled.
    """
    with _one_at_a_time:
        if handler in _targets:
            return
        _targets[handler] = None
        name = f"diffcontact_{handler}"
        function = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(library.address(handler))
        jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(function), platform="cpu", api_version=1)
        _targets[handler] = name


def target(handler: str) -> str | None:
    """The name by which XLA knows the handler, or None, with a warning at first, where there is none."""
    try:
        register(handler)
    except Exception as error:
        warnings.warn(f"no kernel of {handler}, in JAX instead: {type(error).__name__}: {error}", stacklevel=2)
    return _targets[handler]


def lower(primitive: Primitive, what: str, pure: Callable) -> None:
    """Lower the primitive to a handler on a CPU, and to the same in JAX elsewhere, or where there is no handler."""
    in_jax = mlir.lower_fun(pure, multiple_results=True)

    def on_cpu(context, *operands):
        name = target(named(what, context.avals_in[0].dtype))
        return (in_jax if name is None else jax.ffi.ffi_lowering(name))(context, *operands)

    mlir.register_lowering(primitive, in_jax)
    mlir.register_lowering(primitive, on_cpu, platform="cpu")
