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
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.core import Tracer

from diffcontact.kernels import with_kernels

# Measured on jaxlib 0.10.1: a ball on a floor 2.1 s for 3.3 s, its 10^5 steps 0.75 s with either. Since jaxlib 0.12
# there is one code generator.
_QUICKLY = {"xla_cpu_use_fusion_emitters": False, "xla_backend_optimization_level": 1}
# Seconds to compile and microseconds a step, optimised | not: a ball 3.7, 24 | 2.7, 24; three balls in a box 8.0, 95 |
# 4.0, 125; a box that tumbles 16, 190 | 11, 390; a cube 33, 960 | 21, 2 000; ten balls in a box 14, 700 | 7, 4 000.
_LITTLE = 10**5
_UNOPTIMISED = {"xla_backend_optimization_level": 0}
# Steps from which one kernel pays at its first call. Seconds to compile and microseconds a step, with it | without, on
# one core: a ball 4.1, 1.2 | 2.5, 6.4; a ball in a box 5.6, 2.4 | 3.8, 11; three balls in a box 10, 11 | 5.2, 42.
_MANY = 3 * 10**5


class Work(NamedTuple):
    """About how much there is to do: so many steps one after the other, and operations in each."""

    steps: int
    operations: int


def quick_jit(function: Callable, work: Callable[..., Work] | None = None, **options: Any) -> _QuickJit:
    """`jax.jit(function, **options)` that compiles quickly where a call waits for it.

    Args:
        function, options: as for `jax.jit`.
        work: called with the same arguments as the function, about how much there is to do. Where it is little, the
            code is not optimised; where steps are many, their loop becomes one kernel, if it may (`one_kernel`). None:
            optimised always, one kernel never.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> double = quick_jit(lambda x: 2 * x)
        >>> double(jnp.ones(())).item(), jax.jit(double)(jnp.ones(())).item(), jax.grad(double)(1.0).item()
        (2.0, 2.0, 2.0)
    """
    return _QuickJit(function, work, options)


def one_kernel(function: Callable, **options: Any) -> Callable:
    """`jax.jit(function, **options)` for what is called a thousand times: loops over a few bodies become one kernel.

    On a CPU XLA runs a simulation operation by operation, and for a few bodies going from one to the next is most of
    the time. In one kernel their motion takes a third to a seventh of it, forward derivatives (`jax.jacfwd`) likewise,
    and about as long to compile (`doctor --bench` has a ball). Not worth it: reverse mode (five times as fast, three
    times as long to compile), `vmap` of many, dozens of bodies, friction, whose systems may be dependent, which LAPACK
    is asked about. Results differ by rounding. `simulate` does it by itself from 300 000 steps on.

    Args:
        function: what JAX can compile. What it is made of (`jax.jacfwd`, `jax.vmap`) belongs inside: within other
            transformations the result is `function` itself, and so it is on other processors than CPUs, for loops whose
            arrays are large or that call libraries, and in versions of JAX where this was not tried.
        options: of `jax.jit`.

    Example:
        >>> import jax, jax.numpy as jnp, diffcontact as dc
        >>> @dc.one_kernel
        ... def halved(x):
        ...     return jax.lax.fori_loop(0, 10, lambda i, x: x / 2, x)
        >>> halved(jnp.array([1024.0])).tolist()
        [1.0]
    """
    return _QuickJit(function, lambda *args, **kwargs: Work(_MANY, _LITTLE), options)


class _QuickJit:
    """A function and its compiled programs: those that calls wait for, and those inside others."""

    def __init__(self, function: Callable, work: Callable[..., Work] | None, options: dict[str, Any]):
        self.function, self.work, self.options = function, work, options
        self.plain: Any = jax.jit(function, **options)
        self.waited_for: dict[tuple[bool, bool], Any] = {}
        update_wrapper(self, function)

    def __call__(self, *args, **kwargs):
        # Inside a transformation JAX takes no options; it compiles the whole.
        inside = any(isinstance(leaf, Tracer) for leaf in (jnp.zeros(()), *jax.tree.leaves((args, kwargs))))
        if inside or jax.default_backend() != "cpu":
            return self.plain(*args, **kwargs)
        steps, operations = self.work(*args, **kwargs) if self.work else Work(1, _LITTLE + 1)
        little, many = steps * operations <= _LITTLE, steps >= _MANY
        program = self._program(little, many)
        return program(*args, **kwargs, always=True) if many else program(*args, **kwargs)

    def _program(self, little: bool, many: bool) -> Any:
        compiler_options = dict(_known(little))
        if not (compiler_options or many):
            return self.plain
        if (little, many) not in self.waited_for:
            function = with_kernels(self.function) if many else self.function
            self.waited_for[little, many] = jax.jit(function, compiler_options=compiler_options, **self.options)
        return self.waited_for[little, many]

    def programs(self) -> int:
        """How many have been compiled."""
        return self.plain._cache_size() + sum(program._cache_size() for program in self.waited_for.values())


@lru_cache
def _known(little: bool = False) -> tuple[tuple[str, Any], ...]:
    """The options that this XLA knows; without those that `XLA_FLAGS` says something of."""
    told = os.environ.get("XLA_FLAGS", "")
    wanted = _QUICKLY | _UNOPTIMISED if little else _QUICKLY
    return tuple((name, value) for name, value in wanted.items() if name not in told and _knows(name, value))


def _knows(name: str, value: Any) -> bool:
    try:
        jax.jit(lambda: jnp.zeros(()), compiler_options={name: value})()
    except Exception:  # What XLA raises for an option that it does not know is nobody's contract.
        return False
    return True
