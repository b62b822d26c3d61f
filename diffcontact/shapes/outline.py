"""Draw shapes by points and the lines between them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from diffcontact.shapes.ellipsoids import Ball
from diffcontact.shapes.polytopes import Box, Polygon, Polyhedron
from diffcontact.shapes.shape import Shape


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
