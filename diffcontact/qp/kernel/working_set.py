"""Find one projection's working set from its rows' values, as `diffcontact.qp.working_set` in JAX, which says why."""

from __future__ import annotations

import numpy as np

from diffcontact.qp.kernel.active_set import EPS, HELD, NOWHERE, check, look_at, pivots, refine, rounding
from diffcontact.qp.kernel.ffi import compiled
from diffcontact.qp.kernel.rows import clear, product, to_unit_length, unwhiten
from diffcontact.qp.rows import dependence_tolerance
from diffcontact.qp.working_set import EXPLAINED, LEFT_OVER, RIGHT, ROUNDS, SOFTNESS
from diffcontact.status import Status

# Cube roots of the rounding, taken once: a power takes as long as many rows.
SHARE, SINGLE_SHARE = EPS ** (1 / 3), float(np.finfo(np.float32).eps) ** (1 / 3)

OK, INFEASIBLE, ILL_CONDITIONED = int(Status.OK), int(Status.INFEASIBLE), int(Status.ILL_CONDITIONED)
# Number of rows up to which all are candidates. To choose among 12 rows takes 2 % longer, among 24 rows 5 % less, and
# among 32 rows 9 % less.
ALL_CANDIDATES_UP_TO = 16


_dependence_tolerance = compiled(dependence_tolerance)


@compiled
def find(space, count, dimension, most, rank, eps):
    """Find the working set of rows read and whitened: how many are held, and the status.

    Afterwards `multiplier` holds the multipliers in their rows' own units, `step` M^-1 G^T multipliers, `slack` the
    relaxation.
    """
    worst = to_unit_length(space, count, eps)
    clear(space.slack, count)
    clear(space.dense, dimension)
    dependent_below = _dependence_tolerance(most, eps)
    for i in range(count):
        space.base[i] = space.value[i]
    size = _solve(space, worst, count, dimension, most, rank, False, dependent_below)
    if _contradicted(space, count):
        _soften(space, count, eps, dependent_below)
        for i in range(count):
            space.base[i] = space.value[i]
        for _ in range(ROUNDS):
            size = _solve(space, worst, count, dimension, most, rank, True, dependent_below)
            if not _gave_way(space, count, eps):
                break
        for i in range(count):
            space.slack[i] = max(space.noise[i] - space.base[i], 0.0)
            space.base[i] = space.value[i] + space.slack[i]
        size = _solve(space, worst, count, dimension, most, rank, False, dependent_below)
    status = _verdict(space, count, size, eps)
    if status == INFEASIBLE and not _refuted(space, count, dimension):
        status = ILL_CONDITIONED
    unwhiten(space, dimension)
    finite = True
    for j in range(dimension):
        finite &= abs(space.step[j]) < np.inf
    if not finite:
        clear(space.step, dimension)
        size = 0
    for j in range(size):
        space.multiplier[j] = max(space.multiplier[j] * space.scale[space.held[j]], 0.0)
    for i in range(count):
        space.slack[i] /= space.scale[i]
    return size, status


@compiled
def _solve(space, worst, count, dimension, most, rank, relaxed, dependent_below):
    """Solve for the values `base`: among the rows nearest to violation, then others."""
    candidates = 0
    for i in range(count):
        space.place[i] = NOWHERE
        base = space.base[i]
        if (count <= ALL_CANDIDATES_UP_TO or base < worst) and base < np.inf:
            look_at(space, i, base, candidates)
            candidates += 1
    clear(space.step, dimension)
    size = 0
    for _ in range(ROUNDS):
        candidates, size = pivots(space, candidates, count, dimension, size, most, rank, relaxed, dependent_below)
        refine(space, dimension, size, relaxed)
        candidates, again, contradiction = check(space, candidates, count, size, relaxed)
        if not again or contradiction:
            break
    return size


@compiled
def _contradicted(space, count):
    """Tell whether rows are violated where no row gives way any more."""
    wrong = False
    for i in range(count):
        wrong |= space.change[i] < -EXPLAINED * space.tolerance[i]
    return wrong


@compiled
def _gave_way(space, count, eps):
    """Follow the step from the values `base`; tell whether a row is violated noticeably less."""
    less, noticeable = False, 2 * eps ** (SOFTNESS - 1 / 2)
    for i in range(count):
        change = product(space, i, space.step)
        space.base[i] += change
        less |= space.base[i] < np.inf and change > noticeable * space.tolerance[i]
    return less


@compiled
def _soften(space, count, eps, dependent_below):
    """Compute the increase of the dual's diagonal that relaxes contradictory rows."""
    longest = 0.0
    for i in range(count):
        longest = max(longest, space.scale[i])
    for i in range(count):
        space.soft[i] = max(eps**SOFTNESS * (space.scale[i] / longest) ** 2, 16 * dependent_below)


@compiled
def _verdict(space, count, size, eps):
    """Return the status, from the conditions of optimality."""
    status, times, unknown = OK, RIGHT, rounding(space, size, False)
    for i in range(count):
        if space.slack[i] > RIGHT * space.tolerance[i]:
            times = EXPLAINED
    for i in range(count):
        missed, tolerance = -space.change[i], space.tolerance[i]
        # `check` asks no row that is violated by `unknown`: of 32 spheres at rest one misses 17 roundings.
        explained = min(times * tolerance + unknown, EXPLAINED * tolerance)
        if space.place[i] == HELD:
            missed = abs(missed)
        if space.slack[i] > RIGHT * space.tolerance[i]:
            status = max(status, INFEASIBLE)
        elif not missed <= explained or missed == np.inf:
            status = ILL_CONDITIONED
    share = SHARE if eps == EPS else SINGLE_SHARE
    for j in range(size):
        if not -share * space.multiplier[j] <= times * space.tolerance[space.held[j]]:
            status = ILL_CONDITIONED
    return status


@compiled
def _refuted(space, count, dimension):
    """Tell whether the violations left prove that the rows contradict each other."""
    left, terms = space.way, space.dense
    clear(left, dimension)
    for i in range(count):
        if space.slack[i] > 0:
            violation, unknown = space.change[i], EXPLAINED * space.tolerance[i]
            for e in range(space.start[i], space.start[i + 1]):
                entry = space.entry[e] / space.soft[i]
                left[space.index[e]] += entry * violation
                terms[space.index[e]] += abs(entry) * (abs(violation) + unknown)
    proven = True
    for j in range(dimension):
        proven &= abs(left[j]) <= LEFT_OVER * terms[j]
    clear(terms, dimension)
    return proven
