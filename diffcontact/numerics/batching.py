"""Trace functions so that batches, loops, derivatives and precision come out alike, and choose how long batches are.

On a CPU a batch is as slow as its slowest lane, and its arrays should stay in the cache. An accelerator wants to be
filled: on an H200 a step of a ball's fit takes 1.5 times as long in 65 536 copies as in one, and ten spheres take most
steps per second in some 16 384 copies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import update_wrapper, wraps
from typing import Any, ParamSpec, TypeVar

import jax
import jax.numpy as jnp
from jax import lax

# Lanes of one program that are computed at once where there may be many; more go one lot after the other, to bound
# memory.
AT_ONCE = 64

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


@jax.custom_batching.custom_vmap
def any_lane(predicate):
    """Return `predicate`; under vmap () bool, whether any lane has it.

    `lax.cond` on a batched predicate becomes a select that pays for both branches in every step. On
    `any_lane(predicate)` it stays a branch: work that no lane of the batch needs is skipped. The branch must then
    leave the other lanes alone, by `jnp.where(predicate, ...)`.
    """
    return predicate


@any_lane.def_vmap
def _any_lane_vmap(axis_size, in_batched, predicate):
    # The rule runs under whatever vmap is further out, which has its own lanes to ask.
    return any_lane(jnp.any(predicate) if in_batched[0] else predicate), False


@jax.custom_batching.custom_vmap
def among_lanes(wanted):
    """Tell inside a branch of `any_lane(wanted)` whether this lane wants it.

    Without lanes True, so that a choice between new and old values costs nothing.
    """
    return jnp.ones_like(wanted)


@among_lanes.def_vmap
def _among_lanes_vmap(axis_size, in_batched, wanted):
    return wanted, in_batched[0]


def once(function):
    """Trace a branch or a loop's body once in each transformation.

    A derivative or a vmap of `lax.cond` traces the branches twice, to learn which results have tangents or lanes. A
    vmap of `lax.while_loop` does so with the body, and with all loops inside. JAX remembers what `jax.jit` has traced.
    The compiled program is the same.

    Example:
        >>> import jax
        >>> traced = []
        >>> branch = lambda x: traced.append(x) or 2 * x
        >>> jax.jvp(lambda x: jax.lax.cond(x > 0, once(branch), lambda x: x, x), (3.0,), (1.0,))[1].item(), len(traced)
        (2.0, 1)
    """
    return jax.jit(function)


def computed_again(body):
    """Let reverse mode keep only the carry of a loop's `body`.

    The rest is computed again. Otherwise a pass keeps room for all branches, also for those not taken: to clear and to
    read that room took nine tenths of a gradient, to compute again takes a tenth.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> def grown(x):
        ...     return jax.lax.scan(computed_again(lambda y, n: (jnp.sin(y * n), None)), x, jnp.arange(1.0, 4.0))[0]
        >>> both = jax.jit(lambda x: (jax.grad(grown)(x), jax.jvp(grown, (x,), (1.0,))[1]))
        >>> print(*(f"{slope:.4f}" for slope in both(0.5)))
        -2.3406 -2.3406
    """
    return jax.checkpoint(body, prevent_cse=False)


def where_any(wanted, work, otherwise):
    """Return `work()` where any lane wants it (() bool), else `otherwise()`."""
    return lax.cond(any_lane(wanted), once(work), otherwise)


def select(condition, new, old):
    """Return the tree `new` where the condition holds, else `old`, leaf by leaf."""
    return jax.tree.map(lambda new, old: jnp.where(condition, new, old), new, old)


def where_wanted(wanted, new, old):
    """Return `new()` where `wanted` () holds, else `old`.

    Nothing is computed unless a lane wants it. Another lane keeps its own value, not one that a branch computed
    again: a branch is compiled apart and may round differently, and no lane may depend on its neighbours.
    """
    return where_any(wanted, lambda: select(among_lanes(wanted), new(), old), lambda: old)


def entangled(values, others=()):
    """Give each of `values` tangents and lanes where any value, or other, has some.

    A loop's carry needs tangents and lanes at its start wherever its end has some. JAX finds that out by tracing the
    loop again and again, with all loops inside it; with entangled values it traces once. The compiled program is the
    same. Integers get lanes alone. `others` is whatever else the loop's end depends on.
    """
    return _tied(values, _together((values, others)))


def in_lanes(values, like):
    """Give `values` lanes where `like` has some, and no tangents; see `entangled`."""
    return _tied(values, lax.stop_gradient(_together(like)))


def _together(values):
    leaves = [leaf for leaf in jax.tree.leaves(values) if jnp.issubdtype(jnp.result_type(leaf), jnp.floating)]
    return jnp.asarray(sum(jnp.sum(leaf) for leaf in leaves))


def _tied(values, to):
    never = jnp.zeros((), bool)

    def tied(leaf):
        leaf = jnp.asarray(leaf)
        return lax.select(never, lax.broadcast(to.astype(leaf.dtype), leaf.shape), leaf)

    return jax.tree.map(tied, values)


class custom_jvp_all_orders:  # noqa: N801 - named like jax.custom_jvp
    """Give a function a derivative rule, like `jax.custom_jvp`, for every order and mode.

    Reverse mode splits the body of a loop into a varying and a constant part. A `custom_jvp` with arguments of both
    kinds is taken apart there (`lax.scan`, jax 0.10) and loses its rule: second derivatives then are those of the
    function as it is written. A checkpoint stays whole. This one keeps all values, so nothing is computed again.
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


@dataclass(frozen=True)
class SideBySide:
    """Hold batch sizes of a platform.

    Args:
        ensemble: lanes of an ensemble, on each device.
        candidates: experiments that are compared.
        bench: copies in the largest batch that `doctor --bench` measures.
        apart: branch around the only step of an interval: half the time on a CPU, a wait on an accelerator.
        factored: work of a batch of factorizations from which LAPACK gets it in parts (`linear`); None: never.
        panel: entries of a matrix up to which LAPACK factors it on the calling thread alone; None: any.
    """

    ensemble: int
    candidates: int
    bench: int
    apart: bool
    factored: int | None
    panel: int | None


# From a work of 200 000, number of entries times rows, jaxlib deals factorizations out to threads.
_ON_CPU = SideBySide(
    ensemble=256,
    candidates=16,
    bench=1024,
    apart=True,
    factored=200_000 if jax.__version_info__ < (0, 11) else None,
    panel=16_384,
)
# A chunk of an ensemble has to fit into the memory of smaller devices too.
_ELSEWHERE = SideBySide(ensemble=16_384, candidates=1024, bench=65_536, apart=False, factored=None, panel=None)


def side_by_side(platform: str | None = None) -> SideBySide:
    """Choose the batch sizes of a platform; None: that on which JAX computes."""
    return _ON_CPU if (platform or jax.default_backend()) == "cpu" else _ELSEWHERE
