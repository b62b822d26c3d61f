"""The scene that is drafted: the first candidate whose preparation finds what it needs in the recording.

Its text is a template of `templates/`, a scene with gaps.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from functools import cache
from os.path import relpath
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from diffcontact.host.messages import one_line, shown
from diffcontact.identify.noise import roughness
from diffcontact.scene.document import Scene, parse_scene
from diffcontact.scene.draft.candidates import (
    Draft,
    bouncing,
    carts,
    driven,
    heard,
    impacts,
    metric_keys,
    on_a_line,
    one_body,
    oscillation,
    pendulum,
    several,
    slide,
    swings,
    track,
    tumbling,
)
from diffcontact.scene.draft.motion import curvature, oscillates
from diffcontact.scene.draft.survey import Column, Marker, Survey, quoted, quoted_names
from diffcontact.scene.keys import Table
from diffcontact.scene.measurements import read_measurements
from diffcontact.scene.preparation import PreparedRun

_MOST_BALLS = 6
# Two markers on one body stay as far apart, within so many times their roughness.
_STAYS = 12.0
# Angular frequencies of one pendulum differ by less.
_TOGETHER = 0.03


def draft(survey: Survey, folder: Path, name: str) -> tuple[str, str]:
    """A scene to start from.

    Args:
        survey: of the recording.
        folder: in which the scene will stand; it names the recording relative to that.
        name: of the scene, for messages.

    Returns:
        What the recording was taken for, in words, and the scene.

    Raises:
        ValueError: nothing that this library simulates was recognised; one line that says what was tried.
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
        rough = _rough(scene, runs) if candidate.columns else 1.0
        return candidate.what, _text(survey, candidate, folder, notes, rough)
    seen = f"; {survey.thinned}" if survey.thinned else ""
    # Of all columns in which a ball might bounce the last one stands for all.
    once = {what.partition(", ")[0]: reason for what, reason in tried.items()}
    why = "; ".join(f"{what}: {reason}" for what, reason in once.items())
    raise ValueError(f"{survey.path}: no scene fits {_told(survey)}. It is not {why}{seen}")


class _NotSeen(NamedTuple):
    """A scene that is not tried, and why not."""

    what: str
    why: str


def _told(survey: Survey) -> str:
    """What moves furthest, and how far."""
    columns = [column for marker in survey.markers for column in marker.moving.values()] or [*survey.angles]
    furthest = max(columns, key=lambda column: column.span, default=None)
    if furthest is None:
        return f"{survey.times.size} times"
    duration = survey.times[-1] - survey.times[0]
    unit = "frames" if survey.time_unit == "frame" else survey.time_unit
    return f"{shown(furthest.name)}, which goes {furthest.span:.3g} {furthest.unit} in {duration:.3g} {unit}"


def _candidates(survey: Survey) -> Iterator[Draft | _NotSeen]:
    if survey.impacts is not None:
        yield impacts(survey)
        return
    swinging = [angle for angle in survey.angles if swings(survey, angle)]
    yield from (pendulum(survey, angle) for angle in swinging if not survey.markers or _swing_together(survey, angle))
    if survey.angles and not swinging:
        yield _NotSeen("a pendulum that swings", "no angle is a sinusoid over three half periods or more")
    if not survey.markers:
        if not survey.angles:
            yield heard()
        return
    markers = sorted(survey.markers, key=lambda marker: -max(column.span for column in marker.axes.values()))
    # One scene has one unit of length: that of what moves furthest.
    markers = [marker for marker in markers if _unit(marker) == _unit(markers[0])]
    # Of markers on one body that does not turn the first one stands for all.
    markers = [marker for i, marker in enumerate(markers) if not any(_together(marker, one) for one in markers[:i])]
    if len(markers) >= 2:
        first, second = sorted(markers[:2], key=survey.markers.index)
        if on_a_line(first, second):
            yield carts(survey, first, second)
        chosen = sorted(markers[:_MOST_BALLS], key=survey.markers.index)
        if (collision := several(survey, chosen)) is not None:
            yield collision
    # What moves furthest is what was filmed.
    yield from _single(survey, markers[0])


def _spread(one: Column, two: Column) -> float:
    """How far the difference of two columns goes, whatever a few readings say."""
    off = one.values - two.values
    return float(np.ptp(np.nanpercentile(off, [2, 98]))) if np.isfinite(off).any() else np.inf


def _together(marker: Marker, other: Marker) -> bool:
    """Whether two markers move alike, along all axes."""
    pairs = [(column, other.axes.get(axis)) for axis, column in marker.axes.items()]
    return all(
        two is not None and _spread(one, two) <= _STAYS * max(one.roughness, two.roughness, 1e-3 * one.span)
        for one, two in pairs
    )


def _swing_together(survey: Survey, angle: Column) -> bool:
    """Whether a marker swings as often as an angle, as it does at the end of a pendulum."""
    columns = [column for marker in survey.markers for column in marker.moving.values()]
    often = [omega for column in columns if (omega := swings(survey, column)) is not None]
    return any(abs(omega / (swings(survey, angle) or np.inf) - 1) < _TOGETHER for omega in often)


def _unit(marker: Marker) -> str:
    return next(iter(marker.axes.values())).unit


def _single(survey: Survey, marker: Marker) -> Iterator[Draft | _NotSeen]:
    if (thrown := tumbling(survey, marker)) is not None:
        yield thrown
    columns = sorted(marker.moving.values(), key=lambda column: -column.span)
    x, y = marker.axes.get("x"), marker.axes.get("y") or marker.axes.get("z")
    if x is not None and y is not None and swings(survey, x) and curvature(x.values, y.values):
        yield track(survey, x, y)
    if survey.forces and len(marker.moving) == 1:
        yield driven(survey, columns[0], next(iter(survey.forces)))
    if oscillates(survey.times, columns[0].values):
        yield oscillation(survey, columns[0])
    else:
        yield _NotSeen("an oscillation that dies away", "it is no sinusoid over three half periods or more")
    for column in columns:
        for bounces in (2, 1):
            for axis in ("down", "up") if column.unit == "px" or "down" in column.name else ("up", "down"):
                yield bouncing(survey, column, axis, bounces)
    if (body := one_body(survey, marker)) is not None:
        yield body
    else:
        yield _NotSeen("one body in flight or among walls", "no acceleration is gravity's, and no impact is at an edge")
    yield slide(survey, sorted(marker.axes.values(), key=lambda column: column.name))


def _text(survey: Survey, draft: Draft, folder: Path, notes: Sequence[str] = (), rough: float = 1.0) -> str:
    """The scene; `notes` are what its preparation found, `rough` is how rough the prepared samples are."""
    remarks = [f"{text[0].upper()}{text[1:]}." for text in (*survey.remarks, survey.understood) if text]
    found = [f"Found: {', '.join(notes)}."] if notes else []
    start = f"Drafted from {survey.path.name}, taken for {draft.what}: a start, to be looked at line by line."
    told = {
        "head": [one_line(text) for text in (start, *remarks, *found)],
        "title": survey.path.stem,
        "file": _way(folder, survey.path),
        "survey": survey,
        "keys": survey.keys,
        "metric": metric_keys(survey, draft.metric) if draft.metric else (),
        "columns": draft.columns,
        "rough": rough,
        "cut": None,
        "walls": (),
    }
    return _TEMPLATES.get_template(f"{draft.template}.toml").render({**told, **draft.told})


def _unit_key(columns: Sequence[Column]) -> str:
    """The unit of the columns, one for all."""
    return f'unit = "{columns[0].unit}"{"  # a guess" if columns[0].guessed else ""}'


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
    "unit_key": _unit_key,
    "any": any,
    "g": lambda value, digits="": f"{value:{'.' if digits else ''}{digits}g}",
}


def _way(folder: Path, file: Path) -> str:
    """From a folder to a file, which keeps its name; ".." of a link is where that leads to, whatever its own place."""
    return relpath(file.parent.resolve() / file.name, folder.resolve())


def _rough(scene: Scene, runs: Sequence[PreparedRun]) -> float:
    """How rough the prepared samples are, without what the preparation left out, in the unit of the scene's noise."""
    return float(np.median([roughness(channel) for run in runs for channel in run.values.T])) / scene.length_factor
