"""Operations on small arrays, written out as sums and loops.

XLA calls a library for them (a product of matrices, LAPACK's factorisations, the largest entries, a scatter), and then
a loop that holds one cannot be one kernel (`kernels`). For a handful of entries the library is slower besides.

Each function takes the operands and parameters of JAX's primitive of that name and gives the same but for rounding;
where an array has leading axes, so has the result. Nothing here is differentiated.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod

import jax.numpy as jnp
from jax import Array, lax

# Multiplications of a product, and rows of a matrix, up to which writing out is as quick as the library on a CPU.
_PRODUCT, _ROWS = 2**15, 32
# Entries among which the largest are sought one by one, and windows that are written one after the other.
_SOUGHT, _WRITTEN = 512, 1024


def written_out(name: str, shapes: list[tuple[int, ...]], params: dict) -> Callable | None:
    """What does the same as the primitive of that name on operands of these shapes, or None where nothing here does.

    Example:
        >>> import jax.numpy as jnp
        >>> factor = written_out("cholesky", [(2, 2)], {})
        >>> factor(jnp.array([[4.0, 2.0], [2.0, 5.0]]))[0].tolist()
        [[2.0, 0.0], [1.0, 2.0]]
        >>> written_out("cholesky", [(100, 100)], {}) is None
        True
    """
    if name not in _WRITTEN_OUT:
        return None
    small, function = _WRITTEN_OUT[name]
    return partial(function, **params) if small(shapes, params) else None


def write_out(name: str, function: Callable) -> None:
    """Let `function` be what does the same as the primitive of that name."""
    _WRITTEN_OUT[name] = (lambda shapes, params: True, function)


def _dot_general(a: Array, b: Array, *, dimension_numbers, preferred_element_type=None, **_) -> tuple[Array]:
    """Products of all entries that meet, summed."""
    (summed, other), (batch, batch_b) = dimension_numbers
    free_a, free_b = (
        [i for i in range(x.ndim) if i not in used] for x, used in ((a, batch + summed), (b, batch_b + other))
    )
    a, b = lax.transpose(a, (*batch, *free_a, *summed)), lax.transpose(b, (*batch_b, *free_b, *other))
    axes = len(batch), len(free_a), len(free_b), len(summed)
    shape = (*a.shape[: axes[0] + axes[1]], *b.shape[axes[0] :])
    rows = sum(axes[:2])
    last = range(sum(axes[:3]), sum(axes))
    a = lax.broadcast_in_dim(a, shape, (*range(rows), *last))
    b = lax.broadcast_in_dim(b, shape, (*range(axes[0]), *range(rows, len(shape))))
    if preferred_element_type is not None:
        a, b = a.astype(preferred_element_type), b.astype(preferred_element_type)
    return (jnp.sum(a * b, axis=tuple(last), dtype=a.dtype),)


def _cholesky(A: Array, **_) -> tuple[Array]:
    """L L^T = A, of A's lower half, column by column; NaN, all of it, where A is not positive definite."""

    def column(j, L):
        left = A[..., :, j] - jnp.sum(L * L[..., j, None, :], axis=-1)
        pivot = left[..., j, None]
        new = jnp.where(jnp.arange(A.shape[-1]) >= j, left / jnp.sqrt(jnp.where(pivot > 0, pivot, jnp.nan)), 0)
        return jnp.where(jnp.arange(A.shape[-1]) == j, new[..., :, None], L)

    L = lax.fori_loop(0, A.shape[-1], column, jnp.zeros_like(A))
    known = jnp.all(jnp.isfinite(jnp.sum(L, axis=-1)), axis=-1)
    return (jnp.where(known[..., None, None], L, jnp.nan),)


def _triangular_solve(
    A: Array, b: Array, *, left_side: bool, lower: bool, transpose_a: bool, conjugate_a: bool, unit_diagonal: bool
) -> tuple[Array]:
    """A x = b (x A = b where A stands on the right) with a triangular A, row by row."""
    if not left_side:
        turned = partial(_triangular_solve, left_side=True, lower=lower, conjugate_a=conjugate_a)
        return (turned(A, b.mT, transpose_a=not transpose_a, unit_diagonal=unit_diagonal)[0].mT,)
    if transpose_a:
        A, lower = A.mT, not lower
    count = A.shape[-1]

    def row(k, x):
        i = k if lower else count - 1 - k
        # What is not solved yet is 0 in x, and the other half of A may hold anything.
        here = (jnp.arange(count) < i) if lower else (jnp.arange(count) > i)
        left = b[..., i, :] - jnp.sum(jnp.where(here, A[..., i, :], 0)[..., None] * x, axis=-2)
        new = left if unit_diagonal else left / A[..., i, i][..., None]
        return jnp.where((jnp.arange(count) == i)[:, None], new[..., None, :], x)

    return (lax.fori_loop(0, count, row, jnp.zeros_like(b)),)


def _lu(A: Array, **_) -> tuple[Array, Array, Array]:
    """P A = L U with the largest entries for pivots: L and U in one array, the swaps, and the order of rows."""
    rows, columns = A.shape[-2:]
    each = jnp.arange(rows)

    def step(k, found):
        A, swaps, order = found
        pivot = jnp.argmax(jnp.where(each >= k, jnp.abs(A[..., :, k]), -1), axis=-1).astype(jnp.int32)
        swapped = jnp.where(each == k, pivot[..., None], jnp.where(each == pivot[..., None], k, each))
        A = jnp.take_along_axis(A, swapped[..., None], axis=-2)
        below = each > k
        # Where the column is 0 there is nothing to take away.
        size = A[..., k, k][..., None]
        factor = jnp.where(below & (size != 0), A[..., :, k] / jnp.where(size != 0, size, 1), 0)
        right = jnp.where(jnp.arange(columns) > k, A[..., k, :], 0)
        A = A - factor[..., :, None] * right[..., None, :]
        A = jnp.where(below[:, None] & (jnp.arange(columns) == k), factor[..., :, None], A)
        swaps = jnp.where(jnp.arange(swaps.shape[-1]) == k, pivot[..., None], swaps)
        return A, swaps, jnp.take_along_axis(order, swapped, axis=-1)

    count = min(rows, columns)
    swaps = jnp.zeros((*A.shape[:-2], count), jnp.int32)
    order = jnp.broadcast_to(each.astype(jnp.int32), (*A.shape[:-2], rows))
    return lax.fori_loop(0, count, step, (A, swaps, order))


def _pivots_to_permutation(swaps: Array, *, permutation_size: int, **_) -> tuple[Array]:
    """The order of rows that the swaps make, one after the other."""
    each = jnp.arange(permutation_size, dtype=swaps.dtype)

    def swap(k, order):
        other = swaps[..., k, None]
        mine, its = order[..., k, None], jnp.take_along_axis(order, other, axis=-1)
        return jnp.where(each == k, its, jnp.where(each == other, mine, order))

    return (lax.fori_loop(0, swaps.shape[-1], swap, jnp.broadcast_to(each, (*swaps.shape[:-1], permutation_size))),)


def _top_k(x: Array, *, k: int, axis: int = -1, **_) -> tuple[Array, Array]:
    """The k largest entries and their places, the first of equals first: by how many stand before each.

    As in XLA's order a zero with a sign is below one without, and what is not a number above all.
    """
    x = jnp.moveaxis(x, axis, -1)
    each = jnp.arange(x.shape[-1])
    mine, others = x[..., :, None], x[..., None, :]
    larger, alike = others > mine, others == mine
    if jnp.issubdtype(x.dtype, jnp.floating):
        below, unknown = jnp.signbit(mine) > jnp.signbit(others), jnp.isnan(mine)
        larger |= (alike & below) | (jnp.isnan(others) & ~unknown)
        alike = (alike & (jnp.signbit(mine) == jnp.signbit(others))) | (jnp.isnan(others) & unknown)
    place = jnp.sum(larger | (alike & (each < each[:, None])), axis=-1)
    there = place[..., None, :] == jnp.arange(k)[:, None]
    index = jnp.sum(jnp.where(there, each, 0), axis=-1).astype(jnp.int32)
    values = jnp.take_along_axis(x, index, axis=-1)
    return jnp.moveaxis(values, -1, axis), jnp.moveaxis(index, -1, axis)


def _scatter(
    operand: Array, indices: Array, updates: Array, *, dimension_numbers, mode, combined: Callable, **_
) -> tuple[Array]:
    """One window after the other, combined with what stands there; those that reach outside are left out, or moved."""
    d = dimension_numbers
    lead = indices.shape[:-1]
    windows = [i for i in range(updates.ndim) if i not in d.update_window_dims]
    updates = lax.transpose(updates, (*windows, *d.update_window_dims))
    kept = [i for i in range(operand.ndim) if i not in (*d.inserted_window_dims, *d.operand_batching_dims)]
    shape = [1] * operand.ndim
    for i, size in zip(kept, updates.shape[len(windows) :], strict=True):
        shape[i] = size
    number = prod(lead)
    updates = updates.reshape(number, *shape)
    # Axes that operand and indices share: there the window stands where its own index does.
    place = {
        i: lax.broadcasted_iota(indices.dtype, lead, j).reshape(number)
        for i, j in zip(d.operand_batching_dims, d.scatter_indices_batching_dims, strict=True)
    }
    flat = indices.reshape(number, -1)
    place |= {i: flat[:, k] for k, i in enumerate(d.scatter_dims_to_operand_dims)}
    zero = jnp.zeros(number, indices.dtype)
    starts = jnp.stack([place.get(i, zero) for i in range(operand.ndim)], axis=1)
    most = jnp.array([n - size for n, size in zip(operand.shape, shape, strict=True)], indices.dtype)
    if mode == lax.GatherScatterMode.CLIP:
        starts = jnp.clip(starts, 0, most)
    inside = jnp.all((starts >= 0) & (starts <= most), axis=1)

    def write(k, x):
        there = lax.dynamic_slice(x, list(starts[k]), shape)
        new = jnp.where(inside[k], combined(there, updates[k]), there)
        return lax.dynamic_update_slice(x, new, list(starts[k]))

    return (lax.fori_loop(0, number, write, operand),)


def _multiplications(shapes, params) -> int:
    (summed, _), (batch, _) = params["dimension_numbers"]
    a, b = shapes
    return prod(a) * prod(b) // prod(a[i] for i in (*summed, *batch)) if prod(a) else 0


def _few_rows(shapes, params) -> bool:
    return shapes[0][-2] <= _ROWS and shapes[0][-1] <= _ROWS


def _few_windows(shapes, params) -> bool:
    return prod(shapes[1][:-1]) <= _WRITTEN


def _over(there: Array, new: Array) -> Array:
    return new


_SCATTERS = {
    "scatter": _over,
    "scatter-add": lax.add,
    "scatter-mul": lax.mul,
    "scatter-min": lax.min,
    "scatter-max": lax.max,
}
# For each primitive: whether operands of such shapes are small, and what does the same.
_WRITTEN_OUT: dict[str, tuple[Callable, Callable]] = {
    "dot_general": (lambda shapes, params: _multiplications(shapes, params) <= _PRODUCT, _dot_general),
    "cholesky": (_few_rows, _cholesky),
    "triangular_solve": (_few_rows, _triangular_solve),
    "lu": (_few_rows, _lu),
    "lu_pivots_to_permutation": (lambda shapes, params: params["permutation_size"] <= _ROWS, _pivots_to_permutation),
    "top_k": (lambda shapes, params: shapes[0][params["axis"]] <= _SOUGHT, _top_k),
} | {name: (_few_windows, partial(_scatter, combined=combined)) for name, combined in _SCATTERS.items()}
