"""Compile the kernel by numba once per machine, keep it on disk, and load it by llvmlite.

There is code of its own for each precision, and none is compiled before it is asked for. What is kept is the object
code behind its SHA-256, under a name that tells what it depends on: the kernel's sources, the compiler's version and
the processor. A process that finds it does not import numba. A file whose code does not have the SHA-256 is damaged: it
is never loaded, and the code is compiled and written anew.
"""

from __future__ import annotations

import ctypes
import hashlib
import platform
import re
import sys
import threading
import warnings
from collections.abc import Callable
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import llvmlite.binding as llvm
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import mlir

from diffcontact.host.files import cache_folder, write_atomically
from diffcontact.host.progress import stage

KERNEL = Path(__file__).parent
# The kernel's modules, and the modules from which it takes numbers.
SOURCES = [
    *sorted(KERNEL.glob("*.py")),
    *(KERNEL.parents[1] / name for name in ("status.py", "qp/rows.py", "qp/working_set.py")),
]

DIGEST_SIZE = hashlib.sha256().digest_size

# The engine owns the code: without it the address would lead nowhere.
_engines = []


def address(handler: str) -> int:
    """Return the address of a handler, ready for an `XLA_FFI_CallFrame`.

    `handler` is "projections_float64" or "projections_float32".
    """
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    code = kept(handler) or keep(handler, compiled_anew(handler))
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine())
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _engines.append(engine)
    return engine.get_function_address(_entry(handler))


def _entry(handler: str) -> str:
    return f"diffcontact_{handler}"


def _machine():
    cpu, features = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    return llvm.Target.from_default_triple().create_target_machine(cpu=cpu, features=features, opt=3, jit=True)


def _ir(handler: str) -> str:
    """Return numba's code of the handler, not optimised, with an entry by the C convention.

    Nothing in it raises.
    """
    from numba import types

    function, signature = getattr(import_module("diffcontact.qp.kernel.projections"), handler), (types.int64,)
    with _unoptimised():
        function.compile(signature)
    text = function.inspect_llvm(signature)
    name = re.search(rf'^define [^\n]*?@("?[^\s(]*{len(handler)}{handler}[^\s(]*)\(', text, re.MULTILINE)
    if name is None:
        raise RuntimeError("numba names its functions in a way that is not known here")
    unknown = {
        symbol
        for symbol in re.findall(r'^declare [^\n]*?@"?([\w.$]+)', text, re.MULTILINE)
        if not symbol.startswith("llvm.") and not llvm.address_of_symbol(symbol)
    }
    if unknown:
        raise RuntimeError(f"the kernel calls {', '.join(sorted(unknown))}, which this process does not have")
    return f"""{text}
define i64 @{_entry(handler)}(i64 %frame) {{
  %value = alloca i64
  %error = alloca ptr
  %code = call i32 @{name[1]}(ptr %value, ptr %error, i64 %frame)
  ret i64 0
}}
"""


@contextmanager
def _unoptimised():
    """Stop numba from optimising: it optimises every function with all callees, many times over."""
    config: Any = import_module("numba.core.config")
    level = config.OPT
    config.OPT = type(level)(0)
    try:
        yield
    finally:
        config.OPT = level


def compiled_anew(handler: str) -> bytes:
    """Compile the handler by numba: a minute, once per machine."""
    with stage("projections as machine code, once on this machine"):
        module, machine = llvm.parse_assembly(_ir(handler)), _machine()
        module.verify()
        options = llvm.create_pipeline_tuning_options(speed_level=3)
        options.loop_vectorization = options.slp_vectorization = True
        passes = llvm.create_pass_builder(machine, options)
        passes.getModulePassManager().run(module, passes)
        return machine.emit_object(module)


def _name(handler: str) -> str:
    """Name the code differently for whatever leads to different code."""
    known = hashlib.sha256()
    for source in SOURCES:
        known.update(source.read_bytes())
    processor = (platform.machine(), sys.platform, llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten())
    known.update(repr((version("numba"), version("llvmlite"), *processor)).encode())
    return f"{handler}-{known.hexdigest()[:32]}.o"


def kept(handler: str) -> bytes | None:
    """Read the code from disk; None where there is none or the file is damaged."""
    place = cache_folder()
    if place is None:
        return None
    try:
        kept = (place / _name(handler)).read_bytes()
    except OSError:
        return None
    digest, code = kept[:DIGEST_SIZE], kept[DIGEST_SIZE:]
    return code if digest == hashlib.sha256(code).digest() else None


def keep(handler: str, code: bytes) -> bytes:
    """Write the code under another name and move it: no process reads half of it."""
    place = cache_folder()
    if place is None:
        return code
    # A folder that cannot be written to costs the next process the compilation, nothing else.
    with suppress(OSError):
        write_atomically(place / _name(handler), hashlib.sha256(code).digest() + code)
    return code


# XLA's names of the handlers, None for a handler that could not be compiled.
_targets: dict[str, str | None] = {}
_one_at_a_time = threading.Lock()


def handler_for(dtype) -> str:
    """Name the handler of a precision."""
    return f"projections_{np.dtype(dtype).name}"


def register(handler: str) -> None:
    """Make the handler known to XLA, under the name that `target` gives then.

    Raises an exception of any kind where the handler cannot be compiled.
    """
    with _one_at_a_time:
        if handler in _targets:
            return
        _targets[handler] = None
        name = _entry(handler)
        function = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(address(handler))
        jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(function), platform="cpu", api_version=1)
        _targets[handler] = name


def target(handler: str) -> str | None:
    """Return XLA's name of the handler, or None, with a warning at first, without one."""
    try:
        register(handler)
    except Exception as error:
        warnings.warn(f"no kernel of {handler}, in JAX instead: {type(error).__name__}: {error}", stacklevel=2)
    return _targets[handler]


def lower(primitive: Primitive, pure: Callable) -> None:
    """Lower the primitive to a handler on a CPU, else to the same in JAX."""
    in_jax = mlir.lower_fun(pure, multiple_results=True)

    def on_cpu(context, *operands):
        name = target(handler_for(context.avals_in[0].dtype))
        return (in_jax if name is None else jax.ffi.ffi_lowering(name))(context, *operands)

    mlir.register_lowering(primitive, in_jax)
    mlir.register_lowering(primitive, on_cpu, platform="cpu")
