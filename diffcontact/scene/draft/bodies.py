"""Bodies that fly or glide: several that collide, or one among walls."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from diffcontact.scene.draft.motion import Strike, strikes, wall_run
from diffcontact.scene.draft.parts import Draft, drag_key, metres, metric_keys, names_of, second, seconds, unit_key
from diffcontact.scene.draft.survey import Column, Marker, Survey

_GRAVITY = 9.81
# Samples of a flight that show how it bends.
_FEWEST = 6


def several(survey: Survey, markers: Sequence[Marker]) -> Draft | None:
    """Balls or discs of equal size that collide with each other; None where no impact shows."""
    axes = _axes(markers)
    if len(axes) < 1 or any(len(marker.moving) == 0 for marker in markers):
        return None
    columns = [marker.axes[axis] for marker in markers for axis in axes]
    scale = metres(columns[0])
    points = scale * np.stack([column.values for column in columns], axis=1).reshape(-1, len(markers), len(axes))
    if not any(_struck(survey, marker, axes) for marker in markers):
        return None
    pairs = [np.linalg.norm(points[:, i] - points[:, j], axis=1) for j in range(len(markers)) for i in range(j)]
    nearest = float(min(np.nanmin(pair) for pair in pairs))
    gravity = gravity_of(survey, columns[: len(axes)])
    count = len(markers)
    held = ", ".join(["false", *["true"] * (count - 1)])
    ties = [f'"radius[{i}]" = "radius[0]"' for i in range(1, count)]
    return Draft(
        f"{count} balls or discs that collide in {_many(len(axes))}",
        ('kind = "balls"', f"count = {count}", f"dimension = {len(axes)}", *_air(gravity)),
        tuple(metric_keys(survey, columns)),
        ('kind = "coordinates"', f"columns = {names_of(columns)}", unit_key(columns)),
        (
            "restitution = { value = 0.8, bounds = [0, 1] }",
            f'mass = {{ value = 1, unit = "kg", free = [{held}] }}  # only ratios show: weigh the first',
            f'radius = {{ value = {0.5e3 * nearest:.4g}, unit = "mm" }}  # half of the nearest distance',
            f"gravity = {{ value = {gravity}, free = false }}",
            *([f"{drag_key()}  # of the air: state what you know"] if any(gravity) else []),
            'q0 = { value = "from data", unit = "mm", per_run = true }',
            'u0 = { value = "from data", unit = "mm/s", per_run = true }',
        ),
        ("", "[ties]", *ties),
        tuple(columns),
    )


def one_body(survey: Survey, marker: Marker) -> Draft | None:
    """One body among walls, or in flight; radius 0, so that the walls are where its centre meets them."""
    axes = _axes([marker])
    columns = [marker.axes[axis] for axis in axes]
    scale, times = metres(columns[0]), seconds(survey)
    places = scale * np.stack([column.values for column in columns], axis=1)
    seen = np.all(np.isfinite(places), axis=1)
    noise = scale * np.array([column.roughness for column in columns])
    run, begin, end = wall_run(_struck(survey, marker, axes), places[seen])
    gravity = gravity_of(survey, columns)
    if not run and not any(gravity):
        return None
    unit = second(survey)
    spacing = 2 * float(np.median(np.diff(times)))
    edges = max(begin + spacing, times[0]), min(end - spacing, times[-1])
    cut = (
        []
        if not np.isfinite([begin, end]).any()
        else [f"window = [{edges[0] / unit:.6g}, {edges[1] / unit:.6g}]  # beyond it something pushed, or more was hit"]
    )
    walls = _walls(run)
    inside = places[seen & (times >= edges[0]) & (times <= edges[1])]
    margin = 3 * float(noise.max())
    # At the start nothing may be behind a wall.
    offsets = [1e3 * min(float(offset), float((inside[:3] @ normal).min()) - margin) for normal, offset in walls]
    contacts = [f"planes = {[[round(float(n), 3) for n in normal] for normal, _ in walls]}  # normals of what was hit"]
    return Draft(
        f"one body that {'meets walls' if walls else 'flies'} in {_many(len(axes))}",
        ('kind = "balls"', "count = 1", f"dimension = {len(axes)}", *(contacts if walls else []), *_air(gravity)),
        (*metric_keys(survey, columns), *cut),
        ('kind = "coordinates"', f"columns = {names_of(columns)}", unit_key(columns)),
        (
            f"restitution = {{ value = {_restitution(run):.2f}, {'bounds = [0, 1]' if walls else 'free = false'} }}",
            "mass = { value = 1, free = false }",
            "radius = { value = 0, free = false }  # the walls are where the centre meets them",
            *(
                [f'plane_offset = {{ value = {[round(offset, 3) for offset in offsets]}, unit = "mm" }}']
                if walls
                else []
            ),
            f"gravity = {{ value = {gravity}, free = false }}",
            *([f"{drag_key()}  # of the air: state what you know"] if any(gravity) else []),
            'q0 = { value = "from data", unit = "mm", per_run = true }',
            'u0 = { value = "from data", unit = "mm/s", per_run = true }',
        ),
        columns=tuple(columns),
    )


def _air(gravity: Sequence[float]) -> list[str]:
    """What falls is slowed down by air, too."""
    return ["air = true"] if any(gravity) else []


def _many(dimensions: int) -> str:
    return f"{dimensions} dimension{'s' if dimensions > 1 else ''}"


def _axes(markers: Sequence[Marker]) -> list[str]:
    """The axes that all of them have and one of them moves along, in order."""
    common = [axis for axis in markers[0].axes if all(axis in marker.axes for marker in markers)]
    moved = [axis for axis in common if any(axis in marker.moving for marker in markers)]
    return sorted(moved or common)


def _struck(survey: Survey, marker: Marker, axes: Sequence[str]) -> list[Strike]:
    """The impacts that a marker's motion shows."""
    columns = [marker.axes[axis] for axis in axes]
    lengths = np.array([metres(column) for column in columns])
    places = lengths * np.stack([column.values for column in columns], axis=1)
    seen = np.all(np.isfinite(places), axis=1)
    noise = lengths * np.array([column.roughness for column in columns])
    return strikes(seconds(survey)[seen], places[seen], noise)


def gravity_of(survey: Survey, columns: Sequence[Column]) -> list[float]:
    """Free fall along one of the axes, or none: from a parabola through the first flight.

    Air slows a fast ball by as much: of several axes it is the last, z in space and y in a plane, that is upright.
    """
    times, bends, flies = seconds(survey), np.zeros(len(columns)), np.zeros(len(columns), bool)
    for i, column in enumerate(columns):
        seen = np.flatnonzero(np.isfinite(column.values))
        places = metres(column) * column.values[seen, None]
        found = strikes(times[seen], places, np.array([metres(column) * column.roughness]))
        first = seen[times[seen] < (found[0].time if found else np.inf)]
        flies[i] = first.size >= _FEWEST
        part = first if flies[i] else seen
        if part.size < _FEWEST:
            continue
        bends[i] = 2 * np.polynomial.polynomial.polyfit(times[part], metres(column) * column.values[part], 2)[2]
    values, size = [0.0] * len(columns), np.abs(bends) / _GRAVITY
    # Air and spin change free fall by some tenths of itself.
    if np.any(flies & (size > 0.6) & (size < 1.6)):
        upright = np.flatnonzero(size > 0.3)[-1]
        values[upright] = float(np.copysign(_GRAVITY, bends[upright]))
    return values


def _restitution(run: Sequence[Strike]) -> float:
    """A start."""
    return float(np.clip(np.median([strike.restitution for strike in run]), 0.05, 0.95)) if run else 0.8


def _walls(run: Sequence[Strike]) -> list[tuple[NDArray, float]]:
    """Normals along the axes, and offsets, of the walls that were hit."""
    walls: dict[tuple[float, ...], list[float]] = {}
    for strike in run:
        k = int(np.argmax(np.abs(strike.normal)))
        normal = np.zeros(strike.normal.size)
        normal[k] = np.sign(strike.normal[k])
        walls.setdefault(tuple(normal), []).append(float(normal @ strike.place))
    return [(np.array(normal), float(np.mean(offsets))) for normal, offsets in walls.items()]
