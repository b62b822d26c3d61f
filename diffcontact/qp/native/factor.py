"""The inverse Cholesky factor of the working set's Delassus matrix, as rows come in and leave.

With A_WW = L L^T and K = L^-1 a multiplier of one on row i changes those of W by -K^T K A_Wi. K grows by the row
(-(K^T K A_Wi)^T, 1)/sqrt(s), with s the Schur complement of row i, and shrinks by rotations of its rows: neither takes
a triangular solve. It is stored row by row, without the zeros.

Reference:
    D. Goldfarb, A. Idnani, A numerically stable dual method for solving strictly convex quadratic programs,
    Mathematical Programming 27 (1983), section 4.
"""

from __future__ import annotations

import numpy as np

from diffcontact.qp.native.compiled import summed
from diffcontact.qp.native.frame import past
from diffcontact.qp.native.rows import clear


@summed
def apply(space, size):
    """turn = K^T K own, and own^T K^T K own."""
    inverse, own, turn = space.inverse, space.own, space.turn
    clear(turn, size)
    square = 0.0
    for i in range(size):
        row = past(inverse, i * (i + 1) // 2)
        total = 0.0
        for j in range(i + 1):
            total += row[j] * own[j]
        square += total * total
        for j in range(i + 1):
            turn[j] += row[j] * total
    return square


@summed
def append(space, size, schur):
    """A row comes in, of which `turn` and the Schur complement are known."""
    row = past(space.inverse, size * (size + 1) // 2)
    length = 1 / np.sqrt(schur)
    for j in range(size):
        row[j] = -space.turn[j] * length
    row[size] = length


@summed
def remove(space, size, gone):
    """The row in place `gone` leaves, those behind it move up."""
    inverse, upper = space.inverse, space.turn
    # Rotations leave nothing of the column in the upper row of each pair; the last one carries all, and is dropped.
    last = past(inverse, gone * (gone + 1) // 2)
    for j in range(gone + 1):
        upper[j] = last[j]
    for i in range(gone, size - 1):
        above, lower = past(inverse, i * (i + 1) // 2), past(inverse, (i + 1) * (i + 2) // 2)
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
