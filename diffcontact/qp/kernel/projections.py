"""Handle XLA's calls for projections: a batch of problems, one after the other."""

from __future__ import annotations

from collections import namedtuple

from diffcontact.qp.kernel import ffi
from diffcontact.qp.kernel.active_set import add_up, append, apply, products
from diffcontact.qp.kernel.ffi import EPS32, EPS64, compiled, past
from diffcontact.qp.kernel.layout import SOLVE_RESULTS, STACK, WORKING_SET_RESULTS
from diffcontact.qp.kernel.rows import (
    carve,
    clear,
    factor_mass,
    gather,
    name_all,
    name_masked,
    product,
    read_bodies,
    read_dense,
    survey,
    to_unit_length,
    unwhiten,
    whiten,
    whiten_rows,
)
from diffcontact.qp.kernel.working_set import ILL_CONDITIONED, OK, find
from diffcontact.qp.working_set import candidate_count

# The first gives the solution, the second is a step of iterative refinement.
PASSES = 2

_candidate_count = compiled(candidate_count)

# What all problems of a batch have in common: the shapes, and how far it is from one to the next in each operand.
Batch = namedtuple(
    "Batch", "sparse count dimension sides components entries most to_mass to_bodies to_rows to_first to_second"
)
# The operands from the first problem on. Beside the mass and the rows these are two vectors (c,) and (d,): b and v
# where a working set is found, s and f where rows are held.
Operands = namedtuple("Operands", "mass bodies rows first second")

_stack = ffi.on_stack(STACK)


@compiled
def projections_float64(address):
    """Handle doubles; `primitive` lists arguments and results, whose number tells the question."""
    return ffi.serve(address, _solve, ffi.doubles, EPS64)


@compiled
def projections_float32(address):
    """Handle singles, as `projections_float64` does doubles."""
    return ffi.serve(address, _solve, ffi.singles, EPS32)


@compiled
def _solve(frame, numbers, eps):
    batch, given = _read_frame(frame, numbers)
    if ffi.results(frame) == WORKING_SET_RESULTS:
        _find_working_set(frame, batch, given, numbers, eps)
    else:
        _solve_masked(frame, batch, given, numbers, eps)


@compiled
def _read_frame(frame, numbers):
    second = ffi.argument(frame, 1)
    sparse = second[2] & 0xFFFFFFFF == ffi.INT32
    mass, rows = ffi.argument(frame, 0), ffi.argument(frame, 2 if sparse else 1)
    b, v = ffi.argument(frame, 3 if sparse else 2), ffi.argument(frame, 4 if sparse else 3)
    count, dimension = ffi.extent(b, 1), ffi.extent(v, 1)
    sides, components = ffi.extent(rows, 2), ffi.extent(rows, 1)
    entries = 2 * components if sparse else dimension
    batch = Batch(
        sparse, count, dimension, sides, components, entries, _candidate_count(count, min(count, dimension)),
        _stride(mass, 1, dimension),
        _stride(second, 2, 2 * count),
        _stride(rows, 3 if sparse else 2, count * (sides * components if sparse else dimension)),
        _stride(b, 1, count), _stride(v, 1, dimension),
    )  # fmt: skip
    return batch, Operands(numbers(mass[3]), ffi.integers(second[3]), numbers(rows[3]), numbers(b[3]), numbers(v[3]))


@compiled
def _stride(buffer, axes, size):
    """Return the distance to the next problem, 0 for what problems share."""
    return size if ffi.lanes(buffer, axes) > 1 else 0


@compiled
def _workspace(frame, number, batch, stack):
    """Place the workspace in the last result, or on the stack where that is enough."""
    memory = ffi.result(frame, number)
    at = stack if ffi.extent(memory, 1) == 1 else memory[3]
    return carve(at, batch.count, batch.dimension, batch.entries, batch.most)


@compiled
def _read_rows(space, batch, given, lane, number):
    rows = past(given.rows, lane * batch.to_rows)
    if batch.sparse:
        bodies = past(given.bodies, lane * batch.to_bodies)
        read_bodies(space, bodies, rows, number, batch.sides, batch.components)
    else:
        read_dense(space, rows, number, batch.dimension)


@compiled
def _find_working_set(frame, batch, given, numbers, eps):
    count, dimension = batch.count, batch.dimension
    space = _workspace(frame, WORKING_SET_RESULTS - 1, batch, _stack())
    all_working, all_multipliers = ffi.octets(ffi.result(frame, 0)[3]), numbers(ffi.result(frame, 1)[3])
    all_steps, all_slack = numbers(ffi.result(frame, 2)[3]), numbers(ffi.result(frame, 3)[3])
    status, positive = ffi.integers(ffi.result(frame, 4)[3]), True
    for lane in range(ffi.lanes(ffi.result(frame, 4), 0)):
        working, multipliers = past(all_working, lane * count), past(all_multipliers, lane * count)
        step, slack = past(all_steps, lane * dimension), past(all_slack, lane * count)
        b, v = past(given.first, lane * batch.to_first), past(given.second, lane * batch.to_second)
        if lane == 0 or batch.to_mass != 0:
            positive = factor_mass(space, past(given.mass, lane * batch.to_mass), dimension)
        _read_rows(space, batch, given, lane, name_all(space, count))
        violated, finite = survey(space, b, v, count, eps)
        # What is no number may be in a row that looks open.
        size, status[lane] = 0, OK if positive and finite else ILL_CONDITIONED
        for i in range(count):
            working[i], multipliers[i], slack[i] = 0, 0.0, 0.0
        for j in range(dimension):
            step[j] = 0.0
        if not violated:
            continue
        whiten_rows(space, count)
        size, told = find(space, count, dimension, batch.most, min(count, dimension), eps)
        status[lane] = max(status[lane], told)
        for i in range(count):
            slack[i] = space.slack[i]
        for j in range(dimension):
            step[j] = space.step[j]
        for j in range(size):
            working[space.held[j]], multipliers[space.held[j]] = 1, space.multiplier[j]


@compiled
def _solve_masked(frame, batch, given, numbers, eps):
    count, dimension = batch.count, batch.dimension
    space = _workspace(frame, SOLVE_RESULTS - 1, batch, _stack())
    mask = ffi.argument(frame, ffi.arguments(frame) - 1)
    masks, to_mask = ffi.octets(mask[3]), _stride(mask, 1, count)
    all_x, all_y = numbers(ffi.result(frame, 0)[3]), numbers(ffi.result(frame, 1)[3])
    for lane in range(ffi.lanes(ffi.result(frame, 0), 1)):
        x, y = past(all_x, lane * dimension), past(all_y, lane * count)
        s, f = past(given.first, lane * batch.to_first), past(given.second, lane * batch.to_second)
        rows = name_masked(space, past(masks, lane * to_mask), count)
        _read_rows(space, batch, given, lane, rows)
        idle = rows == 0
        for j in range(dimension):
            idle &= f[j] == 0
            x[j] = 0.0
        for i in range(count):
            y[i] = s[i]
        if idle:
            continue
        for i in range(rows):
            space.value[i], space.noise[i] = 0.0, 0.0
        factor_mass(space, past(given.mass, lane * batch.to_mass), dimension)
        whiten_rows(space, rows)
        to_unit_length(space, rows, eps)
        clear(space.dense, dimension)
        size = _hold_all(space, rows, min(batch.most, dimension))
        _solve_held(space, dimension, size, f, s)
        for j in range(dimension):
            x[j] = space.step[j]
        for j in range(size):
            y[space.name[space.held[j]]] = -space.multiplier[j]


@compiled
def _hold_all(space, rows, most):
    """Hold the rows that were read, unless rounding leaves nothing of them; count them."""
    size = 0
    for row in range(rows):
        products(space, row, size)
        schur = product(space, row, space.dense) - apply(space, size)
        gather(space, row)
        if size < most and schur > 0:
            append(space, size, schur)
            space.held[size], space.multiplier[size] = row, 0.0
            size += 1
    return size


@compiled
def _solve_held(space, dimension, size, f, s):
    """Solve for x in `step`, and -y in `multiplier`."""
    whiten(space, f, dimension)
    for _ in range(PASSES):
        _arrive(space, dimension, size)
        for j in range(size):
            row = space.held[j]
            space.own[j] = product(space, row, space.step) - s[space.name[row]] * space.scale[row]
        apply(space, size)
        for j in range(size):
            space.multiplier[j] -= space.turn[j]
    _arrive(space, dimension, size)
    unwhiten(space, dimension)
    for j in range(size):
        space.multiplier[j] *= space.scale[space.held[j]]


@compiled
def _arrive(space, dimension, size):
    for j in range(dimension):
        space.step[j] = space.way[j]
    add_up(space, space.multiplier, size)
