"""Contacts that rub, as `matrix_free.unit_contacts` has them: those that may push, one after the other in memory."""

from __future__ import annotations

from collections import namedtuple

import numpy as np

from diffcontact.qp.matrix_free.anderson import MEMORY
from diffcontact.qp.native.compiled import compiled, summed
from diffcontact.qp.native.frame import doubles, past, words
from diffcontact.qp.native.rows import clear

# Of c contacts with D = 1 + k directions between n bodies of m components:
#     name, first, second (c)      the number of each that was read, and where its two bodies begin in `motion`
#     entry (c D 2 m)              its rows, the two bodies' entries after each other, times the root of their M^-1
#     motion (n + 1) m             how the bodies move, over the root of M^-1; the last one stands for none
#     friction (c)                 mu
#     free, r, w, step (c D)       velocities without reactions, reactions, velocities, the projected step
#     nearest, ahead, across (c D) where the step was shortest; what comes after r and w
#     there, moved (c D)           what is tried further on, and the projected point from there
#     moves, steps (MEMORY c D), gram, factor (MEMORY^2), weight, kept (MEMORY)
#                                  what `anderson` remembers
Space = namedtuple(
    "Space",
    "name first second entry motion friction free r w step nearest ahead across there moved moves steps gram factor "
    "weight kept bodies components directions",
)


@compiled
def carve(at, count, bodies, components, directions):
    """The memory at an address for so many contacts."""
    size = count * directions
    name, at = words(at), at + 8 * count
    first, at = words(at), at + 8 * count
    second, at = words(at), at + 8 * count
    kept, at = words(at), at + 8 * MEMORY
    entry, at = doubles(at), at + 16 * size * components
    motion, at = doubles(at), at + 8 * (bodies + 1) * components
    friction, at = doubles(at), at + 8 * count
    free, at = doubles(at), at + 8 * size
    r, at = doubles(at), at + 8 * size
    w, at = doubles(at), at + 8 * size
    step, at = doubles(at), at + 8 * size
    nearest, at = doubles(at), at + 8 * size
    ahead, at = doubles(at), at + 8 * size
    across, at = doubles(at), at + 8 * size
    there, at = doubles(at), at + 8 * size
    moved, at = doubles(at), at + 8 * size
    moves, at = doubles(at), at + 8 * MEMORY * size
    steps, at = doubles(at), at + 8 * MEMORY * size
    gram, at = doubles(at), at + 8 * MEMORY * MEMORY
    factor, at = doubles(at), at + 8 * MEMORY * MEMORY
    weight, at = doubles(at), at + 8 * MEMORY
    return Space(
        name, first, second, entry, motion, friction, free, r, w, step, nearest, ahead, across, there, moved, moves,
        steps, gram, factor, weight, kept, bodies, components, directions,
    )  # fmt: skip


@compiled
def read(space, free, bodies, entries, inverse, friction, r, mask, count):
    """Bring the contacts of a mask (c,) together; how many they are.

    Args:
        space: where they are put.
        free, r: (D, c) velocities without reactions, and reactions.
        bodies: (2, c); entries: (2, m, D, c); inverse: (n + 1, m); friction: (c,); mask: (c,).
        count: c.
    """
    m, directions, number = space.components, space.directions, 0
    for i in range(count):
        if mask[i] == 0:
            continue
        space.name[number], space.friction[number] = i, friction[i]
        space.first[number], space.second[number] = bodies[i] * m, bodies[count + i] * m
        for d in range(directions):
            at = number * directions + d
            space.free[at], space.r[at] = free[d * count + i], r[d * count + i]
            for side in range(2):
                body = bodies[side * count + i] * m
                for j in range(m):
                    root = np.sqrt(np.float64(inverse[body + j]))
                    space.entry[(2 * at + side) * m + j] = root * entries[((side * m + j) * directions + d) * count + i]
        number += 1
    return number


@compiled
def velocities(space, number, r, w):
    """w = W r + free, for the reactions r (number, D)."""
    m, directions = space.components, space.directions
    clear(space.motion, (space.bodies + 1) * m)
    if m == 6 and directions == 3:
        _move_spheres(space, number, r)
        _meet_spheres(space, number, w)
        return
    for i in range(number):
        for side in range(2):
            y = past(space.motion, space.second[i] if side else space.first[i])
            for d in range(directions):
                row = past(space.entry, (2 * (i * directions + d) + side) * m)
                for j in range(m):
                    y[j] += row[j] * r[i * directions + d]
    for i in range(number):
        for d in range(directions):
            total = space.free[i * directions + d]
            for side in range(2):
                y = past(space.motion, space.second[i] if side else space.first[i])
                row = past(space.entry, (2 * (i * directions + d) + side) * m)
                for j in range(m):
                    total += row[j] * y[j]
            w[i * directions + d] = total


@summed
def _move_spheres(space, number, r):
    """The motion of bodies of six components, without inner loops: all is read before anything is written."""
    for i in range(number):
        e, a, b, c = past(space.entry, 36 * i), r[3 * i], r[3 * i + 1], r[3 * i + 2]
        y = past(space.motion, space.first[i])
        y0 = y[0] + a * e[0] + b * e[12] + c * e[24]
        y1 = y[1] + a * e[1] + b * e[13] + c * e[25]
        y2 = y[2] + a * e[2] + b * e[14] + c * e[26]
        y3 = y[3] + a * e[3] + b * e[15] + c * e[27]
        y4 = y[4] + a * e[4] + b * e[16] + c * e[28]
        y5 = y[5] + a * e[5] + b * e[17] + c * e[29]
        y[0], y[1], y[2], y[3], y[4], y[5] = y0, y1, y2, y3, y4, y5
        y = past(space.motion, space.second[i])
        y0 = y[0] + a * e[6] + b * e[18] + c * e[30]
        y1 = y[1] + a * e[7] + b * e[19] + c * e[31]
        y2 = y[2] + a * e[8] + b * e[20] + c * e[32]
        y3 = y[3] + a * e[9] + b * e[21] + c * e[33]
        y4 = y[4] + a * e[10] + b * e[22] + c * e[34]
        y5 = y[5] + a * e[11] + b * e[23] + c * e[35]
        y[0], y[1], y[2], y[3], y[4], y[5] = y0, y1, y2, y3, y4, y5


@summed
def _meet_spheres(space, number, w):
    """The velocities of the contacts of such bodies."""
    for i in range(number):
        y, z = past(space.motion, space.first[i]), past(space.motion, space.second[i])
        for d in range(3):
            e, at = past(space.entry, 12 * (3 * i + d)), 3 * i + d
            here = e[0] * y[0] + e[1] * y[1] + e[2] * y[2] + e[3] * y[3] + e[4] * y[4] + e[5] * y[5]
            there = e[6] * z[0] + e[7] * z[1] + e[8] * z[2] + e[9] * z[3] + e[10] * z[4] + e[11] * z[5]
            w[at] = space.free[at] + here + there


@compiled
def admit(space, number, coulomb, r):
    """Put reactions r (number, D) into the cones of friction, as `ManyContacts.admissible`; in place."""
    directions = space.directions
    for i in range(number):
        at, mu, square = i * directions, space.friction[i], 0.0
        for d in range(1, directions):
            square += r[at + d] * r[at + d]
        normal = r[at]
        if coulomb:
            normal = max(normal, 0.0)
            bound = mu * normal
        else:
            normal, bound = _nearest(normal, np.sqrt(square), mu)
        r[at] = normal
        # Where a contact sticks there is no root to take.
        if square > bound * bound:
            for d in range(1, directions):
                r[at + d] *= bound / np.sqrt(square)


@compiled
def _nearest(normal, size, mu):
    """P and |B| of the point of the cone that is nearest to those given."""
    if mu * size <= -normal:
        return 0.0, 0.0
    if size <= mu * normal:
        return normal, size
    # Without friction the cone is a half-line.
    normal = (normal + mu * size) / (1 + mu * mu)
    return normal, mu * normal
