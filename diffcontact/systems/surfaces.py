"""Number what balls may touch: balls, fixed balls, sides of a box, planes; measure gaps and slips.

Of a contact with the unit vector d from the first body to the second, and r d x t for the moment of a tangent t::

                  t                   slip of two balls, the second on the first, v_j - v_i - (r_i w_i + r_j w_j) x d
               d  |  .                slip of a ball on a wall                     v_i + r_i w_i x d - belt
          (i)---->|(j)
                  |                   in a plane t = (-d_y, d_x); w x d = w t
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from diffcontact.inputs import core
from diffcontact.qp.rows import NONE, BodyRows, Rows, product
from diffcontact.system import System
from diffcontact.systems.poses import SPACE, tangents
from diffcontact.systems.surroundings import Surroundings, param, shaped, unit


@dataclass(frozen=True)
class Surfaces(Surroundings):
    """Hold the surfaces of balls and of what is around them.

    Each has a number: the balls, then the fixed balls, then the walls, which are the low sides of the box, its high
    sides and the planes. A contact is a pair of numbers, the first of them a ball's.
    """

    maker: ClassVar[str] = "balls"

    count: int
    box: tuple | Callable | None = None
    radius: Callable | None = None
    spin: bool = False

    @property
    def coordinates(self) -> int:
        """Count a ball's coordinates: centre, and an angle or a quaternion where it spins."""
        return {2: 3, 3: 7}[self.dimension] if self.spin else self.dimension

    @property
    def velocities(self) -> int:
        """Count a ball's velocities: of the centre, and angular ones where it spins."""
        return {2: 3, 3: 6}[self.dimension] if self.spin else self.dimension

    @property
    def spheres(self) -> int:
        """Count the balls with the fixed ones."""
        return self.count + self.fixed

    def name(self, number: int) -> str:
        """Say in words what a number stands for."""
        sides = 0 if self.box is None else 2 * self.dimension
        for what, many in (("ball", self.count), ("fixed ball", self.fixed), ("side", sides)):
            if number < many:
                return f"{what} {number}" + (" of the box" if what == "side" else "")
            number -= many
        return f"plane {number}"

    def pairs(self, planes: int) -> tuple[np.ndarray, np.ndarray]:
        """Number the two surfaces of each contact (c,), with this many planes."""
        blocks, begin = [], self.spheres
        for size in (*([] if self.box is None else [self.dimension] * 2), planes):
            ball, wall = np.indices((self.count, size)).reshape(2, -1)
            blocks.append((ball, begin + wall))
            begin += size
        blocks.append(np.triu_indices(self.count, 1, self.spheres))
        first, second = np.concatenate(blocks, axis=1)
        return first, second

    def translation(self, x: Array) -> Array:
        """Select the centres' part (count, m) of coordinates or velocities."""
        each = x.reshape(self.count, -1)
        return each[:, : self.dimension] if self.spin else each

    def centres(self, q: Array, params) -> Array:
        """Return the centres of balls and fixed balls (spheres, m) [m]."""
        return self.with_fixed_centres(self.translation(q), params)

    def radii(self, t, params, dtype) -> Array:
        """Return the radii of balls and fixed balls (spheres,) [m]."""
        shape = (self.count,)
        if self.radius is None:
            own = param(params, "radius", shape, dtype)
        else:
            own = shaped("balls(radius=...)", self.radius(t, params), shape, dtype)
        return self.with_fixed_radii(own, params)

    def sides(self, t, params, dtype) -> tuple[Array, Array]:
        """Return the low and the high sides of the box, (m,) each [m]."""
        assert self.box is not None
        low, high = self.box(t, params) if callable(self.box) else self.box
        return self._side("low", low, dtype), self._side("high", high, dtype)

    def _side(self, name, place, dtype):
        place = jnp.asarray(place, dtype)
        place = jnp.broadcast_to(place, (self.dimension,)) if place.ndim == 0 else place
        return shaped(f"balls(box=...): {name}", place, (self.dimension,), dtype)

    def wall_gaps(self, t, q: Array, params) -> list[Array]:
        """Return gaps to low sides, high sides (count, m) and planes (count, p) [m]."""
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
        """Return unit normals of the walls (walls, m), towards the balls."""
        along = np.eye(self.dimension)
        normals = [] if self.box is None else [jnp.asarray(along, dtype), jnp.asarray(-along, dtype)]
        if self.planes is not None:
            normals.append(self.inclined(t, params, dtype)[0])
        return jnp.concatenate(normals)

    def between(self, q: Array, params) -> tuple[Array, Array]:
        """Return distances (p,) of two balls' centres [m], and unit vectors (p, m) between them."""
        first, second = np.triu_indices(self.count, 1, self.spheres)
        centre = self.centres(q, params)
        return unit(centre[second] - centre[first])

    def gap(self, t, q: Array, params) -> Array:
        """Return the gaps of all contacts (c,) [m], in the order of `balls`."""
        blocks, distance = [], self.between(q, params)[0]
        if distance.size:
            radius = self.radii(t, params, q.dtype)
            first, second = np.triu_indices(self.count, 1, self.spheres)
            blocks = [distance - radius[first] - radius[second]]
        walls = [gap.ravel() for gap in self.wall_gaps(t, q, params)]
        return jnp.concatenate([*walls, *blocks]) if walls or blocks else jnp.zeros(0, q.dtype)

    def facing(self, t, q: Array, params) -> tuple[np.ndarray, np.ndarray, Array]:
        """Return both surfaces of each contact (c,), and unit vectors (c, m) from one to the other."""
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
        """Return the gaps' gradients as rows between balls, in the order of `balls`."""
        return self.rows(*self.facing(t, q, params))

    def terms(self, t, q: Array, params, direction: Array) -> Array:
        """Return |n| |x| (c,) of the centres x of balls in contact directions n (c, m) [m]."""
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
        """Return the gaps' gradients (c,) in directions (c, m); numbers are -1 in free places."""
        turning = ((0, 0), (0, 0), (0, self.velocities - self.dimension))
        return BodyRows(self.bodies(first, second), jnp.pad(direction[:, None, :], turning), self.count)

    def bodies(self, first, second) -> Array:
        """Return the balls (c, 2) that move themselves among these surfaces."""
        # What is known here needs no computing in every step.
        xp = np if isinstance(second, np.ndarray) else jnp
        return jnp.asarray(xp.stack([first, xp.where(second < self.count, second, xp.int32(NONE))], axis=1))

    def coefficients(self, name: str, params):
        """Return a coefficient of all contacts, () or (c,), in the order of `balls`."""
        if self.materials is None:
            return params[name]
        return self.coefficients_between(name, params, *self.all_pairs())

    def all_pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Number the two surfaces of each contact (c,), where materials are given."""
        assert self.materials is not None
        sides = 0 if self.box is None else 2 * self.dimension
        return self.pairs(len(self.materials) - self.spheres - sides)

    def turning(self, t, mass: Array, start: Array, x: Array, params) -> tuple[Array, Array]:
        """Bound as `System.turning`, for overlaps below the smallest radius."""
        way = jnp.sqrt(jnp.max(jnp.sum(self.translation(x - start) ** 2, axis=1)))
        nearest = jnp.min(self.radii(t, params, x.dtype))
        return 2 * way / nearest, 2 / jnp.min(self.translation(mass))

    def closing(self, t, h, q: Array, params) -> Array:
        """Bound the closing of a gap within h seconds while balls stay [m].

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
    """Model all contacts between surfaces: `balls` returns it.

    `law` is one of `laws.LAWS`, `friction_law` one of `laws.FRICTION_LAWS`, by name.
    """

    surfaces: Surfaces = field(kw_only=True)
    law: str = field(default="constant", kw_only=True)
    friction_law: str = field(default="constant", kw_only=True)

    @property
    def measures(self) -> bool:
        """Tell whether gaps and gradients are those of the surfaces: they may be replaced."""
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


def rubbing(surfaces: Surfaces, facing: Callable, coefficient: Callable) -> dict[str, Any]:
    """Return the further functions of a `System` of balls that spin, by name.

    Args:
        facing: (t, q, params) -> first, second (c,), direction (c, m), the contacts as in `tangent_rows`.
        coefficient: name -> a function of params, the coefficient by this name of these contacts, () or (c,).
    """
    e_t = coefficient("tangential_restitution")
    functions = {
        "slip": lambda t, q, u, params: slip(surfaces, t, u, params, *facing(t, q, params)),
        "tangents": lambda t, q, params: tangent_rows(surfaces, t, params, *facing(t, q, params)),
        "friction": coefficient("friction"),
        "tangential_restitution": lambda params: e_t(params) if "tangential_restitution" in params else 0.0,
    }
    return functions | (SPACE if surfaces.dimension == 3 else {})


def resisting(surfaces: Surfaces, facing: Callable, coefficient: Callable) -> dict[str, Any]:
    """Return the further functions of balls that resist rolling; arguments as of `rubbing`."""
    names = ("rolling_friction",) if surfaces.dimension == 2 else ("rolling_friction", "pivoting_friction")

    def resistance(params):
        each = [jnp.asarray(coefficient(name)(params) if name in params else 0.0) for name in names]
        return jnp.stack(jnp.broadcast_arrays(*each), axis=-1)

    return {
        "rolling": lambda t, q, u, params: rolling(surfaces, t, u, params, *facing(t, q, params)),
        "resistance": resistance,
    }


def rolling(surfaces: Surfaces, t, u: Array, params, first, second, direction: Array) -> Array:
    """Return r times turning of surfaces on each other (c, m, k) [m/s], and about the normal.

    r is the radius of a ball on a wall, and r_i r_j / (r_i + r_j) of two; in a plane m = 1. Arguments as in `slip`.
    """
    wall = jnp.asarray(second) >= surfaces.spheres
    radius = surfaces.radii(t, params, direction.dtype)
    near, far = radius[first], radius[jnp.where(wall, 0, second)]
    lever = jnp.where(wall, near, near * far / (near + far))[:, None]
    spins = u.reshape(surfaces.count, -1)[:, surfaces.dimension :]
    free = jnp.asarray(second) < surfaces.count
    turning = lever * (spins[first] - jnp.where(free[:, None], spins[jnp.where(free, second, 0)], 0))
    if surfaces.dimension == 2:
        return turning[:, None]
    along = jnp.stack([jnp.sum(axis * turning, axis=1) for axis in (*tangents(direction, wall), direction)], axis=1)
    return jnp.stack([along[:, :2], jnp.pad(along[:, 2:], ((0, 0), (0, 1)))], axis=1)


def tangent_rows(surfaces: Surfaces, t, params, first, second, direction: Array) -> tuple[BodyRows, ...]:
    """Return the rows of the slip, for each direction of the contact plane.

    Args:
        first, second: (c,) numbers of the surfaces, -1 in free places.
        direction: (c, m) unit vectors from the first to the second.
    """
    wall = jnp.asarray(second) >= surfaces.spheres
    radius = surfaces.radii(t, params, direction.dtype)
    near, far = radius[first][:, None], jnp.where(wall, 0, radius[jnp.where(wall, 0, second)])[:, None]
    bodies, sign = surfaces.bodies(first, second), jnp.where(wall, 1, -1)[:, None]
    rows = []
    for tangent in tangents(direction, wall):
        moment = _cross(direction, tangent)
        at_first = sign * jnp.concatenate([tangent, near * moment], axis=1)
        at_second = jnp.concatenate([tangent, -far * moment], axis=1)
        rows.append(BodyRows(bodies, jnp.stack([at_first, at_second], axis=1), surfaces.count))
    return tuple(rows)


def slip(surfaces: Surfaces, t, u: Array, params, first, second, direction: Array) -> Array:
    """Return slip velocities (c, k) between these surfaces [m/s], as in `tangent_rows`."""
    rows = tangent_rows(surfaces, t, params, first, second, direction)
    velocity = jnp.stack([product(row, u) for row in rows], axis=1)
    if surfaces.belt is None:
        return velocity
    wall = jnp.asarray(second) - surfaces.spheres
    walls = len(surfaces.normals(t, params, u.dtype))
    running = surfaces.running(t, params, walls, u.dtype)
    running = jnp.where((wall >= 0)[:, None], running[jnp.maximum(wall, 0)], 0)
    along = [jnp.sum(tangent * running, axis=1) for tangent in tangents(direction, wall >= 0)]
    return velocity - jnp.stack(along, axis=1)


def _cross(a: Array, b: Array) -> Array:
    """Return cross products, (c, 1) in a plane, (c, 3) in space."""
    return (a[:, :1] * b[:, 1:] - a[:, 1:] * b[:, :1]) if a.shape[1] == 2 else jnp.cross(a, b)


def moments_of_inertia(surfaces: Surfaces, mass: Array, params) -> Array:
    """Return `params["inertia"]`, or that of homogeneous discs and spheres (count,) [kg m^2]."""
    if "inertia" in params or surfaces.radius is not None:
        return param(params, "inertia", (surfaces.count,), mass.dtype)
    radius = surfaces.radii(0.0, params, mass.dtype)[: surfaces.count]
    return {2: 1 / 2, 3: 2 / 5}[surfaces.dimension] * mass * radius**2
