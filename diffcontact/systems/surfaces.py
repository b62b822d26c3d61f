"""What balls may touch: each other, balls that are fixed, the sides of a box, planes; and the gaps between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from diffcontact.inputs import core
from diffcontact.qp.rows import NONE, BodyRows, Rows
from diffcontact.system import System
from diffcontact.systems.surroundings import Surroundings, param, shaped, unit


@dataclass(frozen=True)
class Surfaces(Surroundings):
    """The surfaces of balls and of what is around them.

    Each has a number: the balls, then the fixed balls, then the walls, which are the low sides of the box, its high
    sides and the planes. A contact is a pair of numbers, the first of them a ball's.

    Args:
        count, radius, spin: as in `balls`.
        box: ((low, ...), (high, ...)), a function, or None, as in `balls`.
    """

    maker: ClassVar[str] = "balls"

    count: int
    box: tuple | Callable | None = None
    radius: Callable | None = None
    spin: bool = False

    @property
    def coordinates(self) -> int:
        """How many coordinates a ball has: those of its centre, and an angle or a quaternion where it spins."""
        return {2: 3, 3: 7}[self.dimension] if self.spin else self.dimension

    @property
    def velocities(self) -> int:
        """How many velocities a ball has: those of its centre, and the angular ones where it spins."""
        return {2: 3, 3: 6}[self.dimension] if self.spin else self.dimension

    @property
    def spheres(self) -> int:
        """How many balls there are with the fixed ones."""
        return self.count + self.fixed

    def name(self, number: int) -> str:
        """What a number stands for, in words."""
        sides = 0 if self.box is None else 2 * self.dimension
        for what, many in (("ball", self.count), ("fixed ball", self.fixed), ("side", sides)):
            if number < many:
                return f"{what} {number}" + (" of the box" if what == "side" else "")
            number -= many
        return f"plane {number}"

    def pairs(self, planes: int) -> tuple[np.ndarray, np.ndarray]:
        """The numbers (c,) of the two surfaces of each contact, in the order of `balls`; there are so many planes."""
        blocks, begin = [], self.spheres
        for size in (*([] if self.box is None else [self.dimension] * 2), planes):
            ball, wall = np.indices((self.count, size)).reshape(2, -1)
            blocks.append((ball, begin + wall))
            begin += size
        blocks.append(np.triu_indices(self.count, 1, self.spheres))
        first, second = np.concatenate(blocks, axis=1)
        return first, second

    def translation(self, x: Array) -> Array:
        """(count, m) what belongs to the centres of the balls in coordinates or velocities."""
        each = x.reshape(self.count, -1)
        return each[:, : self.dimension] if self.spin else each

    def centres(self, q: Array, params) -> Array:
        """(spheres, m) of the balls and the fixed balls [m]."""
        return self.with_fixed_centres(self.translation(q), params)

    def radii(self, t, params, dtype) -> Array:
        """(spheres,) of the balls and the fixed balls [m]."""
        shape = (self.count,)
        if self.radius is None:
            own = param(params, "radius", shape, dtype)
        else:
            own = shaped("balls(radius=...)", self.radius(t, params), shape, dtype)
        return self.with_fixed_radii(own, params)

    def sides(self, t, params, dtype) -> tuple[Array, Array]:
        """Where the low and the high sides of the box are, (m,) each [m]."""
        assert self.box is not None
        low, high = self.box(t, params) if callable(self.box) else self.box
        return self._side("low", low, dtype), self._side("high", high, dtype)

    def _side(self, name, place, dtype):
        place = jnp.asarray(place, dtype)
        place = jnp.broadcast_to(place, (self.dimension,)) if place.ndim == 0 else place
        return shaped(f"balls(box=...): {name}", place, (self.dimension,), dtype)

    def wall_gaps(self, t, q: Array, params) -> list[Array]:
        """Gaps between each ball and each wall [m]: (count, m) low sides, (count, m) high sides, (count, p) planes."""
        centre = self.translation(q)
        distances = []
        if self.box is not None:
            low, high = self.sides(t, params, q.dtype)
            distances += [centre - low[None, :], high[None, :] - centre]
        if self.planes is not None:
            normals, offsets = self.inclined(t, params, q.dtype)
            # Not a product of matrices: accelerators round these to less than single precision.
            along = jnp.sum(centre[:, None, :] * normals[None, :, :], axis=2)
            distances.append(along - offsets[None, :])
        walls = sum(distance.shape[1] for distance in distances)
        if self.materials is not None and len(self.materials) != self.spheres + walls:
            raise ValueError(
                f"balls(materials=...): expected {self.spheres + walls} numbers, for {self.count} balls, "
                f"{self.fixed} fixed balls and {walls} walls, got {len(self.materials)}"
            )
        radius = self.radii(t, params, q.dtype)[: self.count]
        return [distance - radius[:, None] for distance in distances]

    def normals(self, t, params, dtype) -> Array:
        """(walls, m) unit normals of the walls, towards the balls."""
        along = np.eye(self.dimension)
        normals = [] if self.box is None else [jnp.asarray(along, dtype), jnp.asarray(-along, dtype)]
        if self.planes is not None:
            normals.append(self.inclined(t, params, dtype)[0])
        return jnp.concatenate(normals)

    def between(self, q: Array, params) -> tuple[Array, Array]:
        """The distances (p,) of the centres of each two balls [m], and unit vectors (p, m) from one to the other."""
        first, second = np.triu_indices(self.count, 1, self.spheres)
        centre = self.centres(q, params)
        return unit(centre[second] - centre[first])

    def gap(self, t, q: Array, params) -> Array:
        """(c,) the gaps of all contacts [m], in the order of `balls`."""
        blocks, distance = [], self.between(q, params)[0]
        if distance.size:
            radius = self.radii(t, params, q.dtype)
            first, second = np.triu_indices(self.count, 1, self.spheres)
            blocks = [distance - radius[first] - radius[second]]
        walls = [gap.ravel() for gap in self.wall_gaps(t, q, params)]
        return jnp.concatenate([*walls, *blocks]) if walls or blocks else jnp.zeros(0, q.dtype)

    def facing(self, t, q: Array, params) -> tuple[np.ndarray, np.ndarray, Array]:
        """The numbers (c,) of the two surfaces of each contact, and unit vectors (c, m) from one to the other."""
        blocks, planes = [], 0
        if self.box is not None:
            along = np.tile(np.eye(self.dimension, dtype=q.dtype), (self.count, 1))
            blocks += [-along, along]
        if self.planes is not None:
            normals = self.inclined(t, params, q.dtype)[0]
            planes = len(normals)
            blocks.append(-jnp.tile(normals, (self.count, 1)))
        first, second = self.pairs(planes)
        return first.astype(np.int32), second.astype(np.int32), jnp.concatenate([*blocks, self.between(q, params)[1]])

    def gradients(self, t, q: Array, params) -> BodyRows:
        """The gradients of the gaps as rows between the balls, in the order of `balls`."""
        return self.rows(*self.facing(t, q, params))

    def terms(self, t, q: Array, params, direction: Array) -> Array:
        """(c,) |n| |x| of the centres x of the balls that meet in directions n (c, m), of walls of one ball [m]."""
        centre = jnp.abs(self.centres(q, params))
        own = centre[: self.count]
        blocks = [] if self.box is None else [own.ravel(), own.ravel()]
        if self.planes is not None:
            normals = jnp.abs(self.inclined(t, params, q.dtype)[0])
            blocks.append(jnp.sum(own[:, None, :] * normals[None, :, :], axis=2).ravel())
        first, second = np.triu_indices(self.count, 1, self.spheres)
        if first.size:
            blocks.append(jnp.sum(jnp.abs(direction[-first.size :]) * (centre[first] + centre[second]), axis=1))
        return jnp.concatenate(blocks)

    def rows(self, first, second, direction: Array) -> BodyRows:
        """The gradients of the gaps (c,) between these surfaces, in directions (c, m) from the first to the second.

        Numbers are -1 in free places.
        """
        turning = ((0, 0), (0, 0), (0, self.velocities - self.dimension))
        return BodyRows(self.bodies(first, second), jnp.pad(direction[:, None, :], turning), self.count)

    def bodies(self, first, second) -> Array:
        """(c, 2) the balls that move themselves among these surfaces."""
        # What is known here needs no computing in every step.
        xp = np if isinstance(second, np.ndarray) else jnp
        return jnp.asarray(xp.stack([first, xp.where(second < self.count, second, xp.int32(NONE))], axis=1))

    def coefficients(self, name: str, params):
        """() or (c,) the coefficient by this name of all contacts, in the order of `balls`."""
        if self.materials is None:
            return params[name]
        return self.coefficients_between(name, params, *self.all_pairs())

    def all_pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """The numbers (c,) of the two surfaces of each contact, in the order of `balls`, where materials are given."""
        assert self.materials is not None
        sides = 0 if self.box is None else 2 * self.dimension
        return self.pairs(len(self.materials) - self.spheres - sides)

    def turning(self, t, mass: Array, start: Array, x: Array, params) -> tuple[Array, Array]:
        """The bounds of `System.turning`, for balls that overlap by less than the smallest radius."""
        way = jnp.sqrt(jnp.max(jnp.sum(self.translation(x - start) ** 2, axis=1)))
        nearest = jnp.min(self.radii(t, params, x.dtype))
        return 2 * way / nearest, 2 / jnp.min(self.translation(mass))

    def closing(self, t, h, q: Array, params) -> Array:
        """() by how much a gap may get smaller within h seconds while the balls stay where they are [m].

        Walls and radii are looked at on the quarters of the step, where EventTimed looks, too.
        """
        if not callable(self.box) and self.planes is None and self.radius is None:
            return jnp.zeros((), q.dtype)
        times = t + h * jnp.linspace(0.0, 1.0, 5, dtype=q.dtype)
        walls = jax.vmap(lambda time: self.wall_gaps(time, q, params))(times)
        radius = jax.vmap(lambda time: self.radii(time, params, q.dtype))(times)
        # An open side is at infinity, before and after.
        nearer = [jnp.where(gap[:1] > gap, gap[:1] - gap, 0) for gap in walls]
        return jnp.max(jnp.stack([jnp.max(by, initial=0) for by in (*nearer, 2 * (radius - radius[:1]))]))


@dataclass(frozen=True)
class Balls(System):
    """The System of all contacts between surfaces: what `balls` returns.

    Args:
        surfaces: what may touch.
        law: of restitution, one of `laws.LAWS` by name.
        friction_law: one of `laws.FRICTION_LAWS` by name.
    """

    surfaces: Surfaces = field(kw_only=True)
    law: str = field(default="constant", kw_only=True)
    friction_law: str = field(default="constant", kw_only=True)

    @property
    def measures(self) -> bool:
        """Whether gaps and gradients are those of the surfaces: somebody may have replaced them."""
        own = (self.surfaces.gap, None if self.normals is None else self.surfaces.gradients)
        return (core(self.gap), core(self.normals)) == own

    @property
    def convex(self) -> bool:
        return self.measures

    def terms(self, params, t, q: Array, gap: Array, rows: Rows) -> Array:
        if not isinstance(rows, BodyRows) or not self.measures:
            return super().terms(params, t, q, gap, rows)
        direction = rows.normals[:, 0, : self.surfaces.dimension]
        return self.surfaces.terms(jnp.asarray(t, q.dtype), q, params, direction) + jnp.abs(gap)

    def turning(self, params, t, mass: Array, start: Array, x: Array) -> tuple[Array, Array] | None:
        return self.surfaces.turning(t, mass, start, x, params) if self.measures else None
