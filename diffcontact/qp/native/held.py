"""Rows held as equalities, as `diffcontact.qp.held_rows` in JAX: the solution of

    M x + G_W^T y = f,    G_W x = s

for the rows W that a mask names, by the inverse Cholesky factor of their Delassus matrix.
"""

from __future__ import annotations

from diffcontact.qp.native.active_set import add_up, products
from diffcontact.qp.native.compiled import compiled
from diffcontact.qp.native.factor import append, apply
from diffcontact.qp.native.rows import gather, product, unwhiten, whiten

# The first gives the solution, the second is a step of iterative refinement.
PASSES = 2


@compiled
def take_independent(space, rows, most, dependent_below):
    """The rows that were read, without those that depend on the ones before: how many are held."""
    size = 0
    for row in range(rows):
        products(space, row, size)
        schur = product(space, row, space.dense) - apply(space, size)
        gather(space, row)
        if size < most and schur > dependent_below:
            append(space, size, schur)
            space.held[size], space.multiplier[size] = row, 0.0
            size += 1
    return size


@compiled
def solve(space, dimension, size, full, f, s):
    """x in `step`, and -y in `multiplier`."""
    whiten(space, f, dimension, full)
    for _ in range(PASSES):
        _arrive(space, dimension, size)
        for j in range(size):
            row = space.held[j]
            space.own[j] = product(space, row, space.step) - s[space.name[row]] * space.scale[row]
        apply(space, size)
        for j in range(size):
            space.multiplier[j] -= space.turn[j]
    _arrive(space, dimension, size)
    unwhiten(space, dimension, full)
    for j in range(size):
        space.multiplier[j] *= space.scale[space.held[j]]


@compiled
def _arrive(space, dimension, size):
    for j in range(dimension):
        space.step[j] = space.way[j]
    add_up(space, space.multiplier, size)
