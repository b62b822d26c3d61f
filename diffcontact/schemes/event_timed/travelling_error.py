"""An error that travels with the motion: what each step loses, carried on by the derivative of the steps behind it.

    err' = (derivative of the step) err + defect,      defect = 2^p / (2^p - 1) (two half steps - one step)

with p the order. So the estimate knows how much impacts, which may multiply an error by ten each, make of what was lost
before. A step that decides otherwise than its halves (an impact that one of them misses) has a defect as large as that.

Source: Richardson's extrapolation; E. Hairer, S. P. Norsett, G. Wanner, Solving Ordinary Differential Equations I,
section II.4.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
from jax import Array, lax


@partial(jax.tree_util.register_dataclass, data_fields=["error", "way", "coarse"], meta_fields=[])
@dataclass(frozen=True)
class Estimate:
    """The estimated errors of q and u (n + d,), the way that each has come (n + d,), and whether an error was ever more
    than the share `MOST` of its way ()."""

    error: Array
    way: Array
    coarse: Array

    @classmethod
    def begin(cls, q: Array, u: Array) -> Estimate:
        """At rest or not, nothing is lost yet."""
        none = jnp.zeros(q.size + u.size, q.dtype)
        return cls(none, none, jnp.array(False))

    def after(self, q: Array, u: Array, x: Array, w: Array, error: Array) -> Estimate:
        """A step from (q, u) to (x, w) later."""
        way = self.way + jnp.abs(jnp.concatenate([x - q, w - u]))
        # Of a coordinate that hardly moves beside the others rounding is not looked at.
        least = jnp.finfo(q.dtype).eps ** 0.5 * jnp.max(way, initial=0.0)
        coarse = self.coarse | jnp.any((jnp.abs(error) > MOST * way) & (way > least))
        return Estimate(*lax.stop_gradient((error, way, coarse)))


MOST = 1 / 32


def estimated(run: Callable, order: int, t, h, q: Array, u: Array, error: Array) -> Array:
    """(n + d,) the errors a step later.

    Args:
        run: (t, h, q, u) -> (q, u).
        order: of its error.
        error: (n + d,) those of q and u.
    """
    q, u, error = lax.stop_gradient((q, u, error))
    errors = error[: q.size], error[q.size :]

    # One step, and two half steps: the same program, three times.
    def one(carry, at):
        number, start, length = at
        q0, u0 = jax.tree.map(lambda a, b: jnp.where(number == 2, b, a), (q, u), carry)
        end, moved = jax.jvp(lambda q, u: run(start, length, q, u), (q0, u0), errors)
        return end, (*end, *moved)

    at = jnp.arange(3), jnp.stack([t, t, t + h / 2]), jnp.stack([h, h / 2, h / 2])
    _, (x, w, dx, dw) = lax.scan(one, (q, u), at)
    share = 2**order / (2**order - 1)
    return jnp.concatenate([dx[0] + share * (x[2] - x[0]), dw[0] + share * (w[2] - w[0])])
