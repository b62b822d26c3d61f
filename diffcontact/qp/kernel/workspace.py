"""Lay out the memory in which one projection is solved."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from diffcontact.qp.kernel.ffi import compiled, doubles, words
from diffcontact.qp.kernel.layout import factor_size, in_blocks

_in_blocks, _factor_size = compiled(in_blocks), compiled(factor_size)

# Of a problem with c rows, d components, e entries of a row at most, and at most k rows held at once:
#     start (c + 1), index, entry (c e)     the rows, one after the other: where each begins, its columns and values
#     name (c)                              the numbers of those that were read
#     value, noise, scale, tolerance (c)    of the rows at v, as in diffcontact.qp.working_set
#     soft, slack, base (c)                 addition to the dual's diagonal, relaxation, values at v + relaxation
#     root (d)                              inverse square roots of the masses
#     step, way, dense (d)                  for the whitened rows: way from v, direction of a pivot, a row spread out
#     candidate, place (c)                  the rows looked at, none of them held, and where each row is among them
#     now, change (c)                       the candidates' values plus tolerance; all rows' values where the step leads
#     held, multiplier (k)                        the working set and its multipliers
#     inverse (k k/2)                       the inverse of the Cholesky factor of its Delassus matrix, in blocks
#     own, turn (k)                         products with the entering row, and minus the rates of the multipliers; with
#                                           room for whole blocks
Workspace = namedtuple(
    "Workspace",
    "start index entry name value noise scale tolerance soft slack base root step way dense "
    "candidate place now change held multiplier inverse own turn",
)


@compiled
def carve(at, count, dimension, entries, most):
    whole, filled = count * entries, _in_blocks(most)
    start, at = _words(at, count + 1)
    index, at = _words(at, whole)
    name, at = _words(at, count)
    candidate, at = _words(at, count)
    place, at = _words(at, count)
    held, at = _words(at, most)
    entry, at = _doubles(at, whole)
    value, at = _doubles(at, count)
    noise, at = _doubles(at, count)
    scale, at = _doubles(at, count)
    tolerance, at = _doubles(at, count)
    soft, at = _doubles(at, count)
    slack, at = _doubles(at, count)
    base, at = _doubles(at, count)
    now, at = _doubles(at, count)
    change, at = _doubles(at, count)
    root, at = _doubles(at, dimension)
    step, at = _doubles(at, dimension)
    way, at = _doubles(at, dimension)
    dense, at = _doubles(at, dimension)
    multiplier, at = _doubles(at, most)
    own, at = _doubles(at, filled)
    turn, at = _doubles(at, filled)
    inverse, at = _doubles(at, _factor_size(filled))
    return Workspace(
        start, index, entry, name, value, noise, scale, tolerance, soft, slack, base, root,
        step, way, dense, candidate, place, now, change, held, multiplier, inverse, own, turn,
    )  # fmt: skip


@compiled
def _words(at, count) -> Any:
    return words(at), at + 8 * count


@compiled
def _doubles(at, count) -> Any:
    return doubles(at), at + 8 * count
