"""A ball that bounces: seen, or only heard."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from diffcontact.scene.draft.motion import fall
from diffcontact.scene.draft.parts import RATE, Draft, drag_key, metres, metric_keys, unit_key
from diffcontact.scene.draft.survey import Column, Survey
from diffcontact.scene.draft.toml import quoted
from diffcontact.scene.units import factor

# A ball on a slope falls more slowly, what is smoothed or rough anyhow: a unit of length is ten or a hundred times off.
_GRAVITY, _OFF = 9.81, 2.5
# By how much lengths may grow in a second of a film, and from the bottom of the picture to its top.
_NEARER, _TILTED = 0.1, 0.05


def heard() -> Draft:
    """The times of impacts, and a known gravity."""
    return Draft(
        "the impacts of a bouncing ball that was heard",
        ('kind = "bouncing ball"', 'length = "m"', 'time = "s"'),
        ('noise = { value = 1, unit = "ms" }  # of one impact',),
        ('kind = "sound"',),
        (
            'restitution = { value = "from data", bounds = [0, 1] }',
            "gravity = { value = 9.81, free = false }",
            "drag = { value = 0, free = false }",
            "floor = { value = 0, free = false }",
            "floor_drift = { value = 0, free = false }",
            "q0 = { value = 0, free = false }",
            'u0 = { value = "from data", per_run = true }  # downwards',
        ),
        ("", "[fit]", 'shooting = "single"'),
    )


def bouncing(survey: Survey, column: Column, axis: str, bounces: int) -> Draft:
    """A ball in a film: in pixels and frames where that is what there is, in metres and seconds otherwise."""
    column = _as_it_falls(survey, column)
    film = column.unit == "px" and survey.time_unit == "frame"
    length, time = ("px", "frame") if film else ("m", "s")
    spacing = float(np.median(np.diff(survey.times)))
    flags = [f"{use} = {quoted(name)}" for use, name in survey.flags.items()]
    later = ['later_restitution = { value = "from data", bounds = [0, 1], per_run = true }'] if bounces > 1 else []
    unit = column.unit
    # A fall through the picture is about as high as that.
    metre = column.span if unit == "px" else 1.0 / metres(column)
    guess = ", where a metre fills the picture" if unit == "px" else ""
    drift = "" if bounces > 1 and film else ", free = false"
    return Draft(
        f"a ball that bounces, seen in {column.name}",
        ('kind = "bouncing ball"', f"bounces = {bounces}", f'length = "{length}"', f'time = "{time}"'),
        tuple([] if film else metric_keys(survey, [column])),
        (
            'kind = "bounces"',
            f"column = {quoted(column.name)}",
            unit_key([column]),
            f'axis = "{axis}"',
            *flags,
            f'blur = {{ value = {spacing:.4g}, unit = "{survey.time_unit}" }}  # samples so near a bounce are left out',
        ),
        (
            'restitution = { value = "from data", bounds = [0, 1] }  # of the first bounce',
            *later,
            f'gravity = {{ value = "from data", unit = "{unit}/{time}^2", per_run = true }}',
            f"{drag_key(metre, unit)}  # of the air{guess}: e depends on it, so state your ball's",
            f'floor = {{ value = "from data", unit = "{unit}", per_run = true }}',
            f'floor_drift = {{ value = 0, unit = "{unit}/{time}"{drift}, per_run = true }}  # it comes nearer',
            *(_camera(column) if film and bounces > 1 else ()),
            f'q0 = {{ value = "from data", unit = "{unit}", per_run = true }}',
            f'u0 = {{ value = "from data", unit = "{unit}/{time}", per_run = true }}',
        ),
        ("", "[fit]", 'loss = "soft_l1"  # false detections count less', "f_scale = 3"),
        (column,),
    )


def _camera(column: Column) -> tuple[str, ...]:
    """What a camera does to a fall: it grows as the ball comes nearer, and with height where the camera is tilted."""
    grown = _NEARER / RATE
    higher = _TILTED / column.span
    return (
        f'approach = {{ value = 0, unit = "1/frame", prior = {{ mean = 0, sigma = {grown:.2g} }}, '
        "per_run = true }  # by so much its picture grows",
        f'perspective = {{ value = 0, unit = "1/{column.unit}", prior = {{ mean = 0, sigma = {higher:.2g} }}, '
        "per_run = true }  # and with height",
    )


def _as_it_falls(survey: Survey, column: Column) -> Column:
    """The column in the unit in which it falls as things do, where its unit is a guess and times are no frames."""
    if not column.guessed or column.unit == "px" or survey.time_unit == "frame":
        return column
    found = fall(survey.times * factor(survey.time_unit, "s"), column.values)
    for unit in ("m", "cm", "mm"):
        if 1 / _OFF < found * factor(unit, "m") / _GRAVITY < _OFF:
            return replace(column, unit=unit)
    return column
