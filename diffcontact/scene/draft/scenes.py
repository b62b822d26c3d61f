"""Draft the first scene whose preparation succeeds on the recording.

A candidate is a template of `templates/`, a scene with gaps, and the values for them; one function here for each kind.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from os.path import relpath
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from numpy.typing import NDArray

from diffcontact.host.messages import one_line, shown
from diffcontact.identify.noise import roughness
from diffcontact.scene.document import parse_scene
from diffcontact.scene.draft.layout import FULL_TURN, core
from diffcontact.scene.draft.motion import SWING_LEFT, Strike, curvature, fall, oscillates, pushed, strikes, wall_run
from diffcontact.scene.draft.survey import MOVES, Column, Marker, Survey, levers_of, quoted, quoted_names, scatter
from diffcontact.scene.keys import Table
from diffcontact.scene.measurements import read_measurements
from diffcontact.scene.preparation.knee import FEWEST, knee
from diffcontact.scene.preparation.lines import ASIDE, markers_of, principal_axis
from diffcontact.scene.units import factor
from diffcontact.systems import mechanism

# Drag of a ball in air [1/m]: rho C_d A / 2 m is 0.003 for steel, 0.02 for a tennis ball, 0.14 in table tennis.
_DRAG, _DRAG_SIGMA = 0.03, 0.05
# Lengths [mm] and times of a film whose scale and rate nobody stated.
_PIXEL, _RATE = 1.0, 30
# A ball on a slope falls more slowly, what is smoothed or rough anyhow: a unit of length is ten or a hundred times off.
_GRAVITY, _OFF = 9.81, 2.5
# By how much lengths may grow in a second of a film, and from the bottom of the picture to its top.
_NEARER, _TILTED = 0.1, 0.05
# Fewer samples show neither how a flight bends, nor a parabola on one side of an impact.
_FEWEST_OF_FLIGHT, _FEWEST_OF_SIDE = 6, 12
# Lines in time leave so much less of the places aside than a rail does, where an impact has turned a body.
_TURNED = 0.5
# How long soft bumpers push, and which parts of a record about it are tried [s].
_PUSH, _REACHES = 0.05, (0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0)
# By so much parabolas may leave more than they do in the part in which they leave least.
_WORSE = 1.25
# So many samples from the start are still where they differ by less than so many times their roughness.
_START, _STILL = 10, 6.0
# The size of a body where the floor is not at zero [m].
_SIDE = 0.1
# An angle is right to so much at best, whatever its scatter from sample to sample is.
_FINEST = {"rad": 0.01, "deg": 0.5, "turn": 0.0015}
_MOST_BALLS = 6
# Angular frequencies of one pendulum differ by less.
_TOGETHER = 0.03


@dataclass(frozen=True)
class Draft:
    """A scene that a recording may be of."""

    what: str  # the motion in words
    template: str  # of the scene
    columns: Sequence[Column] = ()  # those whose noise the scene states
    told: Mapping[str, Any] = field(default_factory=dict)  # other values for the template
    metric: bool = True  # whether its system is in metres and seconds


class _NotSeen(NamedTuple):
    """A scene that is not tried, and the reason."""

    what: str
    why: str


def draft(survey: Survey, folder: Path, name: str) -> tuple[str, str]:
    """Draft a scene; in words the motion that was recognised, and the scene.

    Recordings are named relative to `folder`. Refuses what no candidate fits, and says what was tried.
    """
    # Candidates differ in what they make of the same columns.
    tried: dict[str, str] = {}
    read = cache(read_measurements)
    for candidate in _candidates(survey):
        if isinstance(candidate, _NotSeen):
            tried[candidate.what] = candidate.why
            continue
        text = _text(survey, candidate, folder)
        try:
            scene = parse_scene(Table(tomllib.loads(text), name), folder)
            runs = scene.read_runs(survey.path, read)
        except ValueError as error:
            # What stands behind a semicolon helps where the scene is right.
            tried[candidate.what] = str(error).removeprefix(f"{survey.path}: ").partition(";")[0]
            continue
        notes = [f"{key} {value}" for run in runs[:1] for key, value in run.notes.items() if key != "recording"]
        # Of the prepared samples, without those that the preparation left out.
        rough = [roughness(channel) for run in runs for channel in run.values.T] if candidate.columns else [1.0]
        return candidate.what, _text(survey, candidate, folder, notes, float(np.median(rough)) / scene.length_factor)
    # Of all columns in which a ball might bounce the last one stands for all.
    once = {what.partition(", ")[0]: reason for what, reason in tried.items()}
    why = "; ".join([*(f"{what}: {reason}" for what, reason in once.items()), *filter(None, [survey.thinned])])
    raise ValueError(f"{survey.path}: no scene fits {_furthest(survey)}. It is not {why}")


def draft_of_model(model: Path, survey: Survey, folder: Path, name: str) -> tuple[str, str]:
    """Draft a scene of a mechanism, from columns with names as "elbow [deg]" or "tip x [mm]"."""
    try:
        system = mechanism(model)
    except ImportError as error:
        raise ValueError(f"{model}: {error}") from None
    markers = [column for marker in survey.markers for column in marker.axes.values()]
    recorded = {core(column.name).lower(): column for column in (*markers, *survey.angles)}
    found: dict[str, list[Column | None]] = {}
    for thing, count in system.observed.items():
        spelt = [(thing,)] if count == 1 else [[f"{thing}{between}{axis}" for between in " _.-"] for axis in "xyz"]
        own = [next((recorded[key.lower()] for key in keys if key.lower() in recorded), None) for keys in spelt]
        if any(own):
            found[thing] = own
    if not found:
        known = ", ".join(key if count == 1 else f"{key} x" for key, count in system.observed.items())
        raise ValueError(f"{survey.path}: no column has a name of {model.name}, expected some of {known}")
    joints = system.model.tree
    turning = {
        name for name, at in zip(system.names["joint"], joints.velocity[1:], strict=True) if joints.dof_turns[at]
    }
    angles = [own[0] for thing, own in found.items() if thing in turning and len(own) == 1 and own[0] is not None]
    lengths = [column for own in found.values() for column in own if column is not None and column not in angles]
    angles = [column if column.unit in FULL_TURN else replace(column, unit="rad", guessed=True) for column in angles]
    told = {
        "model": relpath(model.parent.resolve() / model.name, folder.resolve()),
        "found": found,
        "angles": angles,
        "lengths": lengths,
        "finest": _FINEST,
        "parameters": [key for key in ("damping", "frictionloss") if system.defaults[key].any()],
        "restitutions": [key for key in ("restitution", "stop_restitution") if system.defaults[key].size],
        "friction": bool(system.defaults["friction"].size),
        "defaults": {key: value.tolist() for key, value in system.defaults.items()},
    }
    candidate = Draft(f"the mechanism {model.name}", "mechanism", lengths or angles, told)
    text = _text(survey, candidate, folder)
    scene = parse_scene(Table(tomllib.loads(text), name), folder)
    rough = [
        roughness(channel) for run in scene.read_runs(survey.path) for channel in run.values.T[: len(lengths) or None]
    ]
    return candidate.what, _text(survey, candidate, folder, rough=float(np.median(rough)) / scene.length_factor)


def _furthest(survey: Survey) -> str:
    """The column that moves furthest, and how far."""
    columns = [column for marker in survey.markers for column in marker.moving.values()] or [*survey.angles]
    furthest = max(columns, key=lambda column: column.span, default=None)
    if furthest is None:
        return f"{survey.times.size} times"
    duration = survey.times[-1] - survey.times[0]
    unit = "frames" if survey.time_unit == "frame" else survey.time_unit
    return f"{shown(furthest.name)}, which goes {furthest.span:.3g} {furthest.unit} in {duration:.3g} {unit}"


def _candidates(survey: Survey) -> Iterator[Draft | _NotSeen]:
    if survey.impacts is not None:
        yield _impacts(survey)
        return
    swinging = [angle for angle in survey.angles if _frequency(survey, angle)]
    for angle in swinging:
        if not survey.markers or _swing_together(survey, angle):
            omega = _frequency(survey, angle) or 1.0
            yield Draft("a pendulum that swings", "pendulum", [angle], {"omega": omega})
    if survey.angles and not swinging:
        yield _NotSeen("a pendulum that swings", "no angle is a sinusoid over three half periods or more")
    if not survey.markers:
        if not survey.angles:
            yield Draft("the impacts of a bouncing ball that was heard", "heard")
        return
    markers = sorted(survey.markers, key=lambda marker: -max(column.span for column in marker.axes.values()))
    # One scene has one unit of length: that of what moves furthest.
    markers = [marker for marker in markers if _unit(marker) == _unit(markers[0])]
    # Of markers on one body that does not turn the first one stands for all.
    markers = [marker for i, marker in enumerate(markers) if not any(_together(marker, one) for one in markers[:i])]
    if len(markers) >= 2:
        first, second = sorted(markers[:2], key=survey.markers.index)
        if _on_a_line(first, second) and not _turned_aside(survey, first, second):
            yield _carts(survey, first, second)
        yield from _several(survey, sorted(markers[:_MOST_BALLS], key=survey.markers.index))
    # What moves furthest is what was filmed.
    yield from _single(survey, markers[0])


def _single(survey: Survey, marker: Marker) -> Iterator[Draft | _NotSeen]:
    yield from _tumbling(survey, marker)
    columns = sorted(marker.moving.values(), key=lambda column: -column.span)
    x, y = marker.axes.get("x"), marker.axes.get("y") or marker.axes.get("z")
    if x is not None and y is not None and _frequency(survey, x) and curvature(x.values, y.values):
        yield _oscillator("a body that rolls to and fro in a curved track", survey, [x, y])
    if survey.forces and len(marker.moving) == 1:
        yield _driven(survey, columns[0], next(iter(survey.forces)))
    if oscillates(survey.times, columns[0].values):
        yield _oscillator("an oscillation that dies away", survey, columns[:1])
    else:
        yield _NotSeen("an oscillation that dies away", "it is no sinusoid over three half periods or more")
    for column in columns:
        for bounces in (2, 1):
            for axis in ("down", "up") if column.unit == "px" or "down" in column.name else ("up", "down"):
                yield _bouncing(survey, column, axis, bounces)
    yield _one_body(survey, marker)
    # Gravity along a slope is a part of its deceleration.
    columns = sorted(marker.axes.values(), key=lambda column: column.name)
    yield Draft("a block that slides to rest", "slide", columns)


def _text(survey: Survey, draft: Draft, folder: Path, notes: Sequence[str] = (), rough: float = 1.0) -> str:
    """Render a scene, with notes of its preparation and its roughness."""
    remarks = [f"{text[0].upper()}{text[1:]}." for text in (*survey.remarks, survey.understood) if text]
    found = [f"Found: {', '.join(notes)}."] if notes else []
    start = f"Drafted from {survey.path.name}, taken for {draft.what}: a start, to be looked at line by line."
    told = {
        "head": [one_line(text) for text in (start, *remarks, *found)],
        "title": survey.path.stem,
        # The file keeps its name; ".." of a link is where that leads to, whatever its own place.
        "file": relpath(survey.path.parent.resolve() / survey.path.name, folder.resolve()),
        "survey": survey,
        "keys": survey.keys,
        "metric": _metric_keys(survey, draft.columns) if draft.metric and draft.columns else (),
        "columns": draft.columns,
        "rough": rough,
        "cut": None,
        "walls": (),
    }
    return _TEMPLATES.get_template(f"{draft.template}.toml").render({**told, **draft.told})


_TEMPLATES = Environment(
    loader=PackageLoader("diffcontact.scene.draft"),
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
    undefined=StrictUndefined,
)
_TEMPLATES.filters |= {
    "toml": quoted,
    "names": lambda columns: quoted_names([column.name for column in columns]),
    "unit_key": lambda columns: f'unit = "{columns[0].unit}"{"  # a guess" if columns[0].guessed else ""}',
    "any": any,
    "g": lambda value, digits="": f"{value:{'.' if digits else ''}{digits}g}",
}


def _metric_keys(survey: Survey, columns: Sequence[Column]) -> list[str]:
    """Keys that turn pixels and frames into metres and seconds."""
    keys = []
    if any(column.unit == "px" for column in columns):
        keys.append(f'scale = {{ value = {_PIXEL:g}, unit = "mm/px" }}  # a guess: no length is right until this is')
    if survey.time_unit == "frame":
        rate, why = survey.rate or (_RATE, "a guess: frames a second; no time is right until this is")
        keys.append(f"rate = {rate:g}  # {why}")
    return keys


def _drag_key(metre: float = 1.0, unit: str = "m") -> str:
    """Free drag of an unknown ball: zero makes e too small."""
    mean, sigma = (f"{value / metre:.2g}" for value in (_DRAG, _DRAG_SIGMA))
    return f'drag = {{ value = {mean}, unit = "1/{unit}", prior = {{ mean = {mean}, sigma = {sigma} }} }}'


def _metres(column: Column) -> float:
    return _PIXEL * 1e-3 if column.unit == "px" else factor(column.unit, "m")


def _second(survey: Survey) -> float:
    """Length of the unit of times in the draft [s]."""
    rate, _ = survey.rate or (_RATE, "")
    return 1.0 / rate if survey.time_unit == "frame" else factor(survey.time_unit, "s")


def _seconds(survey: Survey) -> NDArray:
    return survey.times * _second(survey)


def _points(columns: Sequence[Column]) -> tuple[NDArray, NDArray, NDArray]:
    """Places (n, k) [m], noise (k,) [m], and complete rows (n,)."""
    lengths = np.array([_metres(column) for column in columns])
    places = lengths * np.stack([column.values for column in columns], axis=1)
    noise = lengths * np.array([column.roughness for column in columns])
    return places, noise, np.all(np.isfinite(places), axis=1)


def _struck(survey: Survey, columns: Sequence[Column]) -> list[Strike]:
    places, noise, seen = _points(columns)
    return strikes(_seconds(survey)[seen], places[seen], noise)


def _axes(markers: Sequence[Marker]) -> list[str]:
    common = [axis for axis in markers[0].axes if all(axis in marker.axes for marker in markers)]
    moved = [axis for axis in common if any(axis in marker.moving for marker in markers)]
    return sorted(moved or common)


def _unit(marker: Marker) -> str:
    return next(iter(marker.axes.values())).unit


def _many(dimensions: int) -> str:
    return f"{dimensions} dimension{'s' if dimensions > 1 else ''}"


def _together(marker: Marker, other: Marker) -> bool:
    """Whether two markers move alike, along all axes."""

    def alike(one: Column, two: Column) -> bool:
        off = one.values - two.values
        span = float(np.ptp(np.nanpercentile(off, [2, 98]))) if np.isfinite(off).any() else np.inf
        return span <= MOVES * max(one.roughness, two.roughness, 1e-3 * one.span)

    return all(axis in other.axes and alike(column, other.axes[axis]) for axis, column in marker.axes.items())


def _frequency(survey: Survey, column: Column) -> float | None:
    """Angular frequency of a pendulum or a track [1/s]."""
    return oscillates(_seconds(survey), column.values, left=2 * SWING_LEFT)


def _swing_together(survey: Survey, angle: Column) -> bool:
    columns = [column for marker in survey.markers for column in marker.moving.values()]
    often = [omega for column in columns if (omega := _frequency(survey, column)) is not None]
    return any(abs(omega / (_frequency(survey, angle) or np.inf) - 1) < _TOGETHER for omega in often)


def _oscillator(what: str, survey: Survey, columns: Sequence[Column]) -> Draft:
    omega = _frequency(survey, columns[0]) or 1.0
    # Friction begins at a thousandth of the pull at the ends of the swing.
    pull = omega**2 * _metres(columns[0]) * columns[0].span / 2
    return Draft(what, "oscillation", columns, {"omega": omega, "pull": pull})


def _driven(survey: Survey, column: Column, force: str) -> Draft:
    """A carriage that a measured force [N] drives."""
    found = pushed(_seconds(survey), _metres(column) * column.values, survey.forces[force])
    told = dict(zip(("mass", "damping", "friction"), found or (10, 1, 1), strict=True)) | {"force": force}
    # What stands still by friction does not show its velocity.
    stands = np.nanmax(column.values[:_START]) - np.nanmin(column.values[:_START]) < _STILL * column.roughness
    return Draft(f"a carriage driven by {force}", "driven", [column], told | {"stands": bool(stands)})


def _bouncing(survey: Survey, column: Column, axis: str, bounces: int) -> Draft:
    """A ball in a film, in pixels and frames or in SI units."""
    if column.guessed and column.unit != "px" and survey.time_unit != "frame":
        # In a guessed unit it falls as things do.
        found = fall(survey.times * factor(survey.time_unit, "s"), column.values)
        right = (unit for unit in ("m", "cm", "mm") if 1 / _OFF < found * factor(unit, "m") / _GRAVITY < _OFF)
        column = replace(column, unit=next(right, column.unit))
    unit, film = column.unit, column.unit == "px" and survey.time_unit == "frame"
    told = {
        "bounces": bounces,
        "axis": axis,
        "length": "px" if film else "m",
        "time": "frame" if film else "s",
        "unit": unit,
        "spacing": float(np.median(np.diff(survey.times))),
        # A fall through the picture is about a metre.
        "drag": _drag_key(column.span if unit == "px" else 1.0 / _metres(column), unit),
        # A picture grows as the ball comes nearer, and with height where the camera is tilted.
        "camera": film and bounces > 1,
        "grown": _NEARER / _RATE,
        "higher": _TILTED / column.span,
    }
    return Draft(f"a ball that bounces, seen in {column.name}", "bouncing", (column,), told, metric=not film)


def _several(survey: Survey, markers: Sequence[Marker]) -> Iterator[Draft]:
    """Balls of equal size that collide; none where no impact shows."""
    axes = _axes(markers)
    if len(axes) < 1 or any(len(marker.moving) == 0 for marker in markers):
        return
    own = [[marker.axes[axis] for axis in axes] for marker in markers]
    columns = [column for part in own for column in part]
    if not any(_struck(survey, part) for part in own):
        return
    points = _metres(columns[0]) * np.stack([column.values for column in columns], axis=1)
    points = points.reshape(-1, len(markers), len(axes))
    pairs = [np.linalg.norm(points[:, i] - points[:, j], axis=1) for j in range(len(markers)) for i in range(j)]
    nearest = float(min(np.nanmin(pair) for pair in pairs))
    told = {"count": len(markers), "dimension": len(axes), "gravity": _gravity(survey, own[0]), "radius": 500 * nearest}
    what = f"{len(markers)} balls or discs that collide in {_many(len(axes))}"
    yield Draft(what, "bodies", columns, told | {"drag": _drag_key(), "push": _PUSH})


def _one_body(survey: Survey, marker: Marker) -> Draft | _NotSeen:
    """One body in flight or among walls where its centre meets them."""
    columns = [marker.axes[axis] for axis in _axes([marker])]
    times, (places, noise, seen) = _seconds(survey), _points(columns)
    run, begin, end = wall_run(_struck(survey, columns), places[seen])
    gravity = _gravity(survey, columns)
    if not run and not any(gravity):
        return _NotSeen(
            "one body in flight or among walls", "no acceleration is gravity's, and no impact is at an edge"
        )
    spacing = 2 * float(np.median(np.diff(times)))
    edges = max(begin + spacing, times[0]), min(end - spacing, times[-1])
    # The walls that were hit, along the axes, where the centre was then.
    hit: dict[tuple[float, ...], list[float]] = {}
    for strike in run:
        k = int(np.argmax(np.abs(strike.normal)))
        normal = np.zeros(strike.normal.size)
        normal[k] = np.sign(strike.normal[k])
        hit.setdefault(tuple(normal), []).append(float(normal @ strike.place))
    inside = places[seen & (times >= edges[0]) & (times <= edges[1])]
    # At the start nothing may be behind a wall.
    least = [float((inside[:3] @ np.array(normal)).min()) - 3 * float(noise.max()) for normal in hit]
    offsets = [1e3 * min(float(np.mean(each)), low) for each, low in zip(hit.values(), least, strict=True)]
    told = {
        "count": 1,
        "dimension": len(columns),
        "walls": [[round(float(n), 3) for n in normal] for normal in hit],
        "offsets": [round(offset, 3) for offset in offsets],
        "restitution": float(np.clip(np.median([one.restitution for one in run]), 0.05, 0.95)) if run else 0.8,
        "gravity": gravity,
        "drag": _drag_key(),
        "cut": [edge / _second(survey) for edge in edges] if np.isfinite([begin, end]).any() else None,
    }
    what = f"one body that {'meets walls' if hit else 'flies'} in {_many(len(columns))}"
    return Draft(what, "bodies", columns, told)


def _gravity(survey: Survey, columns: Sequence[Column]) -> list[float]:
    """Free fall along one axis, or none, by the first flight.

    Air slows a fast ball by as much. Of several axes the last one, z in space and y in a plane, is upright.
    """
    times, bends, flies = _seconds(survey), np.zeros(len(columns)), np.zeros(len(columns), bool)
    for i, column in enumerate(columns):
        seen = np.flatnonzero(np.isfinite(column.values))
        found = _struck(survey, [column])
        first = seen[times[seen] < (found[0].time if found else np.inf)]
        flies[i] = first.size >= _FEWEST_OF_FLIGHT
        part = first if flies[i] else seen
        if part.size >= _FEWEST_OF_FLIGHT:
            bends[i] = 2 * np.polynomial.polynomial.polyfit(times[part], _metres(column) * column.values[part], 2)[2]
    values, size = [0.0] * len(columns), np.abs(bends) / _GRAVITY
    # Air and spin change free fall by some tenths of itself.
    if np.any(flies & (size > 0.6) & (size < 1.6)):
        upright = np.flatnonzero(size > 0.3)[-1]
        values[upright] = float(np.copysign(_GRAVITY, bends[upright]))
    return values


def _on_a_line(first: Marker, second: Marker) -> bool:
    """Tell whether two markers move along one straight line."""
    axes = [axis for axis in first.axes if axis in second.axes]
    if not axes:
        return False
    both, seen = markers_of(*([marker.axes[axis].values for axis in axes] for marker in (first, second)))
    points = [part[rows] for part, rows in zip(both, seen, strict=True)]
    if min(map(len, points)) < FEWEST:
        return False
    direction = principal_axis(np.concatenate(points))
    centred = [part - part.mean(axis=0) for part in points]
    along = [part @ direction for part in centred]
    off = [np.linalg.norm(part - np.outer(s, direction), axis=1) for part, s in zip(centred, along, strict=True)]
    return all(np.sqrt(np.mean(d**2)) < ASIDE * max(map(np.ptp, along)) for d in off)


def _turned_aside(survey: Survey, first: Marker, second: Marker) -> bool:
    """Tell whether an impact turns the way of one of two markers, as no rail lets it.

    On a rail, which may look bent, a place aside belongs to each place along it. Behind an impact that is not central
    bodies go other ways: straight lines in time then fit the places aside, and no parabola in the place along does.
    """
    axes = [axis for axis in first.axes if axis in second.axes]
    if len(axes) < 2:
        return False
    times = _seconds(survey)
    points, seen = markers_of(*([marker.axes[axis].values for axis in axes] for marker in (first, second)))
    direction = principal_axis(points[seen])
    along, both = points @ direction, np.all(seen, axis=0)
    try:
        impact = knee(times[both], np.abs(along[1] - along[0])[both]).time
    except ValueError:
        return False

    def left(aside: NDArray, columns: Sequence[NDArray]) -> float:
        shapes = np.stack(columns, axis=1).astype(float)
        return float(np.linalg.norm(aside - shapes @ np.linalg.lstsq(shapes, aside, rcond=None)[0]))

    for part, s, here in zip(points, along, seen, strict=True):
        aside, s, t = (part - np.outer(s, direction))[here], s[here] - s[here].mean(), times[here] - impact
        before = t < 0
        of_the_rail = left(aside, [np.ones_like(s), s, s**2])
        if left(aside, [before, before * t, ~before, ~before * t]) < _TURNED * of_the_rail:
            return True
    return False


def _carts(survey: Survey, first: Marker, second: Marker) -> Draft:
    axes = [axis for axis in first.axes if axis in second.axes]
    one, two = ([marker.axes[axis] for axis in axes] for marker in (first, second))
    told = {"first": one, "second": two, "push": _PUSH, "reach": _reach(_seconds(survey), one, two)}
    return Draft("two carts that collide on a straight line", "carts", (*one, *two), told)


def _reach(times: NDArray, first: Sequence[Column], second: Sequence[Column]) -> float | None:
    """Longest time [s] from the impact that parabolas explain; None: all.

    No rail is quite straight, and bumpers go on pushing, which distorts e and the ratio of the masses.
    """
    points, seen = markers_of(*([column.values for column in marker] for marker in (first, second)))
    both = np.all(seen, axis=0)
    along = points @ principal_axis(points[seen])
    distance = np.abs(along[1] - along[0])
    try:
        impact = knee(times[both], distance[both]).time
    except ValueError:
        return None
    left = [_left(times - impact, along, seen, reach) for reach in (*_REACHES, np.inf)]
    good = np.flatnonzero(np.array(left) <= _WORSE * min(left))
    return None if good[-1] == len(_REACHES) else _REACHES[good[-1]]


def _left(since: NDArray, along: NDArray, seen: NDArray, reach: float) -> float:
    """Largest deviation from a parabola of either cart, either side."""
    worst = 0.0
    for cart, here in zip(along, seen, strict=True):
        for side in (-1.0, 1.0):
            part = here & (side * since > _PUSH) & (side * since <= reach)
            if part.sum() < _FEWEST_OF_SIDE:
                continue
            t, s = since[part], cart[part]
            parabola = np.polynomial.Polynomial.fit(t, s, 2)
            worst = max(worst, float(np.sqrt(np.sum((s - parabola(t)) ** 2) / (t.size - 3))))
    return worst if worst > 0 else np.inf


def _tumbling(survey: Survey, marker: Marker) -> Iterator[Draft]:
    """One body of known orientation that falls and tumbles on a floor."""
    columns = [marker.axes[axis] for axis in sorted(marker.axes) if axis]
    in_space = len(columns) == 3 and len(survey.quaternions) == 1
    if not in_space and not (len(columns) == 2 and len(survey.angles) == 1):
        return
    gravity = _gravity(survey, columns)
    if not any(gravity):
        return
    upright = int(np.argmax(np.abs(gravity)))
    normal = [-int(np.sign(g)) for g in gravity]
    # What lies on a floor at zero is half as high as it is thick.
    lowest = float(np.nanmin(normal[upright] * _metres(columns[upright]) * columns[upright].values))
    side, floor = (2e3 * lowest, 0.0) if lowest > 0 else (1e3 * _SIDE, 1e3 * (lowest - _SIDE / 2))
    told = {
        "normal": normal,
        "sides": [round(side, 1)] * len(columns),
        "floor": floor,
        "gravity": gravity,
        "angle": None if in_space else survey.angles[0],
        "angle_noise": _FINEST["deg"] if in_space else max(survey.angles[0].roughness, _FINEST[survey.angles[0].unit]),
    }
    yield Draft(f"a body that is thrown and tumbles in {len(columns)} dimensions", "tumbling", columns, told)


def _impacts(survey: Survey) -> Draft:
    """A table of impacts of a ball, two carts or a body."""
    table = survey.impacts
    assert table is not None
    normal = max(table.velocities, key=lambda pair: pair.turns)
    of, pairs, told = "ball", (normal,), {}
    along = next((pair for pair in table.velocities if pair is not normal), None)
    if len(table.velocities) == 2 and not any(pair.axis for pair in table.velocities):
        of, pairs = "carts", table.velocities
    elif table.spins and along is not None and (found := levers_of(table, along, normal)) is not None:
        (levers, unit), rho = found
        of, pairs = "body", (along, normal)
        told = {"spin": table.spins[0], "levers": levers, "lever_unit": unit, "gyration": 1e3 * rho}
    what = f"a table of impacts, each of {'two carts' if of == 'carts' else f'a {of}'}"
    return Draft(what, "impacts", told={"of": of, "pairs": pairs, "scatter": scatter(pairs), **told})
