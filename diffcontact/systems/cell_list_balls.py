"""Find the contacts of balls that may close by a cell list, instead of listing all pairs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from diffcontact.inputs import core
from diffcontact.qp.rows import NONE, BodyRows
from diffcontact.status import Status, first
from diffcontact.system import System, approach, taken
from diffcontact.systems import laws
from diffcontact.systems.surfaces import Balls, rubbing
from diffcontact.systems.surroundings import unit

# Number of balls up to which all pairs are looked at: 50 balls take 21 us by pairs and 51 us by cells, 200 take 57 and
# 86 us, and 400 take 259 and 152 us.
ALL_PAIRS_UP_TO = 200
# Functions that the contacts of a list lack.
_REFUSED = ("adhesion", "rolling", "joint_slip")


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


@dataclass(frozen=True)
class CellListBalls(Balls):
    """Model balls with a cell list: `balls(..., cell=...)` returns it.

    As a `System` it has all contacts, for small counts. Its `neighbours` are the System of those that may close within
    a step, which is what schemes are given. Their places are limited, since shapes are static; `larger` has more.

    Args:
        surfaces, law: as of `Balls`.
        built: its functions by name. Those of contacts cannot be replaced: the contacts of a list have their own.
        cell: edge of the cells, at least the largest diameter [m].
        candidates: room for pairs in neighbouring cells, per ball; None: enough for packed balls of about one size.
        per_ball: places for contacts, per ball.
        stretch: how much faster than the fastest ball before a projection one may be after it.
    """

    built: Mapping[str, Callable] = field(kw_only=True, compare=False, repr=False)
    cell: float = field(kw_only=True)
    candidates: int | None = field(default=None, kw_only=True)
    per_ball: int = field(default=8, kw_only=True)
    stretch: float = field(default=1.25, kw_only=True)

    def __post_init__(self):
        super().__post_init__()
        for name in sorted({*self.built, *self.optional} - {"force", "mass", "draw", *_REFUSED}):
            if core(getattr(self, name)) is not self.built.get(name):
                raise ValueError(f"balls(cell=...): expected its own {name}, which the contacts of its list keep to")
        for name in _REFUSED:
            if getattr(self, name) is not None:
                raise ValueError(f"balls(cell=...): expected no {name}=... with it, which the contacts of a list lack")

    @property
    def count(self) -> int:
        return self.surfaces.count

    @property
    def dimension(self) -> int:
        return self.surfaces.dimension

    @property
    def room(self) -> int:
        """Return the room for pairs in neighbouring cells, per ball."""
        return 3 * 4 ** (self.dimension - 1) if self.candidates is None else self.candidates

    def coefficients(self, params, q):
        """Return the restitution, or the table of materials; never an array of all pairs."""
        if not self.speed_dependent:
            return params["restitution"]
        of_all = laws.restitution(self.law)
        return of_all(params, approach(jnp.zeros(jnp.shape(params["restitution"]), q.dtype)))

    def larger(self, status: Status = Status.NEIGHBOURS_FULL) -> CellListBalls | None:
        """Return the same balls with more places, or a longer reach; None for another status.

        Not both at once: cells grow with the reach, and hold more.
        """
        if status == Status.NEIGHBOURS_FULL:
            return replace(self, candidates=2 * self.room, per_ball=2 * self.per_ball)
        if status == Status.NEIGHBOURS_MISSED:
            return replace(self, stretch=2 * self.stretch)
        return None

    def neighbours(self, params, t, h, q: Array, u: Array) -> ListedContacts:
        """Return the System of the contacts that may close within h seconds.

        No other contact closes while no ball moves further than `stretch` times the fastest one. The fastest is
        taken with and without the force's change over the step, or as a moving wall or a growing ball would strike it.
        """
        way, closing = self._ways(params, t, h, q, u)
        return self.listed_contacts(self.within(params, t, q, 2 * way + closing), way)

    def _ways(self, params, t, h, q: Array, u: Array) -> tuple[Array, Array]:
        """Bound a ball's way within h seconds, and the closing of gaps at rest [m]."""
        q, u, params = lax.stop_gradient((q, u, params))
        pushed = u + h * self.force(t, q, u, params) / self.mass(q, params)
        speeds = jnp.linalg.norm(jnp.concatenate([self.surfaces.translation(v) for v in (u, pushed)]), axis=1)
        if self.surfaces.spin:
            # What turns sets in motion what it rubs on, and itself.
            turning = jnp.linalg.norm(u.reshape(self.count, -1)[:, self.dimension :], axis=1)
            speeds = jnp.max(speeds) + jnp.max(turning * self.surfaces.radii(t, params, q.dtype)[: self.count])
        closing = self.surfaces.closing(t, h, q, params)
        # A surface that comes at w throws off at 2 w what stood still, where e = 1. What is closed is listed whatever
        # its rounding.
        rounding = 1e-3 * jnp.max(self.surfaces.radii(t, params, q.dtype)[: self.count])
        return self.stretch * (h * jnp.max(speeds) + 2 * closing) + rounding / 2, closing

    def within(self, params, t, q: Array, reach) -> NeighbourList:
        """List the contacts whose gap is below `reach` at (t, q)."""
        q, params, reach = lax.stop_gradient((q, params, reach))
        surfaces, spheres = self.surfaces, self.surfaces.spheres
        centre, radius = surfaces.centres(q, params), surfaces.radii(t, params, q.dtype)
        walls = surfaces.wall_gaps(t, q, params)
        sides = sum(gap.shape[1] for gap in walls)
        edge = jnp.maximum(self.cell, 2 * jnp.max(radius) + reach)
        one, other, close, full = pairs_within(centre, radius, reach, edge, self.room)
        wide = spheres + sides
        # The largest number stands for a free place.
        free = jnp.iinfo(jnp.zeros((), int).dtype).max
        if spheres * wide > free:
            raise ValueError(
                f"balls(count={self.count}, cell=...): more contacts than 32-bit integers can number; "
                "expected at most 46 000 balls, or jax_enable_x64"
            )
        # Two fixed balls are no contact.
        close = close & (jnp.minimum(one, other) < self.count)
        if walls:
            close = jnp.concatenate([close, (jnp.concatenate(walls, axis=1) < reach).ravel()])
        possible = self.count * (sides + surfaces.fixed) + self.count * (self.count - 1) // 2
        places = min(self.per_ball * self.count, possible)
        (at,) = jnp.nonzero(close, size=places, fill_value=close.size)
        # A last pair stands for contacts with walls: of one ball there is no other.
        pair, wall = jnp.minimum(at, one.size), at - one.size
        lower, upper = (jnp.pad(of(one, other), (0, 1))[pair].astype(int) for of in (jnp.minimum, jnp.maximum))
        if walls:
            lower = jnp.where(wall < 0, lower, wall // sides)
            upper = jnp.where(wall < 0, upper, spheres + wall % sides)
        found = jnp.sort(jnp.where(at < close.size, lower * wide + upper, free))
        return NeighbourList(found, full | (jnp.sum(close) > places), self.count, surfaces.fixed, sides)

    def listed_contacts(self, listed: NeighbourList, way: Array | float = 0.0) -> ListedContacts:
        """Return the System of listed contacts, while no ball moves further than `way` [m]."""
        surfaces = self.surfaces

        def facing(t, q, params):
            return *listed.surfaces, self.measured(listed, params, t, q)[1]

        def between(name):
            return lambda params: surfaces.coefficients_between(name, params, listed.first, listed.partner)

        return ListedContacts(
            gap=lambda t, q, params: self.measured(listed, params, t, q)[0],
            force=self.force,
            mass=self.mass,
            restitution=laws.built(self.law, lambda name, params: between(name)(params)),
            balls=self,
            listed=listed,
            way=way,
            **(rubbing(surfaces, facing, between) if surfaces.spin else {}),
        )

    def measured(self, listed: NeighbourList, params, t, q: Array):
        """Return gaps (c,), and unit vectors (c, m) to the second body or the wall."""
        surfaces = self.surfaces
        centre, radius = surfaces.centres(q, params), surfaces.radii(t, params, q.dtype)
        begin, wall = listed.first, listed.wall
        pair = listed.taken & (wall == NONE)
        second = jnp.where(pair, listed.partner, 0)
        apart = jnp.where(pair[:, None], centre[second] - centre[begin], 1.0)
        distance, direction = unit(apart)
        gap = distance - radius[begin] - radius[second]
        if listed.walls:
            gaps = jnp.concatenate(surfaces.wall_gaps(t, q, params), axis=1)
            # An open side is at infinity and never listed.
            gap = jnp.where(wall == NONE, gap, gaps[begin, wall])
            facing = -surfaces.normals(t, params, q.dtype)[wall]
            direction = jnp.where((wall == NONE)[:, None], direction, facing)
        return jnp.where(listed.taken, gap, jnp.inf), jnp.where(listed.taken[:, None], direction, 0.0)


@dataclass(frozen=True)
class ListedContacts(System):
    """Model the contacts of a neighbour list, for one step of balls among many.

    Its gap is infinite in free places, as on sides that are open. No other contact closes while no ball moves further
    than `way` () [m].
    """

    balls: CellListBalls = field(kw_only=True)
    listed: NeighbourList = field(kw_only=True)
    way: Array | float = field(kw_only=True)

    @property
    def numbers(self) -> Array:
        return self.listed.numbers

    def linearised(self, params, t, q: Array) -> tuple[Array, BodyRows]:
        """Return gaps (c,) [m] and their gradients as rows between balls, in one pass."""
        listed = self.listed
        gap, direction = self.balls.measured(listed, params, t, q)
        return gap, self.balls.surfaces.rows(*listed.surfaces, direction)

    @property
    def convex(self) -> bool:
        return True

    def turning(self, params, t, mass: Array, start: Array, x: Array) -> tuple[Array, Array]:
        return self.balls.surfaces.turning(t, mass, start, x, params)

    def overlooked(self, q: Array, after: Array) -> Array:
        """Return NEIGHBOURS_FULL for a short list, NEIGHBOURS_MISSED for a long way, or OK."""
        moved = jnp.linalg.norm(self.balls.surfaces.translation(after - q), axis=1)
        full = jnp.where(self.listed.full, Status.NEIGHBOURS_FULL, Status.OK)
        missed = jnp.where(jnp.max(lax.stop_gradient(moved)) > self.way, Status.NEIGHBOURS_MISSED, Status.OK)
        return first(full, missed)

    def reported(self, impulse: Array) -> Array:
        """Sum the impulses that each ball takes part in (count,) [N s]."""
        listed = self.listed
        taken = jnp.where(listed.taken, impulse, 0)
        nothing = jnp.zeros(listed.count + 1, impulse.dtype)
        second = jnp.where(listed.second == NONE, listed.count, listed.second)
        return (nothing.at[listed.first].add(taken).at[second].add(taken))[: listed.count]


def pairs_within(centre: Array, radius: Array, reach, edge, candidates: int) -> tuple[Array, Array, Array, Array]:
    """Find all pairs of balls whose surfaces are less than `reach` apart [m].

    Space is divided into cubes; a ball's partners are in its own cube and in those around it, which are looked at in
    columns of three. Cubes are numbered so that those of a column follow each other, and modulo a power of two, so that
    any extent will do: two cubes of one number are far apart, and their balls are not near each other. Of few balls all
    pairs are looked at.

    Args:
        centre, radius: (n, m), (n,) [m].
        edge: () of the cubes, at least the largest diameter and `reach` [m].
        candidates: for how many pairs there is room, per ball.

    Returns:
        first, second (k,): the balls of each candidate pair; within (k,): whether they are less than `reach` apart;
        full (): whether there are more candidates than room, so that pairs may be missing.
    """
    count, dimension = centre.shape
    if count <= ALL_PAIRS_UP_TO:
        first, second = (jnp.asarray(ball) for ball in np.triu_indices(count, 1))
        return first, second, _close(centre, radius, reach, first, second), jnp.asarray(False)
    bits = 30 // dimension
    period, strides = 2 ** (bits * dimension), 2 ** (bits * np.arange(dimension, dtype=np.int32)[::-1])
    # Where a position is not finite any cube will do; the trajectory's status tells of it.
    cube = jnp.floor(jnp.nan_to_num((centre - jnp.min(centre, axis=0, keepdims=True)) / edge))
    number = jnp.mod(jnp.mod(cube, period).astype(jnp.int32) @ strides, period)
    order = jnp.argsort(number).astype(jnp.int32)
    number = number[order]
    # The list follows itself: a column may end where numbers begin anew.
    numbers = jnp.concatenate([number, number + period])
    # Of its own column a ball looks at what follows it in its cube, and at the next one. Of those around half are
    # enough: the others find the same pairs from the other side.
    begins, lasts = [jnp.arange(1, count + 1, dtype=jnp.int32)], [number + 1]
    for column in product((-1, 0, 1), repeat=dimension - 1):
        if column > (0,) * (dimension - 1):
            lowest = jnp.mod(number + int(np.dot(column, strides[:-1])) - 1, period)
            begins.append(jnp.searchsorted(numbers, lowest).astype(jnp.int32))
            lasts.append(lowest + 2)
    begin, last = jnp.stack(begins, axis=1), jnp.stack(lasts, axis=1)
    held = jnp.searchsorted(numbers, last, side="right").astype(jnp.int32) - begin
    # The columns' balls in one list: entry k of it belongs to `column` and is ball k + shift there.
    room, columns, held = candidates * count, begin.size, held.ravel()
    ends = jnp.cumsum(held)
    entry = jnp.arange(room, dtype=jnp.int32)
    column = jnp.repeat(jnp.arange(columns, dtype=jnp.int32), held, total_repeat_length=room)
    shift = begin.ravel() - (ends - held)
    first, second = order[column // len(begins)], order[jnp.mod(entry + shift[column], count)]
    # Not the last of `ends`, which passes the largest integer where a million balls are in one cube.
    full = jnp.sum(held.astype(jnp.float32)) > room
    within = (entry < ends[-1]) & _close(centre, radius, reach, first, second)
    return first, second, within, full


def _close(centre, radius, reach, first, second):
    apart = (component[second] - component[first] for component in centre.T)
    return sum(component**2 for component in apart) < (radius[first] + radius[second] + reach) ** 2
