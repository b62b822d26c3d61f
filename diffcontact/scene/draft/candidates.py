"""What a recording may be a scene of, and what the template of each scene (`templates/`) is told.

Each function is one kind of scene; None where the recording does not look like it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffcontact.scene.draft.motion import LEFT, Strike, fall, oscillates, pushed, strikes, wall_run
from diffcontact.scene.draft.survey import Column, Marker, Pair, Survey, levers_of, scatter
from diffcontact.scene.preparation.common_line import knee, principal_axis
from diffcontact.scene.units import factor

# Drag of a ball in air [1/m]: rho C_d A / 2 m is 0.003 for steel, 0.02 for a tennis ball, 0.14 in table tennis.
_DRAG, _DRAG_SIGMA = 0.03, 0.05
# Lengths and times of a film whose scale and rate nobody stated.
PIXEL, RATE = 1.0, 30
# A ball on a slope falls more slowly, what is smoothed or rough anyhow: a unit of length is ten or a hundred times off.
_GRAVITY, _OFF = 9.81, 2.5
# By how much lengths may grow in a second of a film, and from the bottom of the picture to its top.
_NEARER, _TILTED = 0.1, 0.05
# Samples of a flight that show how it bends.
_FEWEST = 6
# Off their common line two carts are by less than this part of their way.
_STRAIGHT = 0.03
# How long soft bumpers push, and which parts of a record about it are tried [s].
_PUSH, _REACHES = 0.05, (0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0)
# By so much parabolas may leave more than they do in the part in which they leave least.
_WORSE = 1.25
# A parabola through fewer samples says nothing.
_FEW = 12
# So many samples from the start are still where they differ by less than so many times their roughness.
_START, _STILL = 10, 6.0
# What a body is taken to measure where the floor is not at zero [m].
_SIDE = 0.1
# An angle is right to so much at best, whatever its scatter from sample to sample is.
_FINEST = {"rad": 0.01, "deg": 0.5, "turn": 0.0015}


@dataclass(frozen=True)
class Draft:
    """A scene that a recording may be of.

    Attributes:
        what: it takes the recording for.
        template: of the scene.
        metric: the columns whose unit a system in metres and seconds needs to know.
        columns: those whose noise the scene states.
        told: what else the template names.
    """

    what: str
    template: str
    metric: Sequence[Column] = ()
    columns: Sequence[Column] = ()
    told: Mapping[str, Any] = field(default_factory=dict)


def metric_keys(survey: Survey, columns: Sequence[Column]) -> list[str]:
    """Keys that a system in metres and seconds needs of a film in pixels and frames."""
    keys = []
    if any(column.unit == "px" for column in columns):
        keys.append(f'scale = {{ value = {PIXEL:g}, unit = "mm/px" }}  # a guess: no length is right until this is')
    if survey.time_unit == "frame":
        guess = (RATE, "a guess: frames a second; no time is right until this is")
        rate, why = survey.rate or guess
        keys.append(f"rate = {rate:g}  # {why}")
    return keys


def drag_key(metre: float = 1.0, unit: str = "m") -> str:
    """The drag of a ball nobody knows anything of, free: held at zero it would make e too small and too sure.

    Args:
        metre: how many units a metre has.
        unit: of lengths.
    """
    mean, sigma = (f"{value / metre:.2g}" for value in (_DRAG, _DRAG_SIGMA))
    return f'drag = {{ value = {mean}, unit = "1/{unit}", prior = {{ mean = {mean}, sigma = {sigma} }} }}'


def metres(column: Column) -> float:
    """How long the unit of a column is, as the draft will say."""
    return PIXEL * 1e-3 if column.unit == "px" else factor(column.unit, "m")


def seconds(survey: Survey) -> NDArray:
    """(n,) the times, as the draft will have them."""
    return survey.times * second(survey)


def second(survey: Survey) -> float:
    """How long the unit of the times is, as the draft will say [s]."""
    rate, _ = survey.rate or (RATE, "")
    return 1.0 / rate if survey.time_unit == "frame" else factor(survey.time_unit, "s")


def heard() -> Draft:
    """A ball of which only the impacts were heard, in a known gravity."""
    return Draft("the impacts of a bouncing ball that was heard", "heard")


def bouncing(survey: Survey, column: Column, axis: str, bounces: int) -> Draft:
    """A ball in a film: in pixels and frames where that is what there is, in metres and seconds otherwise."""
    column = _as_it_falls(survey, column)
    unit, film = column.unit, column.unit == "px" and survey.time_unit == "frame"
    told = {
        "bounces": bounces,
        "axis": axis,
        "length": "px" if film else "m",
        "time": "frame" if film else "s",
        "unit": unit,
        "spacing": float(np.median(np.diff(survey.times))),
        # A fall through the picture is about a metre.
        "drag": drag_key(column.span if unit == "px" else 1.0 / metres(column), unit),
        # A picture grows as the ball comes nearer, and with height where the camera is tilted.
        "camera": film and bounces > 1,
        "grown": _NEARER / RATE,
        "higher": _TILTED / column.span,
    }
    what = f"a ball that bounces, seen in {column.name}"
    return Draft(what, "bouncing", () if film else (column,), (column,), told)


def _as_it_falls(survey: Survey, column: Column) -> Column:
    """The column in the unit in which it falls as things do, where its unit is a guess and times are no frames."""
    if not column.guessed or column.unit == "px" or survey.time_unit == "frame":
        return column
    found = fall(survey.times * factor(survey.time_unit, "s"), column.values)
    for unit in ("m", "cm", "mm"):
        if 1 / _OFF < found * factor(unit, "m") / _GRAVITY < _OFF:
            return replace(column, unit=unit)
    return column


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
    told = {"count": len(markers), "dimension": len(axes), "gravity": gravity, "radius": 0.5e3 * nearest}
    what = f"{len(markers)} balls or discs that collide in {_many(len(axes))}"
    return Draft(what, "bodies", columns, columns, told | {"drag": drag_key()})


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
    cut = [edge / unit for edge in edges] if np.isfinite([begin, end]).any() else None
    walls = _walls(run)
    inside = places[seen & (times >= edges[0]) & (times <= edges[1])]
    margin = 3 * float(noise.max())
    # At the start nothing may be behind a wall.
    offsets = [1e3 * min(float(offset), float((inside[:3] @ normal).min()) - margin) for normal, offset in walls]
    told = {
        "count": 1,
        "dimension": len(axes),
        "walls": [[round(float(n), 3) for n in normal] for normal, _ in walls],
        "offsets": [round(offset, 3) for offset in offsets],
        "restitution": _restitution(run),
        "gravity": gravity,
        "drag": drag_key(),
        "cut": cut,
    }
    what = f"one body that {'meets walls' if walls else 'flies'} in {_many(len(axes))}"
    return Draft(what, "bodies", columns, columns, told)


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


def on_a_line(first: Marker, second: Marker) -> bool:
    """Whether two markers move along one straight line, each by much more than it leaves it."""
    axes = [axis for axis in first.axes if axis in second.axes]
    if not axes:
        return False
    points = [np.stack([marker.axes[axis].values for axis in axes], axis=1) for marker in (first, second)]
    points = [part[np.all(np.isfinite(part), axis=1)] for part in points]
    if min(map(len, points)) < 8:
        return False
    everything = np.concatenate(points)
    direction = np.linalg.svd(everything - everything.mean(axis=0), full_matrices=False)[2][0]
    along = [part @ direction for part in points]
    off = [
        np.linalg.norm(part - part.mean(axis=0) - np.outer(s - s.mean(), direction), axis=1)
        for part, s in zip(points, along, strict=True)
    ]
    return all(np.sqrt(np.mean(d**2)) < _STRAIGHT * max(map(np.ptp, along)) for d in off)


def _reach(times: NDArray, first: Sequence[Column], second: Sequence[Column]) -> float:
    """How far from the impact [s] parabolas explain both carts about as well as nearer to it; infinite where all do.

    A rail is never quite straight, nor is a bumper gone after its push: over a long record the residuals show these,
    and the velocities at the impact, which tell e and the ratio of the masses, pay for it.
    """
    points = np.stack([np.stack([column.values for column in marker], axis=-1) for marker in (first, second)])
    seen = np.all(np.isfinite(points), axis=2)
    both = np.all(seen, axis=0)
    along = points @ principal_axis(points[seen])
    distance = np.abs(along[1] - along[0])
    try:
        impact = knee(times[both], distance[both]).time
    except ValueError:
        return np.inf
    left = [_left(times - impact, along, seen, reach) for reach in (*_REACHES, np.inf)]
    good = np.flatnonzero(np.array(left) <= _WORSE * min(left))
    return np.inf if good[-1] == len(_REACHES) else _REACHES[good[-1]]


def _left(since: NDArray, along: NDArray, seen: NDArray, reach: float) -> float:
    """The largest standard deviation that a parabola leaves of either cart (2, n) on either side of the impact."""
    worst = 0.0
    for cart, here in zip(along, seen, strict=True):
        for side in (-1.0, 1.0):
            part = here & (side * since > _PUSH) & (side * since <= reach)
            if part.sum() < _FEW:
                continue
            t, s = since[part], cart[part]
            parabola = np.polynomial.Polynomial.fit(t, s, 2)
            worst = max(worst, float(np.sqrt(np.sum((s - parabola(t)) ** 2) / (t.size - 3))))
    return worst if worst > 0 else np.inf


def carts(survey: Survey, first: Marker, second: Marker) -> Draft:
    """Two carts, each with a marker."""
    axes = [axis for axis in first.axes if axis in second.axes]
    one, two = ([marker.axes[axis] for axis in axes] for marker in (first, second))
    reach = _reach(seconds(survey), one, two)
    told = {"first": one, "second": two, "push": _PUSH, "reach": reach if np.isfinite(reach) else None}
    return Draft("two carts that collide on a straight line", "carts", one, (*one, *two), told)


def swings(survey: Survey, column: Column) -> float | None:
    """The frequency of a pendulum or a track, which depends on the amplitude."""
    return oscillates(seconds(survey), column.values, left=2 * LEFT)


def oscillation(survey: Survey, column: Column) -> Draft:
    """A mass on a spring, in stretches of some periods."""
    return _oscillator("an oscillation that dies away", survey, [column])


def track(survey: Survey, x: Column, y: Column) -> Draft:
    """A body that rolls in a track, seen from the side; where the track is flat it is an oscillator."""
    return _oscillator("a body that rolls to and fro in a curved track", survey, [x, y])


def _oscillator(what: str, survey: Survey, columns: Sequence[Column]) -> Draft:
    omega = swings(survey, columns[0]) or 1.0
    # Friction begins at a thousandth of the pull at the ends of the swing.
    pull = omega**2 * metres(columns[0]) * columns[0].span / 2
    return Draft(what, "oscillation", columns, columns, {"omega": omega, "pull": pull})


def pendulum(survey: Survey, angle: Column) -> Draft:
    """What turns to and fro about an axis."""
    return Draft("a pendulum that swings", "pendulum", [angle], [angle], {"omega": swings(survey, angle) or 1.0})


def slide(survey: Survey, columns: Sequence[Column]) -> Draft:
    """A block that slides to rest; gravity along a slope is a part of its deceleration."""
    del survey
    return Draft("a block that slides to rest", "slide", columns, columns)


def driven(survey: Survey, column: Column, force: str) -> Draft:
    """A carriage that a measured force drives: with a force in newton its mass shows."""
    found = pushed(seconds(survey), metres(column) * column.values, survey.forces[force])
    told = dict(zip(("mass", "damping", "friction"), found or (10, 1, 1), strict=True)) | {"force": force}
    # What stands still by friction does not show its velocity.
    stands = np.nanmax(column.values[:_START]) - np.nanmin(column.values[:_START]) < _STILL * column.roughness
    return Draft(f"a carriage driven by {force}", "driven", [column], [column], told | {"stands": bool(stands)})


def tumbling(survey: Survey, marker: Marker) -> Draft | None:
    """One body that falls onto a floor and tumbles; None where it does not fall, or nothing says how it is turned."""
    columns = [marker.axes[axis] for axis in sorted(marker.axes) if axis]
    in_space = len(columns) == 3 and len(survey.quaternions) == 1
    if not in_space and not (len(columns) == 2 and len(survey.angles) == 1):
        return None
    gravity = gravity_of(survey, columns)
    if not any(gravity):
        return None
    upright = int(np.argmax(np.abs(gravity)))
    normal = [-int(np.sign(g)) for g in gravity]
    height = normal[upright] * metres(columns[upright]) * columns[upright].values
    # What lies on a floor at zero is half as high as it is thick.
    lowest = float(np.nanmin(height))
    side, floor = (2e3 * lowest, 0.0) if lowest > 0 else (1e3 * _SIDE, 1e3 * (lowest - _SIDE / 2))
    told = {
        "normal": normal,
        "sides": [round(side, 1)] * len(columns),
        "floor": floor,
        "gravity": gravity,
        "angle": None if in_space else survey.angles[0],
        "angle_noise": _FINEST["deg"] if in_space else max(survey.angles[0].roughness, _FINEST[survey.angles[0].unit]),
    }
    return Draft(f"a body that is thrown and tumbles in {len(columns)} dimensions", "tumbling", columns, columns, told)


def impacts(survey: Survey) -> Draft:
    """A table of impacts of a ball, of two carts, or of a body that turns: velocities before and after each."""
    table = survey.impacts
    assert table is not None
    normal = max(table.velocities, key=lambda pair: pair.turns)
    if len(table.velocities) == 2 and not any(pair.axis for pair in table.velocities):
        return _impacts("carts", table.velocities)
    along = next((pair for pair in table.velocities if pair is not normal), None)
    if table.spins and along is not None and (found := levers_of(table, along, normal)) is not None:
        (levers, unit), rho = found
        told = {"spin": table.spins[0], "levers": levers, "lever_unit": unit, "gyration": 1e3 * rho}
        return _impacts("body", (along, normal), told)
    return _impacts("ball", (normal,))


def _impacts(of: str, pairs: tuple[Pair, ...], told: Mapping[str, Any] | None = None) -> Draft:
    what = f"a table of impacts, each of {'two carts' if of == 'carts' else f'a {of}'}"
    return Draft(what, "impacts", told={"of": of, "pairs": pairs, "scatter": scatter(pairs), **(told or {})})
