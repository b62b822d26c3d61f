"""One projection from its rows' values to its working set, as `diffcontact.qp.working_set` in JAX, which says why."""

from __future__ import annotations

import numpy as np

from diffcontact.qp.native.active_set import (
    HELD,
    INFEASIBLE,
    ITERATION_LIMIT,
    NOWHERE,
    OK,
    look_at,
    pivots,
    refine,
    rounding,
)
from diffcontact.qp.native.compiled import compiled
from diffcontact.qp.native.rows import clear, product, to_unit_length, unwhiten
from diffcontact.qp.working_set import PLAIN, RELAXED, ROUNDS
from diffcontact.status import Status

ILL_CONDITIONED = int(Status.ILL_CONDITIONED)
# Up to so many rows all are candidates. Choosing among 12 rows takes 2 % longer than that, among 24 rows 5 % less, and
# among 32 rows 9 % less.
ALL_CANDIDATES_UP_TO = 16


@compiled
def dependence_tolerance(count, eps):
    """The number of `diffcontact.qp.rows.metric.dependence_tolerance`."""
    return min(64 * max(count, 16) * eps, 8e-6)


@compiled
def find(space, count, dimension, most, rank, full, eps):
    """The working set of rows that were read and whitened: how many rows are held, and the status.

    Afterwards `multiplier` holds the multipliers in their rows' own units, `step` M^-1 G^T multipliers, `slack` the
    relaxation.
    """
    worst = to_unit_length(space, count, eps)
    entries = 0
    for i in range(count):
        entries = max(entries, space.start[i + 1] - space.start[i])
    clear(space.slack, count)
    clear(space.dense, dimension)
    dependent_below = dependence_tolerance(most, eps)
    size, status = 0, OK
    for stage in range(3):
        relaxed = stage == RELAXED
        size, status = _solve(
            space, worst, count, dimension, entries, most, rank, relaxed, dependent_below
        )  # fmt: skip
        if stage == PLAIN:
            if status != INFEASIBLE:
                break
            _soften(space, count, eps)
        elif relaxed:
            for i in range(count):
                space.slack[i] = max(space.noise[i] - _value(space, i), 0.0)
        elif status == INFEASIBLE:
            status = OK
    status = _verdict(space, count, worst, eps, status)
    unwhiten(space, dimension, full)
    finite = True
    for j in range(dimension):
        finite &= np.isfinite(space.step[j])
    if not finite:
        clear(space.step, dimension)
        size = 0
    for j in range(size):
        space.multiplier[j] = max(space.multiplier[j] * space.scale[space.held[j]], 0.0)
    for i in range(count):
        space.slack[i] /= space.scale[i]
    return size, status


@compiled
def _value(space, row):
    """The value of a row at the point that the step leads to, without its slack."""
    value = space.value[row]
    return value + product(space, row, space.step) if value < np.inf else value


@compiled
def _solve(space, worst, count, dimension, entries, most, rank, relaxed, dependent_below):
    """Find the working set among the rows nearest to violation, and among the others as they become violated."""
    candidates = 0
    for i in range(count):
        space.place[i] = NOWHERE
        base = space.value[i] + space.slack[i]
        space.base[i] = base
        if (count <= ALL_CANDIDATES_UP_TO or base < worst) and base < np.inf:
            look_at(space, i, base, candidates, entries, count)
            candidates += 1
    clear(space.step, dimension)
    size = 0
    for _ in range(ROUNDS):
        candidates, size, status = pivots(
            space, candidates, count, dimension, entries, size, most, rank, relaxed, dependent_below
        )  # fmt: skip
        refine(space, dimension, size, relaxed)
        if status != OK:
            return size, status
        candidates, again = _check(space, candidates, count, entries, size)
        if not again:
            return size, OK
    return size, ITERATION_LIMIT


@compiled
def _check(space, candidates, count, entries, size):
    """The rows' values where the step leads to; a violated one becomes a candidate. Whether there was one."""
    again, unknown = False, rounding(space, size)
    for i in range(count):
        place = space.place[i]
        if space.base[i] == np.inf or place == HELD:
            continue
        value = space.base[i] + product(space, i, space.step) + unknown
        violated = value < -2 * space.tolerance[i]
        if place != NOWHERE:
            space.now[place] = value + space.tolerance[i]
        elif violated:
            look_at(space, i, value, candidates, entries, count)
            candidates += 1
        again |= violated
    return candidates, again


@compiled
def _soften(space, count, eps):
    """What the dual's diagonal is increased by to relax rows that contradict each other."""
    longest = 0.0
    for i in range(count):
        longest = max(longest, space.scale[i])
    for i in range(count):
        space.soft[i] = max(np.sqrt(eps) * (space.scale[i] / longest) ** 2, 64 * eps)


@compiled
def _verdict(space, count, worst, eps, status):
    """The status, from what rows had to be relaxed by and what rounding has left of their violation."""
    angle = np.sqrt(dependence_tolerance(count, eps))
    loose = eps ** (-1 / 3)
    contradicting, lost = False, False
    for i in range(count):
        contradicting |= space.slack[i] > 1e3 * space.tolerance[i] + angle * worst
        lost |= not (_value(space, i) + space.slack[i] >= -space.tolerance[i] * loose)
    if contradicting:
        return INFEASIBLE
    return ILL_CONDITIONED if status == OK and lost else status
