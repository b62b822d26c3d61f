"""List the contacts that may close within a step, in a fixed number of places."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
from jax import Array

from diffcontact.qp.rows import NONE
from diffcontact.system import taken


@partial(jax.tree_util.register_dataclass, data_fields=["numbers", "full"], meta_fields=["count", "fixed", "walls"])
@dataclass(frozen=True)
class NeighbourList:
    """Hold contacts between the surfaces of balls, by the numbers of `Surfaces`.

    Attributes:
        numbers: (c,) increasing: first * (count + fixed + walls) + partner, lower first; the largest integer if free.
        full: () whether there were more contacts than places.
        count, fixed, walls: of balls, of fixed balls, of sides and planes, static.
    """

    numbers: Array
    full: Array
    count: int
    fixed: int
    walls: int

    @property
    def taken(self) -> Array:
        """Tell whether there is a contact in a place (c,)."""
        return taken(self.numbers)

    @property
    def first(self) -> Array:
        """Return the ball i (c,), 0 in a free place."""
        return jnp.where(self.taken, self.numbers // (self.count + self.fixed + self.walls), 0)

    @property
    def partner(self) -> Array:
        """Return the surface that ball i meets (c,), 0 in a free place."""
        return jnp.where(self.taken, self.numbers % (self.count + self.fixed + self.walls), 0)

    @property
    def surfaces(self) -> tuple[Array, Array]:
        """Return ball i and the surface that it meets (c,), NONE in free places."""
        return jnp.where(self.taken, self.first, NONE), jnp.where(self.taken, self.partner, NONE)

    @property
    def second(self) -> Array:
        """Return the ball j (c,), NONE where the partner is fixed or the place free."""
        return jnp.where(self.taken & (self.partner < self.count), self.partner, NONE)

    @property
    def wall(self) -> Array:
        """Return the wall that ball i meets (c,), or NONE."""
        wall = self.partner - self.count - self.fixed
        return jnp.where(self.taken & (wall >= 0), wall, NONE)
