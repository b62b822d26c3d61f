"""How the kernel's functions are compiled."""

from __future__ import annotations

from numba import njit

# As C: divisions by zero give inf or NaN, no object is counted, nothing is callable from Python, nothing is raised.
_OPTIONS = {"error_model": "numpy", "_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}

compiled = njit(**_OPTIONS)

# Where sums are taken over vectors: their terms may be added in any order, several at a time, though always the same
# one. Infinite numbers and NaN stay what they are.
summed = njit(fastmath={"reassoc", "contract", "nsz"}, **_OPTIONS)
