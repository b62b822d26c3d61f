"""The FFI handlers of the searches among very many rows and contacts: a batch of problems, one after the other."""

from __future__ import annotations

import numpy as np

from diffcontact.qp.native import anderson, conjugate_gradients, contacts, pushes
from diffcontact.qp.native import frame as ffi
from diffcontact.qp.native.compiled import compiled
from diffcontact.qp.native.frame import EPS32, EPS64, past
from diffcontact.qp.native.layout import CONTACTS_ARGUMENTS, in_fours

_in_fours = compiled(in_fours)


@compiled
def searches_float64(address):
    """Arguments and results are listed in `diffcontact.qp.native.crowd`; their number tells what is asked for."""
    return ffi.serve(address, _solve, ffi.doubles, EPS64)


@compiled
def searches_float32(address):
    """The same in single precision."""
    return ffi.serve(address, _solve, ffi.singles, EPS32)


@compiled
def _solve(frame, numbers, eps):
    if ffi.arguments(frame) == CONTACTS_ARGUMENTS:
        _search_contacts(frame, numbers)
    else:
        _search_rows(frame, numbers, eps)


@compiled
def _search_contacts(frame, numbers):
    """The reactions of the contacts of a mask; the others keep theirs."""
    entries, inverse, mask = ffi.argument(frame, 2), ffi.argument(frame, 3), ffi.argument(frame, 6)
    count, directions, components = ffi.extent(entries, 1), ffi.extent(entries, 2), ffi.extent(entries, 3)
    bodies, size = ffi.extent(inverse, 2) - 1, ffi.extent(entries, 1) * ffi.extent(entries, 2)
    free, all_entries = numbers(ffi.argument(frame, 0)[3]), numbers(entries[3])
    pairs, inverses = ffi.integers(ffi.argument(frame, 1)[3]), numbers(inverse[3])
    friction, start = numbers(ffi.argument(frame, 4)[3]), numbers(ffi.argument(frame, 5)[3])
    masks, enough = ffi.octets(mask[3]), numbers(ffi.argument(frame, 7)[3])
    coulomb = ffi.integers(ffi.argument(frame, 8)[3])
    found, spent = numbers(ffi.result(frame, 0)[3]), ffi.integers(ffi.result(frame, 1)[3])
    space = contacts.carve(ffi.result(frame, 2)[3], count, bodies, components, directions)
    for lane in range(ffi.lanes(mask, 1)):
        number = contacts.read(
            space, past(free, lane * size), past(pairs, lane * 2 * count),
            past(all_entries, lane * 2 * components * size), past(inverses, lane * (bodies + 1) * components),
            past(friction, lane * count), past(start, lane * size), past(masks, lane * count), count,
        )  # fmt: skip
        spent[lane] = anderson.solve(space, number, coulomb[lane] != 0, np.float64(enough[lane]))
        r, begin = past(found, lane * size), past(start, lane * size)
        for i in range(size):
            r[i] = begin[i]
        for i in range(number):
            for d in range(directions):
                r[d * count + space.name[i]] = space.r[i * directions + d]


@compiled
def _search_rows(frame, numbers, eps):
    """The multipliers of the rows of a mask, and the residual; the others keep theirs."""
    normals, inverse, mask = ffi.argument(frame, 2), ffi.argument(frame, 3), ffi.argument(frame, 5)
    count, components, sides = ffi.extent(normals, 1), ffi.extent(normals, 2), ffi.extent(normals, 3)
    places, width = ffi.extent(inverse, 1), _in_fours(components)
    at_v, pairs = numbers(ffi.argument(frame, 0)[3]), ffi.integers(ffi.argument(frame, 1)[3])
    all_normals, inverses = numbers(normals[3]), numbers(inverse[3])
    start, masks, enough = numbers(ffi.argument(frame, 4)[3]), ffi.octets(mask[3]), numbers(ffi.argument(frame, 6)[3])
    found, residual = numbers(ffi.result(frame, 0)[3]), numbers(ffi.result(frame, 1)[3])
    name, space, single = pushes.carve(ffi.result(frame, 2)[3], count, places, width, sides, eps, EPS32)
    for lane in range(ffi.lanes(mask, 1)):
        x, begin = past(found, lane * count), past(start, lane * count)
        number = pushes.read(
            name, space, past(at_v, lane * count), past(pairs, lane * 2 * count),
            past(all_normals, lane * sides * components * count), past(inverses, lane * components * places),
            begin, past(masks, lane * count), count, components,
        )  # fmt: skip
        pushes.copied(space, single, number)
        residual[lane] = conjugate_gradients.solve(space, single, number, np.float64(enough[lane]))
        for i in range(count):
            x[i] = begin[i]
        for i in range(number):
            x[name[i]] = max(-space.floor[i], 0.0)
