"""The rows of a projection: read as they come, scaled to length one in the metric M^-1, and multiplied."""

from __future__ import annotations

import numpy as np

from diffcontact.qp.native.compiled import compiled, summed
from diffcontact.qp.native.frame import past
from diffcontact.qp.rows.slots import NONE


@compiled
def read_dense(space, G, count, dimension, mask, masked):
    """Rows that are stored whole, without their zeros: all, or those of a mask, by their `name`; how many."""
    filled, number = 0, 0
    for i in range(count):
        if masked and mask[i] == 0:
            continue
        space.start[number], space.name[number] = filled, i
        number += 1
        for j in range(dimension):
            entry = G[i * dimension + j]
            space.entry[filled] = entry
            space.index[filled] = j
            # The place is written whatever the entry, and kept if it is not zero: no branch.
            filled += entry != 0
    space.start[number] = filled
    return number


@compiled
def read_bodies(space, bodies, normals, count, sides, components, mask, masked):
    """Read rows between two bodies each, as `read_dense` does; of one normal the first body's is the opposite."""
    filled, number = 0, 0
    for i in range(count):
        if masked and mask[i] == 0:
            continue
        space.start[number], space.name[number] = filled, i
        number += 1
        for side in range(2):
            body = bodies[2 * i + side]
            if body == NONE:
                continue
            at = (i * sides + (side if sides == 2 else 0)) * components
            sign = -1.0 if sides == 1 and side == 0 else 1.0
            for j in range(components):
                entry = sign * normals[at + j]
                space.entry[filled] = entry
                space.index[filled] = body * components + j
                filled += entry != 0
    space.start[number] = filled
    return number


@summed
def survey_dense(space, G, b, v, count, dimension, eps):
    """What all rows are at v, before any is read: see `_survey`."""
    root, violated, ordinary = space.root, False, True
    for i in range(count):
        row = past(G, i * dimension)
        total, size, square = 0.0, 0.0, 0.0
        for j in range(dimension):
            term, part = row[j] * v[j], row[j] * root[j]
            total += term
            size += abs(term)
            square += part * part
        wrong, finite = _survey(space, i, b[i], total, size, square, eps)
        violated, ordinary = violated | wrong, ordinary & finite
    return violated, ordinary


@summed
def survey_bodies(space, bodies, normals, b, v, count, sides, components, eps):
    """What all rows between bodies are at v, before any is read: see `_survey`."""
    root, violated, ordinary = space.root, False, True
    for i in range(count):
        total, size, square = 0.0, 0.0, 0.0
        for side in range(2):
            body = bodies[2 * i + side]
            if body == NONE:
                continue
            normal = past(normals, (i * sides + (side if sides == 2 else 0)) * components)
            flipped = sides == 1 and side == 0
            first = body * components
            # In space, without a loop.
            if components == 3:
                x, y, z = normal[0] * v[first], normal[1] * v[first + 1], normal[2] * v[first + 2]
                term = x + y + z
                total += -term if flipped else term
                size += abs(x) + abs(y) + abs(z)
                x, y, z = normal[0] * root[first], normal[1] * root[first + 1], normal[2] * root[first + 2]
                square += x * x + y * y + z * z
                continue
            for j in range(components):
                term = normal[j] * v[first + j]
                total += -term if flipped else term
                size += abs(term)
                part = normal[j] * root[first + j]
                square += part * part
        wrong, finite = _survey(space, i, b[i], total, size, square, eps)
        violated, ordinary = violated | wrong, ordinary & finite
    return violated, ordinary


@compiled
def _survey(space, i, offset, total, size, square, eps):
    """Keep a row's value, +inf where it is off, its rounding and the square of its length, for a diagonal mass.

    Returns:
        Whether it is violated or NaN, and whether these numbers are finite.
    """
    on = offset != np.inf
    size = size + abs(offset) if on else size
    total = total + offset if on else np.inf
    space.seen[i], space.blur[i], space.square[i] = total, 16 * eps * size, square
    # np.isfinite subtracts a number from itself: where terms may be reordered that is zero, also for NaN.
    return on and not total + 16 * eps * size >= 0, not on or size + square < np.inf


@compiled
def worst_of(space, count):
    """The largest violation, in the unit of the rows of length one."""
    worst = 0.0
    for i in range(count):
        seen, square = space.seen[i], space.square[i]
        if seen < 0 and seen * seen > worst * square:
            worst = seen * seen / square
    return np.sqrt(worst)


@compiled
def mark_within(space, count, reach, marks):
    """Mark the rows whose value, in the unit of the rows of length one, is below `reach`."""
    square = reach * reach
    for i in range(count):
        seen = space.seen[i]
        marks[i] = seen < 0 or seen * seen < square * space.square[i]


@compiled
def factor_diagonal(space, mass, dimension):
    """The inverse square roots of the masses."""
    for j in range(dimension):
        space.root[j] = 1 / np.sqrt(np.float64(mass[j]))


@summed
def factor_full(space, mass, dimension):
    """The Cholesky factor L of the mass, NaN where there is none."""
    root = space.root
    for i in range(dimension):
        for j in range(i + 1):
            # As jax.lax.linalg.cholesky: the mean of the mass and its transpose.
            total = 0.5 * (np.float64(mass[i * dimension + j]) + mass[j * dimension + i])
            for k in range(j):
                total -= root[i * dimension + k] * root[j * dimension + k]
            if i > j:
                root[i * dimension + j] = total / root[j * dimension + j]
            else:
                root[i * dimension + i] = np.sqrt(total) if total > 0 else np.nan


@summed
def whiten_diagonal(space, count):
    """The rows L^-1 G_i, and the squares of their lengths in `scale`."""
    for i in range(count):
        square = 0.0
        for e in range(space.start[i], space.start[i + 1]):
            number = space.entry[e] * space.root[space.index[e]]
            space.entry[e] = number
            square += number * number
        space.scale[i] = square if space.value[i] < np.inf else 0.0


@summed
def whiten_full(space, count, dimension):
    """The rows L^-1 G_i and the squares of their lengths for a full mass.

    The rows fill up, the last one first, so that none is overwritten before it is read.
    """
    root = space.root
    for i in range(count - 1, -1, -1):
        row = space.dense
        for j in range(dimension):
            row[j] = 0.0
        for e in range(space.start[i], space.start[i + 1]):
            row[space.index[e]] = space.entry[e]
        square = 0.0
        for j in range(dimension):
            total = row[j]
            for k in range(j):
                total -= root[j * dimension + k] * row[k]
            row[j] = total / root[j * dimension + j]
            square += row[j] * row[j]
        space.scale[i] = square if space.value[i] < np.inf else 0.0
        for j in range(dimension):
            space.entry[i * dimension + j] = row[j]
            space.index[i * dimension + j] = j
    for i in range(count + 1):
        space.start[i] = i * dimension


@compiled
def to_unit_length(space, count, eps):
    """Rows, values and roundings in the unit of the rows of length one, with the tolerance. The largest violation."""
    worst = 0.0
    for i in range(count):
        square = space.scale[i]
        space.scale[i] = 1.0 if square == 0 else 1 / np.sqrt(square)
    for i in range(count):
        scale = space.scale[i]
        # Entries whose squares are zero stay: a row of such is not one that nothing satisfies.
        on = space.value[i] < np.inf or space.value[i] != space.value[i]
        for e in range(space.start[i], space.start[i + 1]):
            space.entry[e] *= scale if on else 0.0
        space.value[i] *= scale
        space.noise[i] *= scale
        worst = max(worst, -space.value[i])
    for i in range(count):
        space.tolerance[i] = space.noise[i] + 16 * eps * worst
    return worst


@summed
def product(space, row, x):
    """The inner product of a row and x (d,)."""
    total = 0.0
    for e in range(space.start[row], space.start[row + 1]):
        total += space.entry[e] * x[space.index[e]]
    return total


@compiled
def add(space, row, factor, x):
    """x += factor row."""
    for e in range(space.start[row], space.start[row + 1]):
        x[space.index[e]] += factor * space.entry[e]


@compiled
def spread(space, row):
    """A row in full, in `dense`, which is zero elsewhere."""
    add(space, row, 1.0, space.dense)


@compiled
def gather(space, row):
    """Make `dense` zero again."""
    for e in range(space.start[row], space.start[row + 1]):
        space.dense[space.index[e]] = 0.0


@compiled
def clear(x, count):
    """x = 0."""
    for i in range(count):
        x[i] = 0.0


@summed
def unwhiten(space, dimension, full):
    """step = L^-T step."""
    root, x = space.root, space.step
    if not full:
        for j in range(dimension):
            x[j] *= root[j]
        return
    for j in range(dimension - 1, -1, -1):
        x[j] /= root[j * dimension + j]
        for k in range(j):
            x[k] -= root[j * dimension + k] * x[j]


@summed
def whiten(space, f, dimension, full):
    """way = L^-1 f."""
    root, x = space.root, space.way
    for j in range(dimension):
        total = np.float64(f[j])
        if full:
            for k in range(j):
                total -= root[j * dimension + k] * x[k]
            x[j] = total / root[j * dimension + j]
        else:
            x[j] = total * root[j]
