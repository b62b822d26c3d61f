"""Where a standard error says nothing: intervals by profile likelihood, unasked.

At a bound, within reach of one, and where the cost is no parabola as far as the interval reaches: a restitution near
zero is one of these, since what is seen of it goes with its square.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from diffcontact.identify.intervals.parabola import misjudged
from diffcontact.identify.intervals.profile import profile
from diffcontact.identify.result import FitResult
from diffcontact.progress import stage

# Every one takes a dozen fits.
_AT_MOST = 4


def with_profiles(result: FitResult) -> FitResult:
    """The result with the profile's interval for those of its parameters that need one, four at most.

    Args:
        result: what was found. One that has not converged, or whose cost turns out to be lower elsewhere, is left as it
            is; what that means is in its verdict.
    """
    if not result.converged:
        return result
    intervals = {name: np.array(interval) for name, interval in result.interval95.items()}
    found = []
    assert result.objective is not None
    curved = [end.name for end in misjudged(result, result.objective)]
    for name in list(dict.fromkeys((*_near(result), *curved)))[:_AT_MOST]:
        try:
            with stage(f"profile of {name}", note=""):
                along = profile(result, name)
        except ValueError:
            continue
        parameter, at = result.place(name)
        intervals[parameter][at] = along.interval95
        found.append(along)
    return replace(result, interval95=intervals, profiles=tuple(found)) if found else result


def _near(result: FitResult) -> list[str]:
    """At their bounds first, then what is no run's own and has no effect at the estimate, or a cut interval."""
    assert result.objective is not None
    parameters = result.objective.parameters
    low, high = parameters.values(parameters.low), parameters.values(parameters.high)
    ends = np.concatenate([np.reshape(interval, (-1, 2)) for interval in result.interval95.values()])
    bounded = np.isfinite(np.diag(result.covariance)) & (np.isfinite(low) | np.isfinite(high))
    flat = np.linalg.norm(result.objective.evaluate(parameters.start)[1], axis=0) == 0
    cut = bounded & (flat | (ends[:, 0] <= low) | (ends[:, 1] >= high))
    own = parameters.own
    at = np.array([name in result.at_bound for name in result.names])
    arrived, near = bounded & at & ~(own & (parameters.runs > 1)), cut & ~at & ~own
    return [name for chosen in (arrived, near) for name, here in zip(result.names, chosen, strict=True) if here]
