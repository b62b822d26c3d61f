"""Find bodies near each other by a cell list, sorted, of fixed shapes."""

from __future__ import annotations

from itertools import product

import jax.numpy as jnp
import numpy as np
from jax import Array

# Up to so many balls all pairs are looked at: 50 balls take 21 us that way and 51 us by cells, 200 take 57 and 86 us,
# and 400 take 259 and 152 us.
ALL_PAIRS_UP_TO = 200


def pairs_within(centre: Array, radius: Array, reach, edge, candidates: int) -> tuple[Array, Array, Array, Array]:
    """Find all pairs of balls whose surfaces are less than `reach` apart [m].

    Space is divided into cubes; a ball's partners are in its own cube and in those around it, which are looked at in
    columns of three. Cubes are numbered so that those of a column follow each other, and modulo a power of two, so that
    any extent will do: two cubes of one number are far apart, and their balls are not near each other. Of few balls all
    pairs are looked at.

    Args:
        centre, radius: (n, m), (n,) [m].
        edge: () of the cubes, at least the largest diameter and `reach` [m].
        candidates: for how many pairs there is room, per ball.

    Returns:
        first, second (k,): the balls of each candidate pair; within (k,): whether they are less than `reach` apart;
        full (): whether there are more candidates than room, so that pairs may be missing.
    """
    count, dimension = centre.shape
    if count <= ALL_PAIRS_UP_TO:
        first, second = (jnp.asarray(ball) for ball in np.triu_indices(count, 1))
        return first, second, _close(centre, radius, reach, first, second), jnp.asarray(False)
    bits = 30 // dimension
    period, strides = 2 ** (bits * dimension), 2 ** (bits * np.arange(dimension, dtype=np.int32)[::-1])
    # Where a position is not finite any cube will do; the trajectory's status tells of it.
    cube = jnp.floor(jnp.nan_to_num((centre - jnp.min(centre, axis=0, keepdims=True)) / edge))
    number = jnp.mod(jnp.mod(cube, period).astype(jnp.int32) @ strides, period)
    order = jnp.argsort(number).astype(jnp.int32)
    number = number[order]
    # The list follows itself: a column may end where numbers begin anew.
    numbers = jnp.concatenate([number, number + period])
    # Of its own column a ball looks at what follows it in its cube, and at the next one. Of those around half are
    # enough: the others find the same pairs from the other side.
    begins, lasts = [jnp.arange(1, count + 1, dtype=jnp.int32)], [number + 1]
    for column in product((-1, 0, 1), repeat=dimension - 1):
        if column > (0,) * (dimension - 1):
            lowest = jnp.mod(number + int(np.dot(column, strides[:-1])) - 1, period)
            begins.append(jnp.searchsorted(numbers, lowest).astype(jnp.int32))
            lasts.append(lowest + 2)
    begin, last = jnp.stack(begins, axis=1), jnp.stack(lasts, axis=1)
    held = jnp.searchsorted(numbers, last, side="right").astype(jnp.int32) - begin
    # The columns' balls in one list: entry k of it belongs to `column` and is ball k + shift there.
    room, columns, held = candidates * count, begin.size, held.ravel()
    ends = jnp.cumsum(held)
    entry = jnp.arange(room, dtype=jnp.int32)
    column = jnp.repeat(jnp.arange(columns, dtype=jnp.int32), held, total_repeat_length=room)
    shift = begin.ravel() - (ends - held)
    first, second = order[column // len(begins)], order[jnp.mod(entry + shift[column], count)]
    # Not the last of `ends`, which passes the largest integer where a million balls are in one cube.
    full = jnp.sum(held.astype(jnp.float32)) > room
    within = (entry < ends[-1]) & _close(centre, radius, reach, first, second)
    return first, second, within, full


def _close(centre, radius, reach, first, second):
    apart = (component[second] - component[first] for component in centre.T)
    return sum(component**2 for component in apart) < (radius[first] + radius[second] + reach) ** 2
