"""One kernel for a whole loop.

On a CPU XLA runs a program operation by operation. Where arrays have a handful of entries, going from one to the next
takes ten times as long as what they do: a step of a ball is some two hundred of them. XLA can make one kernel of a
whole loop, for which it asks that nothing in the loop leaves compiled code: no library for products of matrices, no
LAPACK, no call of somebody's. So such operations are written out here (`written_out`), and a loop that may then be one
kernel is put into a call that says so. To compile it takes half as long again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer
from jax.experimental.xla_metadata import set_xla_metadata
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, jaxpr_as_fun

from diffcontact.written_out import written_out

# What XLA calls a call that it makes one kernel of, and that it must not dissolve before; and what is inside.
_ASKED = {"xla_cpu_small_call": "true", "inlineable": "false"}
_INSIDE = {"xla_cpu_small_call": "false", "inlineable": "true"}
# Entries that an operation of the loop gives, on average: with more the operations themselves take the time.
_SMALL = 512
# What only stands around operations.
_AROUND = frozenset(("jit", "pjit", "closed_call", "core_call", "remat2", "checkpoint", "custom_jvp_call"))
_LOOPS = frozenset(("while", "scan"))
# The operations that XLA writes out itself: what is not here leaves compiled code, or may.
_WRITTEN_BY_XLA = """
    abs acos acosh add add_any and argmax argmin asin asinh atan atan2 atanh bitcast_convert_type broadcast_in_dim cbrt
    ceil clamp concatenate convert_element_type copy copy_p cos cosh cummax cummin cumprod cumsum div dynamic_slice
    dynamic_update_slice eq erf exp exp2 expm1 floor gather ge gt integer_pow iota is_finite le log log1p logistic lt
    max min mul name ne neg nextafter not or pad platform_index pow real reduce reduce_and reduce_max reduce_min
    reduce_or reduce_precision reduce_prod reduce_sum reduce_xor rem reshape rev round rsqrt select_n shift_left
    shift_right_arithmetic shift_right_logical sign sin sinh slice split sqrt square squeeze stack stop_gradient sub
    tan tanh tile transpose xor
"""
_COMPILED = _AROUND | _LOOPS | {"cond", "custom_vjp_call", "custom_vmap_call"} | {*_WRITTEN_BY_XLA.split()}


def may_be_asked_for() -> bool:
    """Whether this JAX is one whose XLA is known to make kernels of such calls."""
    return jax.__version_info__[:2] == (0, 10)


def with_kernels(function: Callable) -> Callable:
    """The function, whose outermost loops XLA makes one kernel of where all their arrays are small.

    To be jitted, and not to be differentiated or vmapped any more: the rules of what is written out are gone. In a
    version of JAX of whose kernels nothing is known it is the function as it is.

    Args:
        function: any that JAX traces. The result takes one argument more, `always`: a boolean that is true, and that
            XLA does not know.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> def halved(A):
        ...     return jax.lax.fori_loop(0, 10, lambda i, x: jnp.linalg.solve(A, x), jnp.ones(2))
        >>> jax.jit(with_kernels(halved))(2 * jnp.eye(2), always=True).tolist()
        [0.0009765625, 0.0009765625]
    """

    @wraps(function)
    def call(*args, always, **kwargs):
        if not may_be_asked_for():
            return function(*args, **kwargs)
        leaves, tree = jax.tree.flatten((args, kwargs))
        traced = [isinstance(leaf, Tracer) for leaf in leaves]

        def of_traced(*given):
            left = iter(given)
            whole = [next(left) if known else leaf for leaf, known in zip(leaves, traced, strict=True)]
            args, kwargs = jax.tree.unflatten(tree, whole)
            return function(*args, **kwargs)

        operands = [leaf for leaf, known in zip(leaves, traced, strict=True) if known]
        closed, shapes = jax.make_jaxpr(of_traced, return_shape=True)(*operands)
        return jax.tree.unflatten(jax.tree.structure(shapes), _evaluated(closed, operands, always))

    return call


def _evaluated(closed: ClosedJaxpr, operands: list, always: Array) -> list:
    """What the jaxpr gives for the operands, its outermost loops each as one kernel where it may be one."""
    values: dict[Any, Any] = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
    values |= dict(zip(closed.jaxpr.invars, operands, strict=True))

    def value(var):
        return var.val if isinstance(var, Literal) else values[var]

    for eqn in closed.jaxpr.eqns:
        given = [value(var) for var in eqn.invars]
        if eqn.primitive.name in _AROUND:
            (inside,) = _inside(eqn)
            found = _evaluated(inside, given, always)
        elif eqn.primitive.name in _LOOPS and _may_be_one(small := _written(eqn)):
            found = _as_one(small, given, always)
        else:
            found = _bound(eqn, given)
        values |= dict(zip(eqn.outvars, found, strict=True))
    return [value(var) for var in closed.jaxpr.outvars]


def _as_one(eqn: JaxprEqn, given: list, always: Array) -> list:
    """The loop in a call that asks for one kernel.

    XLA ends the process where such a call has an operand that is not used. Here every result depends on all operands,
    as far as XLA can know; those without entries stay outside.
    """
    given = [jnp.asarray(x) for x in given]

    @jax.jit
    def loop(always, *operands):
        left = iter(operands)
        with set_xla_metadata(**_INSIDE):
            found = _bound(eqn, [next(left) if x.size else jnp.zeros(x.shape, x.dtype) for x in given])
            touched = sum((jnp.sum(x, dtype=float) for x in operands), jnp.asarray(always, float))
            return [jnp.where(always, x, jnp.asarray(touched, x.dtype)) for x in found]

    with set_xla_metadata(**_ASKED):
        return loop(always, *(x for x in given if x.size))


def _bound(eqn: JaxprEqn, given) -> list:
    found = eqn.primitive.bind(*given, **eqn.primitive.get_bind_params(eqn.params))
    return found if eqn.primitive.multiple_results else [found]


def _may_be_one(eqn: JaxprEqn) -> bool:
    types = {_of(var).dtype for var in eqn.invars}
    real = all(any(jnp.issubdtype(dtype, kind) for kind in (np.bool_, np.integer, np.floating)) for dtype in types)
    sizes = list(_sizes(eqn))
    return real and _compiled(eqn) and sum(sizes) <= _SMALL * len(sizes)


def _compiled(eqn: JaxprEqn) -> bool:
    """Whether nothing in the operation leaves compiled code."""
    inside = (inner for closed in _inside(eqn) for inner in closed.jaxpr.eqns)
    return eqn.primitive.name in _COMPILED and all(_compiled(inner) for inner in inside)


def _sizes(eqn: JaxprEqn) -> Iterator[int]:
    """Entries of what each operation gives."""
    inside = _inside(eqn)
    if not inside:
        yield from (_of(var).size for var in eqn.outvars)
    for closed in inside:
        for inner in closed.jaxpr.eqns:
            yield from _sizes(inner)


def _of(var: Any) -> Any:
    """Shape and type of an operand."""
    return var.aval


def _written(eqn: JaxprEqn) -> JaxprEqn:
    """The same, with all that is small in it written out."""
    name, params = eqn.primitive.name, eqn.params
    if name == "custom_linear_solve":
        # Only its solution is ever compiled, of the operands that this takes.
        solve, lengths = params["jaxprs"].solve, params["const_lengths"]
        begin = lengths.matvec + lengths.vecmat
        known, right = eqn.invars[begin : begin + lengths.solve], eqn.invars[sum(lengths) :]
        return _called(eqn.replace(invars=[*known, *right]), _in_jaxprs(solve))
    if platforms := params.get("branches_platforms"):
        # A choice by platform, made here.
        branch = next(i for i, names in enumerate(platforms) if names is None or "cpu" in names)
        return _called(eqn.replace(invars=eqn.invars[1:]), _in_jaxprs(params["branches"][branch]))
    avals = [var.aval for var in eqn.invars]
    if function := written_out(name, [_of(var).shape for var in eqn.invars], params):
        with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
            return _called(eqn, _in_jaxprs(jax.make_jaxpr(lambda *operands: function(*operands))(*avals)))
    return eqn.replace(params={key: _in_jaxprs(value) for key, value in params.items()})


def _called(eqn: JaxprEqn, closed: ClosedJaxpr) -> JaxprEqn:
    """A call of the jaxpr with the operation's operands, for its results."""
    (call,) = jax.make_jaxpr(jax.jit(jaxpr_as_fun(closed)))(*(var.aval for var in eqn.invars)).jaxpr.eqns
    return eqn.replace(primitive=call.primitive, params=call.params)


def _in_jaxprs(value: Any) -> Any:
    """A parameter of an operation, with what is small in its jaxprs written out."""
    if isinstance(value, ClosedJaxpr):
        return value.replace(jaxpr=_in_jaxprs(value.jaxpr))
    if isinstance(value, Jaxpr):
        return value.replace(eqns=[_written(eqn) for eqn in value.eqns])
    if isinstance(value, tuple):
        each = [_in_jaxprs(x) for x in value]
        return type(value)(*each) if hasattr(value, "_fields") else tuple(each)
    return value


def _inside(eqn: JaxprEqn) -> list[ClosedJaxpr]:
    """The jaxprs that the operation runs."""
    found = (x for value in eqn.params.values() for x in (value if isinstance(value, tuple) else (value,)))
    return [ClosedJaxpr(x, ()) if isinstance(x, Jaxpr) else x for x in found if isinstance(x, Jaxpr | ClosedJaxpr)]
