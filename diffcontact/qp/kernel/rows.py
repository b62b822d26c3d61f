"""Read the rows of a projection, scale them to length one in the metric M^-1, and multiply by them."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np

from diffcontact.qp.kernel.ffi import compiled, doubles, past, summed, words
from diffcontact.qp.kernel.layout import factor_size, in_blocks
from diffcontact.qp.rows import NONE

_in_blocks, _factor_size = compiled(in_blocks), compiled(factor_size)

# Of a problem with c rows, d components, e entries of a row at most, and at most k rows held at once:
#     start (c + 1), index, entry (c e)     the rows, one after the other: where each begins, its columns and values
#     name (c)                              the numbers of those that were read
#     value, noise, scale, tolerance (c)    of the rows at v, as in diffcontact.qp.working_set
#     soft, slack, base (c)                 addition to the dual's diagonal, relaxation, values at v + relaxation
#     root (d)                              inverse square roots of the masses
#     step, way, dense (d)                  for the whitened rows: way from v, direction of a pivot, a row spread out
#     candidate, place (c)                  the rows looked at, none of them held, and where each row is among them
#     now, change (c)                       the candidates' values plus tolerance; all rows' values where the step leads
#     held, multiplier (k)                        the working set and its multipliers
#     inverse (k k/2)                       the inverse of the Cholesky factor of its Delassus matrix, in blocks
#     own, turn (k)                         products with the entering row, and minus the rates of the multipliers; with
#                                           room for whole blocks
Workspace = namedtuple(
    "Workspace",
    "start index entry name value noise scale tolerance soft slack base root step way dense "
    "candidate place now change held multiplier inverse own turn",
)


@compiled
def carve(at, count, dimension, entries, most):
    """Lay out a `Workspace` in the memory at an address."""
    whole, filled = count * entries, _in_blocks(most)
    start, at = _words(at, count + 1)
    index, at = _words(at, whole)
    name, at = _words(at, count)
    candidate, at = _words(at, count)
    place, at = _words(at, count)
    held, at = _words(at, most)
    entry, at = _doubles(at, whole)
    value, at = _doubles(at, count)
    noise, at = _doubles(at, count)
    scale, at = _doubles(at, count)
    tolerance, at = _doubles(at, count)
    soft, at = _doubles(at, count)
    slack, at = _doubles(at, count)
    base, at = _doubles(at, count)
    now, at = _doubles(at, count)
    change, at = _doubles(at, count)
    root, at = _doubles(at, dimension)
    step, at = _doubles(at, dimension)
    way, at = _doubles(at, dimension)
    dense, at = _doubles(at, dimension)
    multiplier, at = _doubles(at, most)
    own, at = _doubles(at, filled)
    turn, at = _doubles(at, filled)
    inverse, at = _doubles(at, _factor_size(filled))
    return Workspace(
        start, index, entry, name, value, noise, scale, tolerance, soft, slack, base, root,
        step, way, dense, candidate, place, now, change, held, multiplier, inverse, own, turn,
    )  # fmt: skip


@compiled
def _words(at, count) -> Any:
    return words(at), at + 8 * count


@compiled
def _doubles(at, count) -> Any:
    return doubles(at), at + 8 * count


@compiled
def name_all(space, count):
    """Put the numbers of all rows into `name`, to be read."""
    for i in range(count):
        space.name[i] = i
    return count


@compiled
def name_masked(space, mask, count):
    """Put the numbers of a mask's rows into `name`, and count them.

    As below, a number is written whatever the row is, and kept: no branch.
    """
    number = 0
    for i in range(count):
        space.name[number] = i
        number += mask[i] != 0
    return number


@compiled
def read_dense(space, G, number, dimension):
    """Read the dense rows in `name`, without their zeros."""
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
    """Read rows between two bodies, as `read_dense`; one normal is the second body's."""
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
def survey(space, b, v, count, eps):
    """Compute the rows' values at v, +inf where a row is off, and their rounding.

    Returns:
        Whether a row is violated or NaN, and whether the entries of all rows that are on are finite.
    """
    violated, unlimited = 0, 0
    for i in range(count):
        offset = np.float64(b[i])
        on = offset != np.inf
        total, size = 0.0, 0.0
        for e in range(space.start[i], space.start[i + 1]):
            entry = space.entry[e]
            term = entry * v[space.index[e]]
            total += term
            size += abs(term)
            # np.isfinite subtracts a number from itself: where terms may be reordered that is zero, also for NaN.
            unlimited += on & (not abs(entry) < np.inf)
        space.value[i] = total + offset if on else np.inf
        space.noise[i] = 16 * eps * (size + (abs(offset) if on else 0.0))
        violated += on & (not space.value[i] + space.noise[i] >= 0)
    return violated > 0, unlimited == 0


@compiled
def factor_mass(space, mass, dimension):
    """Compute M^-1/2, NaN where a mass is not positive; tell whether all are numbers."""
    positive = True
    for j in range(dimension):
        inverse = 1 / np.float64(mass[j]) if mass[j] > 0 else np.nan
        positive &= inverse >= 0
        space.root[j] = np.sqrt(inverse)
    return positive


@summed
def whiten_rows(space, count):
    """Whiten the rows, L^-1 G_i, with the squares of their lengths in `scale`."""
    for i in range(count):
        square = 0.0
        for e in range(space.start[i], space.start[i + 1]):
            number = space.entry[e] * space.root[space.index[e]]
            space.entry[e] = number
            square += number * number
        space.scale[i] = square if space.value[i] < np.inf else 0.0


@compiled
def to_unit_length(space, count, eps):
    """Scale rows, values and roundings to rows of length one; return the largest violation."""
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
    """Return the product of a row and x."""
    total = 0.0
    for e in range(space.start[row], space.start[row + 1]):
        total += space.entry[e] * x[space.index[e]]
    return total


@compiled
def add(space, row, factor, x):
    """Add a multiple of a row to x."""
    for e in range(space.start[row], space.start[row + 1]):
        x[space.index[e]] += factor * space.entry[e]


@compiled
def gather(space, row):
    """Clear the places of a row that was spread out in `dense`."""
    for e in range(space.start[row], space.start[row + 1]):
        space.dense[space.index[e]] = 0.0


@compiled
def clear(x, count):
    """Set the first entries of x to zero."""
    for i in range(count):
        x[i] = 0.0


@compiled
def unwhiten(space, dimension):
    """Multiply `step` by M^-1/2."""
    for j in range(dimension):
        space.step[j] *= space.root[j]


@compiled
def whiten(space, f, dimension):
    """Set `way` to M^-1/2 f."""
    for j in range(dimension):
        space.way[j] = f[j] * space.root[j]
