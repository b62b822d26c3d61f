"""Many balls: a System that finds out which contacts are near, instead of listing all pairs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from diffcontact.qp.bodies import BodyRows
from diffcontact.qp.slots import NONE
from diffcontact.system import System
from diffcontact.systems.cells import near_pairs


@partial(jax.tree_util.register_dataclass, data_fields=["number", "full"], meta_fields=["count", "sides"])
@dataclass(frozen=True)
class Near:
    """The contacts that may close soon, in a fixed number of places.

    Attributes:
        number: (c,) increasing: i * (count + sides) + j for the balls i < j, with j = count + side for a wall; the
            largest integer where a place is free.
        full: () whether there were more than places.
        count: of balls, static.
        sides: of the box, low ones before high ones, static.
    """

    number: Array
    full: Array
    count: int
    sides: int

    @property
    def taken(self) -> Array:
        """(c,) bool."""
        return self.number < jnp.iinfo(self.number.dtype).max

    @property
    def first(self) -> Array:
        """(c,) the ball i, 0 in a free place."""
        return jnp.where(self.taken, self.number // (self.count + self.sides), 0)

    @property
    def second(self) -> Array:
        """(c,) the ball j, or NONE at a wall or in a free place."""
        other = self.number % (self.count + self.sides)
        return jnp.where(self.taken & (other < self.count), other, NONE)

    @property
    def side(self) -> Array:
        """(c,) the wall, or NONE."""
        other = self.number % (self.count + self.sides)
        return jnp.where(self.taken & (other >= self.count), other - self.count, NONE)

    def carry_over(self, earlier: Near, values: Array) -> Array:
        """(c,) values that belong to the places of an earlier list, put where the same contacts are now; else zero."""
        place = jnp.minimum(jnp.searchsorted(earlier.number, self.number), earlier.number.size - 1)
        return jnp.where(self.taken & (earlier.number[place] == self.number), values[place], 0)


@dataclass(frozen=True)
class Crowd(System):
    """Balls with a cell list: what `balls(..., cell=...)` returns.

    It is the `System` of all pairs, for small counts, and brings `near`, the contacts that may close within a step;
    the schemes use these. Places for them are limited, since shapes are static; `larger` has twice as many.

    Args:
        count, dimension: as in `balls`.
        box: ((low, ...), (high, ...)) or None.
        cell: edge of the cells, at least the largest diameter [m].
        per_cell: balls of a cell that are looked at.
        per_ball: places for contacts, per ball.
        stretch: how much faster than the fastest ball before a projection one may be after it.
    """

    count: int = field(kw_only=True)
    dimension: int = field(kw_only=True)
    box: tuple | None = field(kw_only=True)
    cell: float = field(kw_only=True)
    per_cell: int = field(default=8, kw_only=True)
    per_ball: int = field(default=8, kw_only=True)
    stretch: float = field(default=1.25, kw_only=True)

    @property
    def sides(self) -> int:
        return 0 if self.box is None else 2 * self.dimension

    def larger(self) -> Crowd:
        """The same balls with places for twice as many, and with twice the reach."""
        return replace(self, per_cell=2 * self.per_cell, per_ball=2 * self.per_ball, stretch=2 * self.stretch)

    def reach(self, params, t, h, q: Array, u: Array) -> Array:
        """() surfaces that are further apart than this do not touch within h seconds, as long as nothing gets faster
        than `stretch` times the fastest ball, with and without the force's change over the step [m]."""
        q, u, params = lax.stop_gradient((q, u, params))
        pushed = u + h * self.force(t, q, u, params) / self.mass(q, params)
        speeds = jnp.linalg.norm(jnp.stack([u, pushed]).reshape(-1, self.dimension), axis=1)
        # What is closed is near whatever its rounding.
        return 2 * h * self.stretch * jnp.max(speeds) + 1e-3 * jnp.max(jnp.asarray(params["radius"], u.dtype))

    def near(self, params, q: Array, reach) -> Near:
        """The contacts whose gap is below `reach` at q."""
        radius = jnp.asarray(params["radius"], q.dtype)
        centre, radius, reach = lax.stop_gradient((q.reshape(self.count, self.dimension), radius, reach))
        edge = jnp.maximum(self.cell, 2 * jnp.max(radius) + reach)
        first, second, close, full = near_pairs(centre, radius, reach, edge, self.per_cell)
        wide = self.count + self.sides
        first, second = first.astype(int), second.astype(int)
        number = jnp.minimum(first, second) * wide + jnp.maximum(first, second)
        if self.count * wide > jnp.iinfo(number.dtype).max:
            raise ValueError(
                f"balls(count={self.count}, cell=...): more contacts than 32-bit integers can number; "
                "expected at most 46 000 balls, or jax_enable_x64"
            )
        if self.box is not None:
            low, high = (jnp.asarray(side, q.dtype)[None, :] for side in self.box)
            gaps = jnp.concatenate([centre - low, high - centre], axis=1) - radius[:, None]
            walls = jnp.arange(self.count)[:, None] * wide + self.count + jnp.arange(self.sides)[None, :]
            number = jnp.concatenate([number, walls], axis=1)
            close = jnp.concatenate([close, gaps < reach], axis=1)
        possible = self.count * self.sides + self.count * (self.count - 1) // 2
        places = min(self.per_ball * self.count, possible)
        free = jnp.iinfo(number.dtype).max
        (at,) = jnp.nonzero(close.ravel(), size=places, fill_value=close.size)
        found = jnp.sort(number.ravel().at[at].get(mode="fill", fill_value=free))
        return Near(found, full | (jnp.sum(close) > places), self.count, self.sides)

    def gaps(self, near: Near, params, q: Array) -> Array:
        """(c,) gaps of the contacts [m]; +1 in free places, which no motion closes."""
        return self._measure(near, params, q)[0]

    def rows(self, near: Near, params, q: Array) -> tuple[Array, BodyRows]:
        """(c,) gaps [m] and their gradients as rows between bodies."""
        gap, direction = self._measure(near, params, q)
        bodies = jnp.stack([jnp.where(near.taken, near.first, NONE), near.second], axis=1)
        return gap, BodyRows(bodies, jnp.stack([-direction, direction], axis=1), self.count)

    def _measure(self, near: Near, params, q: Array):
        """Gaps (c,), and unit vectors (c, m) from the first body to the second, or to the wall."""
        centre = q.reshape(self.count, self.dimension)
        radius = jnp.asarray(params["radius"], q.dtype)
        first, second = near.first, near.second
        pair = second != NONE
        apart = jnp.where(pair[:, None], centre[second] - centre[first], 1.0)
        # The norm has no derivative where two centres coincide; keep its gradient finite there.
        squared = jnp.sum(apart**2, axis=1)
        distance = jnp.where(squared > 0, jnp.sqrt(jnp.where(squared > 0, squared, 1.0)), 0.0)
        direction = apart / jnp.where(distance > 0, distance, 1.0)[:, None]
        gap = distance - radius[first] - radius[second]
        if self.box is not None:
            sides = np.stack([np.asarray(side) for side in self.box]).ravel()
            axis, high = near.side % self.dimension, near.side >= self.dimension
            outward = jnp.where(high, 1.0, -1.0).astype(q.dtype)
            # An open side is at infinity and never near.
            place = jnp.asarray(np.where(np.isfinite(sides), sides, 0.0), q.dtype)[near.side]
            wall = near.side != NONE
            there = jnp.take_along_axis(centre[first], axis[:, None], axis=1)[:, 0]
            gap = jnp.where(wall, outward * (place - there) - radius[first], gap)
            facing = outward[:, None] * (jnp.arange(self.dimension)[None, :] == axis[:, None])
            direction = jnp.where(wall[:, None], facing, direction)
        return jnp.where(near.taken, gap, 1.0), jnp.where(near.taken[:, None], direction, 0.0)

    def only(self, near: Near) -> System:
        """The System of these contacts alone, for schemes that know nothing of neighbours."""
        return System(
            gap=lambda t, q, params: self.gaps(near, params, q),
            force=self.force,
            mass=self.mass,
            restitution=self.restitution,
        )

    def per_ball_impulse(self, near: Near, impulse: Array) -> Array:
        """(count,) sum of the impulses that each ball takes part in [N s]."""
        taken = jnp.where(near.taken, impulse, 0)
        nothing = jnp.zeros(self.count + 1, impulse.dtype)
        second = jnp.where(near.second == NONE, self.count, near.second)
        return (nothing.at[near.first].add(taken).at[second].add(taken))[: self.count]
