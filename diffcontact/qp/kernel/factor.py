"""Update the inverse Cholesky factor of the working set's Delassus matrix, as rows come in and leave.

With A_WW = L L^T and K = L^-1 a multiplier of one on row i changes those of W by -K^T K A_Wi. K grows by the row
(-(K^T K A_Wi)^T, 1)/sqrt(s), with s the Schur complement of row i, and shrinks by rotations of its rows: neither takes
a triangular solve. It is stored row by row without most of the zeros: rows are multiplied by in blocks.

Reference:
    D. Goldfarb, A. Idnani, A numerically stable dual method for solving strictly convex quadratic programs,
    Mathematical Programming 27 (1983), section 4.
"""

from __future__ import annotations

import numpy as np

from diffcontact.qp.kernel.ffi import compiled, past, summed
from diffcontact.qp.kernel.layout import BLOCK
from diffcontact.qp.kernel.rows import clear


@compiled
def _row(space, i):
    """Locate row i of K: rows of a block have one length, and zeros behind their end."""
    block, within = i // BLOCK, i % BLOCK
    return past(space.inverse, BLOCK * (block + 1) * (BLOCK * block // 2 + within))


@summed
def apply(space, size):
    """Set turn = K^T K own, and return own^T K^T K own."""
    own, turn = space.own, space.turn
    end = -(-size // BLOCK) * BLOCK
    for j in range(size, end):
        own[j] = 0.0
    clear(turn, end)
    first = 0
    # Few rows share a body with one that comes in.
    while first < size and own[first] == 0:
        first += 1
    first -= first % BLOCK
    square = 0.0
    for i in range(first, end, BLOCK):
        length = i + BLOCK
        one = _row(space, i)
        two, three, four = past(one, length), past(one, 2 * length), past(one, 3 * length)
        a, b, c, d = 0.0, 0.0, 0.0, 0.0
        for j in range(first, length):
            a += one[j] * own[j]
            b += two[j] * own[j]
            c += three[j] * own[j]
            d += four[j] * own[j]
        square += a * a + b * b + c * c + d * d
        for j in range(length):
            turn[j] += a * one[j] + b * two[j] + c * three[j] + d * four[j]
    return square


@summed
def append(space, size, schur):
    """Add a row, of which `turn` and the Schur complement are known."""
    row = _row(space, size)
    if size % BLOCK == 0:
        clear(row, BLOCK * (size + BLOCK))
    length = 1 / np.sqrt(schur)
    for j in range(size):
        row[j] = -space.turn[j] * length
    row[size] = length


@summed
def remove(space, size, gone):
    """Remove the row in place `gone`; the rows behind it move up."""
    upper = space.turn
    # Rotations leave nothing of the column in the upper row of each pair; the last one carries all, and is dropped.
    last = _row(space, gone)
    for j in range(gone + 1):
        upper[j] = last[j]
    for i in range(gone, size - 1):
        above, lower = _row(space, i), _row(space, i + 1)
        upper[i + 1] = 0.0
        a, b = upper[gone], lower[gone]
        length = np.sqrt(a * a + b * b)
        cosine, sine = b / length, a / length
        for j in range(gone):
            x, y = upper[j], lower[j]
            above[j] = cosine * x - sine * y
            upper[j] = sine * x + cosine * y
        upper[gone] = sine * a + cosine * b
        for j in range(gone + 1, i + 2):
            x, y = upper[j], lower[j]
            above[j - 1] = cosine * x - sine * y
            upper[j] = sine * x + cosine * y
    clear(_row(space, size - 1), size)
