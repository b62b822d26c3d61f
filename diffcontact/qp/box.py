"""Solve strictly convex quadratic programs between bounds, as friction forces between -gamma nu and gamma nu."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.linalg import solve
from jax.typing import ArrayLike

from diffcontact.arguments import real_arrays, require_shapes
from diffcontact.numerics.batching import full_precision_matmul
from diffcontact.qp.working_set import find_working_set
from diffcontact.status import Status


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class BoxSolution:
    """Hold the minimiser of a box-constrained quadratic program.

    Args:
        x: (n,) within the bounds, exactly on those that are active.
        status: () int, a `diffcontact.status.Status`; 0 is fine.
    """

    x: jax.Array
    status: jax.Array


@full_precision_matmul
def box(A: ArrayLike, b: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> BoxSolution:
    """Minimise a strictly convex quadratic function between bounds.

        argmin_x 1/2 x^T A x + b^T x    subject to    lower <= x <= upper

    The minimiser is the projection of -A^-1 b onto the box in the metric A. The bounds that its working set names are
    held exactly, and the free components are solved for. Pure: jit, vmap, jvp and vjp in every argument.

    The derivative holds the working set fixed. At a tie, a component on its bound with a vanishing force, the component
    counts as held if and only if the working set names it. A component whose bounds are equal is always held.

    Args:
        A: (n, n) positive definite. Only its symmetric part counts.
        b: (n,).
        lower, upper: (n,), infinite where there is no bound, equal where the component is given.

    Returns:
        A BoxSolution. Where lower > upper the status is INFEASIBLE and the component is halfway between.

    Raises:
        ValueError: shapes that do not fit.

    Example:
        >>> import numpy as np
        >>> jax.jit(box)(np.eye(2), np.array([-3.0, 0.5]), -np.ones(2), np.ones(2)).x.tolist()
        [1.0, -0.5]
    """
    A, b, lower, upper = _checked(A, b, lower, upper)
    count = b.shape[0]
    if count == 0:
        return BoxSolution(x=b, status=jnp.asarray(int(Status.OK), jnp.int32))
    A = (A + A.T) / 2
    crossed = lower > upper
    middle = jnp.where(crossed, (jnp.where(crossed, lower, 0) + jnp.where(crossed, upper, 0)) / 2, 0)
    lower, upper = jnp.where(crossed, middle, lower), jnp.where(crossed, middle, upper)

    fixed, shift, *bounds = map(lax.stop_gradient, (A, b, lower, upper))
    rows = jnp.concatenate([jnp.eye(count, dtype=A.dtype), -jnp.eye(count, dtype=A.dtype)])
    start = -solve(fixed, shift, assume_a="pos")
    found = find_working_set(fixed, rows, jnp.concatenate([-bounds[0], bounds[1]]), start)
    low, high = found.working[:count], found.working[count:]
    # Where -A^-1 b already is what a component is given, the working set names neither of its bounds.
    given = (lower == upper) & jnp.isfinite(lower)
    low = low | (given & ~high)
    free = ~(low | high)
    bound = jnp.where(low, lower, jnp.where(high, upper, 0))
    # Held components solve x_i = bound_i; the free ones their rows of A x + b = 0.
    matrix = jnp.where(free[:, None] & free[None, :], A, jnp.eye(count, dtype=A.dtype))
    right = jnp.where(free, -b - A @ bound, bound)
    x = solve(matrix, right, assume_a="pos")
    x = x + solve(matrix, right - matrix @ x, assume_a="pos")
    x = jnp.where(free, x, bound)
    within = jnp.clip(lax.stop_gradient(x), lax.stop_gradient(lower), lax.stop_gradient(upper))
    checked = _checked_kkt(A, b, x - within, within, low & ~given, high & ~given, found.status)
    status = jnp.where(jnp.any(crossed), Status.INFEASIBLE, checked)
    return BoxSolution(x=x + (within - lax.stop_gradient(x)), status=status.astype(jnp.int32))


def _checked_kkt(A, b, excess, x, low, high, status):
    """Return ILL_CONDITIONED for wrong bounds: a force of the wrong sign, or one outside.

    `low` and `high` mark bounds that push in one direction only, not those of a component that is given.
    """
    force = A @ x + b
    scale = jnp.abs(A) @ jnp.abs(x) + jnp.abs(b)
    # Two thirds of the digits: far above rounding, far below an error that matters.
    loose = jnp.finfo(A.dtype).eps ** (2 / 3)
    wrong = (low & (force < -loose * scale)) | (high & (force > loose * scale))
    outside = jnp.abs(excess) > loose * scale / jnp.abs(jnp.diagonal(A))
    bad = jnp.any(wrong | outside | ~jnp.isfinite(x))
    return jnp.where((status == Status.OK) & bad, Status.ILL_CONDITIONED, status)


def _checked(A, b, lower, upper):
    A, b, lower, upper = real_arrays(A=A, b=b, lower=lower, upper=upper)
    if b.ndim != 1:
        raise ValueError(f"b has the shape {b.shape}; expected (n,)")
    count = b.shape[0]
    require_shapes(A=(A, (count, count), "a row and a column per entry of b"))
    require_shapes(**{name: (x, b.shape, "as b") for name, x in (("lower", lower), ("upper", upper))})
    return A, b, lower, upper
