"""Derivative rules that hold for derivatives of every order."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any

import jax

from diffcontact.numerics.matmul_precision import full_precision_matmul


class custom_jvp_all_orders:  # noqa: N801 - named like jax.custom_jvp
    """Give a function a derivative rule, like `jax.custom_jvp`, for every order and mode.

    Reverse mode splits the body of a loop into a varying and a constant part. A `custom_jvp` with arguments of both
    kinds is taken apart there (`lax.scan`, jax 0.10) and loses its rule: second derivatives then are those of the
    function as it is written. A checkpoint stays whole. This one keeps all values, so nothing is computed again.

    Example:
        A root that is found somehow, y^2 = a b, in a loop: the sum is (1 + sqrt(2)) sqrt(a).

        >>> import jax.numpy as jnp
        >>> @custom_jvp_all_orders
        ... def settled(a, b, y):
        ...     return jnp.abs(y)
        >>> @settled.defjvp
        ... def moved(primals, tangents):
        ...     a, b, y = primals
        ...     return settled(a, b, y), (tangents[0] * b + a * tangents[1]) / (2 * settled(a, b, y))
        >>> def roots(a):
        ...     root = lambda b: settled(a, b, jax.lax.stop_gradient(jnp.sqrt(a * b)))
        ...     return jnp.sum(jax.lax.map(root, jnp.array([1.0, 2.0])))
        >>> print(f"{jax.jit(jax.grad(roots))(1.0):.4f} {jax.jit(jax.hessian(roots))(1.0):.4f}")
        1.2071 -0.6036
    """

    def __init__(self, function: Callable):
        self._ruled: Any = jax.custom_jvp(function)
        keeps = jax.checkpoint_policies.everything_saveable
        self._whole: Any = jax.checkpoint(self._ruled, prevent_cse=False, policy=keeps)
        update_wrapper(self, function)

    def defjvp(self, rule: Callable) -> Callable:
        """Set the rule: (primals, tangents) -> (result, tangent of the result)."""
        return self._ruled.defjvp(full_precision_matmul(rule))

    def __call__(self, *args: Any) -> Any:
        return self._whole(*args)
