"""Two carts on a straight line."""

from __future__ import annotations

import numpy as np

from diffcontact.scene.draft.parts import Draft, metric_keys, names_of, unit_key
from diffcontact.scene.draft.survey import Marker, Survey

# Off their common line two carts are by less than this part of their way.
_STRAIGHT = 0.03


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


def carts(survey: Survey, first: Marker, second: Marker) -> Draft:
    """Two carts, each with a marker."""
    axes = [axis for axis in first.axes if axis in second.axes]
    one, two = ([marker.axes[axis] for axis in axes] for marker in (first, second))
    return Draft(
        "two carts that collide on a straight line",
        ('kind = "carts"',),
        tuple(metric_keys(survey, one)),
        (
            'kind = "common line"',
            f"first = {names_of(one)}",
            f"second = {names_of(two)}",
            unit_key(one),
            'exclude_contact = { value = 0.05, unit = "s" }  # soft bumpers push that long',
        ),
        (
            'restitution = { value = "from data", bounds = [0, 1] }',
            "mass_ratio = { value = 1, bounds = [0.1, 10] }  # first over second",
            'distance = { value = "from data", unit = "mm", per_run = true }  # of the markers at contact',
            'tilt = { value = 0, unit = "m/s^2", bounds = [-1, 1], per_run = true }',
            'sag = { value = 0, unit = "1/s^2", free = false }  # of a long track; see experiments/airtrack.toml',
            'drag = { value = 0.02, unit = "1/s", bounds = [0, 1], per_run = true }',
            'q0 = { value = "from data", unit = "mm", per_run = true }',
            'u0 = { value = "from data", unit = "mm/s", per_run = true }',
        ),
        ("", "[fit]", 'shooting = "single"  # the tracks tell when the impact is'),
        (*one, *two),
    )
