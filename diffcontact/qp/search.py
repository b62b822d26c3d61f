"""Which rows are active: the search for the working set among many rows, most of which can never become active."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from diffcontact.qp.active_set import solve_dual
from diffcontact.qp.relax import least_violation
from diffcontact.qp.rows import NONE, free_slots, members, unit_rows
from diffcontact.status import Status

# Each round of candidates increases the dual objective, so rounds are finite; many mean that rounding decides.
ROUNDS = 30


def find_working_set(mass, G, value, noise, on, warm=None):
    """The working set of a projection, and by how much the rows have to be relaxed for there to be one.

    Args:
        mass: (d,) or (d, d).
        G: (c, d).
        value: (c,) G v + b; +inf where a row is off.
        noise: (c,) the rounding of value.
        on: (c,) bool.
        warm: (c,) bool, a guess of the working set, or None.

    Returns:
        slots (k,) of independent rows, slack (c,) >= 0 to be added to b, status ().
    """
    columns, scale = unit_rows(mass, G, on)
    eps = jnp.finfo(columns.dtype).eps
    # Multipliers of unit rows are about as large as the violations; their rounding comes back as values.
    w0 = value * scale
    tolerance = scale * noise + 16 * eps * jnp.max(jnp.where(on & (w0 < 0), -w0, 0))

    def attempt(carry):
        number, _, slots, _ = carry

        def relax():
            return least_violation(columns / scale[None, :], jnp.where(on, value, 0), on)

        slack = lax.cond(number == 1, relax, lambda: jnp.zeros_like(w0))
        slack = jnp.where(slack > 0, slack + noise, 0)
        slots, status = _among_candidates(columns, w0 + slack * scale, tolerance, slots, warm)
        return number + 1, slack, slots, status

    def again(carry):
        number, _, _, status = carry
        return (number == 0) | ((number == 1) & (status == Status.INFEASIBLE))

    start = (
        jnp.zeros((), jnp.int32),
        jnp.zeros_like(w0),
        free_slots(min(G.shape)),
        jnp.asarray(int(Status.OK), jnp.int32),
    )
    number, slack, slots, status = lax.while_loop(again, attempt, start)
    # Rows that contradict each other by no more than rounding do not make a problem infeasible.
    status = jnp.where((number == 2) & (status == Status.INFEASIBLE), Status.OK, status)
    status = jnp.where(jnp.any(slack * scale > 1e3 * tolerance), Status.INFEASIBLE, status)
    return slots, slack, status.astype(jnp.int32)


def candidate_count(count, rank):
    """How many rows are looked at together: all that can be active at once, and some that compete with them."""
    wanted = max(rank + rank // 3, 16)
    return count if count <= 3 * wanted // 2 else wanted


def _among_candidates(columns, w0, tolerance, slots, warm):
    """Solve for the rows nearest to violation, check the others, and go on with those that turn out violated."""
    count, rank = w0.shape[0], min(columns.shape)
    size = candidate_count(count, rank)
    if size == count:
        found = solve_dual(columns.T @ columns, w0, tolerance, rank, warm)
        return found.slots, found.status

    def solve_round(carry):
        number, value, working, *_ = carry
        # Single precision is enough to choose by.
        urgency = jnp.where(working, jnp.inf, -value).astype(jnp.float32)
        _, rows = lax.top_k(urgency, size)
        chosen = columns[:, rows]
        found = solve_dual(chosen.T @ chosen, w0[rows], tolerance[rows], rank, working[rows])
        value = w0 + (chosen @ jnp.where(found.working, found.point, 0)) @ columns
        slots = jnp.where(found.slots == NONE, NONE, rows[jnp.maximum(found.slots, 0)])
        missed = jnp.any((value < -2 * tolerance) & ~members(rows, count))
        return number + 1, value, members(slots, count), slots, found.status, missed

    def again(carry):
        number, *_, status, missed = carry
        return (number == 0) | (missed & (status == Status.OK) & (number < ROUNDS))

    working = jnp.zeros(count, bool) if warm is None else warm
    ok = jnp.asarray(int(Status.OK), jnp.int32)
    start = (jnp.zeros((), jnp.int32), w0, working, slots, ok, jnp.asarray(False))
    *_, slots, status, missed = lax.while_loop(again, solve_round, start)
    return slots, jnp.where(missed & (status == Status.OK), Status.ITERATION_LIMIT, status).astype(jnp.int32)
