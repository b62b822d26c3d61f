"""Products of matrices in the precision of their factors, on every device."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import jax

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")


def full_precision_matmul(function: Callable[_Given, _Result]) -> Callable[_Given, _Result]:
    """Multiply single-precision matrices in single precision, on every device.

    By default JAX lets recent GPUs round the factors to 10 bits (TF32), and TPUs to 7. Every stated error and every
    status would then be wrong by a factor of 10^3 and more. A derivative rule is traced later than its function, so
    that a rule needs this decorator, too.
    """

    @wraps(function)
    def inside(*args: _Given.args, **kwargs: _Given.kwargs) -> _Result:
        with jax.default_matmul_precision("highest"):
            return function(*args, **kwargs)

    return inside
