"""Two markers that move along one straight line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from diffcontact.scene.keys import Table
from diffcontact.scene.kinds import ReadySystem
from diffcontact.scene.preparation.run import PREPARATIONS, RESTITUTION_STARTS, Preparation, PreparedRun

# Two straight lines have four coefficients; below this there is nothing left to judge them by.
FEWEST = 8
# Bumpers push for some hundredths of a second: that is how far from the best split two good lines may meet [s].
_SLACK = 0.1


@dataclass(frozen=True)
class Knee:
    """The meeting of two straight lines that fit y(t)."""

    time: float
    value: float
    slope_before: float
    slope_after: float


def knee(t: NDArray, y: NDArray) -> Knee:
    """Fit two straight lines to y(t), n >= 8, and find where they meet.

    Refuses y that does not fall before, or falls more than half as fast afterwards: no impact of two bodies at distance
    y.
    """
    found = _knee(t, y)
    # Drag bends the lines, and a bend pulls the knee towards it: look again, nearer and nearer.
    for _ in range(2):
        reach = 0.5 * min(found.time - t[0], t[-1] - found.time)
        near = np.abs(t - found.time) <= reach
        if near.sum() < 4 * FEWEST:
            break
        t, y = t[near], y[near]
        found = _knee(t, y)
    return found


def _knee(t: NDArray, y: NDArray) -> Knee:
    centred = t - t[0]
    before = _running_misfit(centred, y)
    after = _running_misfit(-centred[::-1], y[::-1])[::-1]
    splits = np.arange(FEWEST // 2, t.size - FEWEST // 2 + 1)
    k = int(splits[np.argmin(before[splits - 1] + after[splits])])
    fit = np.polynomial.polynomial.polyfit
    (b0, b1), (a0, a1) = fit(centred[:k], y[:k], 1), fit(centred[k:], y[k:], 1)
    # After an impact the bodies approach no longer, whatever the restitution; half allows for what forces do meanwhile.
    if not (b1 < 0 and a1 > 0.5 * b1):
        raise ValueError(
            f"the distance changes at {b1:.3g} m/s and then at {a1:.3g} m/s, expected an approach and an impact"
        )
    # Lines that hardly differ may meet far away; the split itself is then the better time.
    meet = float(np.clip((a0 - b0) / (b1 - a1), centred[k - 1] - _SLACK, centred[k] + _SLACK))
    return Knee(float(t[0] + meet), float(min(b0 + b1 * meet, a0 + a1 * meet)), float(b1), float(a1))


def _running_misfit(t: NDArray, y: NDArray) -> NDArray:
    """Squares (n,) that lines through the first samples leave."""
    n = np.arange(1, t.size + 1)
    y = y - y[0]
    st, sy = np.cumsum(t) / n, np.cumsum(y) / n
    tt, ty, yy = (np.cumsum(a * b) / n - ma * mb for a, b, ma, mb in ((t, t, st, st), (t, y, st, sy), (y, y, sy, sy)))
    slope = np.divide(ty, tt, out=np.zeros_like(ty), where=tt > 0)
    return n * (yy - slope * ty)


@PREPARATIONS.add(
    "common line",
    first="columns of the first marker, one to three",
    second="columns of the second marker, as many",
    unit='of all of them, the system\'s by default: "mm"',
    exclude_contact="{ value, unit }: samples nearer to the impact are left out",
    around_contact="{ value, unit }: samples farther from the impact are left out",
)
def common_line(table: Table, ready: ReadySystem) -> Preparation:
    """Two markers that move along one straight line: their positions along it.

    The line is the principal axis of all marker positions; s = d . p [m], with the unit vector d pointing from the
    first marker to the second and s = 0 nearest to the origin of the measurement, so that runs on one track share
    their coordinate. The impact is where two straight lines fit the distance s_2 - s_1 best (`knee`), whether the
    markers part or stay together.
    """
    first, second = table.names("first"), table.names("second")
    if len(first) != len(second) or not 1 <= len(first) <= 3:
        raise table.fail("second", f"{len(second)} columns, first has {len(first)}; expected one to three for each")
    exclude = table.quantity("exclude_contact", ready.time, 0.0, zero=True)
    around = table.quantity("around_contact", ready.time, default=np.inf)
    if around <= exclude:
        raise table.fail("around_contact", f"{around} {ready.time}, expected more than exclude_contact")
    scale = table.factor("unit", ready.length)
    left_out = f"; samples within {exclude:g} s of the impact are left out" if exclude else ""
    left_out += f"; those more than {around:g} s from it, too" if np.isfinite(around) else ""

    def runs(times: NDArray, columns: Mapping[str, NDArray]) -> Iterable[PreparedRun]:
        markers = [np.stack([scale * columns[name] for name in marker], axis=-1) for marker in (first, second)]
        points = np.stack(markers)
        seen = np.all(np.isfinite(points), axis=2)
        count = int(np.all(seen, axis=0).sum())
        if count < FEWEST:
            raise ValueError(f"both markers are seen in {count} rows, expected at least {FEWEST}")
        # Before either marker is seen and after both are lost there is nothing to simulate.
        rows = np.flatnonzero(np.any(seen, axis=0))
        inside = slice(rows[0], rows[-1] + 1)
        times, points, seen = times[inside], points[:, inside], seen[:, inside]
        both = np.all(seen, axis=0)
        direction = principal_axis(points[seen])
        direction = direction * np.sign(np.mean((points[1, both] - points[0, both]) @ direction))
        along = (points @ direction).T
        impact = knee(times[both], along[both, 1] - along[both, 0])
        near = np.abs(times - impact.time) <= around
        times, along = times[near], along[near]
        lines = [_straight_line(times, along[:, i], times < impact.time, times[0]) for i in (0, 1)]
        start = {
            "q0": np.array([line[0] for line in lines]),
            "u0": np.array([line[1] for line in lines]),
            "distance": impact.value,
            "restitution": float(np.clip(-impact.slope_after / impact.slope_before, *RESTITUTION_STARTS)),
        }
        values = np.where(np.abs(times - impact.time)[:, None] < exclude, np.nan, along)
        notes = {
            "direction of the line": ", ".join(f"{x:.4f}" for x in direction),
            "impact": f"at {impact.time:.3f} s",
            "lost samples": f"{int(np.isnan(along[:, 0]).sum())} first, {int(np.isnan(along[:, 1]).sum())} second",
        }
        return [PreparedRun(times, values, start, notes=notes)]

    return Preparation(
        runs=runs,
        columns=first + second,
        channels=("first marker", "second marker"),
        description="both markers projected onto their common straight line, pointing from the first to the second"
        + left_out,
        suggests=("q0", "u0", "distance", "restitution"),
    )


def principal_axis(points: NDArray) -> NDArray:
    """The unit vector along which points (n, k) spread most."""
    return np.linalg.svd(points - points.mean(axis=0), full_matrices=False)[2][0]


def _straight_line(times: NDArray, values: NDArray, part: NDArray, at: float) -> tuple[float, float]:
    keep = part & np.isfinite(values)
    if keep.sum() < 2:
        raise ValueError(f"{keep.sum()} samples of a coordinate to draw a line through, expected at least 2")
    value, slope = np.polynomial.polynomial.polyfit(times[keep] - at, values[keep], 1)
    return float(value), float(slope)
