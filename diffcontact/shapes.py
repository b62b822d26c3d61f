"""Describe rigid bodies by shapes: their contact with planes and balls, and their homogeneous inertia.

A shape is given in the body's own frame, whose origin is the body's centre of mass.

A plane touches a shape at its spots. A spot is an ellipsoid about a point v of the body with semi-axes a along the
body's axes, most often of one extent: a = 0 for a vertex, v = 0 for an ellipse. With the unit normal n of the plane in
the body's frame and A = diag(a), the material point that the plane touches first, and how far the centre of mass is
from the plane when it does::

    arm = v - A^2 n / |A n|,        -n . arm = |A n| - n . v
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

from diffcontact.numerics.linear import length, nonzero

__all__ = ["Ball", "Box", "Ellipse", "Ellipsoid", "Outline", "Polygon", "Polyhedron", "Shape", "outline"]


class Spots(NamedTuple):
    """Hold points v (k, m) and semi-axes (k, m), or None for zero, of spots [m]."""

    points: Any
    axes: Any


class Nearest(NamedTuple):
    """Hold the point of a body's surface that is nearest to a given one.

    Attributes:
        distance: () to it, negative inside [m].
        foot: (m,) that point [m].
        outwards: (m,) unit vector from the body's surface there.
    """

    distance: Array
    foot: Array
    outwards: Array


def away(apart: Array, foot: Array, inside) -> Nearest:
    """Return the `Nearest` to a point that is `apart` (m,) from the foot."""
    size = length(apart)
    sign = jnp.where(inside, -1.0, 1.0).astype(apart.dtype)
    return Nearest(sign * size, foot, sign * apart / nonzero(size))


class Shape:
    """The base of all shapes.

    Lengths are numbers, or traced values where a body's size is to be differentiated or fitted; see `systems.bodies`.
    """

    dimensions: ClassVar[tuple[int, ...]]
    meets_balls: ClassVar[bool] = False

    def spots(self, dimension: int) -> Spots:
        """Return the spots with which it touches planes, in a space of this dimension."""
        raise NotImplementedError

    def inertia(self, dimension: int) -> Any:
        """Return the inertia of the homogeneous body of mass 1 about its centre of mass [m^2].

        In a plane (). In space () where all directions are alike, (3,) principal moments, or (3, 3).

        Raises:
            ValueError: its centre of mass is not the origin, or it has none.
        """
        raise NotImplementedError

    def sound(self) -> Any:
        """Tell whether its lengths make sense, (); numbers were checked when it was made."""
        return True

    def sound_beside_balls(self) -> Any:
        """Tell whether a ball meets no other point than `nearest`, ()."""
        return True

    def nearest(self, point: Array) -> Nearest:
        """Return the point of its surface nearest to a point (m,), where it `meets_balls`."""
        raise NotImplementedError

    def fits(self, dimension: int) -> bool:
        """Tell whether it is a shape of a space of this dimension."""
        return dimension in self.dimensions


def lengths(name: str, value: Any, ndim: int, positive: bool = False) -> Any:
    """Return lengths as comparable nested tuples, or as an array of traced values.

    Raises:
        ValueError: for other than finite numbers of `ndim` axes, or for nonpositive ones if `positive`.
    """
    if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(value)):
        array = jnp.asarray(value)
    else:
        try:
            array = np.asarray(value, float)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{name}: expected lengths, got {value!r}") from error
        if not np.all(np.isfinite(array)):
            raise ValueError(f"{name}: expected finite lengths, got {array.tolist()}")
        if positive and not np.all(array > 0):
            raise ValueError(f"{name}: expected positive lengths, got {array.tolist()}")
    if array.ndim != ndim:
        what = {0: "a number", 1: "a list of lengths", 2: "a list of points"}[ndim]
        raise ValueError(f"{name}: expected {what}, got shape {array.shape}")
    return array if isinstance(array, Array) else _tuples(array)


def _tuples(array: np.ndarray) -> Any:
    return tuple(map(_tuples, array)) if array.ndim else float(array)


def known(value: Any) -> bool:
    """Tell whether lengths are numbers, and not traced."""
    return not isinstance(value, Array)


def numbers(value: Any) -> Any:
    """Return lengths as an array, of numpy where known, so that nothing is compiled."""
    return np.asarray(value) if known(value) else value


@dataclass(frozen=True, init=False)
class Ball(Shape):
    """A disc in a plane, a sphere in space.

    Args:
        radius: [m].

    Raises:
        ValueError: the radius is not a positive number.

    Example:
        >>> Ball(0.1).inertia(3)  # of mass 1: 2/5 r^2
        0.004000000000000001
    """

    dimensions: ClassVar[tuple[int, ...]] = (2, 3)
    meets_balls: ClassVar[bool] = True

    radius: Any

    def __init__(self, radius: Any):
        object.__setattr__(self, "radius", lengths("Ball(radius)", radius, 0, positive=True))

    def spots(self, dimension: int) -> Spots:
        return Spots(np.zeros((1, dimension)), np.ones((1, dimension)) * self.radius)

    def inertia(self, dimension: int) -> Any:
        return {2: 1 / 2, 3: 2 / 5}[dimension] * self.radius**2

    def sound(self) -> Any:
        return numbers(self.radius) > 0


@dataclass(frozen=True, init=False)
class _Ellipsoidal(Shape):
    semi_axes: Any

    def __init__(self, *semi_axes: Any):
        name, dimension = type(self).__name__, self.dimensions[0]
        given = semi_axes[0] if len(semi_axes) == 1 else semi_axes
        kept = lengths(f"{name}(*semi_axes)", given, 1, positive=True)
        if len(kept) != dimension:
            raise ValueError(f"{name}(*semi_axes): expected {dimension} lengths, got {len(kept)}")
        object.__setattr__(self, "semi_axes", kept)

    def spots(self, dimension: int) -> Spots:
        return Spots(np.zeros((1, dimension)), numbers(self.semi_axes)[None])

    def sound(self) -> Any:
        return (numbers(self.semi_axes) > 0).all()


class Ellipse(_Ellipsoidal):
    """An ellipse in a plane.

    Args:
        semi_axes: half the extent along the body's x and y [m], as two arguments or as one sequence.

    Raises:
        ValueError: they are not two positive numbers.

    Example:
        >>> Ellipse(0.035, 0.025)
        Ellipse(semi_axes=(0.035, 0.025))
    """

    dimensions: ClassVar[tuple[int, ...]] = (2,)

    def inertia(self, dimension: int) -> Any:
        return (numbers(self.semi_axes) ** 2).sum() / 4


class Ellipsoid(_Ellipsoidal):
    """An ellipsoid in space.

    Args:
        semi_axes: half the extent along the body's x, y and z [m], as three arguments or as one sequence.

    Raises:
        ValueError: they are not three positive numbers.

    Example:
        >>> print(Ellipsoid(0.3, 0.2, 0.1).inertia(3))  # of mass 1: (b^2 + c^2) / 5 and so on
        [0.01  0.02  0.026]
    """

    dimensions: ClassVar[tuple[int, ...]] = (3,)

    def inertia(self, dimension: int) -> Any:
        squares = numbers(self.semi_axes) ** 2
        return (squares.sum() - squares) / 5


class _Polytope(Shape):
    vertices: Any

    def spots(self, dimension: int) -> Spots:
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


class Outline(NamedTuple):
    """The lines of a shape.

    Attributes:
        vertices: (v, m) points of the body [m].
        edges: (e, 2) numbers of the points that lines join.
    """

    vertices: np.ndarray
    edges: np.ndarray


def outline(shape: Shape, dimension: int = 2, points: int = 64) -> Outline:
    """Compute the lines to draw a shape with, in the body's frame.

    `systems.poses.placed` puts them where the body is.

    Polygons and polyhedra by their edges, ellipses by a line of `points` pieces, ellipsoids by three such lines in the
    planes of their axes.

    Args:
        shape: whose lengths are numbers.
        dimension: of the space, where the shape leaves it open: that of a `Ball`.
        points: pieces of each curved line.

    Example:
        >>> from diffcontact import shapes
        >>> lines = outline(shapes.Box(0.4, 0.2))
        >>> lines.vertices[lines.edges[0]].tolist()
        [[-0.2, -0.1], [-0.2, 0.1]]
    """
    if isinstance(shape, Polygon):
        vertices = np.asarray(shape.vertices)
        return Outline(vertices, _loop(len(vertices)))
    if isinstance(shape, Box | Polyhedron):
        rims = [np.stack([face, np.roll(face, -1)], axis=1) for face in shape.faces]
        return Outline(np.asarray(shape.vertices), np.unique(np.sort(np.concatenate(rims), axis=1), axis=0))
    axes = np.asarray(shape.spots(dimension if isinstance(shape, Ball) else shape.dimensions[0]).axes)[0]
    angle = 2 * np.pi * np.arange(points) / points
    rings = []
    for i, j in ((0, 1), (1, 2), (2, 0))[: 1 if axes.size == 2 else 3]:
        ring = np.zeros((points, axes.size))
        ring[:, i], ring[:, j] = axes[i] * np.cos(angle), axes[j] * np.sin(angle)
        rings.append(ring)
    loops = [_loop(points) + points * k for k in range(len(rings))]
    return Outline(np.concatenate(rings), np.concatenate(loops))


def _loop(count: int) -> np.ndarray:
    each = np.arange(count)
    return np.stack([each, (each + 1) % count], axis=1)
