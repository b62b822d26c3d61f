r"""Impacts in the data: times that were measured, and kinks that the samples show.

At an impact a position is continuous and its velocity jumps. Around a time T, with s = t - T, samples follow

    y(t) = a + b s + c s^2 + delta_u max(s, 0) + noise

A kink is seen where some samples to either side are far better explained with delta_u than without (and with a step,
since T lies somewhere between two samples). Smooth forces are in c; what else the motion does is in the residuals of
that fit, against which the gain is measured.

The kinks suit impacts that are short against the spacing of the samples, any number of them, in noise of known size.
They are not for a collision of soft bumpers, which many samples smear out: where exactly one is known to be there,
`diffcontact.scene.preparation.common_line` finds it without a noise.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from diffcontact.arguments import is_count, numbers

# Samples to either side; few see impacts that follow each other, many see weak ones.
_HALVES = (4, 6, 9, 14)
# The root of the gain in squares, in noise: chi^2 of 2 degrees of freedom exceeds 36 once in 1e8 places.
_CLEAR = 6.0
# Standard errors of delta_u.
_VISIBLE = 3.0


@dataclass(frozen=True, eq=False)
class Impacts:
    """Measured times of impacts, as from a microphone: a channel of their own.

    The k-th time is compared with the k-th percussion of the simulation, among those of `contacts`. A simulation that
    has fewer puts the missing ones at the end of its record.

    Args:
        times: (m,) increasing, on the clock of the other samples [s]; NaN for an impact that is known to have been
            there and was missed.
        noise: one standard deviation [s]: a number, or (m,).
        contacts: which contacts are heard; None: all.

    Raises:
        ValueError: times that do not increase, noise that is not positive, contacts that are no numbers from 0 on.

    Example:
        >>> Impacts([0.45, np.nan, 1.74], 1e-3).times.size
        3
    """

    times: NDArray
    noise: float | NDArray
    contacts: tuple[int, ...] | None = None

    def __post_init__(self):
        times, noise = (_numbers(name, getattr(self, name)) for name in ("times", "noise"))
        known = times[np.isfinite(times)]
        if times.ndim != 1 or known.size == 0 or np.any(np.isinf(times)) or np.any(np.diff(known) <= 0):
            raise ValueError(f"Impacts(times): {times}, expected (m,) increasing times, NaN where one was missed")
        if noise.shape not in ((), times.shape) or not np.all(noise > 0) or np.any(np.isinf(noise)):
            raise ValueError(f"Impacts(noise): {noise}, expected a positive number or {times.size} of them")
        object.__setattr__(self, "times", times)
        object.__setattr__(self, "noise", noise)
        if self.contacts is not None:
            contacts = tuple(self.contacts) if isinstance(self.contacts, Iterable) else (self.contacts,)
            if not contacts or not all(is_count(contact, 0) for contact in contacts):
                raise ValueError(f"Impacts(contacts): {self.contacts!r}, expected numbers of contacts, counted from 0")
            object.__setattr__(self, "contacts", tuple(map(int, contacts)))


def _numbers(name: str, value) -> NDArray:
    try:
        return numbers(value)
    except (TypeError, ValueError):
        raise ValueError(f"Impacts({name}): {value!r}, expected numbers") from None


def struck(impulse: NDArray) -> NDArray:
    """(n,) intervals in which a simulated contact struck: it pushed, impulse (n, ...), and had not in the one before.

    Example:
        >>> struck(np.array([[0.0], [2.0], [0.1], [0.0], [1.0]])).tolist()
        [False, True, False, False, True]
    """
    pushes = np.nan_to_num(np.asarray(impulse, float)).reshape(len(impulse), -1) > 0
    return np.any(pushes & ~np.vstack([np.zeros((1, pushes.shape[1]), bool), pushes[:-1]]), axis=1)


def kinks(times: NDArray, values: NDArray, sigma: NDArray) -> tuple[NDArray, NDArray]:
    """Impacts that samples (n, k) show: their times (m,), in order, and the standard deviations of these (m,).

    Example:
        >>> times = np.linspace(0.0, 1.0, 41)
        >>> height = np.abs(times - 0.38)[:, None]
        >>> kinks(times, height, np.full((41, 1), 1e-3))[0].round(3)
        array([0.38])
    """
    found = [kink for c in range(values.shape[1]) for kink in _of_channel(times, values[:, c], sigma[:, c])]
    at, deviation = np.array(sorted(found)).reshape(-1, 2).T
    return _merged(at, deviation, 1.5 * float(np.median(np.diff(times))))


def _of_channel(times, values, sigma) -> list[tuple[float, float]]:
    """Times and deviations of the kinks of one channel, found in ever wider surroundings."""
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
    """With `half` samples to either side: how clearly they are two motions (M,), and what these leave (M,)."""
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
    """Rows (..., n) and columns (..., n, 5) of a + b s + c s^2, and from s = 0 on delta_u s + step, in noise."""
    length = np.max(np.abs(s), axis=-1, keepdims=True)
    after = (s > 0).astype(float)
    X = np.stack([np.ones_like(s), s / length, (s / length) ** 2, after * s / length, after], axis=-1)
    return y / sigma, X / sigma[..., None]


def _located(t, y, sigma, middle) -> tuple[float, float]:
    """The time at which the branches to either side of `middle` meet, and its standard deviation."""
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


def _merged(at: NDArray, deviation: NDArray, apart: float) -> tuple[NDArray, NDArray]:
    """Kinks of several channels, in order, that are nearer than `apart` to the one before are one impact."""
    group = np.cumsum(np.diff(at, prepend=-np.inf) > apart) - 1
    weight = np.bincount(group, deviation**-2.0)
    return np.bincount(group, at * deviation**-2.0) / weight, weight**-0.5
