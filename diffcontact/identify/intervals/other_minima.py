r"""Minima far from the estimate that explain the data as well.

Each has an interval of its own, and the data do not tell which of them holds the truth: the interval of the fit holds
all of them. At another minimum, with cost c' and parameters outside the interval, the data are explained as well where

    2 (c' - c) / s^2 <= t^2

with the scale s^2 and the quantile t of a profile (`profile`). Such minima are looked for where the starts of the
search ended, and where bounces that nobody saw are counted otherwise (`hidden_impacts`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult

from diffcontact.identify.from_search import estimate
from diffcontact.identify.intervals.profile import RESOLUTION, LowerCostError, scales
from diffcontact.identify.problem.objective import Objective
from diffcontact.identify.result import FitResult
from diffcontact.identify.search.hidden_impacts import behind_gaps
from diffcontact.identify.search.shooting import Outcome
from diffcontact.identify.search.trust_region import solve

# Ends of starts that are looked at, where they are apart. Of these a descent goes on from those whose cost is no more
# than so many times what explains the data.
_ENDS, _HOPEFUL = 16, 2.0


def with_other_minima(result: FitResult, ends: NDArray | None) -> FitResult:
    """The result with intervals that hold other minima, too, where the data are explained as well.

    Args:
        result: what was found, with its intervals; one that has not converged is left as it is.
        ends: (N, P) where the starts of the search ended, best first; None where there was one start.

    Raises:
        LowerCostError: the cost is lower at another minimum.
    """
    objective = result.objective
    if not result.converged or objective is None:
        return result
    places = behind_gaps(objective)
    if ends is None and not len(places):
        return result
    here = _Here(result, objective)
    others: list[OptimizeResult] = []
    for place in [*_hopeful(here, ends), *places]:
        if here.apart(place) and all(here.apart(place, other.x) for other in others):
            end = solve(objective, place)
            if end.status > 0 and here.apart(end.x) and all(here.apart(end.x, other.x) for other in others):
                others.append(end)
    found = [other for other in others if here.as_good(other)]
    if not found:
        return result
    best = min(found, key=lambda end: end.cost)
    if best.cost < result.cost - here.slack:
        raise LowerCostError(f"it is {best.cost:.6g} at another minimum", best.x)
    intervals = [result.interval95]
    intervals += [estimate(objective, Outcome(end, (float(end.cost),), "")).interval95 for end in found]
    return replace(
        result,
        interval95={name: _hull([interval[name] for interval in intervals]) for name in result.interval95},
        elsewhere=tuple(here.outside(end.x) for end in found),
    )


def missed(result: FitResult, values: NDArray) -> tuple[dict[str, float], ...]:
    """Other minima of the fit with a value further out than any of some estimates or draws (..., P)."""
    flat = values.reshape(-1, values.shape[-1])
    low, high = flat.min(axis=0), flat.max(axis=0)

    def out(name: str, value: float) -> bool:
        j = result.names.index(name)
        return not low[j] <= value <= high[j]

    return tuple(other for other in result.elsewhere if any(out(name, value) for name, value in other.items()))


def listed(minima: Sequence[Mapping[str, float]]) -> str:
    """Some minima by the values there.

    Example:
        >>> listed([{"e": 0.25, "drag": 0.1}, {"e": -1.0}])
        'e = 0.25, drag = 0.1; e = -1'
    """
    return "; ".join(", ".join(f"{name} = {value:.4g}" for name, value in one.items()) for one in minima)


def _hull(intervals: list[NDArray]) -> NDArray:
    """(..., 2) from the lowest end to the highest of several (..., 2)."""
    stacked = np.stack(intervals)
    return np.stack([stacked[..., 0].min(axis=0), stacked[..., 1].max(axis=0)], axis=-1)


def _hopeful(here: _Here, ends: NDArray | None) -> list[NDArray]:
    """Of the ends of starts, some that are apart from each other and nearly explain the data."""
    chosen: list[NDArray] = []
    for end in [] if ends is None else ends:
        if len(chosen) < _ENDS and here.apart(end) and all(here.apart(end, other) for other in chosen):
            chosen.append(end)
    return [end for end in chosen if here.objective.cost(end) <= _HOPEFUL * (here.cost + here.rise.max(initial=0.0))]


class _Here:
    """What the estimate's intervals say of another place.

    Attributes:
        objective: started at the estimate.
        cost: of the estimate; `slack`: by how much less it has to be elsewhere to be lower.
        rise: (P,) of the cost, at which the interval of an element ends; zero for those that the data cannot see.
    """

    def __init__(self, result: FitResult, objective: Objective):
        self.objective, self.cost, self.names = objective, result.cost, result.names
        self._value = result.estimate
        self._ends = np.concatenate([np.reshape(interval, (-1, 2)) for interval in result.interval95.values()])
        self._seen = np.isfinite(np.diag(result.covariance))
        quantile = np.concatenate([np.ravel(part) for part in result.quantile.values()])
        self.rise = np.where(self._seen, quantile**2 * np.where(self._seen, scales(result, objective), 0.0) / 2, 0.0)
        self.slack = RESOLUTION * self.rise.max(initial=0.0) + 1e-6 * self.cost

    def _outside(self, theta: NDArray, of: NDArray | None = None) -> NDArray:
        """(P,) whether elements at theta are outside their interval, or outside one as long around another place."""
        parameters = self.objective.parameters
        off = parameters.values(theta) - (self._value if of is None else parameters.values(of))
        return self._seen & ((off < self._ends[:, 0] - self._value) | (off > self._ends[:, 1] - self._value))

    def apart(self, theta: NDArray, of: NDArray | None = None) -> bool:
        """Whether a place is another than the estimate, or than the place `of`, as far as the intervals reach."""
        return bool(self._outside(theta, of).any())

    def as_good(self, end: OptimizeResult) -> bool:
        """Whether the data are explained as well at another minimum."""
        if self.objective.exact(self.cost):
            return self.objective.exact(end.cost)
        return bool(end.cost - self.cost <= self.rise[self._outside(end.x)].max(initial=0.0))

    def outside(self, theta: NDArray) -> dict[str, float]:
        """Name -> value at theta of the elements that are outside their interval."""
        values = self.objective.parameters.values(theta)
        return {self.names[j]: float(values[j]) for j in np.flatnonzero(self._outside(theta))}
