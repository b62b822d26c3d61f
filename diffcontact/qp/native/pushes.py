"""Rows between bodies, as `matrix_free.unit_rows` has them: those that are on, one after the other in memory."""

from __future__ import annotations

from collections import namedtuple

from diffcontact.qp.native.compiled import compiled, summed
from diffcontact.qp.native.frame import doubles, integers, like, past, singles, words
from diffcontact.qp.native.rows import clear

# Of c rows between n bodies of m components, in one precision:
#     first, second (c)            where the two bodies of each begin in `motion`
#     entry (c sides m)            the two bodies' entries after each other, or, of one side, the second's, of which the
#                                  first's are the opposite
#     inverse (n + 1) m            M^-1; the last body stands for none
#     motion, moved (n + 1) m      how the bodies move by the change and by a direction
#     floor, there (c)             minus the multipliers to start from, and the values there
#     change, values (c)           of the multipliers, and the values where it leads
#     direction, slope, tried (c)  what `conjugate_gradients` remembers, and its step of all rows
#     eps                          the rounding, which is added to the dual's diagonal
Space = namedtuple(
    "Space",
    "first second entry inverse motion moved floor there change values direction slope tried places components sides "
    "eps",
)


@compiled
def carve(at, count, places, components, sides, eps, single_eps):
    """The memory at an address for so many rows: their numbers, and two spaces, the second in single precision."""
    name, at = words(at), at + 8 * count
    first, second, at = integers(at), integers(at + 4 * count), at + 8 * count
    space, at = _space(at, doubles, 8, first, second, count, places, components, sides, eps)
    single, at = _space(at, singles, 4, first, second, count, places, components, sides, single_eps)
    return name, space, single


@compiled
def _space(at, numbers, size, first, second, count, places, components, sides, eps):
    """A space in the memory at an address, of numbers of so many bytes, and the address behind it."""
    rows, bodies = size * count, size * places * components
    entry, at = numbers(at), at + rows * sides * components
    inverse, at = numbers(at), at + bodies
    motion, at = numbers(at), at + bodies
    moved, at = numbers(at), at + bodies
    floor, at = numbers(at), at + rows
    there, at = numbers(at), at + rows
    change, at = numbers(at), at + rows
    values, at = numbers(at), at + rows
    direction, at = numbers(at), at + rows
    slope, at = numbers(at), at + rows
    tried, at = numbers(at), at + rows
    space = Space(
        first, second, entry, inverse, motion, moved, floor, there, change, values, direction, slope, tried, places,
        components, sides, eps,
    )  # fmt: skip
    return space, at


@compiled
def read(name, space, at_v, bodies, normals, inverse, x, mask, count, m):
    """Bring the rows of a mask (c,) together; how many they are.

    Args:
        name: where their numbers are put.
        space: where they are put, with the values at v in `there` and the multipliers in `floor`.
        at_v, x: (c,) values at v, and multipliers to start from.
        bodies: (2, c); normals: (sides, m, c); inverse: (m, n + 1); mask: (c,).
        count, m: c and m.
    """
    width, places, number = space.components, space.places, 0
    clear(space.inverse, places * width)
    for body in range(places):
        for j in range(m):
            space.inverse[body * width + j] = inverse[j * places + body]
    for i in range(count):
        if mask[i] == 0:
            continue
        name[number], space.there[number], space.floor[number] = i, at_v[i], -x[i]
        space.first[number], space.second[number] = bodies[i] * width, bodies[count + i] * width
        for side in range(space.sides):
            row, normal = past(space.entry, (number * space.sides + side) * width), past(normals, side * m * count + i)
            for j in range(width):
                row[j] = normal[j * count] if j < m else 0.0
        number += 1
    return number


@compiled
def copied(space, single, number):
    """The rows of one space in another."""
    for j in range(number * space.sides * space.components):
        single.entry[j] = space.entry[j]
    for j in range(space.places * space.components):
        single.inverse[j] = space.inverse[j]


@compiled
def push(space, i, x, total):
    """total += x times row i."""
    m = space.components
    e, y, z = past(space.entry, space.sides * m * i), past(total, space.first[i]), past(total, space.second[i])
    f, sign = past(e, (space.sides - 1) * m), -x if space.sides == 1 else x
    if m == 4:
        # Without inner loops, and all is read before anything is written.
        y0, y1, y2, y3 = y[0] + sign * e[0], y[1] + sign * e[1], y[2] + sign * e[2], y[3] + sign * e[3]
        y[0], y[1], y[2], y[3] = y0, y1, y2, y3
        z0, z1, z2, z3 = z[0] + x * f[0], z[1] + x * f[1], z[2] + x * f[2], z[3] + x * f[3]
        z[0], z[1], z[2], z[3] = z0, z1, z2, z3
        return
    for j in range(m):
        y[j] += sign * e[j]
    for j in range(m):
        z[j] += x * f[j]


@summed
def rate(space, i, motion):
    """Row i times the motion."""
    m = space.components
    e, y, z = past(space.entry, space.sides * m * i), past(motion, space.first[i]), past(motion, space.second[i])
    f = past(e, (space.sides - 1) * m)
    if m == 4 and space.sides == 1:
        a, b, c, d = z[0] - y[0], z[1] - y[1], z[2] - y[2], z[3] - y[3]
        return (e[0] * a + e[1] * b) + (e[2] * c + e[3] * d)
    sign, total = like(e, -1.0 if space.sides == 1 else 1.0), like(e, 0.0)
    for j in range(m):
        total += sign * e[j] * y[j] + f[j] * z[j]
    return total


@summed
def move(space, number, x, motion):
    """motion = M^-1 N^T x, for multipliers x of so many rows; x^T N M^-1 N^T x."""
    clear(motion, space.places * space.components)
    for i in range(number):
        if x[i] != 0:
            push(space, i, x[i], motion)
    return weigh(space, motion)


@summed
def weigh(space, motion):
    """motion = M^-1 times itself; the product of the two."""
    total = 0.0
    for j in range(space.places * space.components):
        before = motion[j]
        motion[j] *= space.inverse[j]
        total += before * motion[j]
    return total


@summed
def meet(space, number, motion, x, start, values):
    """values = start + N motion + eps x, of so many rows."""
    soft = like(values, space.eps)
    for i in range(number):
        values[i] = start[i] + rate(space, i, motion) + soft * x[i]
