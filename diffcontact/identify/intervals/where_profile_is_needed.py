"""Where a standard error says nothing: intervals by profile likelihood, unasked.

At a bound, within reach of one, beside one at a bound that does the same, and where the cost is no parabola as far as
the interval reaches: a restitution near zero is one of these, since what is seen of it goes with its square.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from diffcontact.host.progress import stage
from diffcontact.identify.intervals.parabola import leaning, misjudged
from diffcontact.identify.intervals.profile import LowerCostError, ProfileScan, further, profile
from diffcontact.identify.result import FitResult

# Every one takes a dozen fits.
_AT_MOST = 4


def with_profiles(result: FitResult) -> FitResult:
    """The result with the profile's interval for those of its parameters that need one, four at most.

    Args:
        result: what was found; one that has not converged is left as it is.

    Raises:
        LowerCostError: the cost is lower than at the estimate within an interval, or along a profile.
    """
    if not result.converged:
        return result
    intervals = {name: np.array(interval) for name, interval in result.interval95.items()}
    found = []
    assert result.objective is not None
    curved = misjudged(result, result.objective)
    if lower := [end for end in curved if end.lower_than_the_estimate]:
        end = min(lower, key=lambda end: end.risen)
        raise LowerCostError(f"the cost is lower at an end of the interval of {end.name}", end.theta)
    named = (*_between(result), *_near(result), *leaning(result, result.objective), *(end.name for end in curved))
    for name in list(dict.fromkeys(named))[:_AT_MOST]:
        with stage(f"profile of {name}", note=""):
            along = profile(result, name)
        parameter, at = result.place(name)
        intervals[parameter][at] = along.interval95
        found.append(along)
    return replace(result, interval95=intervals, profiles=tuple(found)) if found else result


def _between(result: FitResult) -> list[str]:
    """What the data see, but cannot tell from what would be if other contacts gripped or slipped."""
    assert result.objective is not None
    parameters = result.objective.parameters
    seen = np.isfinite(np.diag(result.covariance)) & ~(parameters.own & (parameters.runs > 1))
    named = [name for name, here in zip(result.names, seen, strict=True) if here]
    return [name for name in named if any(further(ProfileScan.of(result, name), name))]


def _near(result: FitResult) -> list[str]:
    """At their bounds first, then what is no run's own and has no effect at the estimate, or an interval that is cut.

    Or that is longer than its standard error says, since it reaches where contacts grip or slip that do not here.
    """
    assert result.objective is not None
    parameters = result.objective.parameters
    low, high = parameters.values(parameters.low), parameters.values(parameters.high)
    ends = np.concatenate([np.reshape(interval, (-1, 2)) for interval in result.interval95.values()])
    bounded = np.isfinite(np.diag(result.covariance)) & (np.isfinite(low) | np.isfinite(high))
    flat = np.linalg.norm(result.objective.evaluate(parameters.start)[1], axis=0) == 0
    cut = bounded & (flat | (ends[:, 0] <= low) | (ends[:, 1] >= high))
    quantile = np.concatenate([np.ravel(part) for part in result.quantile.values()])
    half = quantile * np.sqrt(np.diag(result.covariance)) / parameters.slopes(parameters.start)
    twice = parameters.values(parameters.start - 2 * half), parameters.values(parameters.start + 2 * half)
    cut |= np.isfinite(half) & ((ends[:, 0] < twice[0]) | (ends[:, 1] > twice[1]))
    own = parameters.own
    at = np.array([name in result.at_bound for name in result.names])
    arrived, near = bounded & at & ~(own & (parameters.runs > 1)), cut & ~at & ~own
    return [name for chosen in (arrived, near) for name, here in zip(result.names, chosen, strict=True) if here]
