"""What moves along a line and rubs: on a spring, rolling in a track, or driven by a measured force."""

from __future__ import annotations

import numpy as np

from diffcontact.scene.draft.motion import LEFT, oscillates, pushed
from diffcontact.scene.draft.parts import Draft, metres, metric_keys, names_of, seconds, unit_key
from diffcontact.scene.draft.survey import Column, Survey
from diffcontact.scene.draft.toml import quoted

# So many samples from the start are still where they differ by less than so many times their roughness.
_START, _STILL = 10, 6.0


def swings(survey: Survey, column: Column) -> float | None:
    """The frequency of a pendulum or a track, which depends on the amplitude."""
    return oscillates(seconds(survey), column.values, left=2 * LEFT)


def oscillation(survey: Survey, column: Column) -> Draft:
    """A mass on a spring, in stretches of some periods."""
    omega = _omega(survey, column)
    gamma, stiffness = _line(column, omega)
    return Draft(
        "an oscillation that dies away",
        ('kind = "particle line"', "per_unit_mass = true"),
        tuple(metric_keys(survey, [column])),
        (
            'kind = "oscillation"',
            f"column = {quoted(column.name)}",
            unit_key([column]),
            "periods = 10  # a stretch",
        ),
        (
            stiffness,
            f'damping = {{ value = {1e-3 * omega:.2g}, unit = "1/s", bounds = [0, {omega:.2g}] }}  # viscous',
            gamma,
            *_oscillator(),
        ),
        ("", "[fit]", 'shooting = "growing"  # friction may bring it to rest anywhere'),
        (column,),
    )


def track(survey: Survey, x: Column, y: Column) -> Draft:
    """A body that rolls in a track, seen from the side; where the track is flat it is an oscillator."""
    gamma, stiffness = _line(x, _omega(survey, x))
    return Draft(
        "a body that rolls to and fro in a curved track",
        ('kind = "particle line"', "per_unit_mass = true"),
        tuple(metric_keys(survey, [x, y])),
        (
            'kind = "track"',
            f"along = {quoted(x.name)}",
            f"height = {quoted(y.name)}",
            unit_key([x]),
            "steepest = 0.3  # where the track is steeper the law of a spring fails",
        ),
        (stiffness, 'damping = { value = 0, unit = "1/s", free = false }', gamma, *_oscillator()),
        ("", "[fit]", 'shooting = "growing"  # friction may bring it to rest anywhere'),
        (x, y),
    )


def pendulum(survey: Survey, angle: Column) -> Draft:
    """What turns to and fro about an axis."""
    omega = swings(survey, angle) or 1.0
    return Draft(
        "a pendulum that swings",
        ('kind = "pendulum"',),
        tuple(metric_keys(survey, [angle])),
        (
            'kind = "oscillation"',
            f"column = {quoted(angle.name)}",
            unit_key([angle]),
            "periods = 10  # a stretch",
        ),
        (
            'stiffness = { value = "from data", unit = "1/s^2" }  # g over the length of a thread',
            f'damping = {{ value = {1e-3 * omega:.2g}, unit = "1/s", bounds = [0, {omega:.2g}] }}  # viscous',
            'drag = { value = 0.01, unit = "1/rad", bounds = [0, 1] }  # of the air',
            f'rest = {{ value = "from data", unit = "{angle.unit}", per_run = true }}',
            f'q0 = {{ value = "from data", unit = "{angle.unit}", per_run = true }}',
            f'u0 = {{ value = "from data", unit = "{angle.unit}/s", per_run = true }}',
        ),
        (),
        (angle,),
    )


def slide(survey: Survey, columns: list[Column]) -> Draft:
    """A block that slides to rest; gravity along a slope is a part of its deceleration."""
    return Draft(
        "a block that slides to rest",
        ('kind = "particle line"', "per_unit_mass = true"),
        tuple(metric_keys(survey, columns)),
        ('kind = "slide"', f"columns = {names_of(columns)}", unit_key(columns)),
        (
            'gamma = { value = "from data", unit = "m/s^2", bounds = [0, 20] }  # on the level: mu g',
            'damping = { value = 0.05, unit = "1/s", bounds = [0, 2], prior = { mean = 0, sigma = 0.2 } }  # viscous',
            "mass = { value = 1, free = false }  # the motion shows none: all forces are per unit of mass",
            "normal = { value = 1, free = false }",
            "stiffness = { value = 0, free = false }",
            "rest = { value = 0, free = false }",
            'q0 = { value = "from data", unit = "mm", per_run = true }',
            'u0 = { value = "from data", unit = "mm/s", per_run = true }',
        ),
        (),
        tuple(columns),
    )


def driven(survey: Survey, column: Column, force: str) -> Draft:
    """A carriage that a measured force drives: with a force in newton its mass shows."""
    mass, damping, friction = pushed(seconds(survey), metres(column) * column.values, survey.forces[force]) or (
        10,
        1,
        1,
    )
    # What stands still by friction does not show its velocity.
    stands = np.nanmax(column.values[:_START]) - np.nanmin(column.values[:_START]) < _STILL * column.roughness
    speed = "value = 0, free = false" if stands else 'value = "from data", per_run = true'
    return Draft(
        f"a carriage driven by {force}",
        ('kind = "particle line"', f'drive = {{ column = {quoted(force)}, unit = "N" }}'),
        tuple(metric_keys(survey, [column])),
        ('kind = "coordinates"', f"columns = {names_of([column])}", unit_key([column])),
        (
            f'mass = {{ value = {mass:.3g}, unit = "kg" }}',
            f'damping = {{ value = {damping:.3g}, unit = "N*s/m", bounds = [0, {100 * damping:.3g}] }}',
            f'gamma = {{ value = {friction:.3g}, unit = "N", bounds = [0, {100 * friction:.3g}] }}  # dry friction',
            "normal = { value = 1, free = false }",
            'stiffness = { value = 0, unit = "N/m", free = false }',
            'rest = { value = 0, unit = "mm", free = false }',
            'q0 = { value = "from data", unit = "mm", per_run = true }',
            f'u0 = {{ {speed}, unit = "mm/s" }}{"  # it stands still" if stands else ""}',
        ),
        ("", "[fit]", 'shooting = "growing"  # friction may bring it to rest anywhere'),
        (column,),
    )


def _oscillator() -> tuple[str, ...]:
    """What both have."""
    return (
        "mass = { value = 1, free = false }  # the motion shows none: all forces are per unit of mass",
        "normal = { value = 1, free = false }",
        'rest = { value = "from data", unit = "mm", per_run = true }',
        'q0 = { value = "from data", unit = "mm", per_run = true }',
        'u0 = { value = "from data", unit = "mm/s", per_run = true }',
    )


def _line(column: Column, omega: float) -> tuple[str, str]:
    """Dry friction and stiffness; the friction begins at a thousandth of the pull at the ends of the swing."""
    pull = omega**2 * metres(column) * column.span / 2
    gamma = f'gamma = {{ value = {1e-3 * pull:.2g}, unit = "m/s^2", bounds = [0, {pull:.2g}] }}  # dry friction'
    return gamma, 'stiffness = { value = "from data", unit = "1/s^2" }'


def _omega(survey: Survey, column: Column) -> float:
    return swings(survey, column) or 1.0
