"""Keep compiled programs of commands between runs.

JAX's own persistent cache, in the user's cache folder, asks for a program first, which takes as long to trace as to
compile. So the library's programs are found by what they are made from: the code of their functions, the shapes of
their arguments, the library's sources, and versions. Only the command line does that; the library leaves JAX as it is.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import platform
import warnings
import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import jax.export

import diffcontact
from diffcontact.host.files import CACHE_VARIABLE as VARIABLE
from diffcontact.host.files import cache_folder as cache_folder
from diffcontact.host.files import write_atomically
from diffcontact.numerics import compilation

# A command compiles some 80 programs, 1 to 2 MB in all, most of them small; a hundred scenes fit.
LIMIT = 256 * 2**20
# Settings of JAX that change what is traced or compiled.
_SETTINGS = "jax_enable_x64", "jax_default_matmul_precision", "jax_debug_nans", "jax_numpy_rank_promotion"


def use_cache() -> None:
    """Let JAX keep compiled programs and find earlier ones, where the folder can be written."""
    folder = cache_folder()
    if folder is None or getattr(jax.config, "jax_compilation_cache_dir", None):
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _trim(folder, LIMIT)
    except OSError:
        return
    compilation.stored = partial(stored, folder)
    warnings.filterwarnings("ignore", message="Error (reading|writing) persistent compilation cache")
    jax.config.update("jax_compilation_cache_dir", str(folder))
    # Small ones, too: compiling sixty of them takes two seconds, reading them a few tenths.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def stored(folder: Path, made_from: Any, program: Callable, values: tuple) -> Callable | None:
    """The program made from these parts, as it was stored, or traced now and stored.

    `program` is a function that `jax.jit` has taken, `values` its arguments. Returned is a function of compiler
    options; None for a program that cannot be exported.
    """
    parts = made_from, [getattr(jax.config, name) for name in _SETTINGS], _surroundings()
    path = folder / f"program-{hashlib.sha256(repr(parts).encode()).hexdigest()}-cache"
    leaves, given = jax.tree.flatten(values)
    try:
        content, returned = pickle.loads(zlib.decompress(path.read_bytes()))
        exported = jax.export.deserialize(content)
    except Exception:  # None is there, or a damaged one: what pickle and XLA raise for that is nobody's contract.
        try:
            exported, returned = _exported(program, leaves, given)
        except Exception:  # A program that calls back into Python, say.
            return None
        # Where it cannot be stored the next process traces it, too.
        with suppress(Exception):
            write_atomically(path, zlib.compress(pickle.dumps((exported.serialize(), returned)), 1))

    def compiled(options: dict[str, Any] | None) -> Callable:
        run = jax.jit(exported.call, compiler_options=options)
        return lambda *values: jax.tree.unflatten(returned, run(*jax.tree.leaves(values)))

    return compiled


def _exported(program: Callable, leaves: list, given: Any) -> tuple[jax.export.Exported, Any]:
    """A program of leaves that returns leaves, and the structure of what it returns."""
    structure = []

    def flat(*leaves):
        found, returned = jax.tree.flatten(program(*jax.tree.unflatten(given, leaves)))
        structure.append(returned)
        return found

    exported = jax.export.export(jax.jit(flat))(*leaves)
    return exported, structure[0]


@cache
def _surroundings() -> list[Any]:
    """All else that a program depends on: sources, versions, and what this processor can do."""
    sources = sorted(Path(diffcontact.__file__).parent.rglob("*.py"))
    read = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        abilities = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    except OSError:
        abilities = platform.processor()
    versions = [version(name) for name in ("jax", "jaxlib", "numpy")]
    return [read, *versions, platform.python_version(), platform.machine(), abilities, os.environ.get("XLA_FLAGS", "")]


def described() -> str:
    """The folder and how much it holds, in a line."""
    folder = cache_folder()
    if folder is None:
        return (
            f"off ({VARIABLE})" if os.environ.get(VARIABLE) else f"none, as this user has no home ({VARIABLE}=FOLDER)"
        )
    files = _programs(folder)
    size = sum(size for _, size, _ in files)
    return f"{folder}: {len(files)} programs, {size / 2**20:.1f} of {LIMIT >> 20} MB ({VARIABLE}=FOLDER or off)"


def _programs(folder: Path) -> list[tuple[float, int, Path]]:
    """(last used [s], size [B], file) of each program, the oldest first."""
    found = []
    for path in folder.glob("*-cache"):
        try:
            status = path.stat()
        except OSError:
            continue
        found.append((max(status.st_atime, status.st_mtime), status.st_size, path))
    return sorted(found)


def _trim(folder: Path, limit: int) -> None:
    """Give up the programs that have not been used for longest, until the others fit."""
    files = _programs(folder)
    size = sum(size for _, size, _ in files)
    for _, length, path in files:
        if size <= limit:
            break
        path.unlink(missing_ok=True)
        size -= length
