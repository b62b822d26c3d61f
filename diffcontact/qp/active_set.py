"""The dual active-set method of Goldfarb and Idnani (1983) on a swept tableau.

It solves the dual of a projection: multipliers l >= 0 with w = A l + w0 >= 0 and l w = 0. It starts from no active row,
where it is optimal for the problem without constraints, and takes the most violated row in: its multiplier grows
until the row is satisfied (it joins the working set W), or until the multiplier of a row in W reaches zero (that row
leaves). Every pass is one pivot, shapes are fixed, and the rows in W are independent at all times.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import lax

from diffcontact.qp.tableau import pivot_tolerance, sweep, swept_column
from diffcontact.status import Status

NONE = -1


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Search:
    """What the search carries from pivot to pivot.

    Args:
        tableau: (c, c) A swept on the working set.
        point: (c,) multipliers on the working set, constraint values off it.
        working: (c,) bool, the working set W.
        entering: () int, the violated row that is being taken in, or NONE.
        load: () its multiplier so far.
        pivots: () int, how many were done.
        status: () int, a Status.
    """

    tableau: jax.Array
    point: jax.Array
    working: jax.Array
    entering: jax.Array
    load: jax.Array
    pivots: jax.Array
    status: jax.Array


def solve_dual(A, w0, tolerance, rank):
    """Search the working set of  l >= 0,  w = A l + w0 >= 0,  l w = 0.

    Args:
        A: (c, c) symmetric, positive semidefinite, unit diagonal (zero on rows that are off).
        w0: (c,) values at l = 0; +inf switches a row off.
        tolerance: (c,) >= 0, violations up to here are rounding.
        rank: () int, how many rows can be independent at most.

    Returns:
        The final Search: status OK, INFEASIBLE (the entering row contradicts the working ones) or ITERATION_LIMIT.

    Reference:
        D. Goldfarb, A. Idnani, A numerically stable dual method for solving strictly convex quadratic programs,
        Mathematical Programming 27 (1983), algorithm of section 3.
    """
    count = w0.shape[0]
    # Each row comes in and leaves a few times at most in practice; a search that is longer has lost its way to rounding.
    limit = 10 * count + 20
    dependent_below = pivot_tolerance(count, w0.dtype)

    def violated(point, working):
        margin = jnp.where(working, jnp.inf, point + tolerance)
        worst = jnp.argmin(margin)
        return jnp.where(margin[worst] < 0, worst, NONE)

    def pivot(search):
        point, working, entering = search.point, search.working, search.entering
        row = search.tableau[entering]
        direction = swept_column(row, working, entering)
        independent = (row[entering] > dependent_below) & (jnp.sum(working) < rank)
        full = jnp.where(independent, -point[entering] / row[entering], jnp.inf)
        blocks = working & (direction < -dependent_below)
        ratio = jnp.where(blocks, point / jnp.where(blocks, -direction, 1), jnp.inf)
        blocking = jnp.argmin(ratio)
        joins = full <= ratio[blocking]
        length = jnp.minimum(full, ratio[blocking])
        possible = jnp.isfinite(length)
        length = jnp.where(possible, length, 0)
        index = jnp.where(joins, entering, blocking)
        load = search.load + length

        point = point + length * direction
        # Exactly: the new row starts with its load, the row that leaves has the value zero.
        point = point.at[index].set(jnp.where(joins, load, 0))
        tableau, working = sweep(search.tableau, working, index, search.tableau[index], possible)
        point = jnp.where(working, jnp.maximum(point, 0), point)
        following = jnp.where(joins, violated(point, working), entering)
        pivots = search.pivots + 1
        late = (pivots >= limit) & (following != NONE)
        return Search(
            tableau=tableau,
            point=point,
            working=working,
            entering=jnp.where(possible & ~late, following, NONE),
            load=jnp.where(joins, 0, load),
            pivots=pivots,
            status=jnp.where(possible, jnp.where(late, Status.ITERATION_LIMIT, Status.OK), Status.INFEASIBLE),
        )

    idle = jnp.zeros_like(w0, dtype=bool)
    start = Search(
        tableau=A,
        point=w0,
        working=idle,
        entering=violated(w0, idle),
        load=jnp.zeros((), w0.dtype),
        pivots=jnp.zeros((), int),
        status=jnp.asarray(int(Status.OK)),
    )
    return lax.while_loop(lambda search: search.entering != NONE, pivot, start)


def independent_rows(A, wanted, rank):
    """A largest independent subset of the wanted rows: a Cholesky factorisation with diagonal pivoting, as sweeps.

    Args:
        A: (c, c) symmetric, positive semidefinite, unit diagonal.
        wanted: (c,) bool.
        rank: int, how many rows can be independent at most.

    Returns:
        (c,) bool. Of rows that depend on each other the first ones are kept.
    """
    dependent_below = pivot_tolerance(wanted.shape[0], A.dtype)

    def best(tableau, working):
        left = jnp.where(wanted & ~working, jnp.diagonal(tableau), 0)
        index = jnp.argmax(left)
        return jnp.where((left[index] > dependent_below) & (jnp.sum(working) < rank), index, NONE)

    def take(carry):
        tableau, working, index = carry
        tableau, working = sweep(tableau, working, index, tableau[index], True)
        return tableau, working, best(tableau, working)

    idle = jnp.zeros_like(wanted)
    _, working, _ = lax.while_loop(lambda carry: carry[2] != NONE, take, (A, idle, best(A, idle)))
    return working
