"""A neighbour list: the contacts that may close within a step, in a fixed number of places."""

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
    """Contacts between the surfaces of balls, by the numbers that `Surfaces` gives them.

    Attributes:
        numbers: (c,) increasing: first * (count + fixed + walls) + partner, the numbers of the two surfaces, the lower
            one first; the largest integer where a place is free.
        full: () whether there were more contacts than places.
        count: of balls, static.
        fixed: of fixed balls, static.
        walls: of sides and planes, static.
    """

    numbers: Array
    full: Array
    count: int
    fixed: int
    walls: int

    @property
    def taken(self) -> Array:
        """(c,) bool, whether there is a contact in this place."""
        return taken(self.numbers)

    @property
    def first(self) -> Array:
        """(c,) the ball i, 0 in a free place."""
        return jnp.where(self.taken, self.numbers // (self.count + self.fixed + self.walls), 0)

    @property
    def partner(self) -> Array:
        """(c,) the surface that ball i meets, 0 in a free place."""
        return jnp.where(self.taken, self.numbers % (self.count + self.fixed + self.walls), 0)

    @property
    def surfaces(self) -> tuple[Array, Array]:
        """The numbers (c,) of ball i and of the surface that it meets, NONE in free places."""
        return jnp.where(self.taken, self.first, NONE), jnp.where(self.taken, self.partner, NONE)

    @property
    def second(self) -> Array:
        """(c,) the ball j, or NONE where the partner does not move by itself and in a free place."""
        return jnp.where(self.taken & (self.partner < self.count), self.partner, NONE)

    @property
    def wall(self) -> Array:
        """(c,) the wall that ball i meets, or NONE."""
        wall = self.partner - self.count - self.fixed
        return jnp.where(self.taken & (wall >= 0), wall, NONE)
