"""The kernel as machine code: compiled by numba once per machine, kept on disk, loaded by llvmlite.

What is kept is the object code, under a name that tells what it depends on: the kernel's sources, the compiler's
version and the processor. A process that finds it does not import numba.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import llvmlite.binding as llvm

SOURCES = Path(__file__).parent
ENTRY = "diffcontact_projection"

# The engine owns the code: without it the address would lead nowhere.
_engines = []


def address() -> int:
    """That of the handler, ready to be called with an `XLA_FFI_CallFrame`."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    code = _kept() or _keep(_emitted(_ir()))
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine())
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _engines.append(engine)
    return engine.get_function_address(ENTRY)


def _machine():
    cpu, features = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    return llvm.Target.from_default_triple().create_target_machine(cpu=cpu, features=features, opt=3, jit=True)


def _ir() -> str:
    """What numba makes of the handler, and an entry by the C convention: nothing in it raises."""
    from numba import types

    from diffcontact.qp.native.handler import handler

    signature = (types.int64,)
    handler.compile(signature)
    text = handler.inspect_llvm(signature)
    name = re.search(r'^define [^\n]*?@("?[^\s(]*7handler7handler[^\s(]*)\(', text, re.MULTILINE)
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
define i64 @{ENTRY}(i64 %frame) {{
  %value = alloca i64
  %error = alloca ptr
  %code = call i32 @{name[1]}(ptr %value, ptr %error, i64 %frame)
  ret i64 0
}}
"""


def _emitted(ir: str) -> bytes:
    module = llvm.parse_assembly(ir)
    module.verify()
    return _machine().emit_object(module)


def _name() -> str:
    """Different for whatever leads to different code."""
    known = hashlib.sha256()
    for source in sorted(SOURCES.glob("*.py")):
        known.update(source.read_bytes())
    processor = (platform.machine(), sys.platform, llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten())
    known.update(repr((version("numba"), version("llvmlite"), *processor)).encode())
    return f"projection-{known.hexdigest()[:32]}.o"


def folder() -> Path:
    """Where the code is kept: `diffcontact` in the user's cache folder, or what DIFFCONTACT_CACHE names."""
    named = os.environ.get("DIFFCONTACT_CACHE")
    if named:
        return Path(named)
    home = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA") or Path.home() / ".cache"
    return Path(home) / "diffcontact"


def _kept() -> bytes | None:
    try:
        return (folder() / _name()).read_bytes()
    except OSError:
        return None


def _keep(code: bytes) -> bytes:
    """Written under another name and moved, so that no process ever reads half of it."""
    try:
        folder().mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder(), delete=False) as file:
            file.write(code)
        os.replace(file.name, folder() / _name())
    except OSError:
        # A folder that cannot be written to costs the next process the compilation, nothing else.
        pass
    return code
