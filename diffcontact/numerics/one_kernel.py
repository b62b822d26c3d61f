"""Compile a function, on a CPU, as one kernel.

XLA makes a kernel of each fused loop, and a simulation of a few bodies is hundreds of them: each takes ten milliseconds
to compile, and longer to start than to work. XLA compiles a call that is marked as small as one kernel, with its loops
and branches. Operations that such a kernel cannot hold are written in loops.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import ShapedArray
from jax.dtypes import float0
from jax.extend.core import ClosedJaxpr, Primitive, jaxpr_as_fun, jaxprs_in_params, primitives
from jax.interpreters import ad, batching, mlir
from jaxlib.version import __version__ as xla_version

# XLA of these versions has been tried: the mark is not part of its interface.
_TRIED = ("0.10.",)
_MARK = {"inlineable": "false", "xla_cpu_small_call": "true"}
# A kernel works on one core: arrays of more numbers, and products of more terms, are worth kernels of their own.
_LARGEST = 16_384
# The time to compile a kernel grows faster than its code: 6 000 operations take half as long as apart, 17 000 six times
# as long.
_MOST = 8_000
# Factors of more rows are LAPACK's.
_ROWS = 64
# Operations that XLA's emitter of such kernels has held. It stops at some others, and at those of the runtime.
_HELD = frozenset(
    """
    abs add and atan2 bitcast_convert broadcast_in_dim case cbrt ceil clamp compare concatenate constant convert cosine
    count_leading_zeros divide dynamic_slice dynamic_update_slice exponential exponential_minus_one floor gather if iota
    is_finite log log_plus_one logistic maximum minimum multiply negate not or pad popcnt power reduce reduce_window
    remainder reshape return reverse round_nearest_afz round_nearest_even rsqrt select shift_left
    shift_right_arithmetic shift_right_logical sign sine slice sqrt subtract tan tanh transpose while xor
    """.split()  # noqa: SIM905
)
# Functions of numbers that XLA writes as the above.
_ALSO = frozenset({"chlo.square", "chlo.erf", "chlo.sinh", "chlo.cosh", "chlo.asin", "chlo.acos", "chlo.tan"})


def in_one_kernel(function: Callable, *given) -> Callable:
    """Trace a function once, for the shapes of `given`, as one kernel.

    On a CPU arrays have to be small. Derivatives and batches are kernels, too; only arguments with lanes make lanes.
    """
    leaves, structure = jax.tree.flatten(given)
    none = [x if _no_number(x) else None for x in leaves]
    after: list[Any] = []

    def of_numbers(*numbers):
        rest = iter(numbers)
        found = function(*jax.tree.unflatten(structure, [next(rest) if x is None else x for x in none]))
        found, shape = jax.tree.flatten(found)
        after[:] = shape, [x if _no_number(x) else None for x in found]
        return _numbers(found)

    closed = jax.make_jaxpr(of_numbers)(*_numbers(leaves))

    def run(*given):
        found = iter(_bind(closed, *_numbers(jax.tree.leaves(given))))
        return jax.tree.unflatten(after[0], [next(found) if x is None else x for x in after[1]])

    return run


def _no_number(x) -> bool:
    return getattr(x, "dtype", None) == float0


def _numbers(leaves) -> list:
    return [x for x in leaves if not _no_number(x)]


_kernel = Primitive("one_kernel")
_kernel.multiple_results = True


def _bind(closed: ClosedJaxpr, *args):
    # Constants are arguments like all else: they may have lanes, or tangents.
    return _kernel.bind(*closed.consts, *args, jaxpr=closed.jaxpr, consts=len(closed.consts))


def _function(jaxpr, consts: int) -> Callable:
    return lambda *args: jaxpr_as_fun(ClosedJaxpr(jaxpr, args[:consts]))(*args[consts:])


@_kernel.def_impl
def _(*args, **program):
    return jax.jit(_function(**program))(*args)


@_kernel.def_abstract_eval
def _(*avals, jaxpr, consts):
    return [x.aval for x in jaxpr.outvars]


def _in_lanes(args, axes, **program):
    lanes = jax.vmap(_function(**program), axes)
    found = _bind(jax.make_jaxpr(lanes)(*args), *args)
    return found, [0] * len(found)


def _pushed(primals, tangents, **program):
    """Compute tangents in a kernel of their own, which repeats the values."""
    moves = [not isinstance(x, ad.Zero) for x in tangents]
    given = [x for x, moved in zip(tangents, moves, strict=True) if moved]

    def push(*args):
        primals, rest = args[: len(moves)], iter(args[len(moves) :])
        along = tuple(next(rest) if moved else _still(x) for x, moved in zip(primals, moves, strict=True))
        return _numbers(jax.jvp(_function(**program), primals, along)[1])

    found = _kernel.bind(*primals, **program)
    ends = iter(_bind(jax.make_jaxpr(push)(*primals, *given), *primals, *given))
    return found, [next(ends) if _is_float(x) else ad.Zero(jax.typeof(x).to_tangent_aval()) for x in found]


def _is_float(x) -> bool:
    return jnp.issubdtype(x.dtype, jnp.inexact)


def _still(x):
    return lax.full_like(x, 0) if _is_float(x) else np.zeros(x.shape, float0)


def _pulled(cotangents, *args, **program):
    """Compute cotangents of the arguments that the function is linear in."""
    linear = [ad.is_undefined_primal(x) for x in args]
    known = [x for x, unknown in zip(args, linear, strict=True) if not unknown]
    shapes = [jax.ShapeDtypeStruct(x.aval.shape, x.aval.dtype) for x in args if ad.is_undefined_primal(x)]

    def pull(known, cotangents):
        def of_linear(*unknown):
            rest, others = iter(unknown), iter(known)
            return _function(**program)(*(next(rest) if x else next(others) for x in linear))

        return jax.linear_transpose(of_linear, *shapes)(cotangents)

    given = known, [ad.instantiate_zeros(x) for x in cotangents]
    found = iter(in_one_kernel(pull, *given)(*given))
    return [next(found) if x else None for x in linear]


batching.primitive_batchers[_kernel] = _in_lanes
ad.primitive_jvps[_kernel] = _pushed
ad.primitive_transposes[_kernel] = _pulled


def _lowered(context, *args, **program):
    return mlir.lower_fun(_function(**program), multiple_results=True)(context, *args)


def _lowered_on_cpu(context, *args, jaxpr, consts):
    """Lower to a marked call of a function."""
    if not xla_version.startswith(_TRIED) or _count(jaxpr) > _MOST or not _is_small(jaxpr):
        return _lowered(context, *args, jaxpr=jaxpr, consts=consts)

    # XLA stops at an unused argument, and moves constant arguments to their use: here is neither.
    def kernel(*numbers):
        used = sum((x.ravel()[0].astype(jnp.float32) for x in numbers), jnp.zeros((), jnp.float32))
        rest = iter(numbers)
        whole = [next(rest) if aval.size else jnp.zeros(aval.shape, aval.dtype) for aval in context.avals_in]
        return *_function(jaxpr, consts)(*whole), used

    def called(*args):
        return jax.jit(kernel)(*lax.optimization_barrier([x for x in args if x.size]))

    parameters = replace(context.module_context.lowering_parameters, override_lowering_rules=_IN_LOOPS)
    module = context.module_context.replace(
        lowering_parameters=parameters, lowering_cache={}, cached_primitive_lowerings={}
    )
    inside = context.replace(module_context=module, avals_out=[*context.avals_out, ShapedArray((), jnp.float32)])
    found = mlir.lower_fun(called, multiple_results=True)(inside, *args)[:-1]
    call = found[0].owner
    if not _is_held(module, call, {}):
        call.erase()
        return _lowered(context, *args, jaxpr=jaxpr, consts=consts)
    marks: dict[str, mlir.ir.Attribute] = {name: mlir.ir.StringAttr.get(value) for name, value in _MARK.items()}
    call.attributes["mhlo.frontend_attributes"] = mlir.ir.DictAttr.get(marks)
    return found


mlir.register_lowering(_kernel, _lowered, cacheable=False)
mlir.register_lowering(_kernel, _lowered_on_cpu, platform="cpu", cacheable=False)


def _count(jaxpr) -> int:
    """Count operations, those of loops and branches once."""
    return sum(1 + sum(map(_count, jaxprs_in_params(equation.params))) for equation in jaxpr.eqns)


def _is_small(jaxpr) -> bool:
    """Tell whether all arrays are small, so that loops on one core lose nothing."""
    for equation in jaxpr.eqns:
        shapes = [x.aval.shape for x in (*equation.invars, *equation.outvars) if hasattr(x.aval, "shape")]
        size = max(map(prod, shapes), default=0)
        if equation.primitive is primitives.dot_general_p:
            summed = equation.params["dimension_numbers"][0][0]
            size = prod(shapes[-1]) * prod(shapes[0][axis] for axis in summed)
        if equation.primitive in _FACTORS and (len(shapes[0]) > 2 or max(shapes[0]) > _ROWS):
            return False
        if size > _LARGEST or not all(_is_small(inner) for inner in jaxprs_in_params(equation.params)):
            return False
    return True


def _is_held(module, call, known: dict[str, bool]) -> bool:
    """Tell whether one kernel can hold the called function."""
    name = mlir.ir.FlatSymbolRefAttr(call.attributes["callee"]).value
    if name not in known:
        known[name] = True

        def look(operation):
            dialect, _, kind = operation.name.partition(".")
            if operation.name == "func.call":
                held = _is_held(module, operation, known)
            else:
                held = dialect == "func" or (dialect == "stablehlo" and kind in _HELD) or operation.name in _ALSO
            known[name] = known[name] and held
            return mlir.ir.WalkResult.ADVANCE if held else mlir.ir.WalkResult.INTERRUPT

        module.symbol_table[name].operation.walk(look)
    return known[name]


def product(a, b, *, dimension_numbers, preferred_element_type, **_):
    """`lax.dot_general`: the sum over products, with the batch's axes first."""
    (left, right), (left_batch, right_batch) = dimension_numbers
    shapes = []
    for x, summed, batch in ((a, left, left_batch), (b, right, right_batch)):
        free = [axis for axis in range(x.ndim) if axis not in (*summed, *batch)]
        shapes.append((x.transpose(*batch, *free, *summed), [x.shape[axis] for axis in free]))
    (a, rows), (b, columns) = shapes
    batch, summed = a.shape[: len(left_batch)], a.shape[len(left_batch) + len(rows) :]
    a = a.reshape(*batch, *rows, *[1] * len(columns), *summed)
    b = b.reshape(*batch, *[1] * len(rows), *columns, *summed)
    dtype = preferred_element_type or jnp.result_type(a, b)
    return jnp.sum(a.astype(dtype) * b.astype(dtype), axis=tuple(range(a.ndim - len(summed), a.ndim)), dtype=dtype)


def scatter(operand, indices, updates, *, dimension_numbers, mode, added, **_):
    """`lax.scatter`, or `lax.scatter_add` with `added`, one index after the other."""
    if not updates.size:
        return operand
    numbers = dimension_numbers
    # An axis that goes along with one of the indices is an index like the others.
    axes = *numbers.scatter_dims_to_operand_dims, *numbers.operand_batching_dims
    for axis in numbers.scatter_indices_batching_dims:
        counted = lax.broadcasted_iota(indices.dtype, (*indices.shape[:-1], 1), axis)
        indices = jnp.concatenate([indices, counted], axis=-1)
    batch = [axis for axis in range(updates.ndim) if axis not in numbers.update_window_dims]
    count = prod(indices.shape[:-1])
    indices = indices.reshape(count, indices.shape[-1])
    updates = updates.transpose(*batch, *numbers.update_window_dims)
    window = iter(updates.shape[len(batch) :])
    single = (*numbers.inserted_window_dims, *numbers.operand_batching_dims)
    sizes = [1 if axis in single else next(window) for axis in range(operand.ndim)]
    updates = updates.reshape(count, *sizes)
    last = jnp.array([whole - part for whole, part in zip(operand.shape, sizes, strict=True)], indices.dtype)

    def write(i, operand):
        start = _placed(indices[i], axes, operand.ndim)
        before = lax.dynamic_slice(operand, list(start), sizes)
        after = lax.dynamic_update_slice(operand, before + updates[i] if added else updates[i], list(start))
        if mode != lax.GatherScatterMode.FILL_OR_DROP:
            return after
        return jnp.where(jnp.all((start >= 0) & (start <= last)), after, operand)

    return lax.fori_loop(0, count, write, operand) if count > 1 else write(0, operand)


def _placed(index, axes, count):
    """(count,) the parts of an index at these axes, and else zero."""
    place = {axis: index[number] for number, axis in enumerate(axes)}
    return jnp.stack([place.get(axis, jnp.zeros((), index.dtype)) for axis in range(count)])


def cholesky(A, **_):
    """`lax.linalg.cholesky`, column by column."""
    index = jnp.arange(A.shape[0])

    def column(j, L):
        left = A[:, j] - jnp.sum(L * L[j][None], axis=1)
        return L.at[:, j].set(jnp.where(index < j, 0.0, left / jnp.sqrt(left[j])))

    return lax.fori_loop(0, len(index), column, jnp.zeros_like(A))


def triangular_solve(T, b, *, left_side, lower, transpose_a, conjugate_a, unit_diagonal):
    """`lax.linalg.triangular_solve`, row by row."""
    if not left_side:
        T, b, transpose_a = T, b.T, not transpose_a
    T, lower = (T.T, not lower) if transpose_a else (T, lower)
    count, index = T.shape[0], jnp.arange(T.shape[0])

    def row(i, x):
        i = i if lower else count - 1 - i
        known = jnp.where(index < i if lower else index > i, T[i], 0.0)
        left = b[i] - jnp.sum(known[:, None] * x, axis=0)
        return x.at[i].set(left if unit_diagonal else left / T[i, i])

    x = lax.fori_loop(0, count, row, jnp.zeros_like(b))
    return x if left_side else x.T


def lu(A):
    """`lax.linalg.lu` of a square matrix, with rows swapped for the largest pivot."""
    index = jnp.arange(A.shape[0])

    def column(j, carry):
        A, swaps, order = carry
        pivot = jnp.argmax(jnp.where(index >= j, jnp.abs(A[:, j]), -1.0))
        swapped = jnp.where(index == j, pivot, jnp.where(index == pivot, j, index))
        A, order = A[swapped], order[swapped]
        below = jnp.where(index > j, A[:, j] / A[j, j], 0.0)
        A = A - below[:, None] * jnp.where(index > j, A[j], 0.0)[None]
        A = A.at[:, j].set(jnp.where(index > j, below, A[:, j]))
        return A, swaps.at[j].set(pivot.astype(jnp.int32)), order

    start = A, jnp.zeros(len(index), jnp.int32), index.astype(jnp.int32)
    return lax.fori_loop(0, len(index), column, start)


_FACTORS = {
    primitives.cholesky_p: cholesky,
    primitives.lu_p: lu,
    primitives.triangular_solve_p: triangular_solve,
}
_RULES = {
    primitives.dot_general_p: product,
    primitives.scatter_p: partial(scatter, added=False),
    primitives.scatter_add_p: partial(scatter, added=True),
} | _FACTORS
_IN_LOOPS = (
    (_kernel, _lowered),
    *(
        (primitive, mlir.lower_fun(function, multiple_results=primitive.multiple_results))
        for primitive, function in _RULES.items()
    ),
)
