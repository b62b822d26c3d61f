"""Read the call frame of XLA's C interface, which an FFI handler gets, by word offsets.

XLA calls a handler with the address of an `XLA_FFI_CallFrame` (`xla/ffi/api/c_api.h`, version 0.x), of which
this reads, in words of eight bytes::

    frame    0 size   1 extensions   2 api   3 context   4 stage
             5 .. 9   arguments: size, extensions, count, types, pointers to buffers
             10 .. 14 results: the same
    buffer   0 size   1 extensions   2 type  3 data      4 rank   5 dimensions

A frame that asks for the handler's metadata carries an extension and no arguments.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

# As C: divisions by zero give inf or NaN, no object is counted, nothing is callable from Python, nothing is raised.
_OPTIONS = {"error_model": "numpy", "_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}

compiled = njit(**_OPTIONS)

# Where sums are taken over vectors: their terms may be added in any order, several at a time, though always the same
# one. Infinite numbers and NaN stay what they are.
summed = njit(fastmath={"reassoc", "contract", "nsz"}, **_OPTIONS)

# XLA refuses a handler that announces a newer version than its own; all that is read here is in the first one.
VERSION_MAJOR, VERSION_MINOR = 0, 1

INT32 = 4

_FRAME_WORDS, _LIST_WORDS, _BUFFER_WORDS = 15, 5, 6
_EXECUTE, _METADATA_EXTENSION = 3, 1


def _at(dtype) -> Any:
    """Make a function from an address to a typed pointer; pointers cost less than arrays."""

    @intrinsic
    def at(_, address):
        def generate(context, builder, signature, arguments):
            return builder.inttoptr(arguments[0], context.get_data_type(dtype).as_pointer())

        return types.CPointer(dtype)(types.int64), generate

    return at


EPS64, EPS32 = float(np.finfo(np.float64).eps), float(np.finfo(np.float32).eps)

words, integers, octets = _at(types.int64), _at(types.int32), _at(types.uint8)
doubles, singles = _at(types.float64), _at(types.float32)


@intrinsic
def _past(_, pointer, count):

    def generate(context, builder, signature, arguments):
        return builder.gep(arguments[0], [arguments[1]])

    return pointer(pointer, types.int64), generate


# Of a pointer and a number: the pointer to this number of entries later.
past: Any = _past


def on_stack(octets) -> Any:
    """Make a function that gives an address of bytes on its caller's stack."""

    @intrinsic
    def address(_):
        def generate(context, builder, signature, arguments):
            room = cgutils.alloca_once(builder, ir.ArrayType(ir.IntType(64), octets // 8))
            return builder.ptrtoint(room, ir.IntType(64))

        return types.int64(), generate

    return address


@compiled
def serve(address, solve, numbers, eps):
    """Handle a frame: `solve`(frame, numbers, eps) writes the results of a run.

    `numbers` is `doubles` or `singles`, and `eps` their rounding.
    """
    frame = words(address)
    if _runs(frame):
        solve(frame, numbers, eps)
    return 0


@compiled
def _runs(frame):
    """Tell whether the frame asks for a run, and answer one that asks for metadata."""
    if frame[1] != 0:
        extension = words(frame[1])
        if (extension[1] & 0xFFFFFFFF) == _METADATA_EXTENSION:
            # XLA_FFI_Metadata: its size, then XLA_FFI_Api_Version: size, extensions, major, minor.
            version = integers(extension[3] + 8)
            version[4], version[5] = VERSION_MAJOR, VERSION_MINOR
            return False
    return (frame[4] & 0xFFFFFFFF) == _EXECUTE and known(frame)


@compiled
def known(frame):
    """Tell whether the frame is laid out as above, as far as its sizes tell."""
    if frame[0] < 8 * _FRAME_WORDS or frame[5] != 8 * _LIST_WORDS or frame[10] != 8 * _LIST_WORDS:
        return False
    sound = True
    for number in range(frame[7]):
        sound &= argument(frame, number)[0] == 8 * _BUFFER_WORDS
    for number in range(frame[12]):
        sound &= result(frame, number)[0] == 8 * _BUFFER_WORDS
    return sound


@compiled
def argument(frame, number):
    """Return the words of a buffer that is read."""
    return words(words(frame[9])[number])


@compiled
def arguments(frame):
    """Return the number of buffers that are read."""
    return frame[7]


@compiled
def results(frame):
    """Return the number of buffers that are written."""
    return frame[12]


@compiled
def result(frame, number):
    """Return the words of a buffer that is written."""
    return words(words(frame[14])[number])


@compiled
def extent(buffer, axis):
    """Return the length of an axis, counted from the last one: 1 is the last."""
    rank = buffer[4]
    return words(buffer[5])[rank - axis]


@compiled
def lanes(buffer, axes):
    """Count the problems, of `axes` axes each, in a buffer; a shared one counts once."""
    total = 1
    dimensions = words(buffer[5])
    for axis in range(buffer[4] - axes):
        total *= dimensions[axis]
    return total
