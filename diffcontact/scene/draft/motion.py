"""Recognise motions: oscillations, impacts, tracks, driven strokes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import cumulative_trapezoid
from scipy.signal import savgol_filter

from diffcontact.scene.preparation.lines import angular_frequency, harmonic

# Part of the swing that a sinusoid may leave, over a few periods. What it leaves of equal parabolas between bounces is
# sqrt(sum n^-4 - 1) = 0.29 of their first harmonic.
SWING_LEFT, _PERIODS = 0.15, 3
# Samples on either side of an impact from which velocities are taken.
_SIDE = 8
# A wall slows a body, and turns its velocity about an axis, within these parts; a body nearer to the edge of all
# places than this part of their extent is at a wall.
_GAIN, _ALONG, _EDGE = 1.05, 0.35, 0.06
# Below this part of its greatest speed a body counts as standing.
_STANDS = 0.02
# A draft takes so many impacts, each with more than this part of the greatest speed.
_MOST, _HARD = 3, 0.1
# Samples to either side of a kink; few see impacts that follow each other, many see weak ones.
_HALVES = (4, 6, 9, 14)
# The root of the gain in squares, in noise: chi^2 of 2 degrees of freedom exceeds 36 once in 1e8 places.
_CLEAR = 6.0
# Standard errors of delta_u.
_VISIBLE = 3.0


@dataclass(frozen=True, eq=False)
class Strike:
    """An impact that samples show: time, place, velocities before and after."""

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
    def speed(self) -> float:
        """How fast the body came, along the normal."""
        return float(-(self.before @ self.normal))

    @property
    def passive(self) -> bool:
        """Whether a wall at rest may have done it."""
        slower = np.linalg.norm(self.after) <= _GAIN * np.linalg.norm(self.before)
        return bool(0.0 <= self.restitution <= _GAIN and slower)


def oscillates(times: NDArray, values: NDArray, left: float = SWING_LEFT) -> float | None:
    """Find the angular frequency of values that swing; `left` is the rest."""
    seen = np.isfinite(values)
    t, y = times[seen], values[seen]
    if t.size < 20 or not np.ptp(y) > 0:
        return None
    omega = angular_frequency(t, y)
    part = t <= t[0] + _PERIODS * 2 * np.pi / omega
    if omega * (t[-1] - t[0]) < 3 * np.pi or part.sum() < 8:
        return None
    wave = harmonic(t[part], y[part], omega)
    swing = np.hypot(wave.value - wave.centre, wave.slope / omega)
    return omega if wave.left < left * swing else None


def pushed(times: NDArray, places: NDArray, force: NDArray) -> tuple[float, float, float] | None:
    """Estimate mass, damping and dry friction of a driven body, or None.

    Its momentum at every time, m v + c x + gamma integral(sign v) dt = integral(F) dt + constant, is linear in them.
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
    """Estimate how strongly values are accelerated most of the time."""
    seen = np.isfinite(values)
    t, y = times[seen], values[seen]
    width = min(21, t.size // 8 * 2 + 1)
    if width < 5:
        return 0.0
    bent = np.asarray(savgol_filter(y, width, 2, deriv=2))
    return float(abs(np.median(bent)) / np.median(np.diff(t)) ** 2)


def curvature(x: NDArray, y: NDArray) -> float | None:
    """Find the coefficient a of a parabola through all points, or None."""
    seen = np.isfinite(x) & np.isfinite(y)
    if seen.sum() < 20:
        return None
    parabola = np.polynomial.Polynomial.fit(x[seen], y[seen], 2)
    left = y[seen] - parabola(x[seen])
    a = float(parabola.convert().coef[-1])
    return a if np.std(left) < 0.1 * np.std(y[seen]) and a > 0 else None


def strikes(times: NDArray, places: NDArray, noise: NDArray) -> list[Strike]:
    """Find impacts in places (n, k) with noise (k,), by parabolas."""
    at, _ = kinks(times, places, np.broadcast_to(noise, places.shape))
    seen, edges, found = np.all(np.isfinite(places), axis=1), [-np.inf, *at, np.inf], []
    for time, begin, end in zip(at, edges, edges[2:], strict=False):
        before = np.flatnonzero(seen & (times < time) & (times > begin))[-_SIDE:]
        after = np.flatnonzero(seen & (times > time) & (times < end))[:_SIDE]
        if min(before.size, after.size) >= 3:
            (p, u), (q, v) = (
                np.polynomial.polynomial.polyfit(times[part] - time, places[part], 2 if part.size >= 6 else 1)[:2]
                for part in (before, after)
            )
            found.append(Strike(float(time), (p + q) / 2, u, v))
    return found


def wall_run(found: Sequence[Strike], places: NDArray) -> tuple[list[Strike], float, float]:
    """Select the hardest impacts in a row that resting walls explain.

    Walls are at the edges of places (n, k). Returned are up to three impacts and the times of the ones before and after
    them; infinite where there is none.
    """
    fastest = max((float(np.linalg.norm(strike.before)) for strike in found), default=0.0)

    def is_wall(strike: Strike) -> bool:
        # What rubs or was pushed did not jump along an axis; the body went hardly further than to a wall.
        along_axis = 1.0 - float(np.max(np.abs(strike.normal))) < _ALONG**2 / 2
        heights = places @ strike.normal
        beyond = strike.place @ strike.normal - np.nanmin(heights)
        at_edge = bool(beyond < _EDGE * np.ptp(heights[np.isfinite(heights)]))
        return strike.passive and along_axis and at_edge and strike.speed > _HARD * fastest

    walls = [is_wall(strike) for strike in found]
    edges = [-np.inf, *(strike.time for strike in found), np.inf]
    best: tuple[float, int, int] = (0.0, 0, 0)
    for i in range(len(found)):
        count = next((k for k, wall in enumerate(walls[i : i + _MOST]) if not wall), min(_MOST, len(found) - i))
        best = max(best, (sum(strike.speed for strike in found[i : i + count]), i, count))
    _, i, count = best
    return list(found[i : i + count]), edges[i] if count else -np.inf, edges[i + count + 1] if count else np.inf


def kinks(times: NDArray, values: NDArray, sigma: NDArray) -> tuple[NDArray, NDArray]:
    """Find times (m,) of impacts in samples (n, k), and their deviations.

    At an impact a position is continuous and its velocity jumps. Around a time T, with s = t - T, samples follow::

        y(t) = a + b s + c s^2 + delta_u max(s, 0) + noise

    A kink is seen where delta_u explains some samples to either side far better. A step is allowed, since T lies
    between two samples. Impacts are to be short against the spacing of the samples, and the noise known.
    `preparation.lines` finds a soft collision that many samples smear out.
    """
    found = [kink for c in range(values.shape[1]) for kink in _of_channel(times, values[:, c], sigma[:, c])]
    at, deviation = np.array(sorted(found)).reshape(-1, 2).T
    # Those of several channels that are nearer than this are one.
    group = np.cumsum(np.diff(at, prepend=-np.inf) > 1.5 * float(np.median(np.diff(times)))) - 1
    weight = np.bincount(group, deviation**-2.0)
    return np.bincount(group, at * deviation**-2.0) / weight, weight**-0.5


def _of_channel(times, values, sigma) -> list[tuple[float, float]]:
    """Find kinks of one channel in ever wider surroundings."""
    here = ~np.isnan(values)
    t, y, s = times[here], values[here], sigma[here]
    found: list[tuple[float, float]] = []
    for half in _HALVES:
        clear, left = _jumps(t, y, s, half)
        for i in np.argsort(-clear):
            if clear[i] < _CLEAR:
                break
            # The impact lies between the two samples where the two motions leave the least.
            near = np.arange(max(i - 1, 0), min(i + 2, left.size))
            at = near[np.argmin(left[near])]
            window = slice(at, at + 2 * half)
            # What disturbs its surroundings is not another one.
            if any(t[window][0] < T < t[window][-1] for T, _ in found):
                continue
            found.append(_located(t[window], y[window], s[window], (t[at + half - 1] + t[at + half]) / 2))
    return found


def _jumps(t, y, sigma, half: int):
    """Compare two motions with one around each place (M,)."""
    count = t.size - 2 * half + 1
    if count <= 0:
        return np.zeros(0), np.zeros(0)
    window = np.arange(count)[:, None] + np.arange(2 * half)
    middle = (t[half - 1 : half - 1 + count] + t[half : half + count]) / 2
    rows, X = _joined(t[window] - middle[:, None], y[window], sigma[window])
    solve = np.linalg.pinv(X)
    with_kink = rows - np.einsum("mnp,mp->mn", X, np.einsum("mpn,mn->mp", solve, rows))
    smooth = X[:, :, :3]
    without = rows - np.einsum("mnp,mp->mn", smooth, np.einsum("mpn,mn->mp", np.linalg.pinv(smooth), rows))
    left = np.sum(with_kink**2, axis=1)
    gain = np.maximum(np.sum(without**2, axis=1) - left, 0.0)
    slope = np.abs(np.einsum("mn,mn->m", solve[:, 3], rows)) / np.linalg.norm(solve[:, 3], axis=1)
    spread = np.maximum(1.0, np.sqrt(left / (2 * half - 5)))
    # A jump of the position alone is an error of the measurement.
    return np.where(slope > _VISIBLE * spread, np.sqrt(gain) / spread, 0.0), left


def _joined(s, y, sigma):
    """Build rows and columns (..., n, 5) of both branches, in noise."""
    length = np.max(np.abs(s), axis=-1, keepdims=True)
    after = (s > 0).astype(float)
    X = np.stack([np.ones_like(s), s / length, (s / length) ** 2, after * s / length, after], axis=-1)
    return y / sigma, X / sigma[..., None]


def _located(t, y, sigma, middle) -> tuple[float, float]:
    """Find where the branches around `middle` meet, with its deviation."""
    s = t - middle
    rows, X = _joined(s, y, sigma)
    solve, length = np.linalg.pinv(X), float(np.max(np.abs(s)))
    found, deviations = solve @ rows, np.linalg.norm(solve, axis=1)
    spacing = float(np.max(np.sort(np.abs(s))[:2]))
    # They meet where delta_u s + step = 0.
    jump = found[3] if found[3] else np.inf
    ahead, deviation = -found[4] / jump * length, deviations[4] / abs(jump) * length
    # Between two samples nothing is known better than to a tenth of their distance.
    return float(middle + np.clip(ahead, -spacing, spacing)), float(np.clip(deviation, 0.1 * spacing, spacing))
