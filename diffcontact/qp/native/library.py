"""The kernel as machine code: compiled by numba once per machine, kept on disk, loaded by llvmlite.

What is kept is the object code behind its SHA-256, under a name that tells what it depends on: the kernel's sources,
the compiler's version and the processor. A process that finds it does not import numba. A file whose code does not have
the SHA-256 is damaged: it is never loaded, and the code is compiled and written anew.
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

KERNEL = Path(__file__).parent
# The kernel's modules, and those that it takes numbers from.
SOURCES = [
    *sorted(KERNEL.glob("*.py")),
    *(
        KERNEL.parents[1] / name
        for name in (
            "status.py",
            "qp/rows/slots.py",
            "qp/working_set.py",
            "qp/matrix_free/anderson.py",
            "qp/matrix_free/conjugate_gradients.py",
        )
    ),
]
ENTRY = "diffcontact_projection"

DIGEST_SIZE = hashlib.sha256().digest_size

# The engine owns the code: without it the address would lead nowhere.
_engines = []


def address() -> int:
    """The address of the handler, ready to be called with an `XLA_FFI_CallFrame`."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    code = kept() or keep(compiled_anew())
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


def compiled_anew() -> bytes:
    """The object code of the handler, by numba."""
    module = llvm.parse_assembly(_ir())
    module.verify()
    return _machine().emit_object(module)


def _name() -> str:
    """Different for whatever leads to different code."""
    known = hashlib.sha256()
    for source in SOURCES:
        known.update(source.read_bytes())
    processor = (platform.machine(), sys.platform, llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten())
    known.update(repr((version("numba"), version("llvmlite"), *processor)).encode())
    return f"projection-{known.hexdigest()[:32]}.o"


def _digest(code: bytes) -> bytes:
    return hashlib.sha256(code).digest()


def folder() -> Path | None:
    """Where the code is kept: in the user's cache folder or what DIFFCONTACT_CACHE names; None where that is "off"."""
    named = os.environ.get("DIFFCONTACT_CACHE")
    if named:
        if named.lower() == "off":
            return None
        return Path(named)
    home = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA") or Path.home() / ".cache"
    return Path(home) / "diffcontact"


def kept() -> bytes | None:
    """The code on disk, or None where there is none or the file is damaged."""
    place = folder()
    if place is None:
        return None
    try:
        kept = (place / _name()).read_bytes()
    except OSError:
        return None
    digest, code = kept[:DIGEST_SIZE], kept[DIGEST_SIZE:]
    return code if digest == _digest(code) else None


def keep(code: bytes) -> bytes:
    """Write the code under another name and move it, so that no process ever reads half of it."""
    place = folder()
    if place is None:
        return code
    try:
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=place, delete=False) as file:
            file.write(_digest(code) + code)
        os.replace(file.name, place / _name())
    except OSError:
        # A folder that cannot be written to costs the next process the compilation, nothing else.
        pass
    return code
