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
#     motion (n + 1) m             M^-1 N^T change, how the bodies move by the change
#     pushed (n + 1) m             N^T d of a direction d
#     floor, there (c)             minus the multipliers to start from, and the values there
#     change, values (c)           of the multipliers, and the values where it leads
#     direction, slope, tried (c)  what `conjugate_gradients` remembers, and its step of all rows
#     loaded (c)                   the numbers of the rows that are pushed along a direction
#     sides, sign                  2 and 1, or 1 and -1 where the first body's entries are the opposite of the second's
#     eps                          the rounding, which is added to the dual's diagonal
Space = namedtuple(
    "Space",
    "first second entry inverse motion pushed floor there change values direction slope tried loaded places "
    "components sides sign eps",
)


@compiled
def carve(at, count, places, components, sides, eps, single_eps):
    """The memory at an address for so many rows: their numbers, and two spaces, the second in single precision."""
    name, at = words(at), at + 8 * count
    common = integers(at), integers(at + 4 * count), integers(at + 8 * count)
    at += 16 * count
    space, at = _space(at, doubles, 8, common, count, places, components, sides, eps)
    single, at = _space(at, singles, 4, common, count, places, components, sides, single_eps)
    return name, space, single


@compiled
def _space(at, numbers, size, common, count, places, components, sides, eps):
    """A space in the memory at an address, of numbers of so many bytes, and the address behind it."""
    rows, bodies = size * count, size * places * components
    entry, at = numbers(at), at + rows * sides * components
    inverse, at = numbers(at), at + bodies
    motion, at = numbers(at), at + bodies
    pushed, at = numbers(at), at + bodies
    floor, at = numbers(at), at + rows
    there, at = numbers(at), at + rows
    change, at = numbers(at), at + rows
    values, at = numbers(at), at + rows
    direction, at = numbers(at), at + rows
    slope, at = numbers(at), at + rows
    tried, at = numbers(at), at + rows
    first, second, loaded = common
    space = Space(
        first, second, entry, inverse, motion, pushed, floor, there, change, values, direction, slope, tried, loaded,
        places, components, sides, -1.0 if sides == 1 else 1.0, eps,
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
def push(space, i, x, pushed):
    """pushed += x times row i."""
    m, back = space.components, x * like(space.entry, space.sign)
    e, y, z = past(space.entry, space.sides * m * i), past(pushed, space.first[i]), past(pushed, space.second[i])
    f = past(e, (space.sides - 1) * m)
    if m == 4:
        # Without inner loops, and all is read before anything is written.
        y0, y1, y2, y3 = y[0] + back * e[0], y[1] + back * e[1], y[2] + back * e[2], y[3] + back * e[3]
        y[0], y[1], y[2], y[3] = y0, y1, y2, y3
        z0, z1, z2, z3 = z[0] + x * f[0], z[1] + x * f[1], z[2] + x * f[2], z[3] + x * f[3]
        z[0], z[1], z[2], z[3] = z0, z1, z2, z3
        return
    for j in range(m):
        y[j] += back * e[j]
    for j in range(m):
        z[j] += x * f[j]


@summed
def rate(space, i, motion):
    """Row i times the motion."""
    m, sign = space.components, like(space.entry, space.sign)
    e, y, z = past(space.entry, space.sides * m * i), past(motion, space.first[i]), past(motion, space.second[i])
    f = past(e, (space.sides - 1) * m)
    if m == 4:
        a, b = f[0] * z[0] + sign * y[0] * e[0], f[1] * z[1] + sign * y[1] * e[1]
        c, d = f[2] * z[2] + sign * y[2] * e[2], f[3] * z[3] + sign * y[3] * e[3]
        return (a + b) + (c + d)
    total = like(e, 0.0)
    for j in range(m):
        total += f[j] * z[j] + sign * y[j] * e[j]
    return total


@summed
def gather(space, number, x):
    """pushed = N^T x, for multipliers x of so many rows."""
    clear(space.pushed, space.places * space.components)
    for i in range(number):
        if x[i] != 0:
            push(space, i, x[i], space.pushed)


@summed
def curvature(space):
    """pushed^T M^-1 pushed, which is d^T A d."""
    total = 0.0
    for j in range(space.places * space.components):
        total += space.inverse[j] * space.pushed[j] * space.pushed[j]
    return total


@summed
def move(space, length):
    """Go this length along what is pushed."""
    length = like(space.motion, length)
    for j in range(space.places * space.components):
        space.motion[j] += length * space.inverse[j] * space.pushed[j]


@summed
def meet(space, number, x, start, values):
    """values = start + N motion + eps x, of so many rows."""
    eps = like(values, space.eps)
    for i in range(number):
        values[i] = start[i] + rate(space, i, space.motion) + eps * x[i]
