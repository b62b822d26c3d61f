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

from diffcontact.qp.rows import NONE, dependence_tolerance, free_slots, put
from diffcontact.qp.tableau import sweep, swept_column
from diffcontact.status import Status


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Search:
    """What the search carries from pivot to pivot.

    Args:
        tableau: (c, c) A swept on the working set.
        point: (c,) multipliers on the working set, constraint values off it.
        working: (c,) bool, the working set W.
        slots: (k,) int, the same as row numbers.
        guess: (c,) bool, rows still to be tried before the search proper, or None.
        repairing: () bool, while the guess is taken in and rid of negative multipliers.
        entering: () int, the violated row that is being taken in, or NONE.
        load: () its multiplier so far.
        pivots: () int, how many were done.
        status: () int, a Status.
    """

    tableau: jax.Array
    point: jax.Array
    working: jax.Array
    slots: jax.Array
    guess: jax.Array | None
    repairing: jax.Array
    entering: jax.Array
    load: jax.Array
    pivots: jax.Array
    status: jax.Array


def solve_dual(A, w0, tolerance, rank, guess=None):
    """Search the working set of  l >= 0,  w = A l + w0 >= 0,  l w = 0.

    Args:
        A: (c, c) symmetric, positive semidefinite, unit diagonal (zero on rows that are off).
        w0: (c,) values at l = 0; +inf switches a row off.
        tolerance: (c,) >= 0, violations up to here are rounding.
        rank: int, how many rows can be independent at most.
        guess: (c,) bool, rows that the working set may start from, or None.

    Returns:
        The final Search: status OK, INFEASIBLE (the entering row contradicts the working ones) or ITERATION_LIMIT.

    Reference:
        D. Goldfarb, A. Idnani, A numerically stable dual method for solving strictly convex quadratic programs,
        Mathematical Programming 27 (1983), algorithm of section 3.
    """
    count = w0.shape[0]
    # Each row comes in and leaves a few times at most in practice; a longer search has lost its way to rounding.
    limit = 10 * count + 20
    dependent_below = dependence_tolerance(rank, w0.dtype)

    def following(point, working, guess, repairing):
        """The row to take next, and whether that still serves to repair the guess."""
        margin = jnp.where(working, jnp.inf, point + tolerance)
        if guess is not None:
            # First the rows of the guess, then the most negative multiplier, then the most violated value.
            wrong = jnp.where(working & (point < 0), point, jnp.inf)
            wrong = jnp.where(guess, -jnp.inf, wrong)
            repairing = repairing & jnp.any(wrong < 0)
            margin = jnp.where(repairing, wrong, margin)
        worst = jnp.argmin(margin)
        return jnp.where(margin[worst] < 0, worst, NONE), repairing

    def pivot(search):
        point, working, entering, repairing = search.point, search.working, search.entering, search.repairing
        row = search.tableau[entering]
        direction = swept_column(row, working, entering)
        room = jnp.any(search.slots == NONE) | working[entering]
        full = jnp.where((row[entering] > dependent_below) & room, -point[entering] / row[entering], jnp.inf)
        blocks = working & (direction < -dependent_below) & ~repairing
        ratio = jnp.where(blocks, point / jnp.where(blocks, -direction, 1), jnp.inf)
        blocking = jnp.argmin(ratio)
        length = jnp.where(repairing, full, jnp.minimum(full, ratio[blocking]))
        possible = jnp.isfinite(length)
        length = jnp.where(possible, length, 0)
        joins = repairing | (full <= ratio[blocking])
        index = jnp.where(joins, entering, blocking)
        here = jnp.arange(count) == index
        load = search.load + length

        # Exactly: the new row starts with its load, the row that leaves has the value zero.
        point = jnp.where(here & possible, jnp.where(joins, load, 0), point + length * direction)
        tableau, working = sweep(search.tableau, working, index, search.tableau[index], possible)
        point = jnp.where(working & ~repairing, jnp.maximum(point, 0), point)
        leaves = ~working[index]
        slots = jnp.where(leaves & possible & (search.slots == index), NONE, search.slots)
        slots = put(slots, index, ~leaves & possible)
        guess = None if search.guess is None else search.guess & ~here
        row_after, repairing_after = following(point, working, guess, repairing)
        pivots = search.pivots + 1
        stuck = ~(possible | repairing)
        upcoming = jnp.where(joins, row_after, entering)
        late = (pivots >= limit) & (upcoming != NONE)
        outcome = jnp.where(stuck, Status.INFEASIBLE, jnp.where(late, Status.ITERATION_LIMIT, Status.OK))
        return Search(
            tableau=tableau,
            point=point,
            working=working,
            slots=slots,
            guess=guess,
            repairing=repairing_after,
            entering=jnp.where(stuck | late, NONE, upcoming),
            load=jnp.where(joins, 0, load),
            pivots=pivots,
            status=outcome.astype(jnp.int32),
        )

    idle = jnp.zeros_like(w0, dtype=bool)
    entering, repairing = following(w0, idle, guess, jnp.asarray(guess is not None))
    start = Search(
        tableau=A,
        point=w0,
        working=idle,
        slots=free_slots(min(rank, count)),
        guess=guess,
        repairing=repairing,
        entering=entering,
        load=jnp.zeros((), w0.dtype),
        pivots=jnp.zeros((), jnp.int32),
        status=jnp.asarray(int(Status.OK), jnp.int32),
    )
    return lax.while_loop(lambda search: search.entering != NONE, pivot, start)
