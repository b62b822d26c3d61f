"""Where an impact is in a distance: the meeting of two straight lines."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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
