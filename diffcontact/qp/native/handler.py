"""The FFI handler: a batch of projections, one after the other."""

from __future__ import annotations

import numpy as np

from diffcontact.qp.native import frame as ffi
from diffcontact.qp.native.compiled import compiled
from diffcontact.qp.native.frame import past
from diffcontact.qp.native.layout import most_held
from diffcontact.qp.native.rows import (
    factor_diagonal,
    factor_full,
    read_bodies,
    read_dense,
    read_values,
    whiten_diagonal,
    whiten_full,
)
from diffcontact.qp.native.search import find
from diffcontact.qp.native.workspace import carve
from diffcontact.status import Status

OK = int(Status.OK)
_most_held = compiled(most_held)
EPS64, EPS32 = float(np.finfo(np.float64).eps), float(np.finfo(np.float32).eps)


@compiled
def working_set(address):
    """Arguments: mass, G or (bodies, normals), b, v. Results: working, multipliers, step, slack, status, workspace."""
    frame = ffi.words(address)
    if not ffi.runs(frame):
        return 0
    if ffi.argument(frame, 0)[2] & 0xFFFFFFFF == ffi.FLOAT64:
        _run(frame, ffi.doubles, EPS64)
    else:
        _run(frame, ffi.singles, EPS32)
    return 0


@compiled
def _run(frame, numbers, eps):
    sparse = ffi.arguments(frame) == 5
    mass, rows = ffi.argument(frame, 0), ffi.argument(frame, 2 if sparse else 1)
    b, v = ffi.argument(frame, 3 if sparse else 2), ffi.argument(frame, 4 if sparse else 3)
    count, dimension = ffi.extent(b, 1), ffi.extent(v, 1)
    sides, components = ffi.extent(rows, 2), ffi.extent(rows, 1)
    entries, full, most = 2 * components if sparse else dimension, mass[4] > v[4], _most_held(count, dimension)
    space = carve(ffi.result(frame, 5)[3], count, dimension, entries, most, full)
    masses, entry, offset, point = numbers(mass[3]), numbers(rows[3]), numbers(b[3]), numbers(v[3])
    bodies = ffi.integers(ffi.argument(frame, 1)[3])
    # From one problem to the next; what they share stays where it is.
    to_mass = _stride(mass, 2 if full else 1, dimension * (dimension if full else 1))
    to_row = _stride(rows, 3 if sparse else 2, count * (sides * components if sparse else dimension))
    to_body = _stride(ffi.argument(frame, 1), 2, 2 * count)
    to_offset, to_point = _stride(b, 1, count), _stride(v, 1, dimension)
    working, multipliers = ffi.octets(ffi.result(frame, 0)[3]), numbers(ffi.result(frame, 1)[3])
    step, slack = numbers(ffi.result(frame, 2)[3]), numbers(ffi.result(frame, 3)[3])
    status = ffi.integers(ffi.result(frame, 4)[3])
    for lane in range(ffi.lanes(ffi.result(frame, 4), 0)):
        if sparse:
            read_bodies(
                space, past(bodies, lane * to_body), past(entry, lane * to_row), count, sides, components
            )  # fmt: skip
        else:
            read_dense(space, past(entry, lane * to_row), count, dimension)
        size, status[lane] = 0, OK
        violated = read_values(space, past(offset, lane * to_offset), past(point, lane * to_point), count, eps)
        if violated:
            if full:
                factor_full(space, past(masses, lane * to_mass), dimension)
                whiten_full(space, count, dimension)
            else:
                factor_diagonal(space, past(masses, lane * to_mass), dimension)
                whiten_diagonal(space, count)
            size, status[lane] = find(space, count, dimension, most, min(count, dimension), full, eps)
        _write(
            space, count, dimension, size, violated, past(working, lane * count), past(multipliers, lane * count),
            past(step, lane * dimension), past(slack, lane * count),
        )  # fmt: skip


@compiled
def _stride(buffer, axes, size):
    return size if ffi.lanes(buffer, axes) > 1 else 0


@compiled
def _write(space, count, dimension, size, violated, working, multipliers, step, slack):
    for i in range(count):
        working[i], multipliers[i], slack[i] = 0, 0.0, space.slack[i] if violated else 0.0
    for j in range(dimension):
        step[j] = space.step[j] if violated else 0.0
    for j in range(size):
        row = space.candidate[space.held[j]]
        working[row], multipliers[row] = 1, space.load[j]
