"""What a marker's motion may be: an oscillation, flights between impacts, a track's parabola, a driven stroke."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import cumulative_trapezoid
from scipy.signal import savgol_filter

from diffcontact.identify.problem.impacts import kinks
from diffcontact.scene.preparation.free_decay import angular_frequency, harmonic

# Part of the swing that a sinusoid may leave, over a few periods. What it leaves of equal parabolas between bounces is
# sqrt(sum n^-4 - 1) = 0.29 of their first harmonic.
LEFT = 0.15
_PERIODS = 3
# Samples on either side of an impact from which velocities are taken.
_SIDE = 8
# A velocity may turn by so much of itself at a wall and stay the wall's doing.
_GAIN, _ALONG = 1.05, 0.35
# Below this part of its greatest speed a body counts as standing.
_STANDS = 0.02
# A draft takes so many impacts, each with more than this part of the greatest speed.
_MOST, _HARD = 3, 0.1
# A wall is as near to the edge of all places as this part of their extent.
_EDGE = 0.06


@dataclass(frozen=True, eq=False)
class Strike:
    """An impact that samples show: when, where, and the velocities before and after."""

    time: float
    place: NDArray
    before: NDArray
    after: NDArray

    @property
    def normal(self) -> NDArray:
        """Direction in which the velocity jumped."""
        jump = self.after - self.before
        return jump / np.linalg.norm(jump)

    @property
    def restitution(self) -> float:
        """-v+/v- along the normal; above 1 something pushed."""
        return float(-(self.after @ self.normal) / min(self.before @ self.normal, -1e-300))

    @property
    def passive(self) -> bool:
        """Whether a wall at rest may have done it."""
        slower = np.linalg.norm(self.after) <= _GAIN * np.linalg.norm(self.before)
        return bool(0.0 <= self.restitution <= _GAIN and slower)


def oscillates(times: NDArray, values: NDArray, left: float = LEFT) -> float | None:
    """The angular frequency of values that swing like a sinusoid over some periods, but for a part `left`, or None.

    Example:
        >>> t = np.linspace(0.0, 9.0, 400)
        >>> round(oscillates(t, 0.2 + np.exp(-0.1 * t) * np.sin(4.0 * t)), 1)
        4.0
        >>> oscillates(t, np.abs(np.sin(2.0 * t))) is None
        True
    """
    seen = np.isfinite(values)
    t, y = times[seen], values[seen]
    if t.size < 20:
        return None
    try:
        omega = angular_frequency(t, y)
    except ValueError:
        return None
    if omega * (t[-1] - t[0]) < 3 * np.pi:
        return None
    part = t <= t[0] + _PERIODS * 2 * np.pi / omega
    if part.sum() < 8:
        return None
    wave = harmonic(t[part], y[part], omega)
    swing = np.hypot(wave.value - wave.centre, wave.slope / omega)
    since = t[part] - t[0]
    design = np.stack([np.ones_like(since), np.cos(omega * since), np.sin(omega * since)], axis=1)
    design = np.column_stack([design, since[:, None] * design[:, 1:]])
    off = y[part] - design @ np.linalg.lstsq(design, y[part], rcond=None)[0]
    return omega if np.sqrt(np.mean(off**2)) < left * swing else None


def pushed(times: NDArray, places: NDArray, force: NDArray) -> tuple[float, float, float] | None:
    """Mass, damping and dry friction of a body on a line that a force drives, roughly: all above 0, or None.

    Its momentum at every time, m v + c x + gamma integral(sign v) dt = integral(F) dt + constant, is linear in them.

    Example:
        >>> t = np.linspace(0.0, 2.0, 801)
        >>> x, v, a = 1 - np.cos(2 * t), 2 * np.sin(2 * t), 4 * np.cos(2 * t)
        >>> print(*(f"{part:.2f}" for part in pushed(t, x, 3 * a + 2 * v + np.sign(v))))
        3.00 2.00 1.00
    """
    seen = np.isfinite(places) & np.isfinite(force)
    t, x, F = times[seen], places[seen], force[seen]
    width = min(41, t.size // 8 * 2 + 1)
    if width < 5:
        return None
    v = savgol_filter(x, width, 2, deriv=1) / np.median(np.diff(t))
    signs = np.where(np.abs(v) > _STANDS * np.max(np.abs(v)), np.sign(v), 0.0)
    design = np.stack([v, x, cumulative_trapezoid(signs, t, initial=0.0), np.ones_like(t)], axis=1)
    momentum = cumulative_trapezoid(F, t, initial=0.0)
    mass, damping, friction, _ = np.linalg.lstsq(design, momentum, rcond=None)[0]
    return (float(mass), float(damping), float(friction)) if min(mass, damping, friction) > 0 else None


def fall(times: NDArray, values: NDArray) -> float:
    """How strongly values are accelerated most of the time, whichever way; 0 where there are too few.

    Example:
        >>> t = np.linspace(0.0, 1.0, 100)
        >>> round(fall(t, np.where(t < 0.5, t, 1 - t) - 9.81 * t**2 / 2), 2)
        9.81
    """
    seen = np.isfinite(values)
    t, y = times[seen], values[seen]
    width = min(21, t.size // 8 * 2 + 1)
    if width < 5:
        return 0.0
    bent = np.asarray(savgol_filter(y, width, 2, deriv=2))
    return float(abs(np.median(bent)) / np.median(np.diff(t)) ** 2)


def curvature(x: NDArray, y: NDArray) -> float | None:
    """a of the parabola y = a x^2 + b x + c on which all points lie, or None: a track, seen from the side.

    Example:
        >>> x = np.linspace(-0.2, 0.3, 30)
        >>> round(curvature(x, 4.0 * x**2 - x), 6)
        4.0
    """
    seen = np.isfinite(x) & np.isfinite(y)
    if seen.sum() < 20:
        return None
    parabola = np.polynomial.Polynomial.fit(x[seen], y[seen], 2)
    left = y[seen] - parabola(x[seen])
    a = float(parabola.convert().coef[-1])
    return a if np.std(left) < 0.1 * np.std(y[seen]) and a > 0 else None


def strikes(times: NDArray, places: NDArray, noise: NDArray) -> list[Strike]:
    """Impacts of a body that flies or glides: places (n, k), noise (k,)."""
    found, _ = kinks(times, places, np.broadcast_to(noise, places.shape))
    edges = [-np.inf, *found, np.inf]
    return [
        strike
        for i, at in enumerate(found, 1)
        if (strike := _strike(times, places, float(at), edges[i - 1], edges[i + 1])) is not None
    ]


def _strike(times: NDArray, places: NDArray, at: float, begin: float, end: float) -> Strike | None:
    seen = np.all(np.isfinite(places), axis=1)
    before = np.flatnonzero(seen & (times < at) & (times > begin))[-_SIDE:]
    after = np.flatnonzero(seen & (times > at) & (times < end))[:_SIDE]
    if min(before.size, after.size) < 3:
        return None
    lines = [_tangent(times[part] - at, places[part]) for part in (before, after)]
    place = (lines[0][0] + lines[1][0]) / 2
    return Strike(at, place, lines[0][1], lines[1][1])


def _tangent(since: NDArray, places: NDArray) -> tuple[NDArray, NDArray]:
    """Place and velocity at the impact, along parabolas where there are samples enough."""
    degree = 2 if since.size >= 6 else 1
    coefficients = np.polynomial.polynomial.polyfit(since, places, degree)
    return coefficients[0], coefficients[1]


def wall_run(found: Sequence[Strike], places: NDArray) -> tuple[list[Strike], float, float]:
    """Impacts in a row that walls at rest may have done, the hardest there are, and when the ones around them were.

    Args:
        found: all impacts, in order.
        places: (n, k) where the body went; walls are at the edges of that.

    Returns:
        Up to three impacts, the time of the one before them and of the one after them; infinite where there is none.
    """
    fastest = max((float(np.linalg.norm(strike.before)) for strike in found), default=0.0)
    walls = [
        strike.passive and _straight(strike) and _at_edge(strike, places) and _speed(strike) > _HARD * fastest
        for strike in found
    ]
    edges = [-np.inf, *(strike.time for strike in found), np.inf]
    best: tuple[float, int, int] = (0.0, 0, 0)
    for i in range(len(found)):
        count = next((k for k, wall in enumerate(walls[i : i + _MOST]) if not wall), min(_MOST, len(found) - i))
        best = max(best, (sum(_speed(strike) for strike in found[i : i + count]), i, count))
    _, i, count = best
    return list(found[i : i + count]), edges[i] if count else -np.inf, edges[i + count + 1] if count else np.inf


def _at_edge(strike: Strike, places: NDArray) -> bool:
    """Whether the body went hardly further than to the impact, against its normal."""
    heights = places @ strike.normal
    return bool(strike.place @ strike.normal - np.nanmin(heights) < _EDGE * np.ptp(heights[np.isfinite(heights)]))


def _speed(strike: Strike) -> float:
    """How fast the body came, along the normal."""
    return float(-(strike.before @ strike.normal))


def _straight(strike: Strike) -> bool:
    """Whether the velocity jumped along an axis, nearly: what rubs or was pushed did not."""
    return 1.0 - float(np.max(np.abs(strike.normal))) < _ALONG**2 / 2
