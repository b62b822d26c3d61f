"""Small dense systems: Cholesky and LU factors and what is solved by them, for one system or for all lanes of a batch.

The factors are LAPACK's. A batch goes there as one call, and a CPU of jaxlib 0.10 deals a long one out to its threads
and waits for them, on one of these threads: where as many such calls run at once as there are threads, all of them wait
for ever. So a batch goes there in parts that are not dealt out; `numerics.devices` says how long they may be.
"""

from __future__ import annotations

from functools import cache, partial
from math import prod
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from diffcontact.numerics.custom_jvp import custom_jvp_all_orders
from diffcontact.numerics.devices import side_by_side

# Triangles of so many rows are written out. In a batch LAPACK takes four to eight times as long for each.
_WRITTEN_OUT = 3
# A batch in so many parts is written out, too: a loop takes each part out of it, and puts it back.
_PARTS = 4


@custom_jvp_all_orders
def cholesky(A: Array) -> Array:
    """The lower triangular L with A = L L^T; NaN where there is none.

    Args:
        A: (n, n), symmetric and positive definite. Its upper triangle is not looked at.

    Example:
        >>> jax.jit(cholesky)(jnp.array([[4.0, 2.0], [2.0, 10.0]])).tolist()
        [[2.0, 0.0], [1.0, 3.0]]
    """
    if A.shape[0] > _WRITTEN_OUT:
        return _cholesky(A)
    columns: list[Array] = []
    for j in range(A.shape[0]):
        column = A[:, j] - sum((done * done[j] for done in columns), jnp.zeros_like(A[:, j]))
        columns.append(jnp.where(jnp.arange(A.shape[0]) < j, 0, column) / jnp.sqrt(column[j]))
    return jnp.stack(columns, axis=1)


@cholesky.defjvp
def _cholesky_jvp(primals, tangents):
    # dL = L Phi(L^-1 dA L^-T), Phi the lower triangle with half of the diagonal.
    (L,), (dA,) = [cholesky(*primals)], tangents
    dA = jnp.tril(dA) + jnp.tril(dA, -1).T
    inner = solve_lower(L, solve_lower(L, dA).T)
    return L, L @ (jnp.tril(inner) - jnp.diag(jnp.diag(inner) / 2))


def solve_lower(L: Array, b: Array, transposed: bool = False) -> Array:
    """x with L x = b, or with L^T x = b.

    Args:
        L: (n, n), lower triangular; what stands above its diagonal is not looked at.
        b: (n,) one right side, or (n, k) columns.
        transposed: whether it is L^T that is solved with.

    Example:
        >>> jax.jit(solve_lower)(jnp.array([[2.0, 0.0], [1.0, 3.0]]), jnp.array([4.0, 8.0])).tolist()
        [2.0, 2.0]
    """
    if L.size == 1:
        return b / L[0, 0]
    fixed = lax.stop_gradient(L)

    def times(x):
        return jnp.tril(L).T @ x if transposed else jnp.tril(L) @ x

    return lax.custom_linear_solve(
        times,
        b,
        solve=lambda _, b: _substituted(fixed, b, "lower", transposed),
        transpose_solve=lambda _, b: _substituted(fixed, b, "lower", not transposed),
    )


def solve_cholesky(L: Array, b: Array) -> Array:
    """x with L L^T x = b.

    Args:
        L: (n, n), as `cholesky` returns it.
        b: (n,) or (n, k).

    Example:
        >>> jax.jit(solve_cholesky)(jnp.array([[2.0, 0.0], [1.0, 3.0]]), jnp.array([6.0, 12.0])).tolist()
        [1.0, 1.0]
    """
    return solve_lower(L, solve_lower(L, b), transposed=True)


def solve_positive(A: Array, b: Array) -> Array:
    """x with A x = b, by a Cholesky factor; its derivative does not go through the factor.

    Args:
        A: (n, n), symmetric and positive definite.
        b: (n,) or (n, k).

    Example:
        >>> jax.jit(solve_positive)(jnp.array([[4.0, 2.0], [2.0, 10.0]]), jnp.array([6.0, 12.0])).tolist()
        [1.0, 1.0]
    """
    L = cholesky(lax.stop_gradient(A))
    return lax.custom_linear_solve(lambda x: A @ x, b, solve=lambda _, b: solve_cholesky(L, b), symmetric=True)


class LU(NamedTuple):
    """A square matrix, factored: A[order] = L U.

    Attributes:
        matrix: (n, n) A.
        factors: (n, n) U, and below its diagonal L without its diagonal of ones.
        swaps: (n,) with which row each has changed its place, one after the other.
        order: (n,) the rows' order that comes of it.

    Example:
        >>> solve = jax.jit(lambda A, b: LU.of(A).solve(b))
        >>> solve(jnp.array([[0.0, 2.0], [4.0, 0.0]]), jnp.array([2.0, 4.0])).tolist()
        [1.0, 1.0]
    """

    matrix: Array
    factors: Array
    swaps: Array
    order: Array

    @classmethod
    def of(cls, A: Array) -> LU:
        """Factor A (n, n). No derivative is taken of the factors: `solve` has its own."""
        fixed = lax.stop_gradient(A)
        none = jnp.zeros(1, jnp.int32)
        factors, swaps = (fixed, none) if A.size == 1 else _lu(fixed)
        return cls(A, factors, swaps, lax.linalg.lu_pivots_to_permutation(swaps, A.shape[0]))

    def sign(self) -> Array:
        """() the sign of the determinant."""
        odd = jnp.sum(self.swaps != jnp.arange(self.swaps.size)) % 2 == 1
        return jnp.prod(jnp.sign(jnp.diagonal(self.factors))) * jnp.where(odd, -1, 1)

    def solve(self, b: Array) -> Array:
        """x with A x = b, for b (n,) or (n, k); not finite where A is singular."""
        if self.matrix.size == 1:
            return b / self.matrix[0, 0]

        def forward(_, b):
            return _substituted(self.factors, _substituted(self.factors, b[self.order], "unit", False), "upper", False)

        def backward(_, b):
            x = _substituted(self.factors, _substituted(self.factors, b, "upper", True), "unit", True)
            return jnp.zeros_like(x).at[self.order].set(x, unique_indices=True)

        return lax.custom_linear_solve(lambda x: self.matrix @ x, b, solve=forward, transpose_solve=backward)


def solve(A: Array, b: Array) -> Array:
    """x with A x = b; not finite where A is singular.

    Args:
        A: (n, n).
        b: (n,) or (n, k).

    Example:
        >>> jax.jit(solve)(jnp.array([[0.0, 2.0], [4.0, 0.0]]), jnp.array([2.0, 4.0])).tolist()
        [1.0, 1.0]
    """
    return LU.of(A).solve(b)


def svd(A: Array) -> tuple[Array, Array, Array]:
    """U, s, V^T with A = U diag(s) V^T, s falling; without a derivative.

    Args:
        A: (m, n). U is (m, m), V^T (n, n).

    Example:
        >>> svd(jnp.array([[1.0, 0.0], [0.0, 3.0]]))[1].tolist()
        [3.0, 1.0]
    """
    return _svd(lax.stop_gradient(A))


def _in_lanes(function, cost):
    """`function`, of arrays that all have the same leading axes for lanes; under vmap they get one more.

    Args:
        function: of arrays (..., m, n).
        cost: from the shapes (m, n) to the work that LAPACK takes one lane for; no less than jaxlib counts.
    """

    @jax.custom_batching.custom_vmap
    def called(*arrays):
        lanes, most = arrays[0].shape[:-2], side_by_side().factored
        work = cost(*(x.shape[-2:] for x in arrays))
        if not lanes or most is None or prod(lanes) * work < most:
            return function(*arrays)
        count = prod(lanes)
        size = _part(count, max(1, (most - 1) // work))
        flat = [x.reshape(-1, *x.shape[-2:]) for x in arrays]
        if count <= _PARTS * size:
            parts = [function(*(x[first : first + size] for x in flat)) for first in range(0, count, size)]
            found = jax.tree.map(lambda *some: jnp.concatenate(some), *parts)
        else:
            # Column by column, as LAPACK has them, so that no part is copied.
            def one(some):
                return jax.tree.map(jnp.transpose, function(*map(jnp.transpose, some)))

            found = lax.map(one, [x.mT for x in flat], batch_size=size)
            found = jax.tree.map(lambda x: jax.vmap(jnp.transpose)(x), found)
        return jax.tree.map(lambda x: x.reshape(*lanes, *x.shape[1:]), found)

    @called.def_vmap
    def more_lanes(axis_size, in_batched, *arrays):
        arrays = [
            x if lanes else jnp.broadcast_to(x, (axis_size, *x.shape))
            for x, lanes in zip(arrays, in_batched, strict=True)
        ]
        found = called(*arrays)
        return found, jax.tree.map(lambda _: True, found)

    return called


def _part(count, most):
    """How many of `count` to do at a time, `most` or fewer: so that none are left over, if that takes half of it."""
    whole = next(size for size in range(min(most, count), 0, -1) if count % size == 0)
    return whole if 2 * whole >= most else most


def _cubed(shape, *_):
    return prod(shape) * min(shape)


_cholesky = _in_lanes(lambda A: lax.linalg.cholesky(A, symmetrize_input=False), _cubed)
_lu = _in_lanes(lambda A: tuple(lax.linalg.lu(A)[:2]), _cubed)
# jaxlib counts a multiple of the cube, and one lane at a time is never dealt out.
_svd = _in_lanes(lambda A: tuple(jnp.linalg.svd(A)), lambda shape: 1_000_000 * prod(shape))


def _substituted(T, b, kind, transposed):
    """x with T x = b, T's triangle of that kind, or its transpose."""
    if T.shape[0] <= _WRITTEN_OUT:
        T, order = T.T if transposed else T, range(T.shape[0])
        x: dict[int, Array] = {}
        for i in order if (kind == "upper") == transposed else reversed(order):
            left = b[i] - sum((T[i, j] * done for j, done in x.items()), jnp.zeros_like(b[i]))
            x[i] = left if kind == "unit" else left / T[i, i]
        return jnp.stack([x[i] for i in order])
    if b.ndim == 1:
        return _substitution(kind, transposed)(T, b[:, None])[:, 0]
    return _substitution(kind, transposed)(T, b)


@cache
def _substitution(kind, transposed):
    solve = partial(
        lax.linalg.triangular_solve,
        left_side=True,
        lower=kind != "upper",
        transpose_a=transposed,
        unit_diagonal=kind == "unit",
    )
    in_lanes = _in_lanes(solve, lambda _, b: b[0] * b[0] * b[1])

    @jax.custom_batching.custom_vmap
    def called(T, b):
        return in_lanes(T, b)

    @called.def_vmap
    def more_lanes(axis_size, in_batched, T, b):
        if in_batched[0]:
            return jax.vmap(in_lanes, (0, 0 if in_batched[1] else None))(T, b), True
        # Lanes that share a factor are columns of one system.
        columns = jnp.moveaxis(b, 0, -1)
        x = called(T, columns.reshape(*columns.shape[:-2], -1))
        return jnp.moveaxis(x.reshape(columns.shape), -1, 0), True

    return called
