"""Which rows are active: the search for the working set among many rows, most of which can never become active."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import lax

from diffcontact.batching import any_lane
from diffcontact.qp.active_set import solve_dual
from diffcontact.qp.rows import NONE, free_slots, members, slots_of, unit_rows
from diffcontact.status import Status

# Every round of candidates increases the dual objective, so that they end; many mean that rounding decides.
ROUNDS = 40

# The stages of a search: as asked; relaxed, where the rows contradict each other; as asked with the slack found.
PLAIN, RELAXED, SLACKENED = 0, 1, 2


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _Round:
    """What is carried from one set of candidates to the next.

    Args:
        stage: () int, PLAIN, RELAXED or SLACKENED.
        value: (c,) the rows' values at the present point.
        working: (c,) bool.
        slots: (m,) int, the working rows.
        slack: (c,) >= 0, what the rows have been relaxed by.
        status: () int, of the last search.
        done: () bool.
        number: () int.
    """

    stage: jax.Array
    value: jax.Array
    working: jax.Array
    slots: jax.Array
    slack: jax.Array
    status: jax.Array
    done: jax.Array
    number: jax.Array


def candidate_count(count, rank):
    """How many rows are looked at together: all that can be active at once, and some that compete with them."""
    wanted = max(rank + rank // 3, 16)
    return count if count <= 3 * wanted // 2 else wanted


def find_working_set(mass, G, b, v, warm=None):
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

    Returns:
        slots (k,) of independent rows, slack (c,) >= 0 to be added to b, status ().
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
        return free_slots(min(G.shape)), jnp.zeros_like(b), jnp.asarray(int(Status.OK), jnp.int32)

    return lax.cond(any_lane(jnp.any(value < -noise)), search, nothing)


def _search(mass, G, value, noise, on, warm):
    columns, scale = unit_rows(mass, G, on)
    count, rank = value.shape[0], min(columns.shape)
    size = candidate_count(count, rank)
    eps = jnp.finfo(columns.dtype).eps
    w0 = value * scale
    # Multipliers of unit rows are about as large as the violations; their rounding comes back as values.
    tolerance = scale * noise + 16 * eps * jnp.max(jnp.where(on, -w0, 0))
    # A weight on the diagonal of the dual is a penalty 1/weight on the squared violation of the row: against a unit
    # diagonal small, yet large enough for the dual of contradicting rows to be solved to half the digits.
    softness = jnp.maximum(jnp.sqrt(eps) * (scale / jnp.max(scale)) ** 2, 64 * eps)

    def candidates(state):
        if size == count:
            return jnp.arange(count), columns, state.working
        # Single precision is enough to choose by.
        urgency = jnp.where(state.working, jnp.inf, -state.value).astype(jnp.float32)
        _, rows = lax.top_k(urgency, size)
        return rows, columns[:, rows], state.working[rows]

    def search(state):
        rows, chosen, guess = candidates(state)
        relaxed = state.stage == RELAXED
        start = (w0 + state.slack * scale)[rows]
        soft = jnp.diag(jnp.where(relaxed, softness[rows], 0))
        found = solve_dual(chosen.T @ chosen + soft, start, tolerance[rows], jnp.where(relaxed, size, rank), guess)
        value = w0 + (chosen @ jnp.where(found.working, found.point, 0)) @ columns
        slots = slots_of(found.working, size)
        slots = jnp.where(slots == NONE, NONE, rows[jnp.maximum(slots, 0)])
        working = members(slots, count)
        # At the relaxed point itself the slackened rows hold: no margin is needed but rounding.
        slack = jnp.where(relaxed & working, jnp.maximum(-value / scale, 0) + noise, state.slack)
        missed = jnp.any((value + slack * scale < -2 * tolerance) & ~working) & (found.status == Status.OK)
        missed = missed & (state.number < ROUNDS)
        contradiction = (state.stage == PLAIN) & (found.status == Status.INFEASIBLE)
        slackened = relaxed & ~missed
        stage = jnp.where(contradiction, RELAXED, jnp.where(slackened, SLACKENED, state.stage))
        return _Round(
            stage=stage.astype(jnp.int32),
            value=value,
            working=working,
            slots=slots.astype(jnp.int32),
            slack=jnp.where(relaxed & missed, 0, slack),
            status=found.status,
            done=~(missed | contradiction | slackened),
            number=state.number + 1,
        )

    state = lax.while_loop(
        lambda state: ~state.done,
        search,
        _Round(
            stage=jnp.asarray(PLAIN, jnp.int32),
            value=w0,
            working=jnp.zeros(count, bool) if warm is None else warm,
            slots=free_slots(size),
            slack=jnp.zeros_like(w0),
            status=jnp.asarray(int(Status.OK), jnp.int32),
            done=jnp.asarray(False),
            number=jnp.zeros((), jnp.int32),
        ),
    )
    # Rows that contradict each other by no more than rounding do not make a problem infeasible.
    contradiction = jnp.any(state.slack * scale > 1e3 * tolerance)
    status = jnp.where(state.status == Status.INFEASIBLE, Status.OK, state.status)
    status = jnp.where(state.number > ROUNDS, Status.ITERATION_LIMIT, status)
    status = jnp.where(contradiction, Status.INFEASIBLE, status)
    return state.slots[:rank], state.slack, status.astype(jnp.int32)
