"""Which bodies are near each other: a cell list, sorted, of fixed shapes."""

from __future__ import annotations

from itertools import product

import jax.numpy as jnp
import numpy as np
from jax import Array


def near_pairs(centre: Array, radius: Array, reach, edge, per_column: int) -> tuple[Array, Array, Array, Array]:
    """All pairs of balls whose surfaces are less than `reach` apart.

    Space is divided into cubes; a ball's partners are in its own cube and in those around it, which are looked at in
    columns of three. Cubes are numbered so that those of a column follow each other, and modulo a power of two, so that
    any extent will do: two cubes of one number are far apart, and their balls are not near each other. Where there are
    so few balls that all pairs are fewer than the candidates from cubes, all pairs are looked at.

    Args:
        centre: (n, m) [m].
        radius: (n,) [m].
        reach: () [m].
        edge: () of the cubes, at least the largest diameter and `reach` [m].
        per_column: how many balls of a column are looked at.

    Returns:
        first, second (n, k): the balls of each candidate pair, or (pairs, 1); near, of the same shape: whether it is
        one; full (): whether some column holds more than `per_column` balls, so that pairs may be missing.

    Example:
        >>> centre = jnp.array([[0.0], [1.0], [5.0], [6.1]])
        >>> first, second, near, full = near_pairs(centre, jnp.full(4, 0.5), 0.05, 1.5, 2)
        >>> [(int(i), int(j)) for i, j in zip(first[near], second[near])], bool(full)
        ([(0, 1)], False)
    """
    count, dimension = centre.shape
    # Half of the columns around: the other half finds the same pairs from the other side.
    columns = [column for column in product((-1, 0, 1), repeat=dimension - 1) if column > (0,) * (dimension - 1)]

    def close(first, second):
        apart = (component[second] - component[first] for component in centre.T)
        return sum(component**2 for component in apart) < (radius[first] + radius[second] + reach) ** 2

    if count - 1 <= 2 * (len(columns) + 1) * per_column:
        first, second = (jnp.asarray(ball)[:, None] for ball in np.triu_indices(count, 1))
        return first, second, close(first, second), jnp.asarray(False)
    bits = 30 // dimension
    period, strides = 2 ** (bits * dimension), 2 ** (bits * np.arange(dimension, dtype=np.int32)[::-1])
    # Where a position is not finite any cube will do; the trajectory's status tells of it.
    cube = jnp.floor(jnp.nan_to_num((centre - jnp.min(centre, axis=0, keepdims=True)) / edge))
    number = jnp.mod(jnp.mod(cube, period).astype(jnp.int32) @ strides, period)
    order = jnp.argsort(number)
    number = number[order]
    # The first follow the last: a column may end where numbers begin anew.
    again = per_column + 1
    order, numbers = jnp.concatenate([order, order[:again]]), jnp.concatenate([number, number[:again] + period])
    # Of its own column a ball looks at what follows it in its cube, and at the next one.
    begins, lasts = [jnp.arange(1, count + 1, dtype=jnp.int32)], [number + 1]
    for column in columns:
        lowest = jnp.mod(number + int(np.dot(column, strides[:-1])) - 1, period)
        begins.append(jnp.searchsorted(numbers, lowest).astype(jnp.int32))
        lasts.append(lowest + 2)
    slots = jnp.stack(begins, axis=1)[:, :, None] + jnp.arange(again, dtype=jnp.int32)[None, None, :]
    beyond = jnp.iinfo(jnp.int32).max
    held = numbers.at[slots].get(mode="fill", fill_value=beyond) <= jnp.stack(lasts, axis=1)[:, :, None]
    full, there = jnp.any(held[:, :, -1]), held[:, :, :-1].reshape(count, -1)
    slots = slots[:, :, :-1].reshape(count, -1)
    second = order[jnp.minimum(slots, count + again - 1)]
    first = jnp.broadcast_to(order[:count, None], second.shape)
    return first, second, there & close(first, second), full
