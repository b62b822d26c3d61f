"""Draw the ready-made systems; see `diffcontact.drawing`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import jax.numpy as jnp
import numpy as np

from diffcontact import shapes as bodily
from diffcontact.drawing import (
    Ball,
    Beads,
    Coordinate,
    Drawing,
    Ellipse,
    Line,
    Polygon,
    Polyhedron,
    Shape,
    Wall,
    rectangle,
)
from diffcontact.systems import poses
from diffcontact.systems.solids import Solids
from diffcontact.systems.surfaces import Surfaces


def balls(surfaces: Surfaces) -> Drawing:
    """Draw balls, fixed balls, the sides of the box and the planes; up is against gravity."""
    count, dimension = surfaces.count, surfaces.dimension

    def shapes(t, q, params):
        radius, own = surfaces.radii(t, params, q.dtype), q.reshape(count, -1)
        turn = own[:, dimension:] if surfaces.spin else None
        drawn: list[Shape] = [
            Ball(own[:, :dimension], radius[:count], turn[:, 0] if dimension == 2 and turn is not None else turn)
        ]
        if surfaces.fixed:
            drawn.append(Ball(surfaces.centres(q, params)[count:], radius[count:]))
        walls = []
        if surfaces.box is not None:
            low, high = surfaces.sides(t, params, q.dtype)
            axes = np.eye(dimension)
            walls += [*zip(axes, low, strict=True), *zip(-axes, -high, strict=True)]
        if surfaces.planes is not None:
            walls += [*zip(*surfaces.inclined(t, params, q.dtype), strict=True)]
        return (*drawn, *(Wall(jnp.asarray(normal), offset) for normal, offset in walls))

    return Drawing(shapes, *_described(dimension, surfaces.spin, lambda params: count, "ball"))


def bodies(solids: Solids) -> Drawing:
    """Draw bodies by their shapes, fixed balls and planes; up is against gravity."""
    dimension = solids.dimension

    def shapes(t, q, params):
        placed = zip(solids.of(params), poses.of_bodies(q, dimension), strict=True)
        drawn = [one for shape, pose in placed for one in _body(shape, pose, dimension)]
        if solids.fixed:
            drawn.append(Ball(jnp.asarray(params["fixed_centre"]), jnp.asarray(params["fixed_radius"])))
        return (*drawn, *(Wall(*each) for each in zip(*solids.inclined(t, params, q.dtype), strict=True)))

    return Drawing(shapes, *_described(dimension, True, lambda params: len(solids.of(params)), "body"))


def _body(shape, pose, dimension: int) -> list[Shape]:
    centre, turn = pose[:dimension], pose[2] if dimension == 2 else pose[dimension:]
    if isinstance(shape, bodily.Ball):
        return [Ball(centre[None], jnp.asarray(shape.radius)[None], turn[None])]
    if isinstance(shape, bodily.Ellipse):
        return [Ellipse(centre, jnp.asarray(shape.semi_axes), turn)]
    if isinstance(shape, bodily.Ellipsoid):
        lines = bodily.outline(shape)
        rings = np.split(lines.vertices, 3)
        return [Line(poses.placed(np.concatenate([ring, ring[:1]]), pose)) for ring in rings]
    corners = jnp.asarray(shape.vertices)
    if dimension == 2:
        return [Polygon(corners[np.array(shape.faces[0])] if isinstance(shape, bodily.Box) else corners, centre, turn)]
    return [Polyhedron(corners, centre, turn, shape.faces)]


def _described(dimension: int, spin: bool, count: Callable, what: str):
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


@lru_cache(maxsize=1)
def bouncing_ball() -> Drawing:
    """Draw a point above its floor, y downwards."""

    def shapes(t, q, params):
        return Ball(q[:1]), Wall(jnp.array([-1.0]), -(params["floor"] + params["floor_drift"] * t))

    return Drawing(shapes, lambda params: (Coordinate("y", down=True),), lambda params: np.array([-1.0]))


@lru_cache(maxsize=1)
def carts() -> Drawing:
    """Draw two riders, each as wide as their markers are apart at a touch."""

    def shapes(t, q, params):
        del t
        width = params["distance"]
        riders = (Polygon(rectangle(width, width / 2), jnp.stack([x, width / 4])) for x in q)
        return (*riders, Wall(jnp.array([0.0, 1.0]), 0.0))

    return Drawing(shapes, lambda params: (Coordinate("first rider"), Coordinate("second rider")))


@lru_cache(maxsize=32)
def particle_line(count: int) -> Drawing:
    """Draw particles on parallel wires, with any springs and the places of their rest."""

    def shapes(t, q, params):
        del t
        sprung = bool(np.any(np.asarray(params["stiffness"]) != 0))
        return (Beads(q, jnp.broadcast_to(jnp.asarray(params["rest"]), q.shape) if sprung else None, sprung),)

    def coordinates(params: Any):
        del params
        return tuple(Coordinate("x" if count == 1 else f"particle {i}") for i in range(count))

    return Drawing(shapes, coordinates)


# Of a ball whose size is not known, over how far it rolls; points of its track; Newton steps from its way to its place.
_BALL, _POINTS, _STEPS = 0.06, 65, 8


def track(bend: float, reach: float) -> Drawing:
    """Draw a ball in a parabolic track; its coordinate is the arc length.

    Its centre is at (X, a X^2) with X from s = X sqrt(1 + 4 a^2 X^2) / 2 + asinh(2 a X) / (4 a), a = `bend` > 0 [1/m],
    as far as the longest way `reach` [m]. The ball is as large as suits the picture, and the track below it.

    Example:
        >>> import jax
        >>> ball, line = jax.jit(track(2.0, 0.5))(0.0, np.array([0.0]), {})
        >>> ball.centre.tolist(), np.allclose(np.asarray(line.points)[32], [0.0, -ball.radius])
        ([0.0, 0.0], True)
    """
    radius = _BALL * reach

    def place(s):
        X = s
        for _ in range(_STEPS):
            slope = jnp.sqrt(1 + (2 * bend * X) ** 2)
            X = X - (X * slope / 2 + jnp.arcsinh(2 * bend * X) / (4 * bend) - s) / slope
        return X

    def shapes(t, q, params):
        del t, params
        X, along = place(q[0]), place(jnp.linspace(-1.2, 1.2, _POINTS, dtype=q.dtype) * reach)
        normal = jnp.stack([-2 * bend * along, jnp.ones_like(along)])
        below = jnp.stack([along, bend * along**2]) - radius * normal / jnp.linalg.norm(normal, axis=0, keepdims=True)
        return Ball(jnp.stack([X, bend * X**2]), radius), Line(below.T)

    return Drawing(shapes, lambda params: (Coordinate("along the track"),))


@lru_cache(maxsize=1)
def pendulum() -> Drawing:
    """Draw a point on a rod of length one."""

    def shapes(t, q, params):
        del t
        turned = q[0] - params["rest"]
        end = jnp.stack([jnp.sin(turned), -jnp.cos(turned)])
        return Line(jnp.stack([jnp.zeros_like(end), end])), Ball(end[None])

    return Drawing(shapes, lambda params: (Coordinate("angle", "rad"),))
