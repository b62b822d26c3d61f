r"""What data say of a coefficient of friction where every contact grips: the least that it can be.

While all contacts grip, nothing depends on mu. That ends at the edge, the largest |B| / P of them at the estimate.
Below it some slip, and the cost rises, the other parameters being fitted anew. The interval of mu has no upper end, and
its lower one is where, with the scale s^2 of `profile` and Student's t for the degrees of freedom that independent
samples leave,

    2 (c(mu) - c) / s^2 = t^2
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import stdtrit

from diffcontact.host.progress import stage
from diffcontact.identify.identifiable import least_friction, role
from diffcontact.identify.intervals.profile import LowerCostError, ProfileScan, end_of_interval
from diffcontact.identify.result import FitResult

# The search begins with this part of the edge.
_STEP = 0.05
# Grip is given up where slip is better by twice the half width of an interval: by one it is once in forty times by
# chance, and what is then said of the friction is off by far.
_OUT_OF_THE_QUESTION = 4.0


def with_lower_bounds(result: FitResult) -> FitResult:
    """The result with an interval for those coefficients of friction that grip hides from it.

    Args:
        result: what was found; one that has not converged is left as it is.

    Raises:
        LowerCostError: a smaller friction, with which contacts slip, explains the data so much better that grip is out
            of the question.
    """
    if not result.converged or result.objective is None:
        return result
    intervals = {name: np.array(interval) for name, interval in result.interval95.items()}
    found = []
    for direction in result.unidentifiable:
        name, *others = direction
        low = None if others else _least(result, name)
        if low is not None:
            parameter, at = result.place(name)
            intervals[parameter][at] = low, np.inf
            found.append(name)
    return replace(result, interval95=intervals, gripped=tuple(found)) if found else result


def _least(result: FitResult, name: str) -> float | None:
    """The lower end of the interval, or None where it is no friction, or nothing touches."""
    objective = result.objective
    assert objective is not None
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
        scan = ProfileScan(objective.started_at(np.where(np.arange(theta.size) == j, at, theta)), j)
        scan.scale = result.chi2_per_dof * result.samples / max(result.effective_samples, 1.0)
        scan.level = float(stdtrit(max(result.effective_samples - theta.size, 1.0), 0.975)) ** 2
        scan.stderr = _STEP if log else _STEP * edge
        end = end_of_interval(scan, -1.0)
    if min(scan.seen.values()) < -_OUT_OF_THE_QUESTION * scan.level and not objective.exact(scan.cost):
        raise LowerCostError(f"the cost is lower with a smaller {name}, with which contacts slip", scan.lowest)
    return float(np.exp(end) if log else end)
