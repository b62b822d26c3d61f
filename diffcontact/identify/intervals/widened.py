"""Intervals where a standard error says nothing: by profiles, of friction that grips, and of minima elsewhere.

**Profiles** at a bound, within reach of one, and where the cost is no parabola as far as the interval reaches, as of a
restitution near zero.

**Where every contact grips** nothing depends on mu, down to the edge, the largest |B| / P of the contacts. Below it
some slip, and the lower end is where 2 (c(mu) - c) / s^2 = t^2; there is no upper one.

**Minima far from the estimate,** among where the starts of the search ended, explain the data as well where
2 (c' - c) / s^2 <= t^2. The interval of the fit holds the intervals of all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult
from scipy.special import stdtrit

from diffcontact.host.progress import stage
from diffcontact.identify.identifiable import least_friction, role
from diffcontact.identify.intervals.profile import (
    RESOLUTION,
    LowerCostError,
    ProfileScan,
    end_of_interval,
    further,
    misjudged,
    profiled,
    scales,
)
from diffcontact.identify.problem.objective import Objective
from diffcontact.identify.result import FitResult, estimate
from diffcontact.identify.search import Outcome, solve

# Profiles of one fit: every one takes a dozen fits.
_AT_MOST = 4
# The search for the least friction begins with this part of the edge.
_STEP = 0.05
# Grip is given up where slip is better by twice the half width of an interval: by one it is once in forty times by
# chance, and what is then said of the friction is off by far.
_OUT_OF_THE_QUESTION = 4.0
# Ends of starts that are looked at, where they are apart. Of these a descent goes on from those whose cost is no more
# than so many times what explains the data.
_ENDS, _HOPEFUL = 16, 2.0


def widened(result: FitResult, ends: NDArray | None) -> FitResult | LowerCostError:
    """The result with all that its intervals have to hold, or where the cost is lower than at the estimate.

    `ends` (N, P) are where the starts of the search ended, best first; None where there was one start.
    """
    if not result.converged or result.objective is None:
        return result
    found = _with_profiles(result, result.objective)
    if isinstance(found, FitResult):
        found = _with_lower_bounds(found, result.objective)
    return _with_other_minima(found, result.objective, ends) if isinstance(found, FitResult) else found


def _with_profiles(result: FitResult, objective: Objective) -> FitResult | LowerCostError:
    """The profile's interval for those parameters that need one, four at most."""
    intervals = {name: np.array(interval) for name, interval in result.interval95.items()}
    curved, profiles = misjudged(result, objective), []
    if lower := [end for end in curved if end.lower_than_the_estimate]:
        end = min(lower, key=lambda end: end.risen)
        return LowerCostError(f"the cost is lower at an end of the interval of {end.name}", end.theta)
    named = _between(result, objective), _near(result, objective), [e.name for e in curved]
    for name in list(dict.fromkeys(name for names in named for name in names))[:_AT_MOST]:
        with stage(f"profile of {name}", note=""):
            along = profiled(result, name)
        if isinstance(along, LowerCostError):
            return along
        parameter, at = result.place(name)
        intervals[parameter][at] = along.interval95
        profiles.append(along)
    return replace(result, interval95=intervals, profiles=tuple(profiles)) if profiles else result


def _between(result: FitResult, objective: Objective) -> list[str]:
    seen = result.known & ~objective.parameters.of_one_run
    named = [name for name, here in zip(result.names, seen, strict=True) if here]
    return [name for name in named if any(further(ProfileScan.of(result, name), name))]


def _near(result: FitResult, objective: Objective) -> list[str]:
    """What has no effect here, or an interval that is cut or reaches another mode, and is not at its bound."""
    parameters = objective.parameters
    low, high = parameters.values(parameters.low), parameters.values(parameters.high)
    ends, half = result.ends, result.quantiles * np.sqrt(np.diag(result.covariance))
    bounded = np.isfinite(half) & (np.isfinite(low) | np.isfinite(high))
    flat = np.linalg.norm(objective.evaluate(parameters.start)[1], axis=0) == 0
    cut = bounded & (flat | (ends[:, 0] <= low) | (ends[:, 1] >= high))
    half = half / parameters.slopes(parameters.start)
    twice = parameters.values(parameters.start - 2 * half), parameters.values(parameters.start + 2 * half)
    if objective.joint.rubs:
        cut |= np.isfinite(half) & ((ends[:, 0] < twice[0]) | (ends[:, 1] > twice[1]))
    near = cut & ~result.bounded & ~parameters.own
    return [name for name, here in zip(result.names, near, strict=True) if here]


def _with_lower_bounds(result: FitResult, objective: Objective) -> FitResult | LowerCostError:
    """An interval for those coefficients of friction that grip hides."""
    intervals = {name: np.array(interval) for name, interval in result.interval95.items()}
    gripped = []
    for direction in result.unidentifiable:
        name, *others = direction
        low = None if others else _least(result, objective, name)
        if isinstance(low, LowerCostError):
            return low
        if low is not None:
            parameter, at = result.place(name)
            intervals[parameter][at] = low, np.inf
            gripped.append(name)
    return replace(result, interval95=intervals, gripped=tuple(gripped)) if gripped else result


def _least(result: FitResult, objective: Objective, name: str) -> float | LowerCostError | None:
    """The lower end of the interval of a friction; None where it is none, or nothing touches."""
    parameters, theta = objective.parameters, objective.parameters.start
    if role(objective, theta, name) != "friction":
        return None
    edge = least_friction(objective, theta, name, result.trajectories)
    j = result.names.index(name)
    log = parameters.log[j]
    at = np.log(edge) if log and edge > 0 else edge
    if not edge > 0 or not parameters.low[j] <= at <= parameters.high[j]:
        return None
    with stage(f"least {name}", note=""):
        scale = result.chi2_per_dof * result.samples / max(result.effective_samples, 1.0)
        level = float(stdtrit(max(result.effective_samples - theta.size, 1.0), 0.975)) ** 2
        place = objective.started_at(np.where(np.arange(theta.size) == j, at, theta))
        scan = ProfileScan(place, j, scale, level, _STEP if log else _STEP * edge)
        end = end_of_interval(scan, -1.0)
    if min(scan.seen.values()) < -_OUT_OF_THE_QUESTION * scan.level and not objective.exact(scan.cost):
        return LowerCostError(f"the cost is lower with a smaller {name}, with which contacts slip", scan.lowest)
    return float(np.exp(end) if log else end)


def _with_other_minima(result: FitResult, objective: Objective, ends: NDArray | None) -> FitResult | LowerCostError:
    """Intervals that hold other minima, too, where the data are explained as well."""
    if ends is None:
        return result
    parameters, seen, reach = objective.parameters, result.known, result.ends - result.estimate[:, None]
    # (P,) of the cost, at which the interval of an element ends.
    rise = np.where(seen, result.quantiles**2 * np.where(seen, scales(result, objective), 0.0) / 2, 0.0)

    def outside(theta: NDArray, of: NDArray = result.estimate) -> NDArray:
        """(P,) whether elements at theta are outside their interval, or outside one as long around other values."""
        off = parameters.values(theta) - of
        return seen & ((off < reach[:, 0]) | (off > reach[:, 1]))

    def apart(theta: NDArray, others: Sequence[NDArray]) -> bool:
        return bool(outside(theta).any() and all(outside(theta, parameters.values(one)).any() for one in others))

    def as_good(end: OptimizeResult) -> bool:
        if objective.exact(result.cost):
            return objective.exact(end.cost)
        return bool(end.cost - result.cost <= rise[outside(end.x)].max(initial=0.0))

    chosen, others = list[NDArray](), list[OptimizeResult]()
    for place in ends:
        if len(chosen) < _ENDS and apart(place, chosen):
            chosen.append(place)
    for place in chosen:
        hopeful = objective.cost(place) <= _HOPEFUL * (result.cost + rise.max(initial=0.0))
        if hopeful and apart(place, [other.x for other in others]):
            end = solve(objective, place)
            if end.status > 0 and apart(end.x, [other.x for other in others]):
                others.append(end)
    found = [other for other in others if as_good(other)]
    if not found:
        return result
    best = min(found, key=lambda end: end.cost)
    # By how much less it has to be elsewhere to be lower.
    if best.cost < result.cost - RESOLUTION * rise.max(initial=0.0) - 1e-6 * result.cost:
        return LowerCostError(f"it is {best.cost:.6g} at another minimum", best.x)
    intervals = [result.interval95]
    intervals += [estimate(objective, Outcome.of(end)).interval95 for end in found]
    hull = {name: np.stack([one[name] for one in intervals]) for name in result.interval95}
    hull = {name: np.stack([s[..., 0].min(axis=0), s[..., 1].max(axis=0)], axis=-1) for name, s in hull.items()}
    values = [(end.x, parameters.values(end.x)) for end in found]
    elsewhere = tuple({result.names[j]: float(at[j]) for j in np.flatnonzero(outside(x))} for x, at in values)
    return replace(result, interval95=hull, elsewhere=elsewhere)


def missed(result: FitResult, values: NDArray) -> tuple[dict[str, float], ...]:
    """Other minima of the fit with a value further out than any of some estimates or draws (..., P)."""
    flat = values.reshape(-1, values.shape[-1])
    low, high = (dict(zip(result.names, end, strict=True)) for end in (flat.min(axis=0), flat.max(axis=0)))
    return tuple(
        other for other in result.elsewhere if any(not low[name] <= x <= high[name] for name, x in other.items())
    )


def not_near(what: str, minima: Sequence[Mapping[str, float]]) -> str:
    """That a fit knows minima which no replica or draw is near, by the values there."""
    told = "; ".join(", ".join(f"{name} = {value:.4g}" for name, value in one.items()) for one in minima)
    return f"the fit knows other minima that no {what} is near: {told}; these intervals do not hold them, the fit's do"
