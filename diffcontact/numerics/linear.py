"""Factor small dense systems and solve with the factors, for one system or for all lanes of a batch.

The factors are LAPACK's. A batch goes there as one call. A CPU of jaxlib 0.10 deals a long batch out to its threads and
waits for them, on one of these threads: as many such calls at once as there are threads all wait for ever. So a batch
goes there in parts that are not dealt out; `numerics.batching` says how long they may be.

OpenBLAS's threads wait for each other, too, many times in one factorization: with another process on the same cores a
matrix of 192 rows takes 140 ms in place of 0.4. So matrices of middle size are factored in parts that one thread does.
"""

from __future__ import annotations

from functools import cache, partial
from math import prod
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from diffcontact.numerics.batching import custom_jvp_all_orders, in_lanes, side_by_side

# Rows up to which a triangle is written out. In a batch LAPACK takes four to eight times as long for each triangle.
_WRITTEN_OUT = 3
# Rows of the largest matrix that is factored in parts: more make a long program, and waits are little of their work.
_MIDDLE = 1024
# Parts that a loop takes in turns.
_TURNS = 8
# Rows of a triangle that is inverted where it has many right-hand sides: LAPACK does this on the calling thread.
_TRIANGLE = 31
# Parts up to which a batch is written out, too: a loop would copy each part out of the batch and back.
_PARTS = 4


@custom_jvp_all_orders
def cholesky(A: Array) -> Array:
    """Return L (n, n) of A = L L^T; NaN where there is none.

    The upper triangle of A is not read.
    """
    if A.shape[0] > _WRITTEN_OUT:
        return _cholesky_in_parts(A) if _in_parts(A.shape[0]) else _cholesky(A)
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
    """Solve L x = b, or `transposed` L^T x = b.

    b is (n,) or (n, k). Only the lower triangle of L is read.
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
    """Solve L L^T x = b for b (n,) or (n, k)."""
    return solve_lower(L, solve_lower(L, b), transposed=True)


def solve_positive(A: Array, b: Array) -> Array:
    """Solve A x = b for a positive A, with a derivative without factors."""
    L = cholesky(lax.stop_gradient(A))
    return lax.custom_linear_solve(lambda x: A @ x, b, solve=lambda _, b: solve_cholesky(L, b), symmetric=True)


class LU(NamedTuple):
    """Hold a factored square matrix, A[order] = L U.

    Attributes:
        matrix: (n, n) A.
        factors: (n, n) U, and below its diagonal L without its diagonal of ones.
        swaps: (n,) with which row each has changed its place, one after the other.
        order: (n,) the resulting order of the rows.
    """

    matrix: Array
    factors: Array
    swaps: Array
    order: Array

    @classmethod
    def of(cls, A: Array) -> LU:
        """Factor A (n, n), without a derivative: `solve` has its own."""
        fixed = lax.stop_gradient(A)
        if _in_parts(A.shape[0]):
            return cls(A, *_lu_in_parts(fixed))
        none = jnp.zeros(1, jnp.int32)
        factors, swaps = (fixed, none) if A.size == 1 else _lu(fixed)
        return cls(A, factors, swaps, lax.linalg.lu_pivots_to_permutation(swaps, A.shape[0]))

    def sign(self) -> Array:
        """Return the sign of the determinant ()."""
        odd = jnp.sum(self.swaps != jnp.arange(self.swaps.size)) % 2 == 1
        return jnp.prod(jnp.sign(jnp.diagonal(self.factors))) * jnp.where(odd, -1, 1)

    def solve(self, b: Array) -> Array:
        """Solve A x = b; not finite where A is singular."""
        if self.matrix.size == 1:
            return b / self.matrix[0, 0]

        def forward(_, b):
            return _substituted(self.factors, _substituted(self.factors, b[self.order], "unit", False), "upper", False)

        def backward(_, b):
            x = _substituted(self.factors, _substituted(self.factors, b, "upper", True), "unit", True)
            return jnp.zeros_like(x).at[self.order].set(x, unique_indices=True)

        return lax.custom_linear_solve(lambda x: self.matrix @ x, b, solve=forward, transpose_solve=backward)


def solve(A: Array, b: Array) -> Array:
    """Solve A x = b; not finite where A is singular."""
    return LU.of(A).solve(b)


def svd(A: Array) -> tuple[Array, Array, Array]:
    """Factor A = U diag(s) V^T, s falling, without a derivative."""
    return _svd(lax.stop_gradient(A))


def _in_lanes(function, cost):
    """Batch `function`, of arrays (..., m, n) with common leading axes; vmap adds one.

    `cost` maps (m, n) to the work of one lane for LAPACK; no less than jaxlib counts.
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
    """Choose a part of `count` up to `most`, without a rest if half suffices."""
    whole = next(size for size in range(min(most, count), 0, -1) if count % size == 0)
    return whole if 2 * whole >= most else most


def _cubed(shape, *_):
    return prod(shape) * min(shape)


_cholesky = _in_lanes(lambda A: lax.linalg.cholesky(A, symmetrize_input=False), _cubed)
_lu = _in_lanes(lambda A: tuple(lax.linalg.lu(A)[:2]), _cubed)
# jaxlib counts a multiple of the cube, and one lane at a time is never dealt out.
_svd = _in_lanes(lambda A: tuple(jnp.linalg.svd(A)), lambda shape: 1_000_000 * prod(shape))


def _in_parts(count):
    panel = side_by_side().panel
    return panel is not None and count * count > panel and count <= _MIDDLE


def _lu_in_parts(A):
    """Factor A (m, n), m >= n, as LAPACK does, half of its columns after the other: factors, swaps (n,), order (m,)."""
    count, size = A.shape
    fits = max(1, (side_by_side().panel or 1) // count)
    if size <= fits:
        factors, swaps = _lu(A)
        return factors, swaps, lax.linalg.lu_pivots_to_permutation(swaps, count)
    width = next(width for width in range(fits, 0, -1) if size % width == 0)
    if size <= _TURNS * width:
        return _lu_in_turns(A, width)
    half = size // 2
    left, swaps, order = _lu_in_parts(A[:, :half])
    right = A[:, half:][order]
    top = _substituted_in_parts(left[:half], right[:half], "unit", False)
    rest, more, then = _lu_in_parts(right[half:] - left[half:] @ top)
    lower = jnp.concatenate([left[half:][then], rest], axis=1)
    factors = jnp.concatenate([jnp.concatenate([left[:half], top], axis=1), lower])
    return factors, jnp.concatenate([swaps, more + half]), jnp.concatenate([order[:half], order[half:][then]])


def _lu_in_turns(A, width):
    """Factor A (m, n), n / width columns after the other in a loop: a short program."""
    count, size = A.shape
    rows, columns = jnp.arange(count), jnp.arange(size)

    def turn(number, state):
        A, swaps, order = state
        first = number * width
        panel = lax.dynamic_slice(A, (0, first), (count, width))
        # Rows above are zero and come last: no pivot is there.
        factors, own = _lu(jnp.roll(jnp.where(rows[:, None] >= first, panel, 0), -first, axis=0))
        then = (jnp.roll(lax.linalg.lu_pivots_to_permutation(own, count), first) + first) % count
        panel = jnp.where(rows[:, None] >= first, jnp.roll(factors, first, axis=0), panel)
        A = A[then]
        across = lax.dynamic_slice(A, (first, 0), (width, size))
        later = (columns >= first + width)[None]
        corner = lax.dynamic_slice(panel, (first, 0), (width, width))
        top = jnp.where(later, _substituted_in_parts(corner, across, "unit", False), 0)
        A = A - jnp.where(rows[:, None] >= first + width, panel, 0) @ top
        A = lax.dynamic_update_slice(A, jnp.where(later, top, across), (first, 0))
        A = lax.dynamic_update_slice(A, panel, (0, first))
        return A, lax.dynamic_update_slice(swaps, own + first, (first,)), order[then]

    start = A, jnp.zeros(size, jnp.int32), jnp.arange(count, dtype=jnp.int32)
    return lax.fori_loop(0, size // width, turn, in_lanes(start, A))


def _cholesky_in_parts(A):
    count = A.shape[0]
    width, rows = _width(count), jnp.arange(count)

    def turn(number, L):
        first = number * width
        left = lax.dynamic_slice(A, (0, first), (count, width)) - L @ lax.dynamic_slice(L, (first, 0), (width, count)).T
        corner = _cholesky(lax.dynamic_slice(left, (first, 0), (width, width)))
        inverse = _substituted(corner, jnp.eye(width, dtype=A.dtype), "lower", False)
        column = jnp.where(rows[:, None] >= first + width, left @ inverse.T, 0)
        column = lax.dynamic_update_slice(column, corner, (first, 0))
        return lax.dynamic_update_slice(L, column, (0, first))

    return lax.fori_loop(0, count // width, turn, in_lanes(jnp.zeros_like(A), A))


def _substituted_in_parts(T, b, kind, transposed):
    """Solve T x = b (n, k), or T^T x = b, by products with the inverses of small triangles."""
    count, backwards = T.shape[0], (kind == "upper") != transposed
    width, rows = _width(count), jnp.arange(count)
    T = T.T if transposed else T
    T = jnp.where(rows[:, None] <= rows[None] if backwards else rows[:, None] >= rows[None], T, 0)
    T = jnp.where(rows[:, None] == rows[None], 1, T) if kind == "unit" else T
    unit = jnp.eye(width, dtype=T.dtype)

    def turn(number, x):
        first = (count // width - 1 - number if backwards else number) * width
        across = lax.dynamic_slice(T, (first, 0), (width, count))
        corner = lax.dynamic_slice(across, (0, first), (width, width))
        inverse = _substituted(corner, unit, "upper" if backwards else "lower", False)
        own = inverse @ (lax.dynamic_slice(b, (first, 0), (width, b.shape[1])) - across @ x)
        return lax.dynamic_update_slice(x, own, (first, 0))

    return lax.fori_loop(0, count // width, turn, in_lanes(jnp.zeros_like(b), (T, b)))


def _width(count):
    return next(width for width in range(min(count, _TRIANGLE), 0, -1) if count % width == 0)


def _substituted(T, b, kind, transposed):
    """Solve T x = b, or T^T x = b, for a triangular T."""
    if T.shape[0] <= _WRITTEN_OUT:
        T, order = T.T if transposed else T, range(T.shape[0])
        x: dict[int, Array] = {}
        for i in order if (kind == "upper") == transposed else reversed(order):
            left = b[i] - sum((T[i, j] * done for j, done in x.items()), jnp.zeros_like(b[i]))
            x[i] = left if kind == "unit" else left / T[i, i]
        return jnp.stack([x[i] for i in order])
    if b.ndim == 1:
        return _substitution(kind, transposed)(T, b[:, None])[:, 0]
    if b.shape[1] > _TRIANGLE < T.shape[0] and _in_parts(T.shape[0]):
        return _substituted_in_parts(T, b, kind, transposed)
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


def nonzero(x: ArrayLike) -> Array:
    """Return x where it is positive, else 1: a divisor."""
    return jnp.where(jnp.asarray(x) > 0, x, 1)


def length(x):
    """Return |x| along the last axis, differentiable at zero."""
    square = jnp.sum(x * x, axis=-1)
    zero = square == 0
    return jnp.where(zero, 0, jnp.sqrt(jnp.where(zero, 1, square)))


# A mass is a vector of masses (d,), or a symmetric positive definite matrix (d, d) [kg]. Of a full matrix only the
# symmetric part counts, so that its derivative is symmetric, too. Vectors are (d,), or columns (d, k).


def apply_mass(mass, x):
    """Return M x."""
    return _scaled(mass, x) if mass.ndim == 1 else _symmetric(mass) @ x


def solve_mass(mass, x):
    """Return M^-1 x; the derivative does not go through the Cholesky factor."""
    return _scaled(1 / mass, x) if mass.ndim == 1 else solve_positive(_symmetric(mass), x)


def root_of_mass(mass):
    """Return L with M = L L^T: square roots, or the lower Cholesky factor."""
    return jnp.sqrt(mass) if mass.ndim == 1 else cholesky(_symmetric(mass))


def whiten(root_of_mass, x):
    """Return L^-1 x: its length is that of x in M^-1."""
    if root_of_mass.ndim == 1:
        return _scaled(1 / root_of_mass, x)
    return solve_lower(root_of_mass, x)


def unwhiten(root_of_mass, x):
    """Return L^-T x, so that unwhiten(L, whiten(L, x)) = M^-1 x."""
    if root_of_mass.ndim == 1:
        return _scaled(1 / root_of_mass, x)
    return solve_lower(root_of_mass, x, transposed=True)


def _symmetric(mass):
    return (mass + mass.T) / 2


def _scaled(diagonal, x):
    return (diagonal if x.ndim == 1 else diagonal[:, None]) * x
