"""The dual active-set method of Goldfarb and Idnani (1983) on a swept tableau.

It solves the dual of a projection: multipliers l >= 0 with w = A l + w0 >= 0 and l w = 0. From an empty working
set W on it takes the most violated row in. The multiplier of that row grows until the row is satisfied and joins W, or
until the multiplier of a row in W reaches zero and that row leaves. Every pass is one pivot, shapes are fixed, and the
rows in W are independent at all times.

The tableau T of a working set W maps the values on W and the multipliers off W to the multipliers on W and the values
off W::

    T_WW = A_WW^-1       T_WN = -A_WW^-1 A_WN
    T_NW = A_NW A_WW^-1  T_NN = A_NN - A_NW A_WW^-1 A_WN   (the Schur complement)

A row enters or leaves W by the same operation, the sweep: one rank-one update of T. w0 is swept like a further column.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
from jax import lax

from diffcontact.numerics.batching import any_lane, in_lanes
from diffcontact.qp.rows import NONE, dependence_tolerance


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Iterate:
    """Carry the state from pivot to pivot.

    Args:
        tableau: (c, c) A swept on the working set, up to the last pivots.
        left, right: (k, c) the last pivots, not yet applied: the tableau is T - left^T right.
        point: (c,) w0 swept like a column of T: multipliers on W, values off W, at multiplier 0 of the entering row.
        working: (c,) bool, the working set W.
        size: () int, the number of rows in W.
        entering: () int, the row that is being taken in, or NONE.
        pivots: () int, the number of pivots so far.
    """

    tableau: jax.Array
    left: jax.Array
    right: jax.Array
    point: jax.Array
    working: jax.Array
    size: jax.Array
    entering: jax.Array
    pivots: jax.Array

    def row(self, index):
        """Return a row (c,) of the tableau after all pivots."""
        column = lax.dynamic_index_in_dim(self.left, index, 1, keepdims=False, allow_negative_indices=False)
        return _at(self.tableau, index) - column @ self.right

    def swept(self, x):
        """Return T_WW x_W (c,), zero off the working set."""
        x = jnp.where(self.working, x, 0)
        return jnp.where(self.working, self.tableau @ x - (self.right @ x) @ self.left, 0)


def pivots_at_once(count):
    """Choose how many pivots wait before the tableau (c, c) is updated, in place.

    Applied together, in the next pass, k pivots cost one read and one write of the tableau. Each pivot that waits costs
    every later one two vectors. It pays where the tableau no longer fits the fastest cache.
    """
    return min(max(count // 16, 1), 8)


def solve_dual(A, w0, tolerance, rank, any_rank=False) -> Iterate:
    """Find the working set of  l >= 0,  w = A l + w0 >= 0,  l w = 0.

    A violated row that depends on working ones, none of which can give way, contradicts them, be it by rounding only.
    It is taken for satisfied from there on; its value tells.

    Args:
        A: (c, c) symmetric, positive semidefinite, unit diagonal (zero on rows that are off).
        w0: (c,) values at l = 0; +inf switches a row off.
        tolerance: (c,) >= 0, violations up to here are rounding.
        rank: int, how many rows can be independent at most.
        any_rank: () bool, True where A is regular whatever the rank of the rows.

    Reference:
        D. Goldfarb, A. Idnani, A numerically stable dual method for solving strictly convex quadratic programs,
        Mathematical Programming 27 (1983), algorithm of section 3.
    """
    count = w0.shape[0]
    rows = jnp.arange(count, dtype=jnp.int32)
    # Each row comes in and leaves a few times at most in practice; more pivots mean that rounding decides.
    limit = 10 * count + 20
    dependent_below = dependence_tolerance(count, float(jnp.finfo(w0.dtype).eps))
    at_once = pivots_at_once(count)

    def most_violated(point, working):
        worst, row = _lowest(jnp.where(working, jnp.inf, point + tolerance), rows)
        return jnp.where(worst < 0, row, NONE)

    def some(iterate):
        tableau, nothing = iterate.tableau, jnp.zeros_like(iterate.left)
        for left, right in zip(iterate.left, iterate.right, strict=True):
            tableau = tableau - left[:, None] * right[None, :]
        iterate = replace(iterate, tableau=tableau, left=nothing, right=nothing)
        return lax.fori_loop(0, at_once, pivot, iterate)

    def pivot(number, iterate):
        point, working = iterate.point, iterate.working
        running = iterate.entering != NONE
        entering = jnp.maximum(iterate.entering, 0)
        row = iterate.row(entering)
        # While the entering row's multiplier is s, the point is point + s direction.
        direction = jnp.where(working, -row, row)
        own = _at(row, entering)
        independent = (own > dependent_below) & ((iterate.size < rank) | any_rank)
        full = jnp.where(independent, -_at(point, entering) / own, jnp.inf)
        shortest, blocking = _lowest(
            jnp.where(working & (direction < -dependent_below), point / -direction, jnp.inf), rows
        )
        joins = full <= shortest
        possible = running & (jnp.minimum(full, shortest) < jnp.inf)
        contradicts = running & ~possible
        index = jnp.where(joins, entering, blocking)

        here = rows == index
        left, right = sweep(iterate.row(index), working, index)
        left = jnp.where(possible, left, 0)
        point = point - left * jnp.where(possible, _at(point, index), 0)
        point = jnp.where(here & contradicts, 0, point)
        working = working ^ (here & possible)
        done = iterate.pivots + 1
        upcoming = jnp.where(joins, most_violated(point, working), entering)
        return Iterate(
            tableau=iterate.tableau,
            left=_put(iterate.left, left, number),
            right=_put(iterate.right, right, number),
            point=point,
            working=working,
            size=iterate.size + jnp.where(possible, jnp.where(joins, 1, -1), 0),
            entering=jnp.where(running & (done < limit), upcoming, NONE),
            pivots=done,
        )

    zero = jnp.zeros((), jnp.int32)
    none = jnp.zeros(count, bool)
    start = Iterate(
        tableau=A,
        left=jnp.zeros((at_once, count), w0.dtype),
        right=jnp.zeros((at_once, count), w0.dtype),
        point=w0,
        working=none,
        size=zero,
        entering=most_violated(w0, none),
        pivots=zero,
    )
    # A batch goes on until its last lane is done, and a pass leaves the finished lanes as they are: the select that
    # vmap would put around the body keeps the old tableau alive, at the price of a copy per pass.
    return lax.while_loop(lambda iterate: any_lane(iterate.entering != NONE), some, in_lanes(start, (A, w0)))


def sweep(row, working, index):
    """Return left, right (c,): taking row `index` in or out makes T - left right^T.

    `row` is T[index] (c,): T is symmetric but for the sign between W and its complement, so that its row tells the
    column. A column x swept along becomes x - left x[index].
    """
    unit = (jnp.arange(row.shape[0]) == index).astype(row.dtype)
    column = jnp.where(working == _at(working, index), row, -row)
    return (column + unit) / _at(row, index), row - unit


def _at(x, index):
    """Return x[index] of an index that is never negative, at half the instructions."""
    return lax.dynamic_index_in_dim(x, index, keepdims=False, allow_negative_indices=False)


def _put(x, row, index):
    return lax.dynamic_update_index_in_dim(x, row, index, 0, allow_negative_indices=False)


def _lowest(values, rows):
    """Return the smallest value, none is NaN, and its row, twice as fast as argmin."""

    def lower(one, other):
        other_is = other[0] < one[0]
        return tuple(jnp.where(other_is, b, a) for a, b in zip(one, other, strict=True))

    return lax.reduce((values, rows), (jnp.asarray(jnp.inf, values.dtype), jnp.zeros((), rows.dtype)), lower, (0,))
