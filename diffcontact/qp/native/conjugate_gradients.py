"""Projected conjugate gradients on the dual, as `diffcontact.qp.matrix_free.conjugate_gradients`, in loops.

The same method with the same constants, of however many rows in single precision first; its iterates differ by
rounding. What an iteration costs is what it reads and writes, so that each pass over the rows does all it can.
"""

from __future__ import annotations

import numpy as np

from diffcontact.qp.matrix_free.conjugate_gradients import (
    CONJUGATE_STEPS,
    GRADIENT_STEP,
    ITERATIONS,
    SINGLE_REDUCTION,
    SINGLE_STEPS,
)
from diffcontact.qp.native.compiled import compiled, summed
from diffcontact.qp.native.frame import like
from diffcontact.qp.native.pushes import curvature, gather, meet, move, push
from diffcontact.qp.native.rows import clear


@compiled
def solve(space, single, number, enough):
    """From the multipliers -`floor` of so many rows to better ones, in `floor` too; their residual.

    Args:
        space: the rows, and their values at v in `there`.
        single: the rows in single precision.
        number: of rows.
        enough: the residual that is asked for; it may end above, as small as it gets.
    """
    _stop(single, number)
    residual, before, memory = _values(space, number), np.inf, (np.inf, 0.0, 0)
    while residual > enough and residual < before / 2:
        _begin(space, single, number)
        goal, before = max(0.9 * enough, SINGLE_REDUCTION * residual), residual
        _, memory = _iterated(single, number, goal, memory[2] + SINGLE_STEPS, memory)
        _end(space, single, number)
        residual = _values(space, number)
    if residual > enough:
        _stop(space, number)
        _begin(space, space, number)
        residual, _ = _iterated(space, number, enough, ITERATIONS, (np.inf, 0.0, 0))
        _end(space, space, number)
    return residual


@compiled
def _stop(space, number):
    """Forget the directions."""
    clear(space.slope, number)
    clear(space.direction, number)


@compiled
def _values(space, number):
    """The values at the multipliers, in `values`; their residual."""
    for i in range(number):
        space.change[i] = -space.floor[i]
    _refresh(space, number)
    clear(space.change, number)
    return _residual(space, number)


@compiled
def _begin(space, at, number):
    """Let `at` begin at the multipliers and the values of `space`."""
    for i in range(number):
        at.floor[i], at.there[i], at.values[i], at.change[i] = space.floor[i], space.values[i], space.values[i], 0.0
    clear(at.motion, space.places * space.components)


@compiled
def _end(space, at, number):
    """Take the change that `at` has found over into the multipliers of `space`."""
    for i in range(number):
        x = at.change[i] - space.floor[i] if at.change[i] > at.floor[i] else 0.0
        space.floor[i] = -max(x, 0.0)


@compiled
def _iterated(space, number, goal, limit, memory):
    """The residual, small enough or after so many steps, and what goes on from `memory`.

    Args:
        space, number: of the rows, and how many there are.
        goal, limit: the residual that is asked for, and the number of steps, all told.
        memory: the sum of squares of `slope`, infinite before the first step; that of `direction`, or a little more;
            the number of steps so far.
    """
    last, size, count = memory
    residual = _residual(space, number)
    while residual > goal and count < limit:
        if _pays(space, number):
            _gradient_step(space, number)
        loaded = _load(space, number)
        for _ in range(CONJUGATE_STEPS):
            last, size = _conjugate_step(space, number, loaded, last, size)
        count += CONJUGATE_STEPS
        residual = _residual(space, number)
        if residual <= goal:
            # What steps have added up is rounded: a residual counts that is computed anew.
            _refresh(space, number)
            residual = _residual(space, number)
    return residual, (last, size, count)


@compiled
def _residual(space, number):
    """Of the optimality conditions, less what rounding of the change explains."""
    largest = changed = like(space.values, 0.0)
    for i in range(number):
        x, w = space.change[i] - space.floor[i], space.values[i]
        wrong, change = abs(w if w < x else x), abs(space.change[i])
        if wrong > largest:
            largest = wrong
        if change > changed:
            changed = change
    return np.float64(largest) - space.eps * changed


@summed
def _pays(space, number):
    """Whether there is more to gain by a step of all rows than among those with a multiplier."""
    zero, most = like(space.values, 0.0), like(space.values, 1 / GRADIENT_STEP)
    gain, lost = 0.0, 0.0
    for i in range(number):
        x, w = space.change[i] - space.floor[i], space.values[i]
        gain += w * min(x * most, w) if x > 0 else zero
        lost += zero if x > 0 or w > 0 else w * w
    return lost > gain


@compiled
def _refresh(space, number):
    """The motion and the values, computed anew from the change."""
    clear(space.motion, space.places * space.components)
    gather(space, number, space.change)
    _go(space, number, 1.0)


@compiled
def _go(space, number, length):
    """The motion and the values behind this length along what is pushed."""
    move(space, length)
    meet(space, number, space.change, space.there, space.values)


@summed
def _gradient_step(space, number):
    """One step against the gradient of all rows, as far as no multiplier becomes negative; directions stay."""
    change, floor, values, way = space.change, space.floor, space.values, space.tried
    far, across = like(values, GRADIENT_STEP), 0.0
    for i in range(number):
        way[i] = change[i] - max(change[i] - far * values[i], floor[i])
        across += values[i] * way[i]
    gather(space, number, way)
    curved = curvature(space)
    length = min(across / (curved if curved > 0 else 1.0), 1.0)
    _shorten(space, number, length, way)
    _go(space, number, -length)


@compiled
def _shorten(space, number, length, way):
    """Go this length back along a way of the multipliers, where they stay zero that become so."""
    change, floor, length = space.change, space.floor, like(space.change, length)
    for i in range(number):
        change[i] = max(change[i] - length * way[i], floor[i])


@compiled
def _load(space, number):
    """Note the rows with a multiplier; how many they are. Conjugate steps only make them fewer."""
    loaded = 0
    for i in range(number):
        # No branch: which rows have one cannot be predicted.
        space.loaded[loaded] = i
        loaded += space.change[i] > space.floor[i]
    return loaded


@summed
def _conjugate_step(space, number, loaded, last, size):
    """One step of conjugate gradients among the rows with a multiplier; those that would pull lose it.

    Args:
        space, number: as in `solve`.
        loaded: how many rows are, all that have a multiplier among them.
        last: the sum of squares of `slope`, infinite before the first step.
        size: that of `direction`, or a little more.

    Returns:
        The same two of this step.
    """
    change, floor, values, slope, direction = space.change, space.floor, space.values, space.slope, space.direction
    zero, steep, across, alike = like(values, 0.0), 0.0, 0.0, 0.0
    for i in range(number):
        now = values[i] if change[i] > floor[i] else zero
        steep += now * now
        across += now * direction[i]
        alike += now * slope[i]
    ratio = max(steep - alike, 0.0) / last
    # Behind a minimum among fewer rows the ratio is rounding, and nothing of the gradient would be left beside it.
    if not (steep + ratio * across > 0.1 * steep and space.eps * ratio * ratio * size <= steep):
        ratio = 0.0
    _turn(space, number, loaded, ratio)
    size = steep + 2 * ratio * across + ratio * ratio * size
    curved = curvature(space) + space.eps * size
    length = (steep + ratio * across) / (curved if curved > 0 else 1.0)
    if _pulls(space, number, length):
        length = _bent(space, number, length)
    else:
        _shorten(space, number, length, direction)
    _go(space, number, -length)
    return steep if steep > 0 else np.inf, size


@summed
def _turn(space, number, loaded, ratio):
    """The next direction, with so much of the last one in it, and what it pushes."""
    change, floor, values, slope, direction = space.change, space.floor, space.values, space.slope, space.direction
    zero, ratio = like(values, 0.0), like(values, ratio)
    for i in range(number):
        there = change[i] > floor[i]
        slope[i] = values[i] if there else zero
        direction[i] = values[i] + ratio * direction[i] if there else zero
    clear(space.pushed, space.places * space.components)
    for k in range(loaded):
        i = space.loaded[k]
        push(space, i, direction[i], space.pushed)


@compiled
def _pulls(space, number, length):
    """Whether a multiplier would be negative behind this length against the direction."""
    length, negative = like(space.change, length), False
    for i in range(number):
        negative |= space.change[i] - length * space.direction[i] < space.floor[i]
    return negative


@summed
def _bent(space, number, length):
    """A step on which multipliers become zero and stay so, or one as far as the first, if the dual does not gain by it.

    Returns:
        The length of the step against what is then pushed; the multipliers are there.
    """
    change, floor, direction = space.change, space.floor, space.direction
    far, across, size = like(change, length), 0.0, 0.0
    for i in range(number):
        way = max(change[i] - far * direction[i], floor[i]) - change[i]
        across += space.values[i] * way
        size += way * way
    # What is pushed on this way differs by the rows that would pull, which are few.
    for j in range(space.places * space.components):
        space.pushed[j] *= far
    for i in range(number):
        pulled = change[i] - far * direction[i] - floor[i]
        if pulled < 0:
            push(space, i, pulled, space.pushed)
    gains = across + (curvature(space) + space.eps * size) / 2 <= 0
    if not gains:
        # Rows that depend on each other have a direction of no curvature, and a length without a bound.
        length = _first(space, number)
        gather(space, number, direction)
    _shorten(space, number, length, direction)
    return 1.0 if gains else length


@compiled
def _first(space, number):
    """The length against the direction at which the first multiplier is zero."""
    first = np.inf
    for i in range(number):
        if space.direction[i] > 0:
            first = min(first, np.float64((space.change[i] - space.floor[i]) / space.direction[i]))
    return first
