"""Handle long vectors: sum several in one pass, and bring parts of them together."""

from __future__ import annotations

from functools import partial

import jax.numpy as jnp
from jax import lax
from jax.core import Tracer

from diffcontact.arguments import require_tolerance
from diffcontact.numerics.batching import any_lane


def sums(*values):
    """Sum several vectors (c,) in one pass; XLA on a CPU takes several for each."""
    start = (jnp.zeros((), values[0].dtype),) * len(values)
    return lax.reduce(values, start, lambda a, b: tuple(map(jnp.add, a, b)), (0,))


def largest(values):
    """Return the largest value or 0, twice as fast as a maximum that keeps NaN."""
    start, dimensions = jnp.zeros((), values.dtype), tuple(range(values.ndim))
    return lax.reduce(values, start, lambda a, b: jnp.where(b > a, b, a), dimensions)


def stated_tolerance(tolerance, dtype):
    """Return the tolerance of a residual; None: 1e-6 in double precision, 64 eps in single."""
    if tolerance is None:
        return max(1e-6, 64 * float(jnp.finfo(dtype).eps))
    if not isinstance(tolerance, Tracer):
        require_tolerance(tolerance)
    return tolerance


def solved_among(solve, problem, x, on, sizes):
    """Solve a problem with its entries that are `on` (c,) brought together.

    An entry that is off costs as much as another, so that the iterations leave it out.

    Args:
        solve: (problem, x) -> x, and something else.
        problem: has `part(place, there)`, its entries at the places (k,), none where `there` is False.
        x: (..., c) where it starts.
        sizes: how many entries are brought together, ascending; all of them where these are not enough.
    """
    count, number = on.size, jnp.sum(on)

    def among(size):
        (kept,) = jnp.nonzero(on, size=size, fill_value=count)
        place, there = jnp.minimum(kept, count - 1), kept < count
        found, more = solve(problem.part(place, there), jnp.where(there, x[..., place], 0))
        return x.at[..., kept].set(found, mode="drop"), more

    # The first of the sizes that is enough, for all lanes of a batch.
    least = sum((any_lane(number > size).astype(int) for size in sizes), jnp.zeros((), int))
    return lax.switch(least, [*(partial(among, size) for size in sizes), lambda: solve(problem, x)])
