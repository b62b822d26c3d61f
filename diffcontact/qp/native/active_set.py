"""The dual active-set method of Goldfarb and Idnani (1983), as `diffcontact.qp.active_set`, in loops.

The pivots are those of the swept tableau: the most violated row is taken in, until it is satisfied or a multiplier
reaches zero and its row leaves. Instead of a tableau of all rows the inverse Cholesky factor of the held ones is kept,
and the values of the others follow from the way that the point moves.
"""

from __future__ import annotations

import numpy as np

from diffcontact.qp.native.compiled import compiled, summed
from diffcontact.qp.native.factor import append, apply, remove
from diffcontact.qp.native.frame import past
from diffcontact.qp.native.rows import add, clear, times
from diffcontact.status import Status

OK, INFEASIBLE, ITERATION_LIMIT = int(Status.OK), int(Status.INFEASIBLE), int(Status.ITERATION_LIMIT)


@compiled
def look_at(space, row, number, entries, count):
    """Make a row the candidate of this number."""
    space.candidate[number] = row
    space.place[row] = number
    begin, end = space.start[row], space.start[row + 1]
    for e in range(entries):
        there = begin + e < end
        space.column[e * count + number] = space.index[begin + e] if there else 0
        space.unit[e * count + number] = space.entry[begin + e] if there else 0.0


@compiled
def most_violated(space, candidates):
    """The candidate that is violated most, or -1."""
    worst, found = 0.0, -1
    for i in range(candidates):
        value = space.now[i] + space.tolerance[space.candidate[i]]
        if value < worst:
            worst, found = value, i
    return found


@compiled
def pivots(space, candidates, count, dimension, entries, size, most, rank, relaxed, dependent_below):
    """Take rows in and out until none of the candidates is violated: how many are held then, and the status."""
    held, load, turn, now = space.held, space.load, space.turn, space.now
    limit = 10 * count + 20
    done = 0
    entering = most_violated(space, candidates)
    while entering >= 0:
        row = space.candidate[entering]
        soft = space.soft[row] if relaxed else 0.0
        arrived = 0.0
        _products(space, row, size, dimension)
        itself = times(space, row, space.dense) + soft
        while True:
            schur = itself - apply(space, most, size)
            possible = size < most and (size < rank or relaxed) and schur > dependent_below
            full = -now[entering] / schur if possible else np.inf
            length, gone = full, -1
            for j in range(size):
                if turn[j] > dependent_below and load[j] < length * turn[j]:
                    length, gone = load[j] / turn[j], j
            if length == np.inf:
                _forget(space, row)
                return size, INFEASIBLE
            if done == limit:
                _forget(space, row)
                return size, ITERATION_LIMIT
            done += 1
            _move(space, candidates, count, dimension, entries, size, length)
            now[entering] += length * soft
            arrived += length
            if gone < 0:
                append(space, most, size, schur)
                held[size], load[size] = entering, arrived
                now[entering] = np.inf
                size += 1
                break
            now[held[gone]] = 0.0
            remove(space, most, size, gone)
            size -= 1
            for j in range(gone, size):
                held[j], load[j], space.own[j] = held[j + 1], load[j + 1], space.own[j + 1]
        _forget(space, row)
        entering = most_violated(space, candidates)
    return size, OK


@compiled
def _products(space, row, size, dimension):
    """Spread a row out, and its products with the held ones."""
    add(space, row, 1.0, space.dense)
    for j in range(size):
        space.own[j] = times(space, space.candidate[space.held[j]], space.dense)


@compiled
def _forget(space, row):
    for e in range(space.start[row], space.start[row + 1]):
        space.dense[space.index[e]] = 0.0


@summed
def _move(space, candidates, count, dimension, entries, size, length):
    """Let the load of the entering row grow by `length`."""
    way, change, now, load, turn = space.way, space.change, space.now, space.load, space.turn
    for j in range(dimension):
        way[j] = space.dense[j]
    for j in range(size):
        add(space, space.candidate[space.held[j]], -turn[j], way)
        load[j] -= length * turn[j]
    clear(change, candidates)
    for e in range(entries):
        column = past(space.column, e * count)
        unit = past(space.unit, e * count)
        for i in range(candidates):
            change[i] += unit[i] * way[column[i]]
    for i in range(candidates):
        now[i] += length * change[i]


@summed
def refine(space, dimension, size, most, relaxed):
    """One step of iterative refinement of the multipliers, and the step that follows from them."""
    _add_up(space, dimension, size)
    for j in range(size):
        row = space.candidate[space.held[j]]
        own = space.base[row] + times(space, row, space.step)
        space.own[j] = own + space.soft[row] * space.load[j] if relaxed else own
    apply(space, most, size)
    for j in range(size):
        space.load[j] -= space.turn[j]
    _add_up(space, dimension, size)


@compiled
def _add_up(space, dimension, size):
    clear(space.step, dimension)
    for j in range(size):
        add(space, space.candidate[space.held[j]], space.load[j], space.step)
