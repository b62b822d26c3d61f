"""Arguments as what they have to be: arrays of real numbers, integers."""

from __future__ import annotations

import reprlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer
from numpy.typing import NDArray

# Times may be rounded by so many times what they would be if they were counted from the first.
_AWAY = 100


def real_arrays(**values: Any) -> tuple[Array, ...]:
    """Convert the arguments by these names to arrays of one precision, float32 or float64.

    Raises:
        ValueError: for what is not real numbers, and for half precision.

    Example:
        >>> [x.dtype.name for x in real_arrays(q0=np.zeros(2, int), times=np.ones(2, np.float32))]
        ['float32', 'float32']
        >>> real_arrays(q0=["1.5"])
        Traceback (most recent call last):
        ...
        ValueError: q0: expected real numbers, got ['1.5']
    """
    arrays = [_real(name, value) for name, value in values.items()]
    dtype = jnp.result_type(float, *arrays)
    return tuple(placed(array, dtype) for array in arrays)


def _real(name, value):
    if isinstance(value, bool | int | float):
        # Takes the precision of the other arguments.
        return value
    try:
        array = placed(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name}: expected real numbers, got {reprlib.repr(value)}") from error
    if jnp.issubdtype(array.dtype, jnp.floating) and array.dtype.itemsize < 4:
        raise ValueError(f"{name}: expected float32 or float64, got {array.dtype}")
    require_real(name, array.dtype)
    return array


def placed(value: Any, dtype: Any = None) -> Array:
    """Convert to an array of JAX's; `jnp.asarray` compiles a program for each shape, and this compiles none."""
    if isinstance(value, Tracer) or (isinstance(value, Array) and dtype in (None, value.dtype)):
        return value if dtype is None else jnp.asarray(value, dtype)
    try:
        array = np.asarray(value, dtype)
        # Of an array in double precision that was traced before, single precision would get the 64 bits (jax 0.10.1).
        return jax.device_put(np.asarray(array, jax.dtypes.canonicalize_dtype(array.dtype)))
    except (TypeError, jax.errors.TracerArrayConversionError):
        # A list that holds traced values.
        return jnp.asarray(value, dtype)


def numbers(value: Any) -> NDArray:
    """Convert to an array of floats, with NaN for what is masked.

    Raises:
        TypeError, ValueError: for what is no numbers, dates and durations among it: they have a unit of their own.
    """
    kind = getattr(value, "dtype", None)
    if kind is not None and np.dtype(kind).kind in "mM":
        raise TypeError(f"expected numbers, got {kind}")
    if isinstance(value, np.ma.MaskedArray):
        return np.ma.filled(value.astype(float), np.nan)
    return np.array(value, float)


def require_real(name: str, dtype: Any) -> None:
    """Refuse a dtype of other than real numbers."""
    if not (jnp.issubdtype(dtype, jnp.integer) or jnp.issubdtype(dtype, jnp.floating)):
        raise ValueError(f"{name}: expected real numbers, got {dtype}")


def require_shapes(**expected: tuple[Any, tuple[int, ...], str]) -> None:
    """Refuse arrays of other shapes: by name an array, its shape, and what its entries are for.

    Raises:
        ValueError: one line that names what is wrong.

    Example:
        >>> require_shapes(b=(np.zeros(3), (2,), "one entry per row of G"))
        Traceback (most recent call last):
        ...
        ValueError: b has the shape (3,); expected (2,), one entry per row of G
    """
    for name, (value, shape, meaning) in expected.items():
        if jnp.shape(value) != shape:
            raise ValueError(f"{name} has the shape {jnp.shape(value)}; expected {shape}, {meaning}")


def require_near(name: str, times: Any, dtype: Any) -> None:
    """Refuse times (n,) so far from 0, beside how long they last, that a precision rounds the motion with them.

    Arrays of JAX's are what they are, and traced values are not known.

    Raises:
        ValueError: one line that says by how much.

    Example:
        >>> require_near("times", [1e5, 1e5 + 0.01, 1e5 + 0.02], np.float32)
        Traceback (most recent call last):
        ...
        ValueError: times: from 100000.0 to 100000.02, which float32 rounds by up to 0.0034 s; count them from ...
    """
    if isinstance(times, Array) or any(isinstance(time, Tracer) for time in jax.tree.leaves(times)):
        return
    given = np.asarray(times, float)
    if given.ndim != 1 or given.size < 2 or not np.all(np.isfinite(given)):
        return
    off = float(np.max(np.abs(given.astype(dtype).astype(float) - given)))
    if off > _AWAY * float(jnp.finfo(dtype).eps) * np.ptp(given):
        raise ValueError(
            f"{name}: from {given[0]} to {given[-1]}, which {np.dtype(dtype).name} rounds by up to {off:.2g} s; "
            "count them from the first, or enable jax_enable_x64"
        )


def require_tolerance(tolerance: Any) -> None:
    """Refuse what is no positive number."""
    # Inside jit, too, a number is a number.
    with jax.ensure_compile_time_eval():
        (value,) = real_arrays(tolerance=tolerance)
        positive = not isinstance(value, Tracer) and not value.shape and 0 < float(value) < np.inf
    if not positive:
        raise ValueError(f"tolerance={tolerance!r}: expected a positive number")


def count(name: str, value: Any, least: int) -> int:
    """Convert an integer of any kind to Python's.

    Raises:
        ValueError: it is none, or below `least`.
    """
    if not is_count(value, least):
        raise ValueError(f"{name}={value!r}: expected an integer of at least {least}")
    return int(value)


def is_count(value: Any, least: int) -> bool:
    """Tell whether a value is an integer, Python's or numpy's, of no dimension and not below `least`; a bool is none.

    Example:
        >>> is_count(np.int64(2), 1), is_count(0, 1), is_count(True, 1), is_count(2.0, 1)
        (True, False, False, False)
    """
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(value >= least)
