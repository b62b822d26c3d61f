"""The dual active-set method of Goldfarb and Idnani (1983) on a swept tableau.

It solves the dual of a projection: multipliers l >= 0 with w = A l + w0 >= 0 and l w = 0. From a working set W that is
optimal for its own rows (none, or what is left of a guess) it takes the most violated row in: its multiplier grows
until the row is satisfied (it joins W), or until the multiplier of a row in W reaches zero (that row leaves). Every
pass is one pivot, shapes are fixed, and the rows in W are independent at all times.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import lax

from diffcontact.batching import any_lane
from diffcontact.qp.rows import NONE, dependence_tolerance
from diffcontact.qp.tableau import sweep, swept_column
from diffcontact.status import Status


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Search:
    """What the search carries from pivot to pivot.

    Args:
        tableau: (c, c) A swept on the working set, up to the last pivot.
        left, right: (c,) the last pivot, not yet applied: the tableau is T - left right^T. Done in the next pass, the
            update writes in place and costs one read and one write; next to its own row it would cost a copy.
        point: (c,) multipliers on the working set, constraint values off it.
        working: (c,) bool, the working set W.
        size: () int, how many rows W has.
        guess: (c,) bool, rows still to be tried before the search proper.
        repairing: () bool, while the guess is taken in and rid of negative multipliers.
        entering: () int, the row that is being taken in (or repaired), or NONE.
        load: () its multiplier so far.
        pivots: () int, how many were done.
        status: () int, a Status.
    """

    tableau: jax.Array
    left: jax.Array
    right: jax.Array
    point: jax.Array
    working: jax.Array
    size: jax.Array
    guess: jax.Array
    repairing: jax.Array
    entering: jax.Array
    load: jax.Array
    pivots: jax.Array
    status: jax.Array


def solve_dual(A, w0, tolerance, rank, guess, any_rank=False):
    """Search the working set of  l >= 0,  w = A l + w0 >= 0,  l w = 0.

    Args:
        A: (c, c) symmetric, positive semidefinite, unit diagonal (zero on rows that are off).
        w0: (c,) values at l = 0; +inf switches a row off.
        tolerance: (c,) >= 0, violations up to here are rounding.
        rank: int, how many rows can be independent at most.
        guess: (c,) bool, rows that the working set may start from.
        any_rank: () bool, True where A is regular whatever the rank of the rows.

    Returns:
        The final Search: status OK, INFEASIBLE (the entering row contradicts the working ones) or ITERATION_LIMIT.

    Reference:
        D. Goldfarb, A. Idnani, A numerically stable dual method for solving strictly convex quadratic programs,
        Mathematical Programming 27 (1983), algorithm of section 3.
    """
    count = w0.shape[0]
    rows = jnp.arange(count)
    # Each row comes in and leaves a few times at most in practice; a longer search has lost its way to rounding.
    limit = 10 * count + 20
    dependent_below = dependence_tolerance(count, w0.dtype)
    first = -jnp.finfo(w0.dtype).max

    def following(point, working, guess, repairing):
        """The row to take next (the guess, then negative multipliers, then the most violated), or NONE."""
        multiplier = jnp.where((point < 0) & repairing, first, jnp.inf)
        urgency = jnp.where(guess, -jnp.inf, jnp.where(working, multiplier, point + tolerance))
        row = jnp.argmin(urgency).astype(jnp.int32)
        worst = urgency[row]
        return jnp.where(worst < 0, row, NONE), repairing & (worst <= first)

    def pivot(search):
        point, working, repairing = search.point, search.working, search.repairing
        running = search.entering != NONE
        entering = jnp.maximum(search.entering, 0)
        tableau = search.tableau - search.left[:, None] * search.right[None, :]
        row = tableau[entering]
        direction = swept_column(row, working, entering)
        room = (search.size < rank) | working[entering] | any_rank
        full = jnp.where((row[entering] > dependent_below) & room, -point[entering] / row[entering], jnp.inf)
        blocks = working & (direction < -dependent_below) & ~repairing
        ratio = jnp.where(blocks, point / -direction, jnp.inf)
        blocking = jnp.argmin(ratio).astype(jnp.int32)
        shortest = ratio[blocking]
        length = jnp.minimum(full, shortest)
        possible = running & (length < jnp.inf)
        joins = full <= shortest
        index = jnp.where(joins, entering, blocking)
        changed = (rows == index) & possible
        load = search.load + length

        left, right = sweep(tableau[index], working, index)
        # Exactly: the new row starts with its load, the row that leaves has the value zero.
        moved = jnp.where(changed, jnp.where(joins, load, 0), point + jnp.where(possible, length, 0) * direction)
        working = working ^ changed
        moved = jnp.where(working & ~repairing, jnp.maximum(moved, 0), moved)
        guess = search.guess & ~((rows == index) & running)
        row_after, repairing_after = following(moved, working, guess, repairing)
        pivots = search.pivots + running
        stuck = running & ~(possible | repairing)
        late = running & ~stuck & (pivots >= limit)
        upcoming = jnp.where(running & ~stuck & ~late, jnp.where(joins, row_after, entering), NONE)
        outcome = jnp.where(stuck, Status.INFEASIBLE, jnp.where(late, Status.ITERATION_LIMIT, search.status))
        return Search(
            tableau=tableau,
            left=jnp.where(possible, left, 0),
            right=right,
            point=moved,
            working=working,
            size=search.size + jnp.where(possible, jnp.where(working[index], 1, -1), 0),
            guess=guess,
            repairing=repairing_after,
            entering=upcoming,
            load=jnp.where(joins, 0, load),
            pivots=pivots,
            status=outcome.astype(jnp.int32),
        )

    idle = jnp.zeros(count, bool)
    zero = jnp.zeros((), jnp.int32)
    entering, repairing = following(w0, idle, guess, jnp.asarray(True))
    start = Search(
        tableau=A,
        left=jnp.zeros_like(w0),
        right=jnp.zeros_like(w0),
        point=w0,
        working=idle,
        size=zero,
        guess=guess,
        repairing=repairing,
        entering=entering,
        load=jnp.zeros((), w0.dtype),
        pivots=zero,
        status=zero + int(Status.OK),
    )
    # A batch goes on until its last lane is done, and a pass leaves the finished lanes as they are: the select that
    # vmap would put around the body keeps the old tableau alive, at the price of a copy per pass.
    return lax.while_loop(lambda search: any_lane(search.entering != NONE), pivot, start)
