"""The native search as a JAX primitive: its batches, and what it is lowered to on which platform."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

from diffcontact.qp import search
from diffcontact.qp.bodies import BodyRows
from diffcontact.qp.native.layout import most_held, needed
from diffcontact.qp.search import WorkingSet

TARGET = "diffcontact_working_set"

# Operands: mass, G or (bodies, normals), b, v, all with the same leading axes, or with ones where they are shared.
# Results: those of a WorkingSet, and the memory that the kernel works in.
_working_set = Primitive(TARGET)
_working_set.multiple_results = True


def find_working_set(mass, G, b, v) -> WorkingSet:
    """As `diffcontact.qp.search.find_working_set`, from nothing."""
    rows = (G.bodies.astype(jnp.int32), G.normals) if isinstance(G, BodyRows) else (G,)
    *found, _ = _working_set.bind(mass, *rows, b, v)
    return WorkingSet(*found)


_compiled: Any = jax.jit(_working_set.bind)


@_working_set.def_impl
def _run(*operands):
    return _compiled(*operands)


def _results(mass, rows, b, v):
    """The leading axes, and the shapes and types of the results."""
    count, dimension, depth = b.shape[-1], v.shape[-1], len(v.shape) - 1
    batch = np.broadcast_shapes(*(x.shape[:depth] for x in (mass, *rows, b, v)))
    entries = 2 * rows[1].shape[-1] if len(rows) == 2 else dimension
    memory = needed(count, dimension, entries, most_held(count, dimension), len(mass.shape) > len(v.shape))
    numbers = [((*batch, size), b.dtype) for size in (count, dimension, count)]
    return batch, [
        ((*batch, count), np.dtype(bool)),
        *numbers,
        (batch, np.dtype(np.int32)),
        ((memory,), np.dtype("u1")),
    ]


@_working_set.def_abstract_eval
def _shapes(mass, *rows_b_v):
    *rows, b, v = rows_b_v
    return [b.update(shape=shape, dtype=dtype, weak_type=False) for shape, dtype in _results(mass, rows, b, v)[1]]


def _batched(operands, axes):
    """Operands that are not mapped are shared, if they were so far; everything else gets all axes."""
    size = next(x.shape[axis] for x, axis in zip(operands, axes, strict=True) if axis is not batching.not_mapped)
    shared = [axis is batching.not_mapped for axis in axes]
    operands = [
        x[None] if own else jnp.moveaxis(x, axis, 0) for x, own, axis in zip(operands, shared, axes, strict=True)
    ]
    depth = operands[-1].ndim - 1
    batch = np.broadcast_shapes(*(x.shape[:depth] for x in operands), (size, *[1] * (depth - 1)))
    alone = (1,) * depth
    operands = [
        x if x.shape[:depth] in (alone, batch) else jnp.broadcast_to(x, batch + x.shape[depth:]) for x in operands
    ]
    return _working_set.bind(*operands), [0] * 5 + [batching.not_mapped]


batching.primitive_batchers[_working_set] = _batched


def _pure(mass, *rows_b_v):
    *rows, b, v = rows_b_v
    batch, results = _results(mass, rows, b, v)

    def lane(mass, *rows_b_v):
        *rows, b, v = rows_b_v
        G = BodyRows(rows[0], rows[1], v.shape[0] // rows[1].shape[-1]) if len(rows) == 2 else rows[0]
        found = search.find_working_set(mass, G, b, v)
        return found.working, found.multipliers, found.step, found.slack, found.status

    for _ in batch:
        lane = jax.vmap(lane)
    found = lane(*(jnp.broadcast_to(x, batch + x.shape[len(batch) :]) for x in (mass, *rows_b_v)))
    return [*found, jnp.zeros(*results[-1])]


mlir.register_lowering(_working_set, mlir.lower_fun(_pure, multiple_results=True))
mlir.register_lowering(_working_set, jax.ffi.ffi_lowering(TARGET), platform="cpu")
