"""Shapes along a course, as tracks of numbers for the page.

A constant field of a shape is one list of numbers. A moving one is a track: numbers row by row at the times of the
course. The measured motion has no shapes of its own: at each sample it is the fitted one, displaced by what was
measured. So it can be drawn as far away as one likes to see it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import jax
import numpy as np
from jax import Array
from numpy.typing import NDArray

from diffcontact.drawing import Ball, Beads, Drawing, Ellipse, Line, Polygon, Polyhedron, Shape, Spring, Wall
from diffcontact.numerics.compilation import jit_fast_compile

# Of each kind the field whose last axis is the dimension of space.
_PLACED = {Ball: "centre", Polygon: "place", Ellipse: "centre", Polyhedron: "place", Wall: "normal", Line: "points"}
_PLACED |= {Spring: "start"}
# A displacement smaller than this part of the picture is rounding.
_STILL = 1e-9


@dataclass(frozen=True, eq=False)
class Moving:
    """One shape along a course."""

    kind: str  # the name of its class
    fields: dict[str, NDArray]  # name -> (1, w) numbers that stay, or (m, w) that move
    static: dict[str, Any]  # what is no array
    # name -> (n, w), by how much the measured shape is displaced at each sample, NaN where it is missing; empty where
    # it is not measured
    offsets: dict[str, NDArray]


@dataclass(frozen=True, eq=False)
class Motion:
    """All shapes along a course."""

    dimension: int  # 1, 2 or 3; 0 for beads on wires
    up: NDArray | None  # (dimension,) what is up in the picture, or None
    shapes: Sequence[Moving]  # in the order in which they are drawn


def motion(
    drawing: Drawing, params: Any, t: NDArray, q: NDArray, measured: tuple[NDArray, NDArray, NDArray] | None = None
) -> Motion:
    """Draw a system at places q (m, d) and times t (m,).

    `measured`: times (n,) of samples, places (n, d) there, and where they were measured to be, NaN where they were not.
    """
    shapes = _drawn(drawing, params, t, q)
    dimension = _dimension(shapes)
    ghosts = [{} for _ in shapes] if measured is None else _displaced(drawing, params, *measured)
    moving = []
    for shape, offsets in zip(shapes, ghosts, strict=True):
        arrays = _arrays(shape)
        static = {name: list(value) if isinstance(value, tuple) else value for name, value in _static(shape).items()}
        if isinstance(shape, Ball):
            static["count"] = arrays["centre"].shape[1] // dimension
        fields_of = {name: _still(rows) for name, rows in arrays.items()}
        moving.append(Moving(type(shape).__name__.lower(), fields_of, static, offsets))
    up = None if drawing.up is None else drawing.up(params)
    return Motion(dimension, None if up is None else np.asarray(up, float), moving)


def _displaced(drawing: Drawing, params: Any, t: NDArray, there: NDArray, seen: NDArray) -> list[dict[str, NDArray]]:
    """Differences of each shape's fields between two places."""
    found = []
    drawn = (_drawn(drawing, params, t, q) for q in (there, seen))
    for here, away in zip(*([_arrays(shape) for shape in shapes] for shapes in drawn), strict=True):
        # Walls of a box that is open there are infinitely far away, and stay.
        offsets = {
            name: np.subtract(away[name], rows, out=np.zeros_like(rows), where=away[name] != rows)
            for name, rows in here.items()
        }
        size = {name: max(np.nanmax(np.abs(rows), initial=0.0), 1e-300) for name, rows in here.items()}
        found.append({name: off for name, off in offsets.items() if np.any(~(np.abs(off) <= _STILL * size[name]))})
    return found


def _drawn(drawing: Drawing, params: Any, t: NDArray, q: NDArray) -> list[Shape]:
    """Draw all rows by one vectorised call, or row by row."""
    # Few lengths, since each is compiled for.
    rows = 1 << max(int(np.ceil(np.log2(max(t.size, 1)))), 6)
    times, places = (np.concatenate([x, np.repeat(x[-1:], rows - t.size, axis=0)]) for x in (t, q))

    for call in (_of_rows, _of_numbers):
        try:
            found = call(drawing, params, times, places)
        except (jax.errors.JAXTypeError, jax.errors.JAXIndexError, TypeError, ValueError):
            continue
        return [jax.tree.map(lambda leaf: np.asarray(leaf, float)[: t.size], shape) for shape in found]
    frames = [_listed(drawing(float(time), place, params)) for time, place in zip(t, q, strict=True)]
    structures = {jax.tree.structure(frame) for frame in frames}
    if len(structures) > 1:
        raise ValueError("draw: expected the same shapes in the same order at all times")
    try:
        return jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf, float) for leaf in leaves]), *frames)
    except ValueError as error:
        raise ValueError(f"draw: expected shapes whose arrays keep their sizes: {error}") from None


def _frames(drawing: Drawing, params: Any, t: Array, q: Array) -> list[Shape]:
    return jax.vmap(lambda time, place: _listed(drawing(time, place, params)))(t, q)


# One program for all parameters; where a drawing asks for their values, one for these values.
_of_rows = jit_fast_compile(_frames, static=("drawing",))
_of_numbers = jit_fast_compile(_frames, static=("drawing", "params"))


def _listed(shapes: Any) -> list[Shape]:
    listed = list(shapes) if isinstance(shapes, Iterable) else [shapes]
    for shape in listed:
        if not isinstance(shape, Shape):
            raise ValueError(f"draw: returned {type(shape).__name__}, expected shapes of diffcontact.drawing")
    return listed


def _dimension(shapes: Sequence[Shape]) -> int:
    found = {0 if isinstance(shape, Beads) else getattr(shape, _PLACED[type(shape)]).shape[-1] for shape in shapes}
    if len(found) != 1 or not found <= {0, 1, 2, 3}:
        raise ValueError(f"draw: shapes of {sorted(found)} dimensions, expected those of one space of 1, 2 or 3")
    return found.pop()


def _arrays(shape: Shape) -> dict[str, NDArray]:
    """Name -> (rows, w)."""
    every = _static(shape)
    given = {entry.name: getattr(shape, entry.name) for entry in fields(shape) if entry.name not in every}
    return {n: np.asarray(a, float).reshape(len(a), -1) for n, a in given.items() if a is not None}


def _static(shape: Shape) -> dict[str, Any]:
    return {e.name: getattr(shape, e.name) for e in fields(shape) if e.metadata.get("static")}


def _still(rows: NDArray) -> NDArray:
    return rows[:1] if np.all(rows == rows[:1]) else rows
