"""Which bodies are near each other: a cell list, sorted, of fixed shapes."""

from __future__ import annotations

from itertools import product

import jax.numpy as jnp
import numpy as np
from jax import Array


def near_pairs(centre: Array, radius: Array, reach, edge, per_cell: int) -> tuple[Array, Array, Array, Array]:
    """All pairs of balls whose surfaces are less than `reach` apart.

    Space is divided into cubes; a ball's partners are in its own cube and in those around it. The cubes are numbered
    modulo a power of two on each axis, so that any extent will do: two cubes of one number are far apart, and their
    balls are not near each other. Where there are so few balls that all pairs are fewer than the candidates from
    cubes, all pairs are looked at.

    Args:
        centre: (n, m) [m].
        radius: (n,) [m].
        reach: () [m].
        edge: () of the cubes, at least the largest diameter and `reach` [m].
        per_cell: how many balls of a cube are looked at.

    Returns:
        first, second (n, k): the balls of each candidate pair, or (pairs, 1); near, of the same shape: whether it is
        one; full (): whether some cube holds more than `per_cell` balls, so that pairs may be missing.

    Example:
        >>> centre = jnp.array([[0.0], [1.0], [5.0], [6.1]])
        >>> first, second, near, full = near_pairs(centre, jnp.full(4, 0.5), 0.05, 1.5, 2)
        >>> [(int(i), int(j)) for i, j in zip(first[near], second[near])], bool(full)
        ([(0, 1)], False)
    """
    count, dimension = centre.shape
    # Half of the cubes around: the other half finds the same pairs from the other side.
    offsets = np.array([offset for offset in product((-1, 0, 1), repeat=dimension) if offset >= (0,) * dimension])

    def close(first, second):
        apart = centre[second] - centre[first]
        return jnp.sum(apart**2, axis=-1) < (radius[first] + radius[second] + reach) ** 2

    if count - 1 <= 2 * len(offsets) * per_cell:
        first, second = (jnp.asarray(ball)[:, None] for ball in np.triu_indices(count, 1))
        return first, second, close(first, second), jnp.asarray(False)
    sides = 2 ** (30 // dimension)
    # Where a position is not finite any cube will do; the trajectory's status tells of it.
    cube = jnp.floor(jnp.nan_to_num((centre - jnp.min(centre, axis=0, keepdims=True)) / edge))
    cube = jnp.mod(cube, sides).astype(jnp.int32)
    strides = sides ** np.arange(dimension, dtype=np.int32)
    number = cube @ strides
    order = jnp.argsort(number)
    sorted_numbers = number[order]
    around = jnp.mod(cube[:, None, :] + offsets[None, :, :], sides) @ strides
    begin = jnp.searchsorted(sorted_numbers, around, side="left")
    held = jnp.searchsorted(sorted_numbers, around, side="right") - begin
    slots = begin[:, :, None] + jnp.arange(per_cell)[None, None, :]
    second = order[jnp.minimum(slots, count - 1)]
    first = jnp.broadcast_to(jnp.arange(count)[:, None, None], second.shape)
    there = jnp.arange(per_cell)[None, None, :] < held[:, :, None]
    same_cube = np.all(offsets == 0, axis=1)[None, :, None]
    there = there & (~same_cube | (second > first))
    near = there & close(first, second)
    shape = (count, -1)
    return first.reshape(shape), second.reshape(shape), near.reshape(shape), jnp.any(held > per_cell)
