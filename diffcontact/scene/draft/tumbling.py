"""A rigid body that is thrown, how it is turned included: its shape is a guess, since no track shows it."""

from __future__ import annotations

import numpy as np

from diffcontact.scene.draft.bodies import gravity_of
from diffcontact.scene.draft.parts import Draft, metres, metric_keys, names_of, unit_key
from diffcontact.scene.draft.survey import Column, Marker, Survey
from diffcontact.scene.draft.toml import quoted, quoted_names

# What a body is taken to measure where the floor is not at zero [m].
_SIDE = 0.1
# An angle is right to so much at best, whatever its scatter from sample to sample is.
_FINEST = {"rad": 0.01, "deg": 0.5, "turn": 0.0015}


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
    return Draft(
        f"a body that is thrown and tumbles in {len(columns)} dimensions",
        (
            'kind = "bodies"',
            f"dimension = {len(columns)}",
            f"planes = [{normal}]  # the floor",
            "",
            "[system.bodies.body]",
            'shape = "box"  # a guess',
            f"sides = {[round(side, 1)] * len(columns)}  # a guess: nothing is right until they are measured",
            'unit = "mm"',
        ),
        tuple(metric_keys(survey, columns)),
        (*(_poses(survey, columns) if in_space else _places(survey, columns)), "first_samples = 6"),
        (
            "restitution = { value = 0.3, bounds = [0, 1] }",
            "friction = { value = 0.3, bounds = [0, 1] }",
            f'plane_offset = {{ value = {floor:.4g}, unit = "mm" }}',
            "mass = { value = 1, free = false }",
            f"gravity = {{ value = {gravity}, free = false }}",
            'q0 = { value = "from data", unit = "mm", per_run = true }',
            'u0 = { value = "from data", unit = "mm/s", per_run = true }',
            'angle0 = { value = "from data", per_run = true }',
            'spin0 = { value = "from data", per_run = true }',
        ),
        ("", "[fit]", 'shooting = "growing"  # the first impact before the next'),
        tuple(columns),
    )


def _places(survey: Survey, columns: list[Column]) -> tuple[str, ...]:
    (angle,) = survey.angles
    noise = max(angle.roughness, _FINEST[angle.unit])
    return (
        'kind = "coordinates"',
        f"columns = {names_of(columns)}",
        unit_key(columns),
        f"angles = [{quoted(angle.name)}]",
        f'angle_unit = "{angle.unit}"{"  # a guess" if angle.guessed else ""}',
        f'angle_noise = {{ value = {noise:.2g}, unit = "{angle.unit}" }}  # a guess',
    )


def _poses(survey: Survey, columns: list[Column]) -> tuple[str, ...]:
    return (
        'kind = "poses"',
        f"columns = {names_of(columns)}",
        unit_key(columns),
        f"quaternions = {quoted_names(survey.quaternions[0])}",
        f'angle_noise = {{ value = {_FINEST["deg"]}, unit = "deg" }}  # a guess',
        'first_curve = "parabola"',
    )
