"""Hold the surroundings of moving bodies of any shape: planes, fixed balls, materials, belts, and the air."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jax import Array

from diffcontact.drawing import Coordinate
from diffcontact.host.messages import shown
from diffcontact.numerics.linear import length, nonzero


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """Hold what balls and rigid bodies have in common.

    Args:
        dimension: of the space they move in.
        planes: None, or `planes(t, params)` -> unit normals (p, dimension) towards the bodies, offsets (p,) [m].
        fixed: number of fixed balls.
        materials: None, or the number of each surface's material.
        belt: None, or `belt(t, params)` -> (walls, dimension) velocities of the walls' surfaces [m/s].
    """

    maker: ClassVar[str]

    dimension: int
    planes: Callable | None = None
    fixed: int = 0
    materials: tuple[int, ...] | None = None
    belt: Callable | None = None

    def inclined(self, t, params, dtype) -> tuple[Array, Array]:
        """Return unit normals (p, m) of the planes, and their offsets (p,) [m]."""
        if self.planes is None:
            return jnp.zeros((0, self.dimension), dtype), jnp.zeros(0, dtype)
        normals, offsets = self.planes(t, params)
        offsets = jnp.atleast_1d(jnp.asarray(offsets, dtype))
        shape = (offsets.size, self.dimension)
        normals = shaped(f"{self.maker}(planes=...): normals", normals, shape, dtype)
        return normals, shaped(f"{self.maker}(planes=...): offsets", offsets, shape[:1], dtype)

    def with_fixed_centres(self, own: Array, params) -> Array:
        """Append the centres of fixed balls to those of bodies (count, m) [m]."""
        if not self.fixed:
            return own
        return jnp.concatenate([own, param(params, "fixed_centre", (self.fixed, self.dimension), own.dtype)])

    def with_fixed_radii(self, own: Array, params) -> Array:
        return jnp.concatenate([own, param(params, "fixed_radius", (self.fixed,), own.dtype)]) if self.fixed else own

    def running(self, t, params, walls: int, dtype) -> Array:
        """Return the velocities of the walls' surfaces (walls, m) [m/s]."""
        assert self.belt is not None
        return shaped(f"{self.maker}(belt=...)", self.belt(t, params), (walls, self.dimension), dtype)

    def coefficients_between(self, name: str, params, first, second):
        """Return a coefficient, () or (c,), where surfaces of these numbers (c,) meet."""
        if self.materials is None:
            return params[name]
        table, kinds = jnp.asarray(params[name]), max(self.materials) + 1
        if table.ndim != 2 or table.shape[0] != table.shape[1] or table.shape[0] < kinds:
            raise ValueError(
                f"params[{name!r}]: expected a symmetric table of {kinds} x {kinds} materials, got {table.shape}"
            )
        material = jnp.asarray(np.asarray(self.materials))
        return table[material[first], material[second]]


def numbered(maker: str, materials: Sequence[int] | None) -> tuple[int, ...] | None:
    """Return the numbers of materials; ValueError unless they are integers from 0 on."""
    if materials is None:
        return None
    numbers = np.asarray(materials)
    if not (numbers.ndim == 1 and np.issubdtype(numbers.dtype, np.integer) and np.all(numbers >= 0)):
        raise ValueError(f"{maker}(materials={materials!r}): expected integers of at least 0, one for each surface")
    return tuple(numbers.tolist())


def require_callable(maker: str, **functions) -> None:
    """Refuse what is neither a function of (t, params) nor None."""
    for name, function in functions.items():
        if not (function is None or callable(function)):
            raise ValueError(f"{maker}({name}={function!r}): expected a function of (t, params), or None")


def unit(apart: Array) -> tuple[Array, Array]:
    """Return lengths (c,) of vectors (c, m), and unit vectors, zero for zero."""
    distance = length(apart)
    return distance, apart / nonzero(distance)[:, None]


def param(params, name, shape, dtype) -> Array:
    """Return a parameter as an array of this shape; ValueError if it is missing."""
    if not isinstance(params, Mapping):
        raise ValueError(f"params: expected a dict with {name!r} of shape {shape}, got {shown(params)}")
    if name not in params:
        raise ValueError(f"params: expected {name!r} of shape {shape}, got {sorted(params)}")
    return shaped(f"params[{name!r}]", params[name], shape, dtype)


def shaped(name: str, value, shape: tuple[int, ...], dtype) -> Array:
    """Return a value as an array of this shape, or raise a ValueError."""
    value = jnp.asarray(value, dtype)
    if value.shape != shape:
        raise ValueError(f"{name}: expected shape {shape}, got {value.shape}")
    return value


# What glides slower than this [m/s] creeps: its dry friction falls with its speed.
CREEP = 1e-3


def against_gliding(v: Array, bound: Any) -> Array:
    """Return the decelerations (count, k) of what glides at v (count, k) against dry friction [m/s^2]::

        a = -bound v / sqrt(|v|^2 + CREEP^2)

    A body at rest creeps: it takes on the speed at which its friction is as large as what pulls at it. Where bodies
    stick, dry friction is the `joint_friction` of a `System`, which knows rest.

    Args:
        v: velocities [m/s].
        bound: (), (count,) or (count, 1), mu times the load over the mass [m/s^2].
    """
    return -bound * v / jnp.sqrt(jnp.sum(v**2, axis=-1, keepdims=True) + CREEP**2)


def of_the_air(u: Array, dimension: int, params) -> Array:
    """Return accelerations (count, dimension) of balls that fly through air, or glide on a film of it [m/s^2]::

        a = -damping v - drag |v| v - dry_friction v / |v| + magnus w x v / (1 + magnus_saturation |w| / |v|)

    drag = rho C_d A / 2 m with a constant C_d, as for a sphere at high Reynolds numbers. The side force grows with the
    spin, and without `magnus_saturation` it does so without an end: good up to r |w| of about a fifth of |v|. Measured
    lift coefficients level off. The usual law, C_L = 1 / (A |v| / (r |w|) + B), is magnus = rho A_0 r / (2 m A) with
    the cross section A_0, and magnus_saturation = r B / A.

    Args:
        u: (count, velocities) [m/s] and, of balls that spin, one number or three behind `dimension` [rad/s].
        params: `drag` [1/m], of spinning balls `magnus` [1], perhaps `damping` [1/s], `dry_friction` [m/s^2], see
            `against_gliding`, and `magnus_saturation` [m]; each () or (count,). ValueError if one is missing, or has
            another shape.

    Source: A. Stepanek, Am. J. Phys. 56 (1988) 138, of tennis balls: A = 0.981, B = 2.022.
    """
    v, w = u[:, :dimension], u[:, dimension:]
    speed = length(v)[:, None]
    slowed = -_of_each("drag", params, u) * speed * v
    if "damping" in params:
        slowed -= _of_each("damping", params, u) * v
    if "dry_friction" in params:
        slowed += against_gliding(v, _of_each("dry_friction", params, u))
    if w.shape[1] == 0:
        return slowed
    across = jnp.cross(w, v) if dimension == 3 else w * jnp.stack([-v[:, 1], v[:, 0]], axis=1)
    if "magnus_saturation" in params:
        whole = speed + _of_each("magnus_saturation", params, u) * length(w)[:, None]
        across *= jnp.where(whole > 0, speed / nonzero(whole), 1)
    return slowed + _of_each("magnus", params, u) * across


def _of_each(name: str, params, u: Array) -> Array:
    """Return a parameter, () or (count, 1)."""
    count = u.shape[0]
    if name not in params:
        raise ValueError(f"params: expected {name!r} of shape () or ({count},), got {sorted(params)}")
    value = jnp.asarray(params[name], u.dtype)
    if value.shape not in ((), (count,)):
        raise ValueError(f"params[{name!r}]: expected shape () or ({count},), got {value.shape}")
    return value[:, None] if value.ndim else value


def described(dimension: int, spin: bool, count: Callable, what: str):
    """Name the coordinates of bodies and the way up, as functions of params."""

    def coordinates(params):
        names = [*"xyz"[:dimension]] if dimension <= 3 else [f"x{axis}" for axis in range(dimension)]
        up = upwards(params)
        own = [Coordinate(name, down=bool(up is not None and up[i] < 0)) for i, name in enumerate(names)]
        if spin:
            own += (
                [Coordinate("angle", "rad")]
                if dimension == 2
                else [Coordinate(f"q{i}", "1", plotted=False) for i in "wxyz"]
            )
        many = count(params)
        if many == 1:
            return tuple(own)
        return tuple(replace(one, name=f"{one.name} of {what} {number}") for number in range(many) for one in own)

    def upwards(params):
        gravity = np.asarray(params["gravity"], float) if "gravity" in params else np.zeros(dimension)
        steepest = int(np.argmax(np.abs(gravity)))
        if not np.all(np.isfinite(gravity)) or gravity[steepest] == 0 or (dimension == 2 and steepest == 0):
            return None
        return -np.sign(gravity[steepest]) * np.eye(dimension)[steepest]

    return coordinates, upwards
