"""Which rows are active: the search for the working set among many rows, most of which can never become active."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import lax

from diffcontact import mass as mass_matrix
from diffcontact.batching import any_lane, select
from diffcontact.qp.active_set import solve_dual
from diffcontact.qp.guess import from_guess
from diffcontact.qp.rows import NONE, dependence_tolerance, inverse_length, members, spread, whitened_rows
from diffcontact.status import Status

# Every round of candidates increases the dual objective, so that they end; many mean that rounding decides.
ROUNDS = 40

# The stages of a search: as asked; relaxed, where the rows contradict each other; as asked with the slack found; done.
PLAIN, RELAXED, SLACKENED, DONE = 0, 1, 2, 3


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class WorkingSet:
    """What holds at the solution of a projection.

    Args:
        working: (c,) bool, independent rows that hold as equalities.
        multipliers: (c,) >= 0, zero off the working set.
        step: (d,) M^-1 G^T multipliers, the way from v to u.
        slack: (c,) >= 0, to be added to b: what rows that contradict each other have to be relaxed by.
        status: () int, a `Status`.
    """

    working: jax.Array
    multipliers: jax.Array
    step: jax.Array
    slack: jax.Array
    status: jax.Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _Round:
    """What is carried from one search to the next, in the unit of the scaled rows.

    Args:
        stage: () int, what to do next.
        value: (c,) the rows' values at the present point.
        working: (c,) bool, the working set found last (or the guess).
        loads: (c,) its multipliers.
        step: (d,) M^-1 G^T multipliers, the way from v to the present point.
        slack: (c,) >= 0, what the rows have been relaxed by.
        status: () int, of the last search.
        number: () int.
    """

    stage: jax.Array
    value: jax.Array
    working: jax.Array
    loads: jax.Array
    step: jax.Array
    slack: jax.Array
    status: jax.Array
    number: jax.Array


def candidate_count(count, rank):
    """How many rows are looked at together: all that can be active at once, and some that compete with them."""
    wanted = max(rank + rank // 3, 16)
    return count if count <= 3 * wanted // 2 else wanted


def find_working_set(mass, G, b, v, warm=None) -> WorkingSet:
    """The working set of a projection, and by how much the rows have to be relaxed for there to be one.

    Only the rows nearest to violation are searched; the others are checked afterwards, and as long as one of them is
    violated the search goes on with it among the candidates. Where the rows contradict each other they are relaxed by
    the r >= 0 of least sum of squares (in the rows' unit) that makes room for a point.

    Args:
        mass: (d,) or (d, d).
        G: (c, d).
        b: (c,); +inf switches a row off.
        v: (d,).
        warm: (c,) bool, a guess of the working set, or None.
    """
    on = b < jnp.inf
    offset = jnp.where(on, b, 0)
    eps = jnp.finfo(b.dtype).eps
    # The rounding of G v + b, row by row; a violation below it cannot be told from none.
    noise = 16 * eps * (jnp.abs(G) @ jnp.abs(v) + jnp.abs(offset))
    value = jnp.where(on, G @ v + offset, jnp.inf)

    def search():
        return _search(mass, G, value, noise, on, warm)

    def nothing():
        zeros = jnp.zeros_like(b)
        return WorkingSet(zeros > 0, zeros, jnp.zeros_like(v), zeros, jnp.asarray(int(Status.OK), jnp.int32))

    return lax.cond(any_lane(jnp.any(value < -noise)), search, nothing)


def _search(mass, G, value, noise, on, warm):
    G, root = jnp.where(on[:, None], G, 0), mass_matrix.root(mass)
    white = whitened_rows(root, G)
    # Every row in the same unit: length one in the metric M^-1.
    scale = inverse_length(white)
    count, rank = G.shape[0], min(G.shape)
    size = candidate_count(count, rank)
    eps = jnp.finfo(G.dtype).eps
    w0, noise = value * scale, noise * scale
    # Multipliers of unit rows are about as large as the violations; their rounding comes back as values.
    tolerance = noise + 16 * eps * jnp.maximum(jnp.max(-w0), 0)
    # A weight on the diagonal of the dual is a penalty 1/weight on the squared violation of the row: against a unit
    # diagonal small, yet large enough for the dual of contradicting rows to be solved to half the digits.
    softness = jnp.maximum(jnp.sqrt(eps) * (scale / jnp.max(scale)) ** 2, 64 * eps)
    everything = None
    if size == count:
        unit = white * scale[:, None]
        everything = unit @ unit.T

    def solve(A, start, state, rows):
        """The dual of the chosen rows: working set, multipliers and status."""
        relaxed = state.stage == RELAXED

        def search_all():
            soft = A + jnp.diag(jnp.where(relaxed, softness[rows], 0))
            found = solve_dual(soft, start, tolerance[rows], rank, relaxed)
            return found.working, found.multipliers(soft, start), found.status

        if warm is None:
            return search_all()
        good, *guessed = from_guess(
            A, start, tolerance[rows], state.working[rows], dependence_tolerance(len(A), A.dtype)
        )
        good, guessed = good & (state.number == 0), (*guessed, jnp.full_like(state.status, Status.OK))
        return lax.cond(any_lane(~good), lambda: select(good, guessed, search_all()), lambda: guessed)

    def solve_candidates(start, state):
        # Single precision is enough to choose by.
        _, rows = lax.top_k(jnp.where(state.working, jnp.inf, -state.value).astype(jnp.float32), size)
        chosen = white[rows] * scale[rows][:, None]
        working, loads, status = solve(chosen @ chosen.T, start[rows], state, rows)
        step = mass_matrix.unwhiten(root, loads @ chosen)
        value = w0 + scale * (G @ step)
        # Relaxed rows stay violated as long as they are in the working set.
        left_out = jnp.any((value + (start - w0) < -2 * tolerance) & ~members(rows, count))
        taken = members(jnp.where(working, rows, NONE), count)
        return taken, spread(rows, loads, count), step, status, value, left_out & (status == Status.OK)

    def search(state):
        start = w0 + state.slack
        if size == count:
            working, loads, status = solve(everything, start, state, slice(None))
            step = mass_matrix.unwhiten(root, (loads * scale) @ white)
            value, missed = w0 + everything @ loads, jnp.asarray(False)
        else:
            working, loads, step, status, value, missed = solve_candidates(start, state)
        again = missed & (state.number < ROUNDS)
        relaxed = state.stage == RELAXED
        # At the relaxed point itself the slackened rows hold: no margin is needed but rounding.
        slack = jnp.where(relaxed & ~again & (value < -tolerance), noise - value, state.slack)
        contradiction = (state.stage == PLAIN) & (status == Status.INFEASIBLE)
        after = jnp.where(relaxed, SLACKENED, jnp.where(contradiction, RELAXED, DONE))
        return _Round(
            stage=jnp.where(again, state.stage, after).astype(jnp.int32),
            value=value,
            working=working,
            loads=loads,
            step=step,
            slack=slack,
            status=status,
            number=state.number + 1,
        )

    zero = jnp.zeros((), jnp.int32)
    start = _Round(
        stage=zero + PLAIN,
        value=w0,
        working=jnp.zeros(count, bool) if warm is None else warm,
        loads=jnp.zeros_like(w0),
        step=jnp.zeros(G.shape[1], w0.dtype),
        slack=jnp.zeros_like(w0),
        status=zero + int(Status.OK),
        number=zero,
    )
    state = lax.while_loop(lambda state: state.stage != DONE, search, start)
    # Rows at an angle below which they count as dependent contradict each other by that much of their violation, which
    # does not make a problem infeasible.
    status = jnp.where(state.status == Status.INFEASIBLE, Status.OK, state.status)
    status = jnp.where(state.number > ROUNDS, Status.ITERATION_LIMIT, status)
    angle = jnp.sqrt(dependence_tolerance(count, w0.dtype))
    contradiction = 1e3 * tolerance + angle * jnp.maximum(jnp.max(-w0), 0)
    status = jnp.where(jnp.any(state.slack > contradiction), Status.INFEASIBLE, status)
    return WorkingSet(
        working=state.working,
        multipliers=jnp.maximum(state.loads * scale, 0),
        step=state.step,
        slack=state.slack / scale,
        status=status.astype(jnp.int32),
    )
