"""A decaying oscillation at a glance: its frequency, its centre and its state at the beginning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

# Frequencies are tried this far either side of the highest peak of the spectrum, whose resolution is one per record.
_REACH = 1.0
_TRIED = 41


@dataclass(frozen=True)
class Harmonic:
    """y(t) = centre + oscillation: its centre, and value and slope at the first time."""

    centre: float
    value: float
    slope: float


def angular_frequency(t: NDArray, y: NDArray) -> float:
    """That of the sinusoid that fits y(t) best.

    Args:
        t: (n,) increasing, any spacing; one and a half periods and more.
        y: (n,) finite, n >= 8.

    Raises:
        ValueError: fewer than 8 samples, or y that does not move.

    Example:
        >>> t = np.linspace(0.0, 9.0, 200)
        >>> print(f"{angular_frequency(t, 0.3 + (1.0 - 0.05 * t) * np.sin(2.0 * t)):.2f}")
        2.00
    """
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
    """The oscillation of angular frequency omega and an amplitude linear in time that fits y(t) best.

    Args:
        t: (n,) increasing, any spacing.
        y: (n,) finite.
        omega: from `angular_frequency`; with an amplitude that may change in both phases it could not be found.

    Example:
        >>> t = np.linspace(0.0, 9.0, 200)
        >>> found = harmonic(t, 0.3 + (1.0 - 0.05 * t) * np.sin(2.0 * t), 2.0)
        >>> print(f"{found.centre:.4f} {found.value:.4f} {found.slope:.4f}")
        0.3000 0.3000 2.0000
    """
    since = t - t[0]
    wave = _wave(omega * since)
    design = np.column_stack([wave, since[:, None] * wave[:, 1:]])
    centre, cosine, sine, change, _ = np.linalg.lstsq(design, y, rcond=None)[0]
    return Harmonic(float(centre), float(centre + cosine), float(omega * sine + change))


def _wave(phase: NDArray) -> NDArray:
    return np.stack([np.ones_like(phase), np.cos(phase), np.sin(phase)], axis=1)
