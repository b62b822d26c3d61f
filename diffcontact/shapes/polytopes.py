"""Model polygons, polyhedra and boxes: bodies that touch with their vertices."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jax import Array

from diffcontact.shapes.shape import Nearest, Shape, Spots, away, known, lengths, numbers


class _Polytope(Shape):
    vertices: Any

    def spots(self, dimension: int) -> Spots:
        del dimension
        return Spots(numbers(self.vertices), None)


@dataclass(frozen=True, init=False)
class Box(_Polytope):
    """A rectangle in a plane, a cuboid in space, with its centre of mass in the middle.

    Args:
        sides: the full lengths of its sides [m], two or three, as arguments or as one sequence.

    Vertices, and with them contacts, are in the order of counting with signs: (-, -), (-, +), (+, -), (+, +), and alike
    in space.

    Raises:
        ValueError: they are not two or three positive numbers.

    Example:
        >>> Box(0.4, 0.2).vertices.tolist()
        [[-0.2, -0.1], [-0.2, 0.1], [0.2, -0.1], [0.2, 0.1]]
    """

    dimensions: ClassVar[tuple[int, ...]] = (2, 3)
    meets_balls: ClassVar[bool] = True

    sides: Any

    def __init__(self, *sides: Any):
        kept = lengths("Box(*sides)", sides[0] if len(sides) == 1 else sides, 1, positive=True)
        if len(kept) not in self.dimensions:
            raise ValueError(f"Box(*sides): expected 2 or 3 lengths, got {len(kept)}")
        object.__setattr__(self, "sides", kept)

    def fits(self, dimension: int) -> bool:
        return len(self.sides) == dimension

    @property
    def halves(self) -> Any:
        """Return half of each side (m,) [m]."""
        return numbers(self.sides) / 2

    @property
    def vertices(self) -> Any:
        """Return its vertices (2^m, m) [m]."""
        return self._signs * self.halves[None]

    @property
    def faces(self) -> tuple[tuple[int, ...], ...]:
        """Return the numbers of the vertices of each face, in order around it; a rectangle is one face."""
        return ((0, 1, 3, 2),) if len(self.sides) == 2 else Polyhedron(self._signs).faces

    @property
    def _signs(self) -> np.ndarray:
        return 2 * np.indices((2,) * len(self.sides)).reshape(len(self.sides), -1).T - 1

    def inertia(self, dimension: int) -> Any:
        squares = numbers(self.sides) ** 2
        if dimension == 2:
            return squares.sum() / 12
        if known(self.sides) and len(set(self.sides)) == 1:
            return squares[0] / 6
        return (squares.sum() - squares) / 12

    def nearest(self, point: Array) -> Nearest:
        halves = jnp.asarray(self.halves, point.dtype)
        depth = jnp.abs(point) - halves
        inside, most = jnp.all(depth < 0), jnp.arange(point.size) == jnp.argmax(depth)
        side = jnp.where(point < 0, -halves, halves)
        foot = jnp.where(inside & most, side, jnp.clip(point, -halves, halves))
        return away(point - foot, foot, inside)

    def sound(self) -> Any:
        return (numbers(self.sides) > 0).all()


@dataclass(frozen=True, init=False)
class Polygon(_Polytope):
    """A body in a plane, by its vertices.

    Args:
        vertices: (v, 2) in the order of its outline, in either sense, from its centre of mass [m]. It may have notches;
            a plane meets its vertices only. Where it meets balls it must be convex.

    Raises:
        ValueError: for less than three points, and for an area of zero.

    Example:
        >>> wedge = Polygon([[0.0, 0.0], [0.75, 0.0], [0.0, 1.5]]).centred()
        >>> wedge.vertices
        ((-0.25, -0.5), (0.5, -0.5), (-0.25, 1.0))
    """

    dimensions: ClassVar[tuple[int, ...]] = (2,)
    meets_balls: ClassVar[bool] = True

    vertices: Any

    def __init__(self, vertices: Any):
        object.__setattr__(self, "vertices", _points("Polygon", vertices, 2))
        if known(self.vertices) and not float(abs(self.area)) > 0:
            raise ValueError(f"Polygon(vertices={self.vertices}): expected an area, got {float(self.area)}")

    @property
    def edges(self) -> tuple[Any, Any]:
        """Return the beginnings and the ends of its edges (v, 2) [m]."""
        here = numbers(self.vertices)
        return here, here[np.arange(1, len(here) + 1) % len(here)]

    @property
    def area(self) -> Any:
        """Return its area () [m^2], positive where its vertices go round to the left."""
        return _cross(*self.edges).sum() / 2

    @property
    def centroid(self) -> Any:
        """Return the centre of mass (2,) of the homogeneous polygon [m]."""
        here, after = self.edges
        return (_cross(here, after)[:, None] * (here + after)).sum(axis=0) / (6 * self.area)

    @property
    def corners(self) -> Any:
        """Return the turn of each edge to the inside at its end (v,) [m^2], nowhere negative if convex."""
        here, after = self.edges
        along = after - here
        return _cross(along, along[np.arange(1, len(along) + 1) % len(along)]) * _sign(self.area)

    def centred(self) -> Polygon:
        """Move the origin to the centre of mass of the homogeneous polygon."""
        return Polygon(self.edges[0] - self.centroid[None])

    def inertia(self, dimension: int) -> Any:
        del dimension
        here, after = self.edges
        if known(self.vertices):
            _require_centred("Polygon", self.centroid, here)
        squares = (here**2 + here * after + after**2).sum(axis=1)
        return (_cross(here, after) * squares).sum() / (12 * self.area)

    def nearest(self, point: Array) -> Nearest:
        here, after = (jnp.asarray(ends, point.dtype) for ends in self.edges)
        along, to = after - here, point[None] - here
        share = jnp.clip(jnp.sum(to * along, axis=1) / jnp.sum(along**2, axis=1), 0, 1)
        feet = here + share[:, None] * along
        edge = jnp.argmin(jnp.sum((point[None] - feet) ** 2, axis=1))
        inside = jnp.all(_cross(along, to) * _sign(self.area) > 0)
        return away(point - feet[edge], feet[edge], inside)

    def sound(self) -> Any:
        return abs(self.area) > 0

    def sound_beside_balls(self) -> Any:
        return (self.corners >= -1e-9 * abs(self.area)).all()


@dataclass(frozen=True, init=False)
class Polyhedron(_Polytope):
    """A body in space, by its vertices.

    Args:
        vertices: (v, 3) in any order, from its centre of mass [m]. A plane meets vertices of the convex hull only, and
            the homogeneous body is taken to fill it.

    Raises:
        ValueError: for less than four points, and for points in one plane.

    Example:
        >>> corners = Polyhedron([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]).centred()
        >>> corners.volume.round(4), corners.inertia(3).round(4).tolist()[0]
        (np.float64(0.1667), [0.075, 0.0125, 0.0125])
    """

    dimensions: ClassVar[tuple[int, ...]] = (3,)

    vertices: Any

    def __init__(self, vertices: Any):
        object.__setattr__(self, "vertices", _points("Polyhedron", vertices, 3))
        if known(self.vertices):
            _ = self.hull

    @cached_property
    def hull(self) -> np.ndarray:
        """Return the vertices (f, 3) of the triangles of its convex hull, by number, counterclockwise from outside.

        Raises:
            ValueError: its vertices lie in one plane, or are traced.
        """
        from scipy.spatial import ConvexHull, QhullError  # takes a quarter of a second to import

        if not known(self.vertices):
            raise ValueError("Polyhedron: the inertia of traced vertices is not known; expected params['inertia']")
        points = np.asarray(self.vertices)
        try:
            found = ConvexHull(points)
        except QhullError as error:
            raise ValueError(f"Polyhedron(vertices={points.tolist()}): expected points not in one plane") from error
        triangles = found.simplices
        inwards = np.sum(_normals(points, triangles) * found.equations[:, :3], axis=1) < 0
        return np.where(inwards[:, None], triangles[:, ::-1], triangles)

    @property
    def faces(self) -> tuple[tuple[int, ...], ...]:
        """Return the vertices of each face of the hull, by number, in order: triangles of one plane are one face."""
        points, found = np.asarray(self.vertices), {}
        normals = _normals(points, self.hull)
        for triangle, normal in zip(self.hull, normals, strict=True):
            # Normals are told apart by nine digits; adding zero makes -0 one with 0.
            found.setdefault(tuple(np.round(normal, 9) + 0.0), set()).update(triangle.tolist())
        return tuple(_around(points, sorted(corners), np.asarray(normal)) for normal, corners in found.items())

    @property
    def _tetrahedra(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the corners (f, 3, 3) of the tetrahedra from the origin to the hull, and their volumes (f,)."""
        corners = np.asarray(self.vertices)[self.hull]
        return corners, np.linalg.det(corners) / 6

    @property
    def volume(self) -> float:
        """Return the volume of its convex hull [m^3]."""
        return np.sum(self._tetrahedra[1])

    @property
    def centroid(self) -> np.ndarray:
        """Return the centre of mass (3,) of the homogeneous body [m]."""
        corners, volumes = self._tetrahedra
        return volumes @ np.sum(corners, axis=1) / (4 * np.sum(volumes))

    def centred(self) -> Polyhedron:
        """Move the origin to the centre of mass of the homogeneous polyhedron."""
        return Polyhedron(np.asarray(self.vertices) - self.centroid)

    def inertia(self, dimension: int) -> Any:
        del dimension
        corners, volumes = self._tetrahedra
        _require_centred("Polyhedron", self.centroid, np.asarray(self.vertices))
        whole = np.sum(corners, axis=1)
        second = np.einsum("fia,fib->fab", corners, corners) + whole[:, :, None] * whole[:, None, :]
        covariance = np.einsum("f,fab->ab", volumes, second) / (20 * np.sum(volumes))
        return np.trace(covariance) * np.eye(3) - covariance


def _sign(area):
    return np.sign(area) if known(area) else jnp.sign(area)


def _cross(a, b):
    """Return cross products (c,) of vectors (c, 2)."""
    return a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]


def _normals(points, triangles):
    """Return unit normals (f, 3) of triangles (f, 3), outwards if they turn left."""
    a, b, c = points[triangles].swapaxes(0, 1)
    normals = np.cross(b - a, c - a)
    return normals / np.linalg.norm(normals, axis=1, keepdims=True)


def _around(points, corners, normal):
    """Order the corners of a convex face, to the left as seen from outside."""
    apart = points[corners] - np.mean(points[corners], axis=0)
    across = np.cross(normal, apart[0])
    return tuple(np.asarray(corners)[np.argsort(np.arctan2(apart @ across, apart @ apart[0]))].tolist())


def _points(name, vertices, dimension):
    kept = lengths(f"{name}(vertices)", vertices, 2)
    if not (len(kept) > dimension and len(kept[0]) == dimension):
        shape = len(kept), len(kept[0]) if len(kept) else 0
        expected = f"at least {dimension + 1} points of {dimension}"
        raise ValueError(f"{name}(vertices): expected {expected}, got shape {shape}")
    return kept


def _require_centred(name, centroid, vertices):
    """Refuse a centre of mass off the origin, within five written digits."""
    if np.max(np.abs(centroid)) > 1e-5 * np.max(np.abs(vertices)):
        raise ValueError(
            f"{name}: the homogeneous body's centre of mass is at {centroid.tolist()}, expected at the origin; "
            "take .centred(), or params['inertia'] for a body that is not homogeneous"
        )
