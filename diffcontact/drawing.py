"""What a system looks like: a few primitive shapes, as a function of (t, q, params).

A picture of a system is a function `draw(t, q, params)` that returns shapes, in metres, in 1, 2 or 3 dimensions: always
the same ones in the same order, only their arrays change. A `System` or `ParticleLine` has it as `draw=`; reports take
one as `draw=` too. The function may be traceable by JAX (it is then called once) or any Python.

    >>> import jax, jax.numpy as jnp
    >>> def pendulum(t, q, params):
    ...     bob = params["length"] * jnp.stack([jnp.sin(q[0]), -jnp.cos(q[0])])
    ...     return Line(jnp.stack([jnp.zeros(2), bob])), Ball(bob, 0.05)
    >>> jax.jit(pendulum)(0.0, jnp.zeros(1), {"length": 2.0})[1].centre.tolist()
    [0.0, -2.0]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp

# Of a field that is no array.
_STATIC = {"static": True}


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Ball:
    """Discs in a plane, spheres in space, beads on a line; one or many.

    Attributes:
        centre: (m,) or (n, m) [m].
        radius: () or (n,) [m]; 0 is a point, which is drawn all the same.
        turn: None, or how they are turned: () or (n,) angles [rad] in a plane, (4,) or (n, 4) quaternions w x y z in
            space.
    """

    centre: Any
    radius: Any = 0.0
    turn: Any = None


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Polygon:
    """A polygon in a plane.

    Attributes:
        corners: (n, 2) in its own frame [m].
        place: (2,) where its frame's origin is [m].
        turn: () by which angle it is turned about it [rad].
    """

    corners: Any
    place: Any = (0.0, 0.0)
    turn: Any = 0.0


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Ellipse:
    """An ellipse in a plane.

    Attributes:
        centre: (2,) [m].
        axes: (2,) half axes [m].
        turn: () angle of the first one [rad].
    """

    centre: Any
    axes: Any
    turn: Any = 0.0


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Polyhedron:
    """A polyhedron in space.

    Attributes:
        corners: (n, 3) in its own frame [m].
        place: (3,) where its frame's origin is [m].
        turn: (4,) unit quaternion w x y z from its frame to that of space.
        faces: the numbers of the corners of each face, in order around it.
    """

    corners: Any
    place: Any
    turn: Any
    faces: tuple[tuple[int, ...], ...] = field(default=(), metadata=_STATIC)


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Wall:
    """A plane, or a line in a plane, or a stop on a line; solid behind it.

    Attributes:
        normal: (m,) unit vector away from it, to where bodies may be.
        offset: () its distance from the origin along the normal [m].
    """

    normal: Any
    offset: Any


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Line:
    """A line through points: a rod, a thread, a track.

    Attributes:
        points: (n, m) [m].
    """

    points: Any


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Spring:
    """A spring.

    Attributes:
        start, end: (m,) its ends [m].
    """

    start: Any
    end: Any


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Beads:
    """Beads on parallel wires, one for each number.

    They show coordinates that have no place in a common space.

    Attributes:
        values: (n,) where they are along their wires.
        rest: None, or () or (n,) a mark on each wire.
        sprung: whether they are a chain of springs: the first tied to the left end of its wire, each to the one before.
    """

    values: Any
    rest: Any = None
    sprung: bool = field(default=False, metadata=_STATIC)


Shape = Ball | Polygon | Ellipse | Polyhedron | Wall | Line | Spring | Beads
Draw = Callable[[Any, Any, Any], Sequence[Shape]]


@dataclass(frozen=True)
class Coordinate:
    """What a coordinate is called.

    Attributes:
        name: in words.
        unit: in which the system counts it.
        down: whether it grows downwards, as the rows of a picture do.
        plotted: whether a curve of it against time tells anybody anything.
    """

    name: str
    unit: str = "m"
    down: bool = False
    plotted: bool = True


@dataclass(frozen=True)
class Drawing:
    """A function that draws a system, with the facts that a picture needs.

    Args:
        shapes: `draw(t, q, params) -> shapes`.
        coordinates: None, or `coordinates(params) -> one Coordinate for each entry of q`.
        up: None, or `up(params) -> (m,)`, the direction that is up in the picture: (0, -1) for the coordinates of a
            film, whose y grows downwards. On a line it makes the line upright; None: what lies along it is drawn from
            left to right, and y, or z in space, is up.
    """

    shapes: Draw
    coordinates: Callable[[Any], Sequence[Coordinate]] | None = None
    up: Callable[[Any], Any] | None = None

    def __call__(self, t: Any, q: Any, params: Any) -> Sequence[Shape]:
        return self.shapes(t, q, params)


def drawing_of(system: Any, draw: Draw | None = None) -> Drawing:
    """Choose the drawing of a system: `draw`, its own, or beads.

    Args:
        system: with an attribute `draw`, or None.
        draw: what is preferred to that.
    """
    chosen = draw if draw is not None else getattr(system, "draw", None)
    if chosen is None:
        return Drawing(beads)
    if isinstance(chosen, Drawing):
        return chosen
    own = getattr(system, "draw", None)
    known = own.coordinates if isinstance(own, Drawing) else None
    return Drawing(chosen, known)


def beads(t: Any, q: Any, params: Any) -> tuple[Shape, ...]:
    """Draw one bead for each coordinate, for systems without a picture.

    Example:
        >>> beads(0.0, jnp.array([0.5, 2.0]), {})[0].values.tolist()
        [0.5, 2.0]
    """
    return (Beads(jnp.ravel(jnp.asarray(q))),)


def rectangle(width: Any, height: Any) -> Any:
    """(4, 2) corners of a rectangle about the origin [m].

    Example:
        >>> rectangle(2.0, 1.0).tolist()
        [[-1.0, -0.5], [1.0, -0.5], [1.0, 0.5], [-1.0, 0.5]]
    """
    half = jnp.array([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]]) / 2
    return half * jnp.stack([jnp.asarray(width, half.dtype), jnp.asarray(height, half.dtype)])[None]
