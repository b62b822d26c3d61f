"""Anderson's acceleration of projected steps, as `diffcontact.qp.matrix_free.anderson`, in loops.

The same method with the same constants; its iterates differ by rounding, and what they end at is verified by who asked.
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np

from diffcontact.qp.matrix_free.anderson import (
    DRIFT,
    FIRST_PLAIN,
    GROWTH,
    ITERATIONS,
    LONGER,
    LONGEST,
    MEMORY,
    STEEPEST,
    STRIDE,
    WINDOW,
)
from diffcontact.qp.native.compiled import compiled, summed
from diffcontact.qp.native.contacts import admit, velocities
from diffcontact.qp.native.frame import past

SOFTNESS = float(np.finfo(np.float64).eps) ** (2 / 3)

# The projected step: its largest entry as a velocity, and its length.
Step = namedtuple("Step", "largest size")


@compiled
def solve(space, number, coulomb, enough):
    """From the reactions `r` of so many contacts to those of which the projected step is shorter; how many steps.

    Where numbers are not finite no step is shorter, and none is made.
    """
    size = number * space.directions
    for j in range(MEMORY):
        space.kept[j] = 0
    velocities(space, number, space.r, space.w)
    steepest, best, mark, shortest = STEEPEST, np.inf, np.inf, np.inf
    since, plain, next_plain, count = 0, 0, FIRST_PLAIN, 0
    step = _project(space, number, coulomb, STRIDE / steepest)
    best, shortest = step.size, step.size
    _copy(space.r, space.nearest, size)
    while step.largest > enough and count < ITERATIONS:
        was_plain = plain > 0
        looked = not was_plain and since >= WINDOW
        failed = not was_plain and (step.size > LONGER * best or (looked and best > mark / 2))
        if failed:
            # The next steps begin at the best place that was met.
            _copy(space.nearest, space.ahead, size)
        else:
            _extrapolate(space, size)
            admit(space, number, coulomb, space.ahead)
        velocities(space, number, space.ahead, space.across)
        steepness = _steepness(space, size)
        if not failed and count % DRIFT == DRIFT - 1:
            _go_further(space, number, coulomb, STRIDE / steepest)
        steeper = steepness > 1.05 * steepest
        if failed:
            plain, next_plain = next_plain, 2 * next_plain
        else:
            plain = max(plain - 1, 0)
        if steeper:
            steepest, shortest = steepness, np.inf
        if steeper or failed:
            # What was found with longer steps does not compare.
            best = np.inf
        worth = not (was_plain or failed or steeper)
        slot = count % MEMORY
        _leave(space, slot, size)
        step = _project(space, number, coulomb, STRIDE / steepest)
        best = step.size if plain > 0 else min(best, step.size)
        if step.size < shortest:
            shortest = step.size
            _copy(space.r, space.nearest, size)
        if not worth or looked:
            mark, since = np.inf if steeper else best, 0
        else:
            since += 1
        _remember(space, slot, size, worth)
        count += 1
    return count


@summed
def _project(space, number, coulomb, stride):
    """The projected step from `r`, against the velocities `w`."""
    size, r, w, step = number * space.directions, space.r, space.w, space.step
    for i in range(size):
        step[i] = r[i] - stride * w[i]
    admit(space, number, coulomb, step)
    square, largest = 0.0, 0.0
    for i in range(size):
        step[i] -= r[i]
        square += step[i] * step[i]
    for i in range(size):
        largest = max(largest, abs(step[i]))
    return Step(largest / stride, np.sqrt(square))


@summed
def _extrapolate(space, size):
    """`ahead`: where the steps that are remembered say that the next one vanishes."""
    _weigh(space, size)
    r, step, ahead = space.r, space.step, space.ahead
    for i in range(size):
        ahead[i] = r[i] + step[i]
    for j in range(MEMORY):
        weight, move = space.weight[j], past(space.moves, j * size)
        if weight != 0:
            for i in range(size):
                ahead[i] -= weight * move[i]


@summed
def _weigh(space, size):
    """`weight`: of the steps remembered, that make their sum nearest to the step that is to be cancelled."""
    trace, factor, gram, weight, kept = 0.0, space.factor, space.gram, space.weight, space.kept
    for j in range(MEMORY):
        weight[j] = _inner(past(space.steps, j * size), space.step, size) if kept[j] else 0.0
        trace += gram[j * MEMORY + j] if kept[j] else 0.0
    # Steps that hardly differ tell nothing but rounding.
    softness = SOFTNESS * trace
    for j in range(MEMORY):
        for k in range(j + 1):
            total = gram[j * MEMORY + k] if kept[j] and kept[k] else 0.0
            if j == k:
                total += softness if kept[j] and softness > 0 else 1.0
            for i in range(k):
                total -= factor[j * MEMORY + i] * factor[k * MEMORY + i]
            factor[j * MEMORY + k] = np.sqrt(total) if j == k else total / factor[k * MEMORY + k]
        for k in range(j):
            weight[j] -= factor[j * MEMORY + k] * weight[k]
        weight[j] /= factor[j * MEMORY + j]
    for j in range(MEMORY - 1, -1, -1):
        for k in range(j + 1, MEMORY):
            weight[j] -= factor[k * MEMORY + j] * weight[k]
        weight[j] /= factor[j * MEMORY + j]


@summed
def _steepness(space, size):
    """By how much velocities differ, ahead and here, for the way between: no more than W's largest eigenvalue."""
    along, across = 0.0, 0.0
    for i in range(size):
        way, change = space.ahead[i] - space.r[i], space.across[i] - space.w[i]
        along += way * way
        across += change * change
    return np.sqrt(across / (along if along > 0 else 1.0))


@compiled
def _go_further(space, number, coulomb, stride):
    """Go on beyond `ahead` as long as what remains does not grow by much; see `ManyContacts.further`."""
    enough, times = GROWTH * _remains(space, number, coulomb, stride, 1.0), 1.0
    while times < LONGEST and _remains(space, number, coulomb, stride, 2 * times) <= enough:
        times *= 2
    if times > 1:
        ahead, r = space.ahead, space.r
        for i in range(number * space.directions):
            ahead[i] = r[i] + times * (ahead[i] - r[i])
        admit(space, number, coulomb, ahead)
        velocities(space, number, ahead, space.across)


@summed
def _remains(space, number, coulomb, stride, times):
    """The length of the projected step from a place so many times as far as `ahead`."""
    r, w, ahead, across, there, moved = space.r, space.w, space.ahead, space.across, space.there, space.moved
    size = number * space.directions
    for i in range(size):
        there[i] = r[i] + times * (ahead[i] - r[i])
    admit(space, number, coulomb, there)
    for i in range(size):
        moved[i] = there[i] - stride * (w[i] + times * (across[i] - w[i]))
    admit(space, number, coulomb, moved)
    square = 0.0
    for i in range(size):
        square += (moved[i] - there[i]) ** 2
    return np.sqrt(square)


@summed
def _leave(space, slot, size):
    """Go on from what is ahead; reactions and step that are left stay in a slot until the next step is known."""
    moves, steps = past(space.moves, slot * size), past(space.steps, slot * size)
    for i in range(size):
        moves[i], steps[i] = space.r[i], space.step[i]
        space.r[i], space.w[i] = space.ahead[i], space.across[i]


@summed
def _remember(space, slot, size, worth):
    """By how much projected points and steps differ from those in the slot, where that is worth it; else nothing."""
    moves, steps, kept, gram = past(space.moves, slot * size), past(space.steps, slot * size), space.kept, space.gram
    kept[slot] = 1
    if not worth:
        for j in range(MEMORY):
            kept[j] = 0
        return
    for i in range(size):
        change = space.step[i] - steps[i]
        steps[i], moves[i] = change, space.r[i] - moves[i] + change
    for j in range(MEMORY):
        if kept[j]:
            alike = _inner(past(space.steps, j * size), steps, size)
            gram[slot * MEMORY + j], gram[j * MEMORY + slot] = alike, alike


@summed
def _inner(x, y, size):
    total = 0.0
    for i in range(size):
        total += x[i] * y[i]
    return total


@compiled
def _copy(x, y, size):
    for i in range(size):
        y[i] = x[i]
