"""The commands' cache of compiled programs: the second run of a scene starts at once.

JAX's own persistent cache, in the user's cache folder. Only the command line sets it; the library leaves JAX as it is.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import jax

from diffcontact.host.files import CACHE_VARIABLE as VARIABLE
from diffcontact.host.files import cache_folder as cache_folder

# A command compiles some 80 programs, 1 to 2 MB in all, most of them small; a hundred scenes fit.
LIMIT = 256 * 2**20


def use_cache() -> None:
    """Let JAX keep what this process compiles, and find what earlier ones did.

    A folder that cannot be written is no reason to fail: the command compiles then. A damaged file is compiled anew.
    """
    folder = cache_folder()
    if folder is None or getattr(jax.config, "jax_compilation_cache_dir", None):
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _trim(folder, LIMIT)
    except OSError:
        return
    warnings.filterwarnings("ignore", message="Error (reading|writing) persistent compilation cache")
    jax.config.update("jax_compilation_cache_dir", str(folder))
    # Small ones, too: compiling sixty of them takes two seconds, reading them a few tenths.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


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
