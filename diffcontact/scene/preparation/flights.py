"""The flights of a falling ball among false detections: parabolas of one curvature on which most samples lie.

A false detection is told from the ball by what the ball must do. Between impacts it is on a parabola y = a + b t + g/2
t^2 with one g; a hand, a shadow or another ball, tracked for some pictures instead, is not, however smoothly it moves.

Source: M. A. Fischler, R. C. Bolles, Communications of the ACM 24 (1981) 381, for consensus instead of averages.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.polynomial import Polynomial
from numpy.polynomial.polynomial import polyfit
from numpy.typing import NDArray

from diffcontact.scene.preparation.film import span

# Parts of the whole way: nearer to a parabola a sample is on it; farther off than this it is none of the ball's.
_ON, _OFF = 0.015, 0.05
# A sample on a parabola counts 1 for it, one that is off it this much; a flight has so many in all.
_AGAINST, _ENOUGH = -0.5, 5.0
# Gravities of flights differ by this part of themselves at most, by drag and by the picture's perspective.
_ALIKE = 0.25
# Parabolas are drawn through samples of half the record at most, or of so many where it is short.
_DRAWS, _REACH = 6000, 16.0


@dataclass(frozen=True, eq=False)
class Flight:
    """A parabola, and the stretch of samples in whose course it was found.

    Attributes:
        parabola: y(t).
        begin: the first sample on it.
        end: the last.
        on: how many samples between them are on it.
    """

    parabola: Polynomial
    begin: int
    end: int
    on: int


def flights(t: NDArray, y: NDArray) -> list[Flight]:
    """The flights of a ball, in order, whatever else was taken for it.

    Of parabolas through three samples, drawn at random, the one is a flight that has the greatest consensus: the sum
    over its best stretch of samples of +1 on it and -1/2 off it. The next is found among the other samples, with nearly
    the same curvature, until there is none.

    Args:
        t: (n,) increasing times.
        y: (n,) positions downwards.

    Example:
        A fall of which four of twelve samples are of a hand that keeps still.

        >>> t = np.arange(12.0)
        >>> y = np.where((t > 3) & (t < 8), 390.0, 4 * t**2)
        >>> (fall,) = flights(t, y)
        >>> print(fall.on, fall.parabola.coef.round(6) + 0.0)
        8 [0. 0. 4.]
        >>> np.flatnonzero(off_flights(t, y, [fall])).tolist()
        [4, 5, 6, 7]
    """
    found: list[Flight] = []
    if y.size < _ENOUGH:
        return found
    way, left, parabolas = span(y), np.ones(y.size, bool), _drawn(t, y)
    near = np.abs(_at(parabolas, t) - y) < _ON * way
    while len(parabolas):
        # Samples of another flight end every stretch.
        score, begin, end = _best_stretch(np.where(left, np.where(near, 1.0, _AGAINST), -float(y.size)))
        best = int(np.argmax(score))
        if score[best] < _ENOUGH:
            break
        rows = np.arange(begin[best], end[best] + 1)
        on = rows[near[best, rows]]
        parabola = Polynomial(polyfit(t[on], y[on], 2))
        if not abs(parabola.coef[2] / parabolas[best, 2] - 1) < _ALIKE:
            # Most of what is near this parabola is on another curve, as where a hand keeps still.
            parabolas, near = (np.delete(part, best, axis=0) for part in (parabolas, near))
            continue
        found.append(Flight(parabola, int(rows[0]), int(rows[-1]), on.size))
        left[rows] = False
        alike = np.abs(parabolas[:, 2] / found[0].parabola.coef[2] - 1) < _ALIKE
        if not alike.all():
            parabolas, near = parabolas[alike], near[alike]
    return sorted(found, key=lambda flight: flight.begin)


def _drawn(t: NDArray, y: NDArray) -> NDArray:
    """(m, 3) coefficients of parabolas through three samples, those that bend by more than samples scatter."""
    rng = np.random.default_rng(0)
    first = rng.integers(0, y.size - 2, _DRAWS)
    reach = np.exp(rng.uniform(np.log(2.0), np.log(max(y.size / 2, _REACH)), _DRAWS)).astype(int)
    last = np.minimum(first + reach, y.size - 1)
    middle = first + 1 + (rng.uniform(size=_DRAWS) * (last - first - 1)).astype(int)
    chosen = np.stack([first, middle, last])[:, last - first >= 2]
    (ta, tb, tc), (ya, yb, yc) = t[chosen], y[chosen]
    slope = (yb - ya) / (tb - ta)
    bend = ((yc - yb) / (tc - tb) - slope) / (tc - ta)
    # y = ya + slope (t - ta) + bend (t - ta) (t - tb)
    parabolas = np.stack([ya - slope * ta + bend * ta * tb, slope - bend * (ta + tb), bend], axis=1)
    return parabolas[bend * (tc - ta) ** 2 / 4 > 2 * _ON * span(y)]


def _at(parabolas: NDArray, t: NDArray) -> NDArray:
    return parabolas[:, :1] + parabolas[:, 1:2] * t + parabolas[:, 2:] * t**2


def _best_stretch(worth: NDArray) -> tuple[NDArray, NDArray, NDArray]:
    """Per row of worth (m, n): the largest sum over neighbours (m,), and which are its first and last."""
    total = np.cumsum(worth, axis=1)
    before = np.minimum.accumulate(np.pad(total, ((0, 0), (1, 0)))[:, :-1], axis=1)
    end = np.argmax(total - before, axis=1)
    lanes = np.arange(len(worth))
    padded = np.pad(total, ((0, 0), (1, 0)))
    begin = np.argmin(np.where(np.arange(worth.shape[1]) <= end[:, None], padded[:, :-1], np.inf), axis=1)
    return (total - before)[lanes, end], begin, end


def off_flights(t: NDArray, y: NDArray, found: list[Flight]) -> NDArray:
    """(n,) True where a sample is not on the flight in whose course it was taken: a false detection.

    Samples between two flights that meet there are on one of them, those of the first fall on it since it began; what
    is in no flight's course is not judged. See `flights`.
    """
    if not found:
        return np.zeros(y.size, bool)
    distance, far = np.zeros(y.size), _OFF * span(y)
    for i, flight in enumerate(found):
        apex = -flight.parabola.coef[1] / (2 * flight.parabola.coef[2])
        begin = flight.begin if i else min(int(np.searchsorted(t, apex)), flight.begin)
        rows = slice(begin, flight.end + 1)
        distance[rows] = np.abs(flight.parabola(t[rows]) - y[rows])
    lowest = np.max(y[distance <= far]) + far
    for before, after in pairwise(found):
        rows = slice(before.end + 1, after.begin)
        meet = [r.real for r in (before.parabola - after.parabola).roots() if t[before.end] <= r.real <= t[after.begin]]
        # Where a flight between them was not found they would meet below the floor.
        if any(before.parabola(at) < lowest for at in meet):
            distance[rows] = np.min([np.abs(flight.parabola(t[rows]) - y[rows]) for flight in (before, after)], axis=0)
    return distance > far
