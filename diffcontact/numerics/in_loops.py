"""Compute products, factors and scattered sums of small arrays in loops, in place of libraries.

XLA leaves these operations to libraries, or to kernels of their own. A kernel that holds a whole function
(`one_kernel`) can hold neither.
"""

from __future__ import annotations

from math import prod

import jax.numpy as jnp
from jax import lax


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
