"""Products of matrices by one thread: OpenBLAS' others wait for the next one by counting.

A fit takes hundreds of them, each some thousand rows by ten columns, and on two cores the second one counts in between:
a fit of two carts takes 7.0 s of processor time with all threads and 5.7 s with one, and ends sooner. What rounding
leaves no longer depends on the number of cores either. A library must not decide that, a program may.
"""

from __future__ import annotations

import ctypes
import os
from importlib import import_module
from typing import Any

# What somebody sets to have it otherwise.
VARIABLES = "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"
# The extensions that are linked to it: nobody's interface, so that they may be gone one day.
_LINKED = "numpy.linalg._umath_linalg", "scipy.linalg._flapack"
# As the wheels of numpy and scipy, of two and of one generation, and distributions call it.
_PREFIXES = "scipy_openblas_", "openblas_"
_SUFFIXES = "64_", ""


def products_by_one_thread() -> None:
    """Let the OpenBLAS of numpy and of scipy, where that is what they work with, take one thread, unless the
    environment says how many."""
    if not any(variable in os.environ for variable in VARIABLES):
        for setting in _openblas("set_num_threads"):
            setting(1)


def numbers() -> list[int]:
    """How many threads the OpenBLAS of numpy and that of scipy take; none where they work with another library."""
    return [asked() for asked in _openblas("get_num_threads")]


def _openblas(name: str) -> list[Any]:
    """A function of each OpenBLAS that numpy and scipy are linked to."""
    found = []
    for extension in _LINKED:
        try:
            library = ctypes.CDLL(import_module(extension).__file__)
        except (ImportError, OSError):
            continue
        known = (getattr(library, prefix + name + suffix, None) for prefix in _PREFIXES for suffix in _SUFFIXES)
        found.extend([function for function in known if function is not None][:1])
    return found
