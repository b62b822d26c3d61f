"""Derivative rules that second derivatives keep, too."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any

import jax

from diffcontact.products import with_full_products


class Ruled:
    """A function with a derivative rule, as `jax.custom_jvp` makes it; it holds for derivatives of any order and mode.

    Reverse mode parts the body of a loop into what varies and what does not. A `custom_jvp` whose arguments are of both
    kinds is taken apart there (`lax.scan`, jax 0.10), and its rule is lost: what is derived from a gradient is then the
    derivative of the function as it is written. A checkpoint stays whole. It keeps all that it computes, so that
    nothing is computed again.

    Args:
        function: of arrays or trees of them. `defjvp` gives it its rule.

    Example:
        A root that is found somehow, y^2 = a b, in a loop: the sum is (1 + sqrt(2)) sqrt(a).

        >>> import jax.numpy as jnp
        >>> @Ruled
        ... def settled(a, b, y):
        ...     return jnp.abs(y)
        >>> @settled.defjvp
        ... def moved(primals, tangents):
        ...     a, b, y = primals
        ...     return settled(a, b, y), (tangents[0] * b + a * tangents[1]) / (2 * settled(a, b, y))
        >>> def roots(a):
        ...     root = lambda b: settled(a, b, jax.lax.stop_gradient(jnp.sqrt(a * b)))
        ...     return jnp.sum(jax.lax.map(root, jnp.array([1.0, 2.0])))
        >>> print(f"{jax.grad(roots)(1.0):.4f} {jax.hessian(roots)(1.0):.4f}")
        1.2071 -0.6036
    """

    def __init__(self, function: Callable):
        self._ruled: Any = jax.custom_jvp(function)
        keeps = jax.checkpoint_policies.everything_saveable
        self._whole: Any = jax.checkpoint(self._ruled, prevent_cse=False, policy=keeps)
        update_wrapper(self, function)

    def defjvp(self, rule: Callable) -> Callable:
        """`rule(primals, tangents)`, from what the function is given to what it returns and the tangents of that."""
        return self._ruled.defjvp(with_full_products(rule))

    def __call__(self, *args: Any) -> Any:
        return self._whole(*args)
