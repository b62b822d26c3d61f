"""Violated rows held all at once, before any comes in by a pivot of its own."""

from __future__ import annotations

from diffcontact.qp.native.active_set import add_up, check, look_at, look_away, most_violated, products
from diffcontact.qp.native.compiled import compiled
from diffcontact.qp.native.factor import append, apply, remove
from diffcontact.qp.native.rows import clear, gather, product

# The squared sine of the angle between a row and those before it from which on it is held at once.
WELL_INDEPENDENT = 1e-4
# How often violated rows are held all at once, and down to which part of the largest violation. With less violated ones
# many come in that leave again: of 15 discs in a pyramid a third of the time, of 32 spheres a quarter.
AT_ONCE, PART = 20, 1 / 3
# Held rows whose values are zero to this part of their tolerance, which is their rounding, need no step of refinement.
SMALL = 1 / 2


@compiled
def hold_violated(space, candidates, count, dimension, most):
    """Begin with the most violated rows, all at once and again and again, without those that would pull.

    Their multipliers are positive and their values zero, which is all that the pivots ask of where they begin. Mostly
    there is nothing left to do for them: a body that lies on others is violated wherever it is pressed. Rows that
    depend on held ones, or nearly so, are left to the pivots.

    Returns:
        How many candidates there are then, how many rows are held, and whether that is the solution.
    """
    size = 0
    for _ in range(AT_ONCE):
        worst = most_violated(space, candidates, size, False)
        if worst < 0:
            candidates, again, _ = check(space, candidates, count, size, False)
            if not again:
                return candidates, size, _exactly(space, size)
            worst = most_violated(space, candidates, size, False)
        had = size
        if worst >= 0:
            candidates, size = _take_in(space, candidates, size, most, PART * space.now[worst])
        if size == had:
            break
        candidates, size = _let_go_what_pulls(space, candidates, size)
        clear(space.step, dimension)
        add_up(space, space.multiplier, size)
        for i in range(candidates):
            row = space.candidate[i]
            space.now[i] = space.base[row] + product(space, row, space.step) + space.tolerance[row]
    return candidates, size, False


@compiled
def _take_in(space, candidates, size, most, below):
    """Hold the candidates whose values are not above `below`: how many candidates and held rows there are then."""
    i = 0
    while i < candidates and size < most:
        row = space.candidate[i]
        schur = 0.0
        if space.now[i] <= below:
            products(space, row, size)
            schur = product(space, row, space.dense) - apply(space, size)
            gather(space, row)
        if schur > WELL_INDEPENDENT:
            append(space, size, schur)
            space.held[size] = row
            size += 1
            candidates -= 1
            look_away(space, i, candidates)
        else:
            i += 1
    return candidates, size


@compiled
def _exactly(space, size):
    """Whether the values of the held rows, and there are some, are zero without a step of refinement."""
    exact = size > 0
    for j in range(size):
        row = space.held[j]
        exact &= abs(space.change[row] + space.slack[row]) <= SMALL * space.tolerance[row]
    return exact


@compiled
def _let_go_what_pulls(space, candidates, size):
    """Make the values of the held rows zero, by multipliers that are positive: how many candidates and held rows."""
    held, multiplier = space.held, space.multiplier
    pulling = True
    while pulling:
        for j in range(size):
            space.own[j] = space.base[held[j]]
        apply(space, size)
        for j in range(size):
            multiplier[j] = -space.turn[j]
        pulling = False
        for gone in range(size - 1, -1, -1):
            if multiplier[gone] > space.tolerance[held[gone]]:
                continue
            pulling = True
            look_at(space, held[gone], 0.0, candidates)
            candidates += 1
            remove(space, size, gone)
            size -= 1
            for j in range(gone, size):
                held[j], multiplier[j] = held[j + 1], multiplier[j + 1]
    return candidates, size
