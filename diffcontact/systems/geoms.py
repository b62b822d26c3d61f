r"""Geoms of a mechanism: where they touch, how they slip there, and what they look like.

Three kinds of contact. All contacts of one kind are computed at once::

    plane     with a spot, an ellipsoid of semi-axes a about a point p of a body:    n . (p - |A n| A^2 n) - offset
              sphere: one spot; capsule: one at either end; box, mesh: corners of the convex hull, a = 0;
              ellipsoid: itself; cylinder: its two discs, a = (r, r, 0)
    segment   with a segment, for spheres (of length zero) and capsules:    distance of the segments - r_1 - r_2
    box       with a segment:    distance of the segment from the box - r

Two segments are nearest where their distance is least within both. The point of a segment that is nearest to a box is
where the derivative of its squared distance, which rises along the segment, is zero. What is parallel touches in one
point only, and which one it is jumps as it tilts; a cylinder that stands on a plane touches it in its middle.

Source: C. Ericson, Real-Time Collision Detection (2005), section 5.1.9, for the segments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from diffcontact import shapes as solids
from diffcontact.drawing import Ball, Line, Polyhedron, Shape, Wall
from diffcontact.numerics.linear import nonzero
from diffcontact.systems import poses
from diffcontact.systems.poses import product, tangents
from diffcontact.systems.surroundings import unit
from diffcontact.systems.tree import Frames, Tree, dot, matrices

SPHERE, CAPSULE, BOX, ELLIPSOID = "sphere", "capsule", "box", "ellipsoid"
CYLINDER, PLANE, MESH = "cylinder", "plane", "mesh"
_ROUND = (SPHERE, CAPSULE)
# Corners of a hull that touches planes. Each is a contact, and each step has equations of any two: with 64 corners one
# body's takes some four times as long as with 8.
MOST_CORNERS = 64
# Corners of a cube, and those of its faces in order around them.
_CORNERS = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], float)
_FACES = ((0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3))
# Sides of a cylinder, and directions in which corners of a hull are looked for, to draw them.
_SIDES, _DIRECTIONS = 16, 100


@dataclass(frozen=True, eq=False)
class Geom:
    """One geom.

    Attributes:
        name, kind: its name, and one of the kinds of this module.
        frame: that it is fixed to.
        place, quaternion: (3,), (4,) therein [m].
        size: radius; radius and half length of a capsule and of a cylinder, along z; halves of a box; semi-axes [m].
        vertices: (v, 3) of a mesh's convex hull, in its own axes [m]; none where it has no hull.
    """

    name: str
    kind: str
    frame: int
    place: np.ndarray
    quaternion: np.ndarray
    size: np.ndarray
    vertices: np.ndarray

    @property
    def turn(self) -> np.ndarray:
        """(3, 3) from its own axes to those of the frame."""
        return matrices(self.quaternion[None])[0]

    def spots(self) -> tuple[np.ndarray, np.ndarray]:
        """Points (k, 3) and semi-axes (k, 3) in its own axes, with which it touches planes [m]."""
        z = np.array([0.0, 0.0, 1.0])
        if self.kind == SPHERE:
            return np.zeros((1, 3)), np.full((1, 3), self.size[0])
        if self.kind == CAPSULE:
            return np.stack([-self.size[1] * z, self.size[1] * z]), np.full((2, 3), self.size[0])
        if self.kind in (BOX, MESH):
            corners = _CORNERS * self.size if self.kind == BOX else self.vertices
            return corners, np.zeros_like(corners)
        if self.kind == CYLINDER:
            return np.stack([-self.size[1] * z, self.size[1] * z]), np.tile(self.size[0] * (1 - z), (2, 1))
        return np.zeros((1, 3)), self.size[None]

    def holds(self, point: Array) -> Array:
        """Whether points (..., 3) in its own axes lie in a sphere, capsule, box, ellipsoid or cylinder."""
        size = np.broadcast_to(self.size, point.shape)
        if self.kind == BOX:
            return jnp.all(jnp.abs(point) <= size, axis=-1)
        size = size if self.kind == ELLIPSOID else size[..., :1]
        across, along = jnp.sum(point[..., :2] ** 2, axis=-1), jnp.abs(point[..., 2])
        if self.kind == CYLINDER:
            return (across <= self.size[0] ** 2) & (along <= self.size[1])
        if self.kind == CAPSULE:
            return across + jnp.maximum(along - self.size[1], 0) ** 2 <= self.size[0] ** 2
        return jnp.sum((point / size) ** 2, axis=-1) <= 1

    def half(self) -> np.ndarray:
        """(3,) from the middle to the end of a sphere's or a capsule's segment, in the frame [m]."""
        return self.turn[:, 2] * (self.size[1] if self.kind == CAPSULE else 0.0)


def uncovered(one: Geom, other: Geom) -> str | None:
    """Why the contact of two geoms is not among those of this module."""
    kinds, corners = {one.kind, other.kind}, max(len(one.vertices), len(other.vertices))
    if PLANE in kinds:
        known = len(kinds) == 2 and kinds <= {*_ROUND, BOX, ELLIPSOID, CYLINDER, PLANE, MESH}
    else:
        known = kinds <= {*_ROUND, BOX} and kinds != {BOX}
    what = f"{one.kind} with {other.kind}"
    if not known or (MESH in kinds and not corners):
        return what
    if corners > MOST_CORNERS:
        return f"{what}: its hull has {corners} vertices, expected at most {MOST_CORNERS}, as the mesh's maxhullvert"
    return None


class Touch(NamedTuple):
    """Contacts at one place.

    Attributes:
        gap: (c,) [m].
        direction: (c, 3) unit vectors from the first to the second.
        first, second: (c, 3) points of the first and of the second body, in the world [m].
    """

    gap: Array
    direction: Array
    first: Array
    second: Array


@dataclass(frozen=True, eq=False)
class Touching:
    """All contacts of pairs of geoms, those with planes first, then those of segments, then those with boxes.

    Attributes:
        pair: (c,) the number of each contact's pair.
        first, second: (c,) frames of the two bodies; of a plane and of a box the first.
        wall: (c,) whether the first is a plane.
        margin: (c,) distances at which they touch [m].
        planes: normals (p, 3), points (p, 3) in the first frame; points (p, 3), turns (p, 3, 3) and semi-axes (p, 3) of
            the spots in the second.
        segments: middles, halves (s, 3) and radii (s,) of both.
        boxes: middles (b, 3), turns (b, 3, 3) and halves (b, 3) in the first frame; middles, halves (b, 3) and radii
            (b,) of the segments in the second.
    """

    pair: np.ndarray
    first: np.ndarray
    second: np.ndarray
    wall: np.ndarray
    margin: np.ndarray
    planes: tuple[np.ndarray, ...]
    segments: tuple[np.ndarray, ...]
    boxes: tuple[np.ndarray, ...]

    @classmethod
    def of(cls, pairs: list[tuple[Geom, Geom, float]]) -> Touching:
        """Of pairs of geoms that are `covered`, and their margins."""
        planes, segments, boxes = [], [], []
        for number, (a, b, _) in enumerate(pairs):
            if PLANE in (a.kind, b.kind):
                plane, body = (a, b) if a.kind == PLANE else (b, a)
                for point, axes in zip(*body.spots(), strict=True):
                    place = body.place + body.turn @ point
                    planes.append(
                        (number, plane.frame, body.frame, plane.turn[:, 2], plane.place, place, body.turn, axes)
                    )
            elif BOX in (a.kind, b.kind):
                box, rod = (a, b) if a.kind == BOX else (b, a)
                own = box.place, box.turn, box.size, rod.place, rod.half(), rod.size[0]
                boxes.append((number, box.frame, rod.frame, *own))
            else:
                radii = a.size[0], b.size[0]
                segments.append((number, a.frame, b.frame, a.place, a.half(), b.place, b.half(), *radii))
        ids = np.array([row[:3] for row in (*planes, *segments, *boxes)], int).reshape(-1, 3)
        wall = np.arange(len(ids)) < len(planes)
        spots = _stacked(planes, ((3,), (3,), (3,), (3, 3), (3,)))
        rods = _stacked(segments, ((3,), (3,), (3,), (3,), (), ()))
        blocks = _stacked(boxes, ((3,), (3, 3), (3,), (3,), (3,), ()))
        margin = np.array([pairs[number][2] for number in ids[:, 0]], float)
        return cls(ids[:, 0], ids[:, 1], ids[:, 2], wall, margin, spots, rods, blocks)

    def at(self, frames: Frames) -> Touch:
        """All contacts where the frames are there."""
        ends = np.cumsum([0, *(len(block[0]) for block in (self.planes, self.segments, self.boxes))])
        blocks = [
            distances(frames, self.first[begin:end], self.second[begin:end])
            for distances, begin, end in zip(
                (self._on_planes, self._between, self._on_boxes), ends[:-1], ends[1:], strict=True
            )
            if begin < end
        ]
        if not blocks:
            none = jnp.zeros((0, 3), frames.place.dtype)
            return Touch(none[:, 0], none, none, none)
        found = Touch(*(jnp.concatenate(parts) for parts in zip(*blocks, strict=True)))
        return found._replace(gap=found.gap - jnp.asarray(self.margin, found.gap.dtype))

    def _on_planes(self, frames, first, second) -> Touch:
        normal, point, spot, turn, axes = self.planes
        normal, place = frames.directions(first, normal), frames.points(second, spot)
        if np.all(axes == axes[:, :1]):
            place = place - jnp.asarray(axes, place.dtype) * normal
        else:
            # The normal in the geom's axes; A n over its length is zero where A is.
            own = dot("cij,cjk->cik", frames.turn[second], turn)
            _, towards = unit(jnp.asarray(axes, place.dtype) * dot("cji,cj->ci", own, normal))
            place = place - dot("cij,cj->ci", own, jnp.asarray(axes, place.dtype) * towards)
        gap = jnp.sum(normal * (place - frames.points(first, point)), axis=1)
        return Touch(gap, normal, place - gap[:, None] * normal, place)

    def _between(self, frames, first, second) -> Touch:
        middle, half, others, other_half, *radii = self.segments
        radius, other_radius = (jnp.asarray(x, frames.place.dtype) for x in radii)
        near, far = frames.points(first, middle), frames.points(second, others)
        if half.any() or other_half.any():
            d, e = frames.directions(first, half), frames.directions(second, other_half)
            s, t = _nearest(far - near, d, e)
            near, far = near + s[:, None] * d, far + t[:, None] * e
        distance, direction = unit(far - near)
        gap = distance - radius - other_radius
        return Touch(gap, direction, near + radius[:, None] * direction, far - other_radius[:, None] * direction)

    def _on_boxes(self, frames, first, second) -> Touch:
        middle, turn, size, rod, half, radius = self.boxes
        size, radius = (jnp.asarray(x, frames.place.dtype) for x in (size, radius))
        own = dot("cij,cjk->cik", frames.turn[first], turn)
        origin = frames.points(first, middle)
        point = dot("cji,cj->ci", own, frames.points(second, rod) - origin)
        if half.any():
            along = dot("cji,cj->ci", own, frames.directions(second, half))
            point = point + _nearest_to_box(point, along, size)[:, None] * along
        # Outside: towards the nearest point of the box; inside: out of the nearest face.
        distance, out = unit(point - jnp.clip(point, -size, size))
        depth = jnp.abs(point) - size
        face = jnp.argmax(depth, axis=1)[:, None] == np.arange(3)[None]
        inside = distance == 0
        distance = jnp.where(inside, jnp.max(depth, axis=1), distance)
        out = jnp.where(inside[:, None], jnp.where(face, jnp.where(point < 0, -1.0, 1.0), 0.0), out)
        near, far = point - distance[:, None] * out, point - radius[:, None] * out
        direction, near, far = (dot("cij,cj->ci", own, x) for x in (out, near, far))
        return Touch(distance - radius, direction, origin + near, origin + far)

    def rows(self, tree: Tree, frames: Frames) -> Array:
        """(c, 3, d) of the velocities of the second body on the first, along the direction and `poses.tangents`."""
        found = self.at(frames)
        both = np.concatenate([self.first, self.second])
        # Between bodies that touch at a distance: forces on both have one line.
        middle = (found.first + found.second) / 2
        J = tree.jacobian(frames, both, jnp.concatenate([middle, middle]))[:, :3]
        # Frames of walls are along x and y on a floor, whose normal comes out of it.
        direction = jnp.where(self.wall[:, None], -found.direction, found.direction)
        axes = jnp.stack([found.direction, *tangents(direction, self.wall)], axis=1)
        return dot("cki,cid->ckd", axes, J[len(self.first) :] - J[: len(self.first)])


def _stacked(rows, shapes) -> tuple[np.ndarray, ...]:
    """The columns behind the third of rows, as arrays of these shapes."""
    return tuple(np.array([row[3 + k] for row in rows], float).reshape(-1, *shape) for k, shape in enumerate(shapes))


def _nearest(apart: Array, d: Array, e: Array) -> tuple[Array, Array]:
    """s and t (c,) in [-1, 1] for which |apart + t e - s d| is least; lengths d, e (c, 3) may be zero.

    Example:
        >>> import jax
        >>> crossed = [np.array([x]) for x in ([0.5, 0.0, 1.0], [2.0, 0.0, 0.0], [0.0, 1.0, 0.0])]
        >>> [x.tolist() for x in jax.jit(_nearest)(*crossed)]
        [[0.25], [0.0]]
    """
    dd, ee, de = jnp.sum(d * d, 1), jnp.sum(e * e, 1), jnp.sum(d * e, 1)
    ad, ae = jnp.sum(apart * d, 1), jnp.sum(apart * e, 1)
    # Where they are parallel any s does: that of the middle.
    square = dd * ee - de * de
    crossed = square > jnp.finfo(d.dtype).eps ** 0.75 * dd * ee
    s = jnp.where(crossed, (ad * ee - ae * de) / jnp.where(crossed, square, 1.0), 0.0)
    t = _quotient(jnp.clip(s, -1, 1) * de - ae, ee)
    s = jnp.clip(_quotient(ad + jnp.clip(t, -1, 1) * de, dd), -1, 1)
    return s, jnp.clip(_quotient(s * de - ae, ee), -1, 1)


# Halvings of a segment, to rounding in double precision.
_HALVINGS = 54


def _nearest_to_box(point: Array, along: Array, size: Array) -> Array:
    """t (c,) in [-1, 1] for which point + t along (c, 3) is nearest to a box about zero with these halves (c, 3).

    Example:
        >>> import jax
        >>> point, along, size = (np.array([x]) for x in ([0.0, 0.0, 2.0], [4.0, 0.0, 1.0], [1.0, 1.0, 1.0]))
        >>> [round(float(t), 4) for t in jax.jit(_nearest_to_box)(point, along, size)]
        [-0.2941]
    """

    def slope(t, point, along):
        off = point + t[:, None] * along
        return jnp.sum((off - jnp.clip(off, -size, size)) * along, axis=1)

    known, way = lax.stop_gradient((point, along))
    ones = jnp.ones_like(known[:, 0])

    def halved(_, ends):
        low, high, left, right = ends
        m, n = (low + high) / 2, (left + right) / 2
        below, above = slope(m, known, way) < 0, slope(n, known, way) > 0
        return (
            jnp.where(below, m, low),
            jnp.where(below, high, m),
            jnp.where(above, left, n),
            jnp.where(above, n, right),
        )

    # Of a segment along a face many points are nearest: their middle.
    low, high, left, right = lax.fori_loop(0, _HALVINGS, halved, (-ones, ones, -ones, ones))
    t = (low + high + left + right) / 4
    bend = jax.jvp(lambda t: slope(t, known, way), (t,), (ones,))[1]
    free = (jnp.abs(t) < 1 - 1e-6) & (bend > 0)
    # One step from what was found has the derivative of all of them.
    return t - jnp.where(free, slope(t, point, along) / jnp.where(free, bend, 1.0), 0.0)


def _quotient(a: Array, b: Array) -> Array:
    return jnp.where(b > 0, a / nonzero(b), 0.0)


def drawn(geoms: list[Geom], tree: Tree, q: Array) -> tuple[Shape, ...]:
    """What geoms look like."""
    frames, turned = tree.frames(q), tree.orientations(q)
    shapes: list[Shape] = []
    for geom in geoms:
        place = frames.points(np.array([geom.frame]), geom.place[None])[0]
        own = jnp.asarray(geom.quaternion, place.dtype)
        turn = product(turned[geom.frame][None], own[None])[0]
        pose = jnp.concatenate([place, turn])
        if geom.kind == PLANE:
            normal = poses.rotation(pose)[:, 2]
            shapes.append(Wall(normal, jnp.sum(normal * place)))
        elif geom.kind == SPHERE:
            shapes.append(Ball(place[None], jnp.asarray(geom.size[:1]), turn[None]))
        elif geom.kind == BOX:
            shapes.append(Polyhedron(_CORNERS * geom.size, place, turn, _FACES))
        elif geom.kind == MESH and len(geom.vertices):
            corners = _outermost(geom.vertices)
            shapes.append(Polyhedron(corners, place, turn, solids.Polyhedron(corners).faces))
        elif geom.kind == ELLIPSOID:
            angle = np.linspace(0, 2 * np.pi, 33)[:, None]
            for i, j in ((0, 1), (1, 2), (2, 0)):
                ring = np.cos(angle) * np.eye(3)[i] + np.sin(angle) * np.eye(3)[j]
                shapes.append(Line(poses.placed(ring * geom.size, pose)))
        elif geom.kind in (CAPSULE, CYLINDER):
            shapes.append(Polyhedron(_prism(geom.size), place, turn, _PRISM))
            if geom.kind == CAPSULE:
                ends = poses.placed(geom.size[1] * np.array([[0.0, 0.0, -1.0], [0.0, 0.0, 1.0]]), pose)
                shapes.append(Ball(ends, jnp.full(2, geom.size[0])))
    return tuple(shapes)


def _outermost(corners: np.ndarray) -> np.ndarray:
    """Those of a hull's corners (k, 3) that are furthest in some directions, all over a sphere: few to draw."""
    number = np.arange(_DIRECTIONS) + 0.5
    z, turn = 1 - 2 * number / _DIRECTIONS, np.pi * (1 + np.sqrt(5)) * number
    across = np.sqrt(1 - z**2)
    directions = np.stack([across * np.cos(turn), across * np.sin(turn), z])
    return corners[np.unique(np.argmax(corners @ directions, axis=0))]


def _prism(size: np.ndarray) -> np.ndarray:
    angle = np.arange(_SIDES) * 2 * np.pi / _SIDES
    ring = np.stack([size[0] * np.cos(angle), size[0] * np.sin(angle)], axis=1)
    ends = [np.concatenate([ring, np.full((_SIDES, 1), z)], axis=1) for z in (-size[1], size[1])]
    return np.concatenate(ends)


_PRISM = (
    tuple(range(_SIDES))[::-1],
    tuple(range(_SIDES, 2 * _SIDES)),
    *((i, (i + 1) % _SIDES, _SIDES + (i + 1) % _SIDES, _SIDES + i) for i in range(_SIDES)),
)
