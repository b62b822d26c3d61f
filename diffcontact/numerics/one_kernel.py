"""Compile a function, on a CPU, as one kernel.

XLA makes a kernel of each fused loop, and a simulation of a few bodies is hundreds of them: each takes ten milliseconds
to compile, and longer to start than to work. XLA compiles a call that is marked as small as one kernel, with its loops
and branches. Operations that such a kernel cannot hold are written in loops (`in_loops`).
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

from diffcontact.numerics import in_loops

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


_FACTORS = {
    primitives.cholesky_p: in_loops.cholesky,
    primitives.lu_p: in_loops.lu,
    primitives.triangular_solve_p: in_loops.triangular_solve,
}
_RULES = {
    primitives.dot_general_p: in_loops.product,
    primitives.scatter_p: partial(in_loops.scatter, added=False),
    primitives.scatter_add_p: partial(in_loops.scatter, added=True),
} | _FACTORS
_IN_LOOPS = (
    (_kernel, _lowered),
    *(
        (primitive, mlir.lower_fun(function, multiple_results=primitive.multiple_results))
        for primitive, function in _RULES.items()
    ),
)
