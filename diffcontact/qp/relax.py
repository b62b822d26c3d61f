"""The least violation of rows that contradict each other."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax
from jax.scipy.linalg import cho_solve

# A full Newton step that leaves the set of violated rows as it is has arrived; a dozen are enough in practice.
LIMIT = 60


def least_violation(columns, w0, on):
    """How far each row has to give way: r >= 0 of least sum of squares such that  w0 + Y^T z + r >= 0  for some z.

    Of all such z the one nearest to the origin is meant; it is found to half the digits as the minimum of the penalty

        1/2 |z|^2 + 1/(2 eps') sum_i min(0, w0_i + Y_i z)^2

    by Newton's method on a piecewise quadratic function, which ends after finitely many steps.

    Args:
        columns: (d, c) Y, the rows in coordinates z in which the metric is the identity.
        w0: (c,) values at z = 0.
        on: (c,) bool, rows to look at.

    Returns:
        (c,) the violations r, zero where the row holds.

    Reference:
        O. L. Mangasarian, A finite Newton method for classification, Optimization Methods and Software 17 (2002).
    """
    dimension = columns.shape[0]
    largest = jnp.max(jnp.where(on, jnp.sum(columns * columns, axis=0), 0))
    eps = jnp.finfo(columns.dtype).eps
    weight = 1 / (jnp.sqrt(eps) * jnp.where(largest > 0, largest, 1))
    steps = 2.0 ** -jnp.arange(12, dtype=columns.dtype)

    def negative(z):
        return jnp.where(on, jnp.minimum(w0 + z @ columns, 0), 0)

    def newton(carry):
        z, violated, _, number = carry
        below = negative(z)
        inside = columns * violated[None, :]
        hessian = jnp.eye(dimension, dtype=z.dtype) + weight * (inside @ inside.T)
        gradient = z + weight * (columns @ below)
        direction = -cho_solve((lax.linalg.cholesky(hessian), True), gradient)
        # The best of a few step lengths: along a line the function is convex, so that some of them descend.
        trial = z[None, :] + steps[:, None] * direction[None, :]
        short = jnp.where(on[None, :], jnp.minimum(w0[None, :] + trial @ columns, 0), 0)
        best = jnp.argmin(0.5 * jnp.sum(trial**2, axis=1) + 0.5 * weight * jnp.sum(short**2, axis=1))
        after = (short[best] < 0).astype(z.dtype)
        arrived = (best == 0) & jnp.all(after == violated)
        return trial[best], after, arrived, number + 1

    z = jnp.zeros(dimension, columns.dtype)
    start = (z, (negative(z) < 0).astype(z.dtype), jnp.asarray(False), jnp.zeros((), jnp.int32))
    z, *_ = lax.while_loop(lambda carry: ~carry[2] & (carry[3] < LIMIT), newton, start)
    return -negative(z)
