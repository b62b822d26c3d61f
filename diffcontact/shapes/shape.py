"""Tell of every shape its spots, its inertia, and whether its lengths make sense.

A plane touches a shape at its spots. A spot is an ellipsoid about a point v of the body with semi-axes a along the
body's axes, most often of one extent: a = 0 for a vertex, v = 0 for an ellipse. With the unit normal n of the plane in
the body's frame and A = diag(a), the material point that the plane touches first, and how far the centre of mass is
from the plane when it does::

    arm = v - A^2 n / |A n|,        -n . arm = |A n| - n . v
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

from diffcontact.numerics.linear import nonzero, safe_sqrt


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
    size = safe_sqrt(jnp.sum(apart**2))
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
    return not isinstance(value, Array)


def numbers(value: Any) -> Any:
    """Return lengths as an array, of numpy where known, so that nothing is compiled."""
    return np.asarray(value) if known(value) else value
