"""One coordinate among rows: the projection onto an interval, in closed form.

A ball above a floor has one coordinate. What the active-set method finds in loops is then the row that is violated
most, and a program that holds no loops compiles and runs faster.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from diffcontact.numerics.batching import any_lane, once

# So often is a bracket halved until a number of double precision is left.
HALVINGS = 64


def nearest_in_interval(direction, start, tolerance, rounding, weight):
    """The x nearest to 0 where sign_i x + start_i >= 0 for all rows, or the one that violates them least.

    Where rows contradict each other, x minimises sum_i weight_i min(sign_i x + start_i, 0)^2.

    Args:
        direction: (c,) whose signs are taken; 0 for a row that x does not move.
        start: (c,) values at x = 0; +inf switches a row off.
        tolerance: (c,) a row that is violated by less does not push.
        rounding: (c,) rows that are still violated by more at x contradict each other.
        weight: (c,) > 0.

    Returns:
        x, and (c,) bool: the row that pushes, none where x is 0.

    Example:
        >>> import jax, numpy as np
        >>> small, one, two_up_one_down = np.full(3, 1e-6), np.ones(3), np.array([1.0, 2.0, -1.0])
        >>> nearest = jax.jit(nearest_in_interval)
        >>> x, pushes = nearest(two_up_one_down, np.array([-1.0, -3.0, 4.0]), small, small, one)
        >>> x.item(), pushes.tolist()
        (3.0, [False, True, False])
        >>> x, _ = nearest(two_up_one_down, np.array([-1.0, -3.0, 1.0]), small, small, one)
        >>> x.item()
        2.0
    """
    sign = jnp.sign(direction)
    low = jnp.max(jnp.where(sign > 0, -start, -jnp.inf))
    high = jnp.min(jnp.where(sign < 0, start, jnp.inf))
    violated = (start < -tolerance) & (sign != 0)
    most = jnp.argmin(jnp.where(violated, start, jnp.inf))
    x = jnp.where(violated[most], -sign[most] * start[most], 0)
    contradiction = (low > high) & jnp.any(sign * x + start < -rounding)

    def least_violating():
        pull = weight * sign

        def halve(_, ends):
            middle = (ends[0] + ends[1]) / 2
            too_low = jnp.sum(pull * jnp.minimum(sign * middle + jnp.where(sign == 0, 0, start), 0)) < 0
            return jnp.where(too_low, middle, ends[0]), jnp.where(too_low, ends[1], middle)

        ends = lax.fori_loop(0, HALVINGS, once(halve), (high, low))
        return jnp.where(contradiction, (ends[0] + ends[1]) / 2, x)

    x = lax.cond(any_lane(contradiction), once(least_violating), lambda: x)
    pushing = jnp.where(violated & (sign * x > 0), start, jnp.inf)
    most = jnp.argmin(pushing)
    return x, (jnp.arange(start.size) == most) & (pushing[most] < 0)
