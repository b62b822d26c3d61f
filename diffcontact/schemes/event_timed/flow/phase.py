"""What a phase of an impact is: where it starts, what it has come to, and what ends it."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from diffcontact.numerics.linear import nonzero

# What ends a phase: the approach is over, the normal impulse or the work of the normal force has reached its target.
APPROACH, IMPULSE, WORK = range(3)


class Contact(NamedTuple):
    """The contact that is struck.

    Attributes:
        W: (1 + k, 1 + k) what impulses (P, B) change its velocity (v_N, v_T) by, the normal direction first [1/kg].
        friction: () mu.
    """

    W: Array
    friction: Array

    def sliding(self, direction: Array) -> Array:
        """(1 + k,) impulse per unit of normal impulse where the contact slides in this direction (k,)."""
        return jnp.concatenate([jnp.ones_like(direction[:1]), -self.friction * direction])


class Reached(NamedTuple):
    """What a phase has come to.

    Attributes:
        r: (1 + k,) impulse (P, B) since the phase has begun [N s].
        w: (1 + k,) velocity (v_N, v_T) [m/s].
        work: () of the normal force since the phase has begun, the integral of v_N dP [J].
    """

    r: Array
    w: Array
    work: Array

    @classmethod
    def start(cls, w: Array) -> Reached:
        """The beginning of a phase."""
        return cls(jnp.zeros_like(w), w, jnp.zeros_like(w[0]))


class Goal(NamedTuple):
    """What ends a phase: its kind, and the normal impulse or the work that it ends with."""

    kind: Array
    target: Array

    def value(self, at: Reached) -> Array:
        """() negative until the phase is over, and zero where it is."""
        return jnp.stack([at.w[0], at.r[0] - self.target, at.work - self.target])[self.kind]

    def rate(self, at: Reached, rising: Array) -> Array:
        """() of the value, over the normal impulse; `rising`, () that of v_N."""
        return jnp.stack([rising, jnp.ones_like(rising), at.w[0]])[self.kind]

    def on_line(self, at: Reached, rising: Array) -> tuple[Array, Array]:
        """The normal impulse from here to the goal where v_N rises at a constant rate, and whether it is ever reached.

        The smaller root of v dP + rising dP^2 / 2 = what is left of the work, in the form that does not cancel.
        """
        v, left = at.w[0], self.target - at.work
        upwards = rising > 0
        square = v**2 + 2 * rising * left
        root = jnp.sqrt(nonzero(square))
        worked = (square > 0) & (v + root > 0)
        steps = (
            -v / jnp.where(upwards, rising, 1.0),
            self.target - at.r[0],
            2 * left / jnp.where(worked, v + root, 1.0),
        )
        return jnp.stack(steps)[self.kind], jnp.stack([upwards, upwards | True, worked])[self.kind]
