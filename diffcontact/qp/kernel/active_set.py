"""Run the dual active-set method of Goldfarb and Idnani (1983), as `diffcontact.qp.active_set`, in loops.

The pivots are those of the swept tableau: the most violated row is taken in, until it is satisfied or a multiplier
reaches zero and its row leaves. Instead of a tableau of all rows, the inverse Cholesky factor of the held ones is kept.
The values of the other rows follow from the way that the point moves.

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
from diffcontact.qp.kernel.rows import add, clear, gather, product
from diffcontact.qp.working_set import EXPLAINED


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


# The place of a row that is no candidate, because nothing asks for it or because it is held.
NOWHERE, HELD = -1, -2

# The kernel works in double precision, whatever it is given.
EPS = float(np.finfo(np.float64).eps)


@compiled
def look_at(space, row, value, number):
    """Make a row of this value the candidate of this number."""
    space.candidate[number], space.place[row] = row, number
    space.now[number] = value + space.tolerance[row]


@compiled
def look_away(space, number, last):
    """Let the last candidate take the place of this one, which is held."""
    space.place[space.candidate[number]] = HELD
    if number != last:
        row = space.candidate[last]
        space.candidate[number], space.place[row], space.now[number] = row, number, space.now[last]


@compiled
def rounding(space, size, relaxed):
    """Bound the rounding of a value when multipliers cancel.

    Of rows at small angles multipliers are many times the violations. Relaxed rows have large multipliers too, and
    nothing to cancel.
    """
    largest = 0.0
    for j in range(size):
        largest = max(largest, space.multiplier[j])
    return 0.0 if relaxed else 16 * EPS * largest


@compiled
def most_violated(space, candidates, size, relaxed):
    """Return the candidate violated most, by more than rounding, or -1."""
    worst, found = -rounding(space, size, relaxed), -1
    for i in range(candidates):
        if space.now[i] < worst:
            worst, found = space.now[i], i
    return found


@compiled
def check(space, candidates, count, size, relaxed):
    """Put the rows' values after the step into `change`, without slack, and add candidates.

    Returns:
        How many candidates there are, whether there is more to do, and whether candidates contradict the held rows.
    """
    again, contradiction, unknown = False, False, rounding(space, size, relaxed)
    for i in range(count):
        value, change, place = space.value[i], product(space, i, space.step), space.place[i]
        space.change[i] = value + change if value < np.inf else value
        if space.base[i] == np.inf or place == HELD:
            continue
        arrived = space.base[i] + change + unknown
        violated = arrived < -2 * space.tolerance[i]
        if place != NOWHERE:
            space.now[place] = arrived + space.tolerance[i]
            again |= violated and not relaxed
            if not relaxed:
                contradiction |= value + change + space.slack[i] < -EXPLAINED * space.tolerance[i]
        elif violated:
            look_at(space, i, arrived, candidates)
            candidates += 1
            again = True
    return candidates, again, contradiction


@compiled
def pivots(space, candidates, count, dimension, size, most, rank, relaxed, dependent_below):
    """Take rows in and out until no candidate is violated; count candidates and held rows.

    A row that contradicts the held ones is taken for satisfied: its value in `base` becomes what satisfies it.
    """
    held, multiplier, turn, now = space.held, space.multiplier, space.turn, space.now
    limit = 10 * count + 20
    done = 0
    entering = most_violated(space, candidates, size, relaxed)
    while entering >= 0:
        row = space.candidate[entering]
        soft = space.soft[row] if relaxed else 0.0
        arrived = 0.0
        products(space, row, size)
        itself = product(space, row, space.dense) + soft
        while True:
            schur = itself - apply(space, size)
            possible = size < most and (size < rank or relaxed) and schur > dependent_below
            full = (space.tolerance[row] - now[entering]) / schur if possible else np.inf
            length, gone = full, -1
            for j in range(size):
                if turn[j] > dependent_below and multiplier[j] < length * turn[j]:
                    length, gone = multiplier[j] / turn[j], j
            if length == np.inf:
                space.base[row] += space.tolerance[row] - now[entering]
                now[entering] = space.tolerance[row]
                break
            if done == limit:
                break
            done += 1
            _move(space, candidates, dimension, size, length)
            now[entering] += length * soft
            arrived += length
            if gone < 0:
                append(space, size, schur)
                held[size], multiplier[size] = row, arrived
                if not relaxed:
                    space.base[row] = space.value[row] + space.slack[row]
                size += 1
                candidates -= 1
                look_away(space, entering, candidates)
                break
            look_at(space, held[gone], 0.0, candidates)
            candidates += 1
            remove(space, size, gone)
            size -= 1
            for j in range(gone, size):
                held[j], multiplier[j], space.own[j] = held[j + 1], multiplier[j + 1], space.own[j + 1]
        gather(space, row)
        # Where a row was given up on its way in, values and multipliers have to be computed anew.
        halfway = space.place[row] != HELD and arrived > 0
        entering = -1 if halfway or done == limit else most_violated(space, candidates, size, relaxed)
    return candidates, size


@compiled
def products(space, row, size):
    """Spread a row out, and compute its products with the held ones."""
    add(space, row, 1.0, space.dense)
    for j in range(size):
        space.own[j] = product(space, space.held[j], space.dense)


@summed
def _move(space, candidates, dimension, size, length):
    way, now, multiplier, turn = space.way, space.now, space.multiplier, space.turn
    for j in range(dimension):
        way[j] = space.dense[j]
    for j in range(size):
        add(space, space.held[j], -turn[j], way)
        multiplier[j] -= length * turn[j]
    for i in range(candidates):
        now[i] += length * product(space, space.candidate[i], way)


@summed
def refine(space, dimension, size, relaxed):
    """Refine the multipliers by one iteration, and the step that follows from them."""
    clear(space.step, dimension)
    add_up(space, space.multiplier, size)
    for j in range(size):
        row = space.held[j]
        own = space.base[row] + product(space, row, space.step)
        space.own[j] = own + space.soft[row] * space.multiplier[j] if relaxed else own
    apply(space, size)
    # The step is corrected, not computed anew: large multipliers cancel in it.
    for j in range(size):
        space.turn[j] = -space.turn[j]
        space.multiplier[j] += space.turn[j]
    add_up(space, space.turn, size)


@compiled
def add_up(space, factors, size):
    """Add the held rows, each times its factor, to `step`."""
    for j in range(size):
        add(space, space.held[j], factors[j], space.step)
