"""The rows of a projection: read as they come, scaled to length one in the metric M^-1, and multiplied."""

from __future__ import annotations

import numpy as np

from diffcontact.qp.native.compiled import compiled, summed
from diffcontact.qp.native.frame import past
from diffcontact.qp.rows.slots import NONE


@compiled
def name_all(space, count):
    """All rows are to be read: `name` has their numbers."""
    for i in range(count):
        space.name[i] = i
    return count


@compiled
def name_masked(space, mask, count):
    """Those of a mask are; how many. As below, a number is written whatever the row is, and kept: no branch."""
    number = 0
    for i in range(count):
        space.name[number] = i
        number += mask[i] != 0
    return number


@compiled
def name_within(space, reach, count):
    """Those are whose value, in the unit of the rows of length one, is below `reach`; how many.

    What a row's value squared is beyond the reach, with its sign, is put where its value is read to afterwards.
    """
    number, square = 0, reach * reach
    for i in range(count):
        seen = space.seen[i]
        space.value[i] = seen * abs(seen) - square * space.square[i]
    for i in range(count):
        space.name[number] = i
        number += space.value[i] < 0
    return number


@compiled
def read_dense(space, G, number, dimension):
    """The rows in `name`, which are stored whole, without their zeros."""
    filled = 0
    for i in range(number):
        space.start[i] = filled
        row = past(G, space.name[i] * dimension)
        for j in range(dimension):
            entry = row[j]
            space.entry[filled] = entry
            space.index[filled] = j
            filled += entry != 0
    space.start[number] = filled


@compiled
def read_bodies(space, bodies, normals, number, sides, components):
    """Read rows between two bodies each, as `read_dense` does; of one normal the first body's is the opposite."""
    filled = 0
    for i in range(number):
        row = space.name[i]
        space.start[i] = filled
        for side in range(2):
            body = bodies[2 * row + side]
            if body == NONE:
                continue
            normal = past(normals, (row * sides + (side if sides == 2 else 0)) * components)
            sign = -1.0 if sides == 1 and side == 0 else 1.0
            for j in range(components):
                entry = sign * normal[j]
                space.entry[filled] = entry
                space.index[filled] = body * components + j
                filled += entry != 0
    space.start[number] = filled


@summed
def survey_dense(space, G, b, v, count, dimension, eps):
    """What all rows are at v, before any is read: see `_survey`."""
    weight = space.weight
    for i in range(count):
        row = past(G, i * dimension)
        total, size, square = 0.0, 0.0, 0.0
        for j in range(dimension):
            entry = np.float64(row[j])
            total += entry * v[j]
            size += abs(entry * v[j])
            square += entry * entry * weight[j]
        space.seen[i], space.blur[i], space.square[i] = total, size, square
    return _survey(space, b, count, eps)


@summed
def survey_bodies(space, bodies, normals, b, v, count, sides, components, eps):
    """What all rows between bodies are at v, before any is read: see `_survey`."""
    if sides == 1 and components == 3:
        _survey_in_space(space, bodies, normals, v, count)
        return _survey(space, b, count, eps)
    weight = space.weight
    for i in range(count):
        total, size, square = 0.0, 0.0, 0.0
        for side in range(2):
            body = bodies[2 * i + side]
            if body == NONE:
                continue
            normal = past(normals, (i * sides + (side if sides == 2 else 0)) * components)
            sign = -1.0 if sides == 1 and side == 0 else 1.0
            for j in range(components):
                entry = sign * normal[j]
                term = entry * v[body * components + j]
                total += term
                size += abs(term)
                square += entry * entry * weight[body * components + j]
        space.seen[i], space.blur[i], space.square[i] = total, size, square
    return _survey(space, b, count, eps)


@summed
def _survey_in_space(space, bodies, normals, v, count):
    """The same of rows with one normal of three components, without loops over them: those of spheres."""
    weight = space.weight
    for i in range(count):
        one, two, normal = bodies[2 * i], bodies[2 * i + 1], past(normals, 3 * i)
        x, y, z = np.float64(normal[0]), np.float64(normal[1]), np.float64(normal[2])
        total, size, square = 0.0, 0.0, 0.0
        if one != NONE:
            at, per = past(v, 3 * one), past(weight, 3 * one)
            total = -(x * at[0] + y * at[1] + z * at[2])
            size = abs(x * at[0]) + abs(y * at[1]) + abs(z * at[2])
            square = x * x * per[0] + y * y * per[1] + z * z * per[2]
        if two != NONE:
            at, per = past(v, 3 * two), past(weight, 3 * two)
            total += x * at[0] + y * at[1] + z * at[2]
            size += abs(x * at[0]) + abs(y * at[1]) + abs(z * at[2])
            square += x * x * per[0] + y * y * per[1] + z * z * per[2]
        space.seen[i], space.blur[i], space.square[i] = total, size, square


@compiled
def _survey(space, b, count, eps):
    """Make of the products with v, of the sums of their terms' sizes and of the squares of the lengths what is kept.

    These are a row's value, +inf where it is off, its rounding, and the square of its length for a diagonal mass.

    Returns:
        Whether a row is violated or NaN, and whether all these numbers are finite.
    """
    violated, unlimited = 0, 0
    for i in range(count):
        offset = np.float64(b[i])
        on = offset != np.inf
        size = space.blur[i] + (abs(offset) if on else 0.0)
        total = space.seen[i] + offset if on else np.inf
        blur = 16 * eps * size
        space.seen[i], space.blur[i] = total, blur
        violated += on & (not total + blur >= 0)
        # np.isfinite subtracts a number from itself: where terms may be reordered that is zero, also for NaN.
        unlimited += on & (not size + space.square[i] < np.inf)
    return violated > 0, unlimited == 0


@compiled
def list_negative(space, count):
    """The rows whose values are negative, in `candidate`; how many. As in `name_masked` there is no branch."""
    number = 0
    for i in range(count):
        space.candidate[number] = i
        number += space.seen[i] < 0
    return number


@compiled
def worst_of(space, negative):
    """The largest violation of the rows in `candidate`, in the unit of the rows of length one."""
    worst = 0.0
    for k in range(negative):
        i = space.candidate[k]
        seen, square = space.seen[i], space.square[i]
        if seen * seen > worst * square:
            worst = seen * seen / square
    return np.sqrt(worst)


@summed
def square_of_step(space, dimension):
    """The square of the step's length, of the whitened rows, for the step of others and a diagonal mass."""
    total = 0.0
    for j in range(dimension):
        total += space.step[j] * space.step[j] / space.weight[j]
    return total


@summed
def how_many_within(space, square, count):
    """How many rows `name_within` would name for the square of a reach."""
    number = 0
    for i in range(count):
        seen = space.seen[i]
        number += (seen < 0) | (seen * seen < square * space.square[i])
    return number


@compiled
def invert_diagonal(space, mass, dimension):
    """The inverse masses, NaN where a mass is not positive: the survey tells."""
    for j in range(dimension):
        space.weight[j] = 1 / np.float64(mass[j]) if mass[j] > 0 else np.nan


@compiled
def factor_diagonal(space, dimension):
    """Their square roots."""
    for j in range(dimension):
        space.root[j] = np.sqrt(space.weight[j])


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
