"""Rows between bodies, as `matrix_free.unit_rows` has them: those that are on, one after the other in memory."""

from __future__ import annotations

from collections import namedtuple

import numpy as np

from diffcontact.qp.native.compiled import compiled, summed
from diffcontact.qp.native.frame import doubles, past, words
from diffcontact.qp.native.rows import clear

# Of c rows between n bodies of m components:
#     name, first, second (c)      the number of each that was read, and where its two bodies begin in `motion`
#     entry (c 2 m)                the two bodies' entries after each other, times the root of their M^-1
#     motion, moved (n + 1) m      how the bodies move, over the root of M^-1, by the change and by a direction; the
#                                  last body stands for none
#     floor, there (c)             minus the multipliers to start from, and the values there
#     change, values (c)           of the multipliers, and the values where it leads
#     direction, slope, tried (c)  what `conjugate_gradients` remembers, and its step of all rows
Space = namedtuple(
    "Space", "name first second entry motion moved floor there change values direction slope tried bodies components"
)


@compiled
def carve(at, count, bodies, components):
    """The memory at an address for so many rows."""
    name, at = words(at), at + 8 * count
    first, at = words(at), at + 8 * count
    second, at = words(at), at + 8 * count
    entry, at = doubles(at), at + 16 * count * components
    motion, at = doubles(at), at + 8 * (bodies + 1) * components
    moved, at = doubles(at), at + 8 * (bodies + 1) * components
    floor, at = doubles(at), at + 8 * count
    there, at = doubles(at), at + 8 * count
    change, at = doubles(at), at + 8 * count
    values, at = doubles(at), at + 8 * count
    direction, at = doubles(at), at + 8 * count
    slope, at = doubles(at), at + 8 * count
    tried = doubles(at)
    return Space(
        name, first, second, entry, motion, moved, floor, there, change, values, direction, slope, tried, bodies,
        components,
    )  # fmt: skip


@compiled
def read(space, at_v, bodies, normals, inverse, x, mask, count, sides):
    """Bring the rows of a mask (c,) together; how many they are.

    Args:
        space: where they are put, with the values at v in `there`.
        at_v, x: (c,) values at v, and multipliers to start from.
        bodies: (2, c); normals: (sides, m, c); inverse: (m, n + 1); mask: (c,).
        count: c.
        sides: 2, or 1 where the first body's normal is the opposite of the second's.
    """
    m, places, number = space.components, space.bodies + 1, 0
    for i in range(count):
        if mask[i] == 0:
            continue
        space.name[number], space.there[number], space.floor[number] = i, at_v[i], -x[i]
        space.first[number], space.second[number] = bodies[i] * m, bodies[count + i] * m
        for side in range(2):
            body = bodies[side * count + i]
            normal = past(normals, (side if sides == 2 else 0) * m * count + i)
            sign = -1.0 if sides == 1 and side == 0 else 1.0
            row = past(space.entry, (2 * number + side) * m)
            for j in range(m):
                # What stands for no body may have any entry.
                root = np.sqrt(np.float64(inverse[j * places + body]))
                row[j] = sign * root * normal[j * count] if root > 0 else 0.0
        number += 1
    return number


@summed
def move(space, number, x, motion):
    """motion = N^T x, for multipliers x of so many rows."""
    m = space.components
    clear(motion, (space.bodies + 1) * m)
    if m == 3:
        # In space without inner loops: all is read before anything is written.
        for i in range(number):
            if x[i] == 0:
                continue
            e, y, z, push = past(space.entry, 6 * i), past(motion, space.first[i]), past(motion, space.second[i]), x[i]
            y0, y1, y2 = y[0] + push * e[0], y[1] + push * e[1], y[2] + push * e[2]
            y[0], y[1], y[2] = y0, y1, y2
            z0, z1, z2 = z[0] + push * e[3], z[1] + push * e[4], z[2] + push * e[5]
            z[0], z[1], z[2] = z0, z1, z2
        return
    for i in range(number):
        if x[i] == 0:
            continue
        for side in range(2):
            y, row = past(motion, space.second[i] if side else space.first[i]), past(space.entry, (2 * i + side) * m)
            for j in range(m):
                y[j] += x[i] * row[j]


@summed
def meet(space, number, motion, soft, x, start, values):
    """values = start + N motion + soft x, of so many rows."""
    m = space.components
    if m == 3:
        for i in range(number):
            e, y, z = past(space.entry, 6 * i), past(motion, space.first[i]), past(motion, space.second[i])
            here, there = e[0] * y[0] + e[1] * y[1] + e[2] * y[2], e[3] * z[0] + e[4] * z[1] + e[5] * z[2]
            values[i] = start[i] + here + there + soft * x[i]
        return
    for i in range(number):
        total = start[i] + soft * x[i]
        for side in range(2):
            y, row = past(motion, space.second[i] if side else space.first[i]), past(space.entry, (2 * i + side) * m)
            for j in range(m):
                total += row[j] * y[j]
        values[i] = total


@summed
def square(space, motion):
    """motion^T motion, which is x^T A x for the motion of the multipliers x."""
    total = 0.0
    for j in range(space.bodies * space.components):
        total += motion[j] * motion[j]
    return total
