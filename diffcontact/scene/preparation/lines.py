"""Motions of one coordinate: two markers on a line, a block that slides to rest, a swing that dies away."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from diffcontact.scene.keys import Table
from diffcontact.scene.kinds import ReadySystem
from diffcontact.scene.preparation.coordinates import (
    PREPARATIONS,
    RESTITUTION_STARTS,
    Preparation,
    PreparedRun,
    followed,
)
from diffcontact.scene.preparation.knee import FEWEST, knee
from diffcontact.systems.textbook import drawn_track


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
        markers = ([scale * columns[name] for name in marker] for marker in (first, second))
        points, seen = markers_of(*markers)
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


def markers_of(first: Sequence[NDArray], second: Sequence[NDArray]) -> tuple[NDArray, NDArray]:
    """Places (2, n, k) of two markers by their columns, and when each was seen (2, n)."""
    points = np.stack([np.stack(marker, axis=-1) for marker in (first, second)])
    return points, np.all(np.isfinite(points), axis=2)


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
ASIDE = 0.03


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
    if np.sqrt(np.mean(np.sum(aside**2, axis=1))) > ASIDE * np.ptp(s):
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
    if not slowed or np.sqrt(np.mean(left**2)) > ASIDE * np.ptp(s[first:stop]):
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


# Frequencies are tried this far either side of the highest peak of the spectrum, whose resolution is one per record.
_REACH, _TRIED = 1.0, 41


@dataclass(frozen=True)
class Harmonic:
    """An oscillation: centre, initial value and slope, rms of the residual."""

    centre: float
    value: float
    slope: float
    left: float


def angular_frequency(t: NDArray, y: NDArray) -> float:
    """Find the angular frequency of the best sinusoid through y (n,), n >= 8, at any times."""
    if t.size < 8 or not np.ptp(y) > 0:
        raise ValueError(f"{t.size} samples that span {np.ptp(y) if y.size else 0.0:g}, expected an oscillation")
    length = t[-1] - t[0]
    s = (t - t[0]) / length
    uniform = np.linspace(0.0, 1.0, t.size)
    power = np.abs(np.fft.rfft(np.interp(uniform, s, y) - y.mean()))
    turns = float(np.argmax(power[1:]) + 1)

    def misfit(turns: float) -> float:
        design = _wave(2 * np.pi * turns * s)
        return float(np.sum((design @ np.linalg.lstsq(design, y, rcond=None)[0] - y) ** 2))

    tried = np.linspace(max(turns - _REACH, 0.5), turns + _REACH, _TRIED)
    nearest = tried[np.argmin([misfit(turns) for turns in tried])]
    step = tried[1] - tried[0]
    best: Any = minimize_scalar(misfit, bounds=(nearest - step, nearest + step), method="bounded")
    return float(2 * np.pi * best.x / length)


def harmonic(t: NDArray, y: NDArray, omega: float) -> Harmonic:
    """Fit an oscillation of known frequency and linear amplitude to y(t)."""
    since = t - t[0]
    wave = _wave(omega * since)
    design = np.column_stack([wave, since[:, None] * wave[:, 1:]])
    coefficients = np.linalg.lstsq(design, y, rcond=None)[0]
    centre, cosine, sine, change, _ = coefficients
    left = np.sqrt(np.mean((y - design @ coefficients) ** 2))
    return Harmonic(float(centre), float(centre + cosine), float(omega * sine + change), float(left))


def _wave(phase: NDArray) -> NDArray:
    return np.stack([np.ones_like(phase), np.cos(phase), np.sin(phase)], axis=1)


# Below this the decay of an amplitude cannot be told from its uncertainty.
_FEWEST_SWINGS = 3


@PREPARATIONS.add(
    "track",
    along="the column of the horizontal position",
    height="the column of the height, upwards",
    unit='of both, the system\'s by default: "mm"',
    steepest="slope up to which the track counts as flat (0.3); the run begins when it stays below",
)
def track(table: Table, ready: ReadySystem) -> Preparation:
    r"""Follow a body along a curved track where it is flat.

    A parabola y = y_0 + a (x - x_0)^2 through all positions is the track; the coordinate is the length of the way::

        s = X sqrt(1 + 4 a^2 X^2) / 2 + asinh(2 a X) / (4 a),      X = x - x_0

    Along s the body is a harmonic oscillator under a constant normal reaction up to terms of second order in the slope
    dy/dx. So the run begins when the body has passed for the last time where the track is steeper than `steepest`.
    """
    steepest = table.number("steepest", 0.3, above=0.0)
    names, scale = (table.text("along"), table.text("height")), table.factor("unit", ready.length)

    def runs(times: NDArray, columns: Mapping[str, NDArray]) -> Iterable[PreparedRun]:
        x, y = (scale * columns[name] for name in names)
        seen = np.isfinite(x) & np.isfinite(y)
        if seen.sum() < 8:
            raise ValueError(f"{seen.sum()} positions in the track, expected at least 8")
        _, b, a = np.polynomial.Polynomial.fit(x[seen], y[seen], 2).convert().coef
        if not a > 0:
            raise ValueError(f"height {names[1]!r} bends by {a:.3g}, expected a track that opens")
        X = x + b / (2 * a)
        steep = np.abs(2 * a * X) > steepest
        # Two in a row: one may be a false reading.
        last = np.flatnonzero(steep[:-1] & steep[1:])
        begin = int(last[-1]) + 2 if last.size else 0
        s = X * np.sqrt(1 + 4 * a**2 * X**2) / 2 + np.arcsinh(2 * a * X) / (4 * a)
        times, s = times[begin:], np.where(seen, s, np.nan)[begin:]
        omega = _frequency(times, s, f"where the track is flatter than {steepest:g}")
        notes = {
            "curvature of the track": f"{2 * a:.4g} per length at its lowest point",
            "first sample": f"at {times[0]:.6g}, {begin} before it left out",
        }
        picture = drawn_track(float(a), float(np.nanmax(np.abs(s))))
        return [PreparedRun(times, s[:, None], _oscillator(times, s, omega), notes=notes, draw=picture)]

    return Preparation(
        runs=runs,
        columns=names,
        channels=("along the track",),
        description="length of the way along the parabola through all positions; begins when the body has passed for "
        f"the last time where the track is steeper than {steepest:g}",
        suggests=("q0", "u0", "rest", "angular_frequency"),
    )


@PREPARATIONS.add(
    "oscillation",
    column="the column that oscillates",
    unit='of it, the system\'s by default: "mm"',
    periods="the record is cut into runs of so many periods (10); inf: one run",
)
def oscillation(table: Table, ready: ReadySystem) -> Preparation:
    """Cut one oscillating column into stretches that are runs.

    A nearly linear oscillator changes its frequency as it dies away. A linear one stays in step over ten periods, not
    over a hundred. Differences between stretches then show in the error bars, not in the residuals.
    """
    periods = table.number("periods", 10.0)
    if periods < _FEWEST_SWINGS / 2:
        raise table.fail("periods", f"{periods}, expected at least {_FEWEST_SWINGS / 2}")
    column, scale = table.text("column"), table.factor("unit", ready.length)

    def runs(times: NDArray, columns: Mapping[str, NDArray]) -> Iterable[PreparedRun]:
        y = scale * columns[column]
        y = followed(y) if ready.length == "rad" else y
        seen = np.flatnonzero(np.isfinite(y))
        if seen.size == 0:
            raise ValueError(f"column {column!r} is empty, expected an oscillation")
        times, y = times[seen[0] : seen[-1] + 1], y[seen[0] : seen[-1] + 1]
        omega = _frequency(times, y, f"column {column!r}")
        count = max(1, int(omega * (times[-1] - times[0]) / (2 * np.pi * periods)))
        edges = np.searchsorted(times, np.linspace(times[0], times[-1], count + 1)[1:-1])
        for i, (t, values) in enumerate(zip(np.split(times, edges), np.split(y, edges), strict=True), 1):
            stretch, start = f"{i} of {count}", _oscillator(t, values, omega)
            part = f"stretch {stretch}" if count > 1 else ""
            yield PreparedRun(t, values[:, None], start, notes={"stretch": stretch}, part=part)

    return Preparation(
        runs=runs,
        columns=(column,),
        channels=(column,),
        description=f"each file cut into stretches of {periods:g} periods or a little more, each a run of its own",
        suggests=("q0", "u0", "rest", "angular_frequency"),
    )


def _frequency(times: NDArray, values: NDArray, where: str) -> float:
    """Find the angular frequency of an oscillator; errors say where."""
    seen = np.isfinite(values)
    try:
        omega = angular_frequency(times[seen], values[seen])
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    swings = omega * (times[-1] - times[0]) / np.pi
    if swings < _FEWEST_SWINGS:
        raise ValueError(f"{where}: {swings:.1f} half periods, expected at least {_FEWEST_SWINGS}")
    return omega


def _oscillator(times: NDArray, values: NDArray, omega: float) -> dict[str, Any]:
    """Starting values of known frequency, also for a stretch at rest."""
    seen = np.isfinite(values)
    found = harmonic(times[seen], values[seen], omega)
    return {
        "q0": np.array([found.value]),
        "u0": np.array([found.slope]),
        "rest": found.centre,
        "angular_frequency": omega,
    }
