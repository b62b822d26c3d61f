"""Many balls: a System that finds out which contacts are near, instead of listing all pairs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial

import jax
import jax.numpy as jnp
from jax import Array, lax

from diffcontact.qp.rows.body_rows import BodyRows
from diffcontact.qp.rows.slots import NONE
from diffcontact.status import Status
from diffcontact.system import System
from diffcontact.systems.cell_list import near_pairs
from diffcontact.systems.surfaces import Balls, length


@partial(jax.tree_util.register_dataclass, data_fields=["number", "full"], meta_fields=["count", "fixed", "walls"])
@dataclass(frozen=True)
class Near:
    """The contacts that may close soon, in a fixed number of places.

    Attributes:
        number: (c,) increasing: first * (count + fixed + walls) + partner, the numbers of the two `Surfaces`, the
            lower one first; the largest integer where a place is free.
        full: () whether there were more than places.
        count: of balls, static.
        fixed: of fixed balls, static.
        walls: of sides and planes, static.
    """

    number: Array
    full: Array
    count: int
    fixed: int
    walls: int

    @property
    def taken(self) -> Array:
        """(c,) bool."""
        return self.number < jnp.iinfo(self.number.dtype).max

    @property
    def first(self) -> Array:
        """(c,) the ball i, 0 in a free place."""
        return jnp.where(self.taken, self.number // (self.count + self.fixed + self.walls), 0)

    @property
    def partner(self) -> Array:
        """(c,) what it meets, 0 in a free place."""
        return jnp.where(self.taken, self.number % (self.count + self.fixed + self.walls), 0)

    @property
    def second(self) -> Array:
        """(c,) the ball j, or NONE where the partner does not move by itself and in a free place."""
        return jnp.where(self.taken & (self.partner < self.count), self.partner, NONE)

    @property
    def wall(self) -> Array:
        """(c,) the wall, or NONE."""
        wall = self.partner - self.count - self.fixed
        return jnp.where(self.taken & (wall >= 0), wall, NONE)

    def carry_over(self, earlier: Near, values: Array) -> Array:
        """(c,) values that belong to the places of an earlier list, put where the same contacts are now; else zero."""
        place = jnp.minimum(jnp.searchsorted(earlier.number, self.number), earlier.number.size - 1)
        return jnp.where(self.taken & (earlier.number[place] == self.number), values[place], 0)


@dataclass(frozen=True)
class Crowd(Balls):
    """Balls with a cell list: what `balls(..., cell=...)` returns.

    It is the `System` of all contacts, for small counts, and brings `soon`, the contacts that may close within a step;
    the schemes use these. Places for them are limited, since shapes are static; `larger` has more.

    Args:
        surfaces: what may touch.
        cell: edge of the cells, at least the largest diameter [m].
        candidates: room for pairs of balls in neighbouring cells, per ball; None: what balls of about one size take
            that are packed.
        per_ball: places for contacts, per ball.
        stretch: how much faster than the fastest ball before a projection one may be after it.
    """

    cell: float = field(kw_only=True)
    candidates: int | None = field(default=None, kw_only=True)
    per_ball: int = field(default=8, kw_only=True)
    stretch: float = field(default=1.25, kw_only=True)

    @property
    def count(self) -> int:
        return self.surfaces.count

    @property
    def dimension(self) -> int:
        return self.surfaces.dimension

    @property
    def room(self) -> int:
        """For pairs of balls in neighbouring cells, per ball."""
        return 3 * 4 ** (self.dimension - 1) if self.candidates is None else self.candidates

    def larger(self, status=Status.NEIGHBOURS_FULL) -> Crowd:
        """The same balls with what was too small: places for twice as many, or, where NEIGHBOURS_MISSED, the reach.

        Not both at once: cells grow with the reach, and hold more.
        """
        if status == Status.NEIGHBOURS_MISSED:
            return replace(self, stretch=2 * self.stretch)
        return replace(self, candidates=2 * self.room, per_ball=2 * self.per_ball)

    def soon(self, params, t, h, q: Array, u: Array) -> tuple[Near, Array]:
        """The contacts that may close within h seconds, and () how far balls may move so that no other does [m].

        The way allowed is that of `stretch` times the fastest ball, with and without the force's change over the step,
        or of one that a moving wall or a growing ball has struck.
        """
        q, u, params = lax.stop_gradient((q, u, params))
        pushed = u + h * self.force(t, q, u, params) / self.mass(q, params)
        speeds = jnp.linalg.norm(jnp.stack([u, pushed]).reshape(-1, self.dimension), axis=1)
        closing = self.surfaces.closing(t, h, q, params)
        # A surface that comes at w throws off at 2 w what stood still, where e = 1. What is closed is near whatever its
        # rounding.
        rounding = 1e-3 * jnp.max(self.surfaces.radii(t, params, q.dtype)[: self.count])
        way = self.stretch * (h * jnp.max(speeds) + 2 * closing) + rounding / 2
        return self.near(params, t, q, 2 * way + closing), way

    def near(self, params, t, q: Array, reach) -> Near:
        """The contacts whose gap is below `reach` at (t, q)."""
        q, params, reach = lax.stop_gradient((q, params, reach))
        surfaces, spheres = self.surfaces, self.surfaces.spheres
        centre, radius = surfaces.centres(q, params), surfaces.radii(t, params, q.dtype)
        walls = surfaces.wall_gaps(t, q, params)
        sides = sum(gap.shape[1] for gap in walls)
        edge = jnp.maximum(self.cell, 2 * jnp.max(radius) + reach)
        first, second, close, full = near_pairs(centre, radius, reach, edge, self.room)
        wide = spheres + sides
        # The largest number stands for a free place.
        free = jnp.iinfo(jnp.zeros((), int).dtype).max
        if spheres * wide > free:
            raise ValueError(
                f"balls(count={self.count}, cell=...): more contacts than 32-bit integers can number; "
                "expected at most 46 000 balls, or jax_enable_x64"
            )
        # Two fixed balls are no contact.
        close = close & (jnp.minimum(first, second) < self.count)
        if walls:
            close = jnp.concatenate([close, (jnp.concatenate(walls, axis=1) < reach).ravel()])
        possible = self.count * (sides + surfaces.fixed) + self.count * (self.count - 1) // 2
        places = min(self.per_ball * self.count, possible)
        (at,) = jnp.nonzero(close, size=places, fill_value=close.size)
        # A last pair stands for contacts with walls: of one ball there is no other.
        pair, wall = jnp.minimum(at, first.size), at - first.size
        lower, upper = (jnp.pad(of(first, second), (0, 1))[pair].astype(int) for of in (jnp.minimum, jnp.maximum))
        if walls:
            lower = jnp.where(wall < 0, lower, wall // sides)
            upper = jnp.where(wall < 0, upper, spheres + wall % sides)
        found = jnp.sort(jnp.where(at < close.size, lower * wide + upper, free))
        return Near(found, full | (jnp.sum(close) > places), self.count, surfaces.fixed, sides)

    def gaps(self, near: Near, params, t, q: Array) -> Array:
        """(c,) gaps of the contacts [m]; +1 in free places, which no motion closes."""
        return self._measure(near, params, t, q)[0]

    def rows(self, near: Near, params, t, q: Array) -> tuple[Array, BodyRows]:
        """(c,) gaps [m] and their gradients as rows between bodies."""
        gap, direction = self._measure(near, params, t, q)
        bodies = jnp.stack([jnp.where(near.taken, near.first, NONE), near.second], axis=1)
        return gap, BodyRows(bodies, direction[:, None, :], self.count)

    def _measure(self, near: Near, params, t, q: Array):
        """Gaps (c,), and unit vectors (c, m) from the first body to the second, or to the wall."""
        surfaces = self.surfaces
        centre, radius = surfaces.centres(q, params), surfaces.radii(t, params, q.dtype)
        first, wall = near.first, near.wall
        pair = near.taken & (wall == NONE)
        second = jnp.where(pair, near.partner, 0)
        apart = jnp.where(pair[:, None], centre[second] - centre[first], 1.0)
        distance = length(apart)
        direction = apart / jnp.where(distance > 0, distance, 1.0)[:, None]
        gap = distance - radius[first] - radius[second]
        if near.walls:
            gaps = jnp.concatenate(surfaces.wall_gaps(t, q, params), axis=1)
            # An open side is at infinity and never near.
            gap = jnp.where(wall == NONE, gap, gaps[first, wall])
            facing = -surfaces.normals(t, params, q.dtype)[wall]
            direction = jnp.where((wall == NONE)[:, None], direction, facing)
        return jnp.where(near.taken, gap, 1.0), jnp.where(near.taken[:, None], direction, 0.0)

    def only(self, near: Near) -> System:
        """The System of these contacts alone, for schemes that know nothing of neighbours."""
        return System(
            gap=lambda t, q, params: self.gaps(near, params, t, q),
            force=self.force,
            mass=self.mass,
            restitution=lambda params: self.surfaces.restitution_between(params, near.first, near.partner),
        )

    def per_ball_impulse(self, near: Near, impulse: Array) -> Array:
        """(count,) sum of the impulses that each ball takes part in [N s]."""
        taken = jnp.where(near.taken, impulse, 0)
        nothing = jnp.zeros(self.count + 1, impulse.dtype)
        second = jnp.where(near.second == NONE, self.count, near.second)
        return (nothing.at[near.first].add(taken).at[second].add(taken))[: self.count]
