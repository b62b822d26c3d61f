"""Keep a conditional a conditional under vmap."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax


@jax.custom_batching.custom_vmap
def any_lane(predicate):
    """`predicate` as it is; under vmap: whether it holds in *any* lane, as one unbatched scalar.

    `lax.cond` on a batched predicate becomes a select that pays for both branches in every step. On
    `any_lane(predicate)` it stays a branch: work that no lane of the batch needs is skipped. The branch must then
    leave alone, by `jnp.where(predicate, ...)`, the lanes that did not ask for it.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> jax.vmap(any_lane, out_axes=None, axis_size=2)(jnp.array([False, True]))
        Array(True, dtype=bool)
    """
    return predicate


@any_lane.def_vmap
def _any_lane_vmap(axis_size, in_batched, predicate):
    # The rule runs under whatever vmap is further out, which has its own lanes to ask.
    return any_lane(jnp.any(predicate) if in_batched[0] else predicate), False


@jax.custom_batching.custom_vmap
def among_lanes(wanted):
    """Inside a branch that is taken where `any_lane(wanted)` holds: whether this lane wants it.

    True where there are no lanes, so that choosing between a branch and what was there costs nothing; under vmap what
    each lane wants.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> jax.vmap(among_lanes)(jnp.array([False, True])).tolist()
        [False, True]
    """
    return jnp.ones_like(wanted)


@among_lanes.def_vmap
def _among_lanes_vmap(axis_size, in_batched, wanted):
    return wanted, in_batched[0]


def once(function):
    """`function`, for a branch or the body of a loop: traced once by each transformation.

    A derivative of `lax.cond`, or a vmap of it, traces the branches twice, to learn which of their results have
    tangents, or lanes; a vmap of `lax.while_loop` does so with the body, and all that is inside is traced again. What
    `jax.jit` has traced JAX remembers. The compiled program is the same.

    Example:
        >>> import jax
        >>> traced = []
        >>> branch = lambda x: traced.append(x) or 2 * x
        >>> jax.jvp(lambda x: jax.lax.cond(x > 0, once(branch), lambda x: x, x), (3.0,), (1.0,))[1].item(), len(traced)
        (2.0, 1)
    """
    return jax.jit(function)


def computed_again(body):
    """`body` of a loop, of which reverse mode keeps what is carried from pass to pass; the rest it computes again.

    A pass that leaves most of its work out, as those do whose work is a branch, keeps room for all of it otherwise:
    to clear and to read that room took nine tenths of a gradient, to compute again takes a tenth.

    Args:
        body: (carry, x) -> (carry, y), as `lax.scan` takes it.

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
    """`work()` where any lane of a batch wants it, else `otherwise()`; see `any_lane`.

    Args:
        wanted: () bool.
        work, otherwise: functions without arguments that return the same structure.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> jax.vmap(lambda x: where_any(x < 0, lambda: -x, lambda: x))(jnp.array([-1.0, 2.0])).tolist()
        [1.0, -2.0]
    """
    return lax.cond(any_lane(wanted), once(work), otherwise)


def select(condition, new, old):
    """`new` where the condition holds, else `old`, leaf by leaf."""
    return jax.tree.map(lambda new, old: jnp.where(condition, new, old), new, old)


def where_wanted(wanted, new, old):
    """`new()` where `wanted` holds, else `old`; no work where no lane of a batch wants it.

    What a lane keeps is its own value, not one that a branch computed again: a branch is compiled apart and may round
    differently, and no lane may depend on what its neighbours want.

    Args:
        wanted: () bool.
        new: a function without arguments, of the structure of `old`.
        old: any pytree.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> jax.vmap(lambda x: where_wanted(x < 0, lambda: -x, x))(jnp.array([-1.0, 2.0])).tolist()
        [1.0, 2.0]
    """
    return where_any(wanted, lambda: select(among_lanes(wanted), new(), old), lambda: old)


def entangled(values, others=()):
    """`values` as they are, each with a tangent, and with lanes, where any of them, or of the others, has some.

    What a loop carries from its start has to have tangents, and lanes, wherever its end has. JAX finds that out by
    tracing the loop again and again, and all loops inside it. Where a loop starts from entangled values it does so
    once. The compiled program is the same.

    Args:
        values: any pytree of arrays; integers get lanes alone.
        others: what the loop's end depends on besides, any pytree.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> both = lambda x: entangled((x, jnp.zeros(2)))
        >>> values, tangents = jax.jit(lambda x, dx: jax.jvp(both, (x,), (dx,)))(1.0, 3.0)
        >>> [value.tolist() for value in values], [tangent.tolist() for tangent in tangents]
        ([1.0, [0.0, 0.0]], [3.0, [0.0, 0.0]])
    """
    return _tied(values, _together((values, others)))


def in_lanes(values, like):
    """`values` as they are, with lanes where `like` has some, and with no other tangents than they have.

    For what a loop carries and does not differentiate; see `entangled`.

    Args:
        values, like: any pytrees of arrays.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> jax.vmap(lambda x: in_lanes(jnp.zeros((), int), x))(jnp.ones(2)).shape
        (2,)
    """
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
