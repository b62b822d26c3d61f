"""The FFI handlers of projections: a batch of problems, one after the other."""

from __future__ import annotations

from collections import namedtuple

import numpy as np

from diffcontact.qp.native import frame as ffi
from diffcontact.qp.native.compiled import compiled
from diffcontact.qp.native.frame import EPS32, EPS64, past
from diffcontact.qp.native.held import solve, take_independent
from diffcontact.qp.native.layout import HOLD_RESULTS, STACK, WORKING_SET_RESULTS, most_held
from diffcontact.qp.native.rows import (
    clear,
    factor_diagonal,
    factor_full,
    how_many_within,
    invert_diagonal,
    list_negative,
    name_all,
    name_masked,
    name_within,
    read_bodies,
    read_dense,
    square_of_step,
    survey_bodies,
    survey_dense,
    to_unit_length,
    whiten_diagonal,
    whiten_full,
    worst_of,
)
from diffcontact.qp.native.working_set import ALL_CANDIDATES_UP_TO, ILL_CONDITIONED, OK, dependence_tolerance, find
from diffcontact.qp.native.workspace import carve
from diffcontact.qp.rows.slots import NONE

# The rows within so many times the largest violation are read first. Of ten spheres in a box 14 of 105 are within one,
# and in a tenth of the steps another one turns out to matter; within two it does in a fortieth.
REACH = 2
_most_held = compiled(most_held)

# What all problems of a batch have in common: the shapes, and how far it is from one to the next in each operand.
Batch = namedtuple(
    "Batch", "sparse full count dimension sides components entries most to_mass to_bodies to_rows to_first to_second"
)
# The operands from the first problem on. Beside the mass and the rows these are two vectors (c,) and (d,): b and v
# where a working set is found, s and f where rows are held.
Operands = namedtuple("Operands", "mass bodies rows first second")

_stack = ffi.on_stack(STACK)


@compiled
def projections_float64(address):
    """Arguments and results are listed in `diffcontact.qp.native.primitive`; their number tells what is asked for."""
    return ffi.serve(address, _solve, ffi.doubles, EPS64)


@compiled
def projections_float32(address):
    """The same in single precision."""
    return ffi.serve(address, _solve, ffi.singles, EPS32)


@compiled
def _solve(frame, numbers, eps):
    batch, given = _read_frame(frame, numbers)
    if ffi.results(frame) == WORKING_SET_RESULTS:
        _find_working_set(frame, batch, given, numbers, eps)
    else:
        _hold(frame, batch, given, numbers, eps)


@compiled
def _read_frame(frame, numbers):
    second = ffi.argument(frame, 1)
    sparse = second[2] & 0xFFFFFFFF == ffi.INT32
    mass, rows = ffi.argument(frame, 0), ffi.argument(frame, 2 if sparse else 1)
    b, v = ffi.argument(frame, 3 if sparse else 2), ffi.argument(frame, 4 if sparse else 3)
    count, dimension = ffi.extent(b, 1), ffi.extent(v, 1)
    sides, components = ffi.extent(rows, 2), ffi.extent(rows, 1)
    entries, full = 2 * components if sparse else dimension, mass[4] > v[4]
    batch = Batch(
        sparse, full, count, dimension, sides, components, entries, _most_held(count, dimension),
        _stride(mass, 2 if full else 1, dimension * (dimension if full else 1)),
        _stride(second, 2, 2 * count),
        _stride(rows, 3 if sparse else 2, count * (sides * components if sparse else dimension)),
        _stride(b, 1, count), _stride(v, 1, dimension),
    )  # fmt: skip
    return batch, Operands(
        numbers(mass[3]), ffi.integers(second[3]), numbers(rows[3]), numbers(b[3]), numbers(v[3])
    )  # fmt: skip


@compiled
def _stride(buffer, axes, size):
    """How far it is to the next problem; what they share stays where it is."""
    return size if ffi.lanes(buffer, axes) > 1 else 0


@compiled
def _workspace(frame, number, batch, stack):
    """In the memory that is the last result, or on the stack where that is enough."""
    memory = ffi.result(frame, number)
    at = stack if ffi.extent(memory, 1) == 1 else memory[3]
    return carve(at, batch.count, batch.dimension, batch.entries, batch.most, batch.full)


@compiled
def _read_rows(space, batch, given, lane, number):
    """Read the rows in `name`."""
    rows = past(given.rows, lane * batch.to_rows)
    if batch.sparse:
        bodies = past(given.bodies, lane * batch.to_bodies)
        read_bodies(space, bodies, rows, number, batch.sides, batch.components)
    else:
        read_dense(space, rows, number, batch.dimension)


@compiled
def _weigh(space, batch, given, lane):
    """What the survey needs of a mass; of a full one only whether its diagonal is positive."""
    mass, dimension = past(given.mass, lane * batch.to_mass), batch.dimension
    if not batch.full:
        invert_diagonal(space, mass, dimension)
        return
    for j in range(dimension):
        space.weight[j] = 1.0 if 0 < mass[j * dimension + j] < np.inf else np.nan


@compiled
def _factor(space, batch, given, lane):
    """What rows need of it that are read."""
    if batch.full:
        factor_full(space, past(given.mass, lane * batch.to_mass), batch.dimension)
    else:
        factor_diagonal(space, batch.dimension)


@compiled
def _whiten(space, batch, rows):
    if batch.full:
        whiten_full(space, rows, batch.dimension)
    else:
        whiten_diagonal(space, rows)


@compiled
def _survey(space, batch, given, lane, eps):
    """What all rows are where the step leads to: whether one is violated, and whether all their numbers are finite."""
    at, v = space.way, past(given.second, lane * batch.to_second)
    for j in range(batch.dimension):
        at[j] = v[j] + space.step[j]
    b, rows = past(given.first, lane * batch.to_first), past(given.rows, lane * batch.to_rows)
    if batch.sparse:
        bodies = past(given.bodies, lane * batch.to_bodies)
        return survey_bodies(space, bodies, rows, b, at, batch.count, batch.sides, batch.components, eps)
    return survey_dense(space, rows, b, at, batch.count, batch.dimension, eps)


@compiled
def _find_working_set(frame, batch, given, numbers, eps):
    count, dimension = batch.count, batch.dimension
    space = _workspace(frame, WORKING_SET_RESULTS - 1, batch, _stack())
    all_working, all_multipliers = ffi.octets(ffi.result(frame, 0)[3]), numbers(ffi.result(frame, 1)[3])
    all_steps, all_slack = numbers(ffi.result(frame, 2)[3]), numbers(ffi.result(frame, 3)[3])
    status = ffi.integers(ffi.result(frame, 4)[3])
    factored = False
    for lane in range(ffi.lanes(ffi.result(frame, 4), 0)):
        working, multipliers = past(all_working, lane * count), past(all_multipliers, lane * count)
        step, slack = past(all_steps, lane * dimension), past(all_slack, lane * count)
        if lane == 0 or batch.to_mass != 0:
            _weigh(space, batch, given, lane)
            factored = False
        clear(space.step, dimension)
        violated, ordinary = _survey(space, batch, given, lane, eps)
        # What is no number may be in a row that looks open, or is never near.
        known = ordinary or _all_numbers(space, batch, given, lane)
        size, rows, status[lane] = 0, 0, OK if known else ILL_CONDITIONED
        if violated:
            simple = ordinary and not batch.full
            negative = list_negative(space, count)
            found = simple and _hold_only_violated(space, batch, given, lane, negative, eps)
            if not (found or factored):
                _factor(space, batch, given, lane)
                factored = True
            if found:
                size = 1
            elif simple and count > ALL_CANDIDATES_UP_TO:
                # Most of many rows are never near: the near ones are enough, or all are read.
                size, rows, found = _find_among_near(
                    space, batch, given, lane, negative, working, eps
                )  # fmt: skip
            if not found:
                # The survey of the whole may have been followed by another one.
                clear(space.step, dimension)
                _survey(space, batch, given, lane, eps)
                rows = name_all(space, count)
                _read(space, batch, given, lane, rows)
                size, told = find(space, rows, dimension, batch.most, min(count, dimension), batch.full, eps)
                status[lane] = told if known else ILL_CONDITIONED
        for i in range(count):
            working[i], multipliers[i], slack[i] = 0, 0.0, 0.0
        for i in range(rows):
            slack[space.name[i]] = space.slack[i]
        for j in range(dimension):
            step[j] = space.step[j] if violated else 0.0
        for j in range(size):
            row = space.name[space.held[j]]
            working[row], multipliers[row] = 1, space.multiplier[j]


@compiled
def _all_numbers(space, batch, given, lane):
    """Whether the entries of all rows that are on are finite, and the masses positive; their products may overflow."""
    b, found = past(given.first, lane * batch.to_first), True
    _read_rows(space, batch, given, lane, name_all(space, batch.count))
    for i in range(batch.count):
        if b[i] != np.inf:
            for e in range(space.start[i], space.start[i + 1]):
                found &= abs(space.entry[e]) < np.inf
    for j in range(batch.dimension):
        found &= space.weight[j] >= 0
    return found


@compiled
def _hold_only_violated(space, batch, given, lane, negative, eps):
    """Hold the row that is violated, if it is the only one; whether that is the solution: the others are satisfied.

    Afterwards `held`, `name`, `multiplier` and `step` are what `find` leaves behind. Else the survey is of v as before.
    """
    count, dimension = batch.count, batch.dimension
    only, violated = NONE, 0
    for k in range(negative):
        row = space.candidate[k]
        wrong = space.seen[row] < -space.blur[row]
        violated += wrong
        only = row if wrong else only
    if violated != 1 or not space.square[only] > 0:
        return False
    multiplier = -space.seen[only] / space.square[only]
    worst = multiplier * np.sqrt(space.square[only])
    _push(space, batch, given, lane, only, multiplier)
    _, sound = _survey(space, batch, given, lane, eps)
    for i in range(count):
        below = abs(space.seen[i]) if i == only else -space.seen[i]
        sound &= below <= space.blur[i] or below <= space.blur[i] + 16 * eps * worst * np.sqrt(space.square[i])
    if not sound:
        clear(space.step, dimension)
        _survey(space, batch, given, lane, eps)
        return False
    space.held[0], space.name[0], space.multiplier[0] = 0, only, multiplier
    return True


@compiled
def _push(space, batch, given, lane, row, multiplier):
    """step += M^-1 G_row^T multiplier, for a diagonal mass."""
    numbers, weight = past(given.rows, lane * batch.to_rows), space.weight
    if not batch.sparse:
        for j in range(batch.dimension):
            space.step[j] += multiplier * weight[j] * numbers[row * batch.dimension + j]
        return
    bodies = past(given.bodies, lane * batch.to_bodies)
    for side in range(2):
        body = bodies[2 * row + side]
        if body == NONE:
            continue
        normal = past(numbers, (row * batch.sides + (side if batch.sides == 2 else 0)) * batch.components)
        push = -multiplier if batch.sides == 1 and side == 0 else multiplier
        for j in range(batch.components):
            at = body * batch.components + j
            space.step[at] += push * weight[at] * normal[j]


@compiled
def _find_among_near(space, batch, given, lane, negative, near, eps):
    """The working set among the rows whose values are within `REACH` of the largest violation.

    Returns:
        How many rows are held, how many were read, and whether this is the solution: the others are satisfied, too.
    """
    count, dimension = batch.count, batch.dimension
    worst = worst_of(space, negative)
    reach = REACH * worst
    rows = name_within(space, reach, count)
    _read(space, batch, given, lane, rows)
    size, status = find(space, rows, dimension, batch.most, min(count, dimension), batch.full, eps)
    if status != OK:
        return size, rows, False
    way = square_of_step(space, dimension)
    # A row of length one changes by no more than the way is long, and those that are not near are not violated.
    if way <= reach**2 or how_many_within(space, way, count) == rows:
        return size, rows, True
    _survey(space, batch, given, lane, eps)
    for i in range(count):
        near[i] = 0
    for i in range(rows):
        near[space.name[i]] = 1
    missed = False
    for i in range(count):
        allowed = 2 * (space.blur[i] + 16 * eps * worst * np.sqrt(space.square[i]))
        missed |= near[i] == 0 and space.seen[i] < -allowed
    return size, rows, not missed


@compiled
def _read(space, batch, given, lane, rows):
    """Read the rows in `name`, with what the survey saw of them."""
    _read_rows(space, batch, given, lane, rows)
    for i in range(rows):
        space.value[i], space.noise[i] = space.seen[space.name[i]], space.blur[space.name[i]]
    _whiten(space, batch, rows)


@compiled
def _hold(frame, batch, given, numbers, eps):
    count, dimension, most = batch.count, batch.dimension, batch.most
    choose = ffi.results(frame) == HOLD_RESULTS
    space = _workspace(frame, ffi.results(frame) - 1, batch, _stack())
    mask = ffi.argument(frame, ffi.arguments(frame) - 1)
    masks, to_mask = ffi.octets(mask[3]), _stride(mask, 1, count)
    all_x, all_y = numbers(ffi.result(frame, 0)[3]), numbers(ffi.result(frame, 1)[3])
    # Without this result nothing is written there.
    all_taken = ffi.octets(ffi.result(frame, 2 if choose else 0)[3])
    for lane in range(ffi.lanes(ffi.result(frame, 0), 1)):
        x, y, taken = past(all_x, lane * dimension), past(all_y, lane * count), past(all_taken, lane * count)
        s, f = past(given.first, lane * batch.to_first), past(given.second, lane * batch.to_second)
        rows = name_masked(space, past(masks, lane * to_mask), count)
        _read_rows(space, batch, given, lane, rows)
        idle = rows == 0
        for j in range(dimension):
            idle &= f[j] == 0
            x[j] = 0.0
        for i in range(count):
            y[i] = s[i]
            if choose:
                taken[i] = 0
        if idle:
            continue
        for i in range(rows):
            space.value[i], space.noise[i] = 0.0, 0.0
        _weigh(space, batch, given, lane)
        _factor(space, batch, given, lane)
        _whiten(space, batch, rows)
        to_unit_length(space, rows, eps)
        clear(space.dense, dimension)
        size = take_independent(
            space, rows, min(most, dimension), dependence_tolerance(min(count, dimension), eps) if choose else 0.0
        )  # fmt: skip
        solve(space, dimension, size, batch.full, f, s)
        for j in range(dimension):
            x[j] = space.step[j]
        for j in range(size):
            row = space.name[space.held[j]]
            y[row] = -space.multiplier[j]
            if choose:
                taken[row] = 1
