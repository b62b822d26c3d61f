"""Motions along one straight line: of two markers, and of a block that slides until friction has brought it to rest."""

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
        lines = []
        for cart in along.T:
            keep = (times < impact.time) & np.isfinite(cart)
            if keep.sum() < 2:
                raise ValueError(f"{keep.sum()} samples of a coordinate to draw a line through, expected at least 2")
            lines.append(np.polynomial.polynomial.polyfit(times[keep] - times[0], cart[keep], 1))
        q0, u0 = np.transpose(lines)
        start = {
            "q0": q0,
            "u0": u0,
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


# Samples of a slide, at least, and of the lines that give its speed.
_FEWEST_SLIDING, _LINE = 10, 5
# A block slower than this part of its greatest speed is at rest.
_RESTS = 0.05
# What slides loses this part of its speed before it rests, or is lost.
_SLOWED = 0.6
# Samples are off a straight line, and off a parabola, by at most this part of the way.
_ASIDE = 0.03


@PREPARATIONS.add(
    "slide", columns="of the block's position, one to three", unit='of all of them, the system\'s by default: "mm"'
)
def slide(table: Table, ready: ReadySystem) -> Preparation:
    """Take the way of a freely sliding block along a line.

    The line is the principal axis of all positions, in the direction in which the block moves. The run begins where the
    block is fastest, as the push ends. It ends when the block moves again after its rest, or with the recording. The
    parabola through its way gives position, velocity and deceleration at the beginning.
    """
    names, scale = table.names("columns"), table.factor("unit", ready.length)
    if len(names) > 3:
        raise table.fail("columns", f"{len(names)} columns, expected one to three")

    def runs(times: NDArray, columns: Mapping[str, NDArray]) -> Iterable[PreparedRun]:
        points = np.stack([scale * columns[name] for name in names], axis=-1)
        try:
            rows, way, parabola = _slide(times, points)
        except ValueError as error:
            raise ValueError(f"columns {', '.join(map(repr, names))}: {error}") from None
        times = times[rows]
        start = {"q0": parabola[:1], "u0": parabola[1:2], "deceleration": -2 * float(parabola[2])}
        notes = {"slide": f"begins at {times[0]:.6g}; {times.size} of {points.shape[0]} samples are used"}
        return [PreparedRun(times, way[rows, None], start, notes=notes)]

    return Preparation(
        runs=runs,
        columns=names,
        channels=(names[0] if len(names) == 1 else "along the way",),
        description="the way along a straight line, from where the block is fastest",
        suggests=("q0", "u0", "deceleration"),
    )


def _slide(times: NDArray, points: NDArray) -> tuple[slice, NDArray, NDArray]:
    """Rows of the slide, way (n,), parabola at its beginning."""
    seen = np.flatnonzero(np.all(np.isfinite(points), axis=1))
    if seen.size < _FEWEST_SLIDING:
        raise ValueError(f"{seen.size} positions, expected at least {_FEWEST_SLIDING}")
    centred = points - points[seen].mean(axis=0)
    direction = principal_axis(points[seen])
    way = centred @ direction
    aside = centred[seen] - np.outer(way[seen], direction)
    way = points @ direction * (np.sign(way[seen[-1]] - way[seen[0]]) or 1.0)
    t, s = times[seen], way[seen]
    if np.sqrt(np.mean(np.sum(aside**2, axis=1))) > _ASIDE * np.ptp(s):
        raise ValueError("the positions lie on no straight line, expected a block that slides")
    speed = _speeds(t, s)
    first, fastest = int(np.argmax(speed)), float(np.max(speed))
    stop = first + _first(speed[first:] < _RESTS * fastest)
    if stop - first < _FEWEST_SLIDING:
        raise ValueError(
            f"{stop - first} samples from where it is fastest to its rest, expected at least {_FEWEST_SLIDING}"
        )
    end = stop + _first(speed[stop:] > 2 * _RESTS * fastest)
    since = t[first:stop] - t[first]
    parabola = np.polynomial.polynomial.polyfit(since, s[first:stop], 2)
    left = s[first:stop] - np.polynomial.polynomial.polyval(since, parabola)
    slowed = -2 * parabola[2] * since[-1] > _SLOWED * parabola[1] > 0
    if not slowed or np.sqrt(np.mean(left**2)) > _ASIDE * np.ptp(s[first:stop]):
        raise ValueError("it is not slowed down evenly, expected a block that slides to rest")
    if np.any(speed[stop:end] < -2 * _RESTS * fastest):
        raise ValueError("it turns round where it was at rest, expected a block that slides to rest and stays")
    return slice(int(seen[first]), int(seen[end - 1]) + 1), way, parabola


def _first(true: NDArray) -> int:
    return int(np.argmax(true)) if true.any() else true.size


def _speeds(t: NDArray, s: NDArray) -> NDArray:
    """(n,) slopes of straight lines through the samples around each."""
    half = max(_LINE, t.size // 40) // 2
    ends = np.arange(t.size)
    low, high = np.maximum(ends - half, 0), np.minimum(ends + half + 1, t.size)
    return np.array([np.polyfit(t[i:j] - t[i], s[i:j], 1)[0] for i, j in zip(low, high, strict=True)])
