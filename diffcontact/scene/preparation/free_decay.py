"""Oscillations that die away: bodies in tracks, masses on springs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from diffcontact.scene.keys import Table
from diffcontact.scene.kinds import ReadySystem
from diffcontact.scene.preparation.coordinates import followed
from diffcontact.scene.preparation.run import PREPARATIONS, Preparation, PreparedRun
from diffcontact.systems.textbook import drawn_track

# Frequencies are tried this far either side of the highest peak of the spectrum, whose resolution is one per record.
_REACH = 1.0
_TRIED = 41


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
