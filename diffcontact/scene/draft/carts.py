"""Two carts on a straight line."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from diffcontact.scene.draft.parts import Draft, metric_keys, names_of, seconds, unit_key
from diffcontact.scene.draft.survey import Column, Marker, Survey
from diffcontact.scene.preparation.common_line import principal_axis
from diffcontact.scene.preparation.knee import knee

# Off their common line two carts are by less than this part of their way.
_STRAIGHT = 0.03
# How long soft bumpers push, and which parts of a record about it are tried [s].
_PUSH, _REACHES = 0.05, (0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0)
# By so much parabolas may leave more than they do in the part in which they leave least.
_WORSE = 1.25
# A parabola through fewer samples says nothing.
_FEW = 12


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
    around = (
        [f'around_contact = {{ value = {reach:g}, unit = "s" }}  # beyond, the track is more than a slope and a drag']
        if np.isfinite(reach)
        else []
    )
    return Draft(
        "two carts that collide on a straight line",
        ('kind = "carts"',),
        tuple(metric_keys(survey, one)),
        (
            'kind = "common line"',
            f"first = {names_of(one)}",
            f"second = {names_of(two)}",
            unit_key(one),
            f'exclude_contact = {{ value = {_PUSH}, unit = "s" }}  # soft bumpers push that long',
            *around,
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
