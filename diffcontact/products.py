"""Products of matrices that are as exact as their factors, on every device."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import jax

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")


def with_full_products(function: Callable[_Given, _Result]) -> Callable[_Given, _Result]:
    """The function, whose products of single-precision matrices are of single precision on every device.

    JAX lets recent GPUs round the factors to 10 bits (TF32), and TPUs to 7, unless it is told otherwise. All that is
    said of rounding here, and every status, would be wrong by a factor of 10^3 and more. A rule for derivatives is
    traced when somebody differentiates, long after what it belongs to: it needs this, too.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> product = jax.make_jaxpr(with_full_products(lambda x: x @ x))(jnp.ones(2, jnp.float32))
        >>> [str(precision) for precision in product.eqns[0].params["precision"]]
        ['HIGHEST', 'HIGHEST']
    """

    @wraps(function)
    def inside(*args: _Given.args, **kwargs: _Given.kwargs) -> _Result:
        with jax.default_matmul_precision("highest"):
            return function(*args, **kwargs)

    return inside
