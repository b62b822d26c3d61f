"""Projected conjugate gradients on the dual, as `diffcontact.qp.matrix_free.conjugate_gradients`, in loops.

The same method with the same constants, always in double precision; its iterates differ by rounding.
"""

from __future__ import annotations

import numpy as np

from diffcontact.qp.matrix_free.conjugate_gradients import CONJUGATE_STEPS, GRADIENT_STEP, ITERATIONS
from diffcontact.qp.native.compiled import compiled, summed
from diffcontact.qp.native.frame import EPS64
from diffcontact.qp.native.pushes import meet, move, square


@compiled
def solve(space, number, soft, enough):
    """From the multipliers -`floor` of so many rows to `change` and the residual, as small as asked or as it gets.

    Args:
        space: the rows, and their values at v in `there`.
        number: of rows.
        soft: what is added to the dual's diagonal.
        enough: the residual that is asked for.
    """
    for i in range(number):
        space.slope[i], space.direction[i], space.change[i] = 0.0, 0.0, -space.floor[i]
    move(space, number, space.change, space.motion)
    meet(space, number, space.motion, soft, space.change, space.there, space.values)
    for i in range(number):
        space.change[i], space.there[i] = 0.0, space.values[i]
    for j in range((space.bodies + 1) * space.components):
        space.motion[j] = 0.0
    count, last, size = 0, np.inf, 0.0
    residual = _residual(space, number, soft)
    while residual > enough and count < ITERATIONS:
        if _pays(space, number):
            _gradient_step(space, number, soft)
        for _ in range(CONJUGATE_STEPS):
            last, size = _conjugate_step(space, number, soft, last, size)
        count += CONJUGATE_STEPS
        residual = _residual(space, number, soft)
        if residual <= enough:
            # What steps have added up is rounded: a residual counts that is computed anew.
            move(space, number, space.change, space.motion)
            meet(space, number, space.motion, soft, space.change, space.there, space.values)
            residual = _residual(space, number, soft)
    return residual


@compiled
def _residual(space, number, soft):
    """Of the optimality conditions, less what rounding of the change explains."""
    largest, changed = 0.0, 0.0
    for i in range(number):
        x, w = space.change[i] - space.floor[i], space.values[i]
        wrong, change = abs(w if w < x else x), abs(space.change[i])
        if wrong > largest:
            largest = wrong
        if change > changed:
            changed = change
    return largest - soft * changed


@summed
def _pays(space, number):
    """Whether there is more to gain by a step of all rows than among those with a multiplier."""
    gain, lost = 0.0, 0.0
    for i in range(number):
        x, w = space.change[i] - space.floor[i], space.values[i]
        if x > 0:
            gain += w * min(x / GRADIENT_STEP, w)
        elif w < 0:
            lost += w * w
    return lost > gain


@summed
def _gradient_step(space, number, soft):
    """One step against the gradient of all rows, as far as no multiplier becomes negative; directions stay."""
    change, floor, values, way = space.change, space.floor, space.values, space.tried
    across = 0.0
    for i in range(number):
        way[i] = change[i] - max(change[i] - GRADIENT_STEP * values[i], floor[i])
        across += values[i] * way[i]
    move(space, number, way, space.moved)
    curvature = square(space, space.moved)
    length = min(across / (curvature if curvature > 0 else 1.0), 1.0)
    for i in range(number):
        change[i] = max(change[i] - length * way[i], floor[i])
    _go(space, number, soft, length)


@compiled
def _go(space, number, soft, length):
    """The motion and the values after a step of this length along what was `moved`."""
    for j in range(space.bodies * space.components):
        space.motion[j] -= length * space.moved[j]
    meet(space, number, space.motion, soft, space.change, space.there, space.values)


@summed
def _conjugate_step(space, number, soft, last, size):
    """One step of conjugate gradients among the rows with a multiplier; those that would pull lose it.

    Args:
        space, number, soft: as in `solve`.
        last: the sum of squares of `slope`, infinite before the first step.
        size: that of `direction`, or a little more.

    Returns:
        The same two of this step.
    """
    change, floor, values, slope, direction = space.change, space.floor, space.values, space.slope, space.direction
    steep, across, alike = 0.0, 0.0, 0.0
    for i in range(number):
        now = values[i] if change[i] > floor[i] else 0.0
        steep += now * now
        across += now * direction[i]
        alike += now * slope[i]
        slope[i] = now
    ratio = max(steep - alike, 0.0) / last
    # Behind a minimum among fewer rows the ratio is rounding, and nothing of the gradient would be left beside it.
    if not (steep + ratio * across > 0.1 * steep and EPS64 * ratio * ratio * size <= steep):
        ratio = 0.0
    for i in range(number):
        direction[i] = values[i] + ratio * direction[i] if change[i] > floor[i] else 0.0
    size = steep + 2 * ratio * across + ratio * ratio * size
    move(space, number, direction, space.moved)
    curvature = square(space, space.moved) + soft * size
    length = (steep + ratio * across) / (curvature if curvature > 0 else 1.0)
    cut = False
    for i in range(number):
        cut |= change[i] - length * direction[i] < floor[i]
    if cut:
        length = _bent(space, number, soft, length)
    else:
        for i in range(number):
            change[i] -= length * direction[i]
    _go(space, number, soft, length)
    return steep if steep > 0 else np.inf, size


@summed
def _bent(space, number, soft, length):
    """A step on which multipliers become zero and stay so, or one as far as the first, if the dual does not gain by it.

    Returns:
        The length of the step along what is then in `moved`.
    """
    change, floor, direction, way = space.change, space.floor, space.direction, space.tried
    across, size, first = 0.0, 0.0, np.inf
    for i in range(number):
        way[i] = max(change[i] - length * direction[i], floor[i]) - change[i]
        across += space.values[i] * way[i]
        size += way[i] * way[i]
        if direction[i] > 0:
            first = min(first, (change[i] - floor[i]) / direction[i])
    move(space, number, way, space.moved)
    gains = across + (square(space, space.moved) + soft * size) / 2 <= 0
    if not gains:
        # Rows that depend on each other have a direction of no curvature, and a length without a bound.
        length = first
        move(space, number, direction, space.moved)
    for i in range(number):
        change[i] = max(change[i] - length * direction[i], floor[i])
    return -1.0 if gains else first
