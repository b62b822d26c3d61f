"""Make JAX primitives of the kernel's problems: their batches, and their lowering on each platform.

Operands: mass (d,), G or (bodies, normals), a vector (c,), a vector (d,) and, where rows are held, their mask (c,). All
have the same leading axes, or ones where they are shared. The last result of each is the memory that the kernel works
in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import batching

from diffcontact.qp import held_rows, working_set
from diffcontact.qp.kernel import library
from diffcontact.qp.kernel.layout import needed_beside_stack
from diffcontact.qp.rows import BodyRows, Rows, product, slots_of, spread, switched, transposed_product
from diffcontact.qp.working_set import WorkingSet


def find_working_set(mass, G: Rows, b, v) -> WorkingSet:
    """Find the working set as `working_set` does, by the kernel."""
    *found, _ = _working_set.bind(mass, *_operands(G), b, v)
    return WorkingSet(*found)


def solve_held(mass, G: Rows, working, f, s):
    """Solve M x + G_W^T y = f (d,), G_W x = s_W, y = s (c,) off W, with derivatives."""
    held, dimension = switched(G, working), f.shape[0]

    def equations(unknown):
        x, y = unknown[:dimension], unknown[dimension:]
        above = mass * x + transposed_product(held, jnp.where(working, y, 0))
        return jnp.concatenate([above, jnp.where(working, product(held, x), y)])

    def solve(_, right):
        return jnp.concatenate(_solve.bind(mass, *_operands(G), right[dimension:], right[:dimension], working)[:2])

    # As one vector: of a pair JAX transposes either all or nothing.
    found = jax.lax.custom_linear_solve(equations, jnp.concatenate([f, s]), solve, symmetric=True)
    return found[:dimension], found[dimension:]


def _operands(G: Rows):
    return (G.bodies.astype(jnp.int32), G.normals) if isinstance(G, BodyRows) else (G,)


def _primitive(name: str, results: Callable, in_jax: Callable) -> Primitive:
    """Make a problem's primitive.

    `results` maps (c, d, type) to shapes and types of one problem's results. `in_jax` solves one problem in JAX.
    """
    primitive = Primitive(f"diffcontact_{name}")
    primitive.multiple_results = True
    compiled: Any = jax.jit(primitive.bind)
    primitive.def_impl(lambda *operands: compiled(*operands))

    def shapes(operands):
        """Return the leading axes, and the shapes and types of all results."""
        rows, (first, second) = _parted(operands)
        count, dimension, depth = first.shape[-1], second.shape[-1], len(second.shape) - 1
        batch = np.broadcast_shapes(*(x.shape[:depth] for x in operands))
        entries = 2 * rows[1].shape[-1] if len(rows) == 2 else dimension
        memory = needed_beside_stack(count, dimension, entries)
        own = [((*batch, *shape), dtype) for shape, dtype in results(count, dimension, first.dtype)]
        return batch, [*own, ((memory,), np.dtype(np.uint8))]

    @primitive.def_abstract_eval
    def _(*operands):
        return [operands[0].update(shape=shape, dtype=dtype, weak_type=False) for shape, dtype in shapes(operands)[1]]

    def batched(operands, axes):
        operands = _with_axis(operands, axes)
        found = primitive.bind(*operands)
        return found, [*[0] * (len(found) - 1), None]

    def pure(*operands):
        batch, kinds = shapes(operands)

        def one(*operands):
            rows, vectors = _parted(operands)
            count = vectors[1].shape[0] // rows[1].shape[-1] if len(rows) == 2 else 0
            G = BodyRows(rows[0], rows[1], count) if len(rows) == 2 else rows[0]
            return in_jax(operands[0], G, *operands[1 + len(rows) :])

        for _ in batch:
            one = jax.vmap(one)
        found = one(*(jnp.broadcast_to(x, batch + x.shape[len(batch) :]) for x in operands))
        return [*found, jnp.zeros(*kinds[-1])]

    batching.primitive_batchers[primitive] = batched
    library.lower(primitive, pure)
    return primitive


def _parted(operands):
    sparse = jnp.issubdtype(operands[1].dtype, jnp.integer)
    rows = operands[1:3] if sparse else operands[1:2]
    return rows, operands[1 + len(rows) : 3 + len(rows)]


def _with_axis(operands, axes):
    """Add a leading axis: of length one if an operand's leading axes all are, else full."""
    size = next(x.shape[axis] for x, axis in zip(operands, axes, strict=True) if axis is not None)
    operands = [x[None] if axis is None else jnp.moveaxis(x, axis, 0) for x, axis in zip(operands, axes, strict=True)]
    depth = _parted(operands)[1][1].ndim - 1
    batch = np.broadcast_shapes(*(x.shape[:depth] for x in operands), (size, *[1] * (depth - 1)))
    shared = (1,) * depth
    return [x if x.shape[:depth] in (shared, batch) else jnp.broadcast_to(x, batch + x.shape[depth:]) for x in operands]


_MASK = np.dtype(bool)
_STATUS = np.dtype(np.int32)


def _working_set_in_jax(mass, G, b, v):
    found = working_set.find_working_set(mass, G, b, v)
    return found.working, found.multipliers, found.step, found.slack, found.status


def _solve_in_jax(mass, G, s, f, mask):
    slots = slots_of(mask, min(G.shape))
    held = held_rows.HeldRows.of(mass, G, slots)
    x, multipliers = held.solve(-held_rows.at_slots(slots, s), held.moved(f))
    return x, jnp.where(mask, -spread(slots, multipliers, s.size), s)


_working_set = _primitive(
    "working_set",
    lambda c, d, dtype: [((c,), _MASK), ((c,), dtype), ((d,), dtype), ((c,), dtype), ((), _STATUS)],
    _working_set_in_jax,
)
_solve = _primitive("solve", lambda c, d, dtype: [((d,), dtype), ((c,), dtype)], _solve_in_jax)
