"""How a program is compiled that a call waits for: quickly.

XLA spends as long on compiling a simulation as it takes to simulate 10^6 steps of it. Half of that is code generation
for fused loops over arrays, which in a simulation have a handful of entries. On a CPU we ask for the simpler one, where
a call outside all transformations waits for it, and leave out the optimisation of code that has little to do. What
somebody compiles with `jax.jit` is compiled as they say.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache, update_wrapper
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import Tracer

from diffcontact.products import with_full_products

# Measured on jaxlib 0.10.1: a ball on a floor 2.1 s for 3.3 s, its 10^5 steps 0.75 s with either. Since jaxlib 0.12
# there is one code generator.
_QUICKLY = {"xla_cpu_use_fusion_emitters": False, "xla_backend_optimization_level": 1}
# Seconds to compile and microseconds a step, optimised | not: a ball 1.7, 3.7 | 1.1, 4.8; a ball in a box 3.0, 4.7 |
# 2.0, 7.2; three balls in a box 4.1, 100 | 2.1, 105; a box that tumbles 16, 190 | 11, 390; a cube 33, 960 | 21, 2 000;
# ten balls in a box 14, 700 | 7, 4 000. At this much work a call loses at most half of what it has gained.
_LITTLE = 1_250_000
_UNOPTIMISED = {"xla_backend_optimization_level": 0}


def quick_jit(function: Callable, work: Callable[..., int] | None = None, **options: Any) -> _QuickJit:
    """`jax.jit(function, **options)` that compiles quickly where a call waits for it, with full products.

    Args:
        function, options: as for `jax.jit`.
        work: called with the same arguments as the function, about how much there is to do: the number of steps times
            what one takes, in units of some nanoseconds. Where it is little, the code is not optimised. None: it always
            is.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> double = quick_jit(lambda x: 2 * x)
        >>> double(jnp.ones(())).item(), jax.jit(double)(jnp.ones(())).item(), jax.grad(double)(1.0).item()
        (2.0, 2.0, 2.0)
    """
    return _QuickJit(with_full_products(function), work, options)


class _QuickJit:
    """A function and its compiled programs: those that calls wait for, and those inside others."""

    def __init__(self, function: Callable, work: Callable[..., int] | None, options: dict[str, Any]):
        self.plain: Any = jax.jit(function, **options)
        self.work = work
        self.quick: Any = lru_cache(lambda little: jax.jit(function, compiler_options=dict(_known(little)), **options))
        update_wrapper(self, function)

    def __call__(self, *args, **kwargs):
        # Inside a transformation JAX takes no options; it compiles the whole.
        inside = any(isinstance(leaf, Tracer) for leaf in (jnp.zeros(()), *jax.tree.leaves((args, kwargs))))
        if inside or not _known():
            return self.plain(*args, **kwargs)
        little = self.work is not None and self.work(*args, **kwargs) <= _LITTLE
        return self.quick(little)(*args, **kwargs)

    def programs(self) -> int:
        """How many have been compiled."""
        quick = sum(self.quick(little)._cache_size() for little in (False, True)) if _known() else 0
        return self.plain._cache_size() + quick


@lru_cache
def _known(little: bool = False) -> tuple[tuple[str, Any], ...]:
    """The options that this XLA knows, on a CPU; without those that `XLA_FLAGS` says something of."""
    if jax.default_backend() != "cpu":
        return ()
    told = os.environ.get("XLA_FLAGS", "")
    wanted = _QUICKLY | _UNOPTIMISED if little else _QUICKLY
    untold = {name: value for name, value in wanted.items() if name not in told}
    # Each question is a compilation: a few hundredths of the first call.
    known = untold if _knows(untold) else {name: value for name, value in untold.items() if _knows({name: value})}
    return tuple(known.items())


def _knows(options: dict[str, Any]) -> bool:
    try:
        jax.jit(lambda: jnp.zeros(()), compiler_options=options)()
    except Exception:  # What XLA raises for an option that it does not know is nobody's contract.
        return False
    return True
