"""Compile a program quickly where a call waits for it, and keep it for interchangeable functions.

XLA spends as long on compiling a simulation as it takes to simulate 10^6 steps of it. Half of that is code generation
for fused loops over arrays, which in a simulation have a handful of entries. On a CPU a call outside all
transformations asks for the simpler generator, and leaves out the optimisation of code that has little to do. A
function that its user compiles with `jax.jit` is compiled with the user's options.

Programs are kept for systems and functions that are interchangeable (`fingerprint`), not for objects: a system made
anew in a loop finds them again. The programs used least recently go first. Each holds some hundred memory mappings, of
which Linux gives a process 65 530, and XLA crashes where there are no more.
"""

from __future__ import annotations

import gc
import inspect
import os
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache, update_wrapper
from pathlib import Path
from threading import RLock
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import Tracer
from jax.extend.core import get_opaque_trace_state

from diffcontact.numerics.batching import full_precision_matmul
from diffcontact.numerics.fingerprint import TracedError, digest, known_fingerprint

# Measured on jaxlib 0.10.1: a ball on a floor 2.1 s for 3.3 s, its 10^5 steps 0.75 s with either. Since jaxlib 0.12
# there is one code generator.
_QUICKLY = {"xla_cpu_use_fusion_emitters": False, "xla_backend_optimization_level": 1}
# Seconds of processor time to compile and microseconds a step, optimised | not: a ball 4.0, 14 | 1.7, 39; a disc with
# friction 8.1, 40 | 2.9, 86; three discs 12, 47 | 2.9, 160; where a step is no single kernel, a cube 33, 960 | 21, 2000
# and ten balls 14, 700 | 7, 4000. At this much work a call loses at most half of what it has gained.
_LITTLE = 1_250_000
_UNOPTIMISED = {"xla_backend_optimization_level": 0}
# How many programs are kept: a fit compiles up to eight.
MOST = 64
# Of the memory mappings that Linux gives a process: from here on the older half of the programs goes, from here on all,
# and from here on nothing is compiled any more.
_MANY, _TOO_MANY, _FULL = 0.5, 0.75, 0.9
# Where programs outlive the process, else None: `commands.cache.stored`, which the command line puts here.
stored: Callable[[Any, Callable, tuple], Callable[[dict[str, Any] | None], Callable] | None] | None = None
# The variable that a trace depends on besides the arguments and JAX's own settings.
_VARIABLE = "DIFFCONTACT_KERNEL"
# The state of JAX where nothing is traced.
_OUTSIDE = get_opaque_trace_state()


def clear_caches() -> None:
    """Forget all compiled programs, those of `jax.jit` too, and give their memory back.

    The library keeps the last 64 programs that its functions have compiled. Where a process comes near the number of
    memory mappings that Linux allows it (`vm.max_map_count`), the library calls this function itself.

    Example:
        >>> import diffcontact as dc
        >>> dc.clear_caches()
    """
    _PROGRAMS.clear()
    jax.clear_caches()
    gc.collect()


class _Programs:
    """Keep the programs used last, by key."""

    def __init__(self, most: int):
        self.most = most
        self._kept: OrderedDict[Hashable, Callable] = OrderedDict()
        self._lock = RLock()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: Hashable, make: Callable[[], Callable]) -> Callable:
        """Return the program of this key, or `make()`; MemoryError without mappings for another one."""
        with self._lock:
            program = self._kept.get(key)
            if program is None:
                self._make_room()
                program = self._kept[key] = make()
            self._kept.move_to_end(key)
            return program

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()

    def count(self, of: Callable[[Any], bool]) -> int:
        with self._lock:
            return sum(map(of, self._kept))

    def _make_room(self) -> None:
        while len(self._kept) >= self.most:
            self._kept.popitem(last=False)
        if _mapped() > _MANY:
            for _ in range(len(self._kept) // 2):
                self._kept.popitem(last=False)
            gc.collect()
        if _mapped() > _TOO_MANY:
            clear_caches()
        if (full := _mapped()) > _FULL:
            raise MemoryError(
                f"memory mappings: {full:.0%} of those that this process may have (vm.max_map_count) are in use, "
                "expected room for another compiled program; restart the process, or raise the limit"
            )


_PROGRAMS = _Programs(MOST)


def _mapped() -> float:
    """Tell which part of the process's memory mappings is in use; 0: not known."""
    try:
        limit = int(Path("/proc/sys/vm/max_map_count").read_text())
        return Path("/proc/self/maps").read_bytes().count(b"\n") / limit
    except (OSError, ValueError):
        return 0.0


class jit_fast_compile:  # noqa: N801 - named like jax.jit
    """Compile a function quickly where a call waits for it, with full products; its code finds its programs.

    Args:
        work: (arguments) -> int, the number of steps times the work of one, in units of some nanoseconds. Code with
            little work is not optimised; None: the code is always optimised.
        static: names of arguments that are code: systems, functions, sizes. Interchangeable ones share a program.
    """

    def __init__(self, function: Callable, work: Callable[..., int] | None = None, static: Sequence[str] = ()):
        self.function, self.work, self.static = full_precision_matmul(function), work, static
        self.signature = inspect.signature(function)
        update_wrapper(self, function)

    def __call__(self, *args, **kwargs):
        given = self.signature.bind(*args, **kwargs).arguments
        code = {name: given.pop(name) for name in self.static if name in given}
        leaves, structure = jax.tree.flatten(given)
        # Inside a transformation JAX takes no options; it compiles the whole.
        inside = get_opaque_trace_state() != _OUTSIDE or any(isinstance(leaf, Tracer) for leaf in leaves)
        options = {}
        if not inside:
            options = _known(self.work is not None and self.work(*args, **kwargs) <= _LITTLE)
        try:
            which = tuple((name, known_fingerprint(value)) for name, value in code.items())
        except TracedError:
            # What is traced now must not be kept.
            return self._compiled(code, given, options)(*given.values())
        shapes = tuple(map(jax.typeof, leaves))
        read = os.environ.get(_VARIABLE), jax.default_backend()
        key = self, which, structure, shapes, inside, tuple(options.items()), read
        return _PROGRAMS.get(key, lambda: self._program(code, given, options, key))(*given.values())

    def _program(self, code: dict[str, Any], given: dict[str, Any], options: dict[str, Any], key: tuple) -> Callable:
        """Load what an earlier process has traced, where programs are stored, or compile anew."""
        _, which, structure, shapes, inside, _, (kernel, backend) = key
        # A kernel belongs to its process.
        alone = kernel in (None, "jax") and backend == "cpu" and not inside
        if stored is None or not alone or (name := digest(which)) is None:
            return self._compiled(code, given, options)
        numbers = [(str(one.dtype), one.shape, one.weak_type) for one in shapes]
        parts = self.function.__module__, self.function.__qualname__, name, str(structure), numbers
        traced = stored(parts, self._compiled(code, given, {}), tuple(given.values()))
        return self._compiled(code, given, options) if traced is None else traced(options or None)

    def _compiled(self, code: dict[str, Any], given: dict[str, Any], options: dict[str, Any]) -> Callable:
        function, names = self.function, tuple(given)

        def program(*values):
            return function(**code, **dict(zip(names, values, strict=True)))

        program.__name__ = program.__qualname__ = function.__name__
        return jax.jit(program, compiler_options=options or None)

    def programs(self) -> int:
        """Count the kept programs that calls wait for."""
        return _PROGRAMS.count(lambda key: key[0] is self and not key[4])


def _known(little: bool = False) -> dict[str, Any]:
    """Choose the options that this XLA knows on a CPU, without those in `XLA_FLAGS`."""
    if jax.default_backend() != "cpu":
        return {}
    told = os.environ.get("XLA_FLAGS", "")
    wanted = _QUICKLY | _UNOPTIMISED if little else _QUICKLY
    untold = tuple(name for name in wanted if name not in told)
    return {name: wanted[name] for name in _understood(tuple((name, _QUICKLY[name]) for name in untold))}


@lru_cache
def _understood(options: tuple[tuple[str, Any], ...]) -> tuple[str, ...]:
    """Select the options that XLA knows.

    Each question is a compilation: a few hundredths of the first call.
    """
    if not options or _knows(options):
        return tuple(name for name, _ in options)
    return tuple(option[0] for option in options if _knows((option,)))


def _knows(options: tuple[tuple[str, Any], ...]) -> bool:
    try:
        jax.jit(lambda: jnp.zeros(()), compiler_options=dict(options))()
    except Exception:  # What XLA raises for an option that it does not know is nobody's contract.
        return False
    return True
