"""Model balls, ellipses and ellipsoids: smooth shapes, whose point nearest to a plane is a closed form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from diffcontact.shapes.shape import Shape, Spots, lengths, numbers


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
        del dimension
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
        del dimension
        squares = numbers(self.semi_axes) ** 2
        return (squares.sum() - squares) / 5
