"""A working set from a guess, for instance the last step's: primal-dual active set, a few rounds, and verified."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax
from jax.scipy.linalg import cho_solve

from diffcontact.batching import any_lane

# Each round costs a Cholesky factor. A guess that is good converges in two or three of them.
ROUNDS = 5


def from_guess(A, w0, tolerance, guess, dependent_below):
    """The working set of  l >= 0,  w = A l + w0 >= 0,  l w = 0, if a guess is close to it.

    On the guessed rows A_WW l_W = -w0_W is solved for; rows that pull (l_i <= 0) leave, violated ones come in, and so
    on until nothing changes: then the optimality conditions hold. This may go round in circles, and dependent rows end
    it: it finds the solution or says that it did not.

    Args:
        A: (c, c) symmetric, positive semidefinite, unit diagonal.
        w0: (c,); +inf where a row is off.
        tolerance: (c,) >= 0, violations up to here are rounding.
        guess: (c,) bool.
        dependent_below: the squared sine of the angle below which a row depends on others.

    Returns:
        Whether it was found (), the working set (c,) bool and its multipliers (c,).

    Reference:
        M. Hintermueller, K. Ito, K. Kunisch, The primal-dual active set strategy as a semismooth Newton method,
        SIAM J. Optim. 13 (2003).

    Example:
        >>> A, w0 = jnp.array([[1.0, 0.5], [0.5, 1.0]]), jnp.array([-1.0, 2.0])
        >>> found, working, loads = from_guess(A, w0, jnp.zeros(2), jnp.array([True, True]), 1e-6)
        >>> bool(found), working.tolist(), abs(loads).tolist()
        (True, [True, False], [1.0, 0.0])
    """
    identity = jnp.eye(w0.shape[0], dtype=A.dtype)

    def solved(working):
        """The multipliers of the rows, NaN where these are dependent, and the rows that should hold instead."""
        lower = lax.linalg.cholesky(jnp.where(working[:, None] & working[None, :], A, identity), symmetrize_input=False)
        held = jnp.where(working, w0, 0)
        loads = -cho_solve((lower, True), held)
        # One step of refinement.
        loads = loads - cho_solve((lower, True), jnp.where(working, A @ loads + held, 0))
        # A factor that breaks down is NaN as a whole, and NaN is not above anything.
        loads = jnp.where(jnp.min(jnp.diagonal(lower)) ** 2 > dependent_below, loads, jnp.nan)
        return working, loads, jnp.where(working, ~(loads <= 0), w0 + A @ loads < -tolerance)

    def going(state):
        working, loads, wanted, _ = state
        return jnp.any(wanted != working) & jnp.all(jnp.isfinite(loads))

    def again(state):
        working, _, wanted, number = state
        return *solved(jnp.where(going(state), wanted, working)), number + 1

    start = *solved(guess & (w0 < jnp.inf)), 1
    state = lax.while_loop(lambda state: any_lane(going(state)) & (state[3] < ROUNDS), again, start)
    working, loads, wanted, _ = state
    return ~jnp.any(wanted != working) & jnp.all(jnp.isfinite(loads)), working, loads
