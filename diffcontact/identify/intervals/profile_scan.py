"""How the cost rises along one element of the parameters, and where that leaves the 95 % region."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from diffcontact.identify.estimate import resumed
from diffcontact.identify.intervals.parabola import inverse_diagonal
from diffcontact.identify.problem.objective import Objective
from diffcontact.identify.result import FitResult
from diffcontact.identify.search.trust_region import MAX_EVALUATIONS, descent

# The search for an end stops within this part of a standard error, or of the way there.
RESOLUTION = 0.02
_FARTHEST = 64.0
# After so many secants to one side the interval is halved.
_SAME_SIDE = 3


class ProfileScan:
    """Rise of the cost over its minimum when element j is held, the others fitted from where they were last.

    Attributes:
        scale: s^2, what a rise is measured in; level: the rise at which the interval ends; stderr: of theta_j.
        theta: (P,) where the others were last; seen: values of theta_j -> rise; lowest: (P,) where the cost was least.
    """

    @classmethod
    def of(cls, result: FitResult, name: str) -> ProfileScan:
        """Along an element of what was found, with the scale that its error bars rest on."""
        objective = resumed(result, "profile")
        if name not in result.names:
            raise ValueError(f"profile(name): no element {name!r}; there are {', '.join(result.names)}")
        j = result.names.index(name)
        if not np.isfinite(result.covariance[j, j]):
            raise ValueError(f"profile(name): the data cannot see {name!r}, so there is nothing to profile")
        scan = cls(objective, j)
        scan.level = float(np.concatenate([np.ravel(q) for q in result.quantile.values()])[j]) ** 2
        slope = objective.parameters.slopes(objective.parameters.start)[j]
        scan.stderr = float(np.sqrt(result.covariance[j, j]) / slope)
        scan.scale = float(scales(result, objective)[j])
        return scan

    def __init__(self, objective: Objective, j: int):
        self.objective, self.j, self.scale, self.level, self.stderr = objective, j, 1.0, 1.0, 1.0
        self.theta = objective.parameters.start.copy()
        f, self.jacobian = objective.evaluate(self.theta)
        self.cost = self.least = 0.5 * float(f @ f)
        self.lowest = self.theta
        self.others = np.arange(self.theta.size) != j
        self.seen = {float(self.theta[j]): 0.0}

    def rise(self, x: float, anew: bool = False, most: int = MAX_EVALUATIONS) -> float:
        """What it is at x, the lowest that was found; infinite where the simulation does not get through.

        `anew`: looked for again, from where the others are; `most`: evaluations.
        """
        if x in self.seen and not anew:
            return self.seen[x]
        at = self.theta.copy()
        at[self.j] = x
        parameters, others = self.objective.parameters, self.others

        def whole(part):
            return np.where(others, np.insert(part, self.j, 0.0), x)

        cost = 0.5 * float(np.sum(self.objective.evaluate(at)[0] ** 2))
        if not np.isfinite(cost):
            return self.seen.setdefault(x, np.inf)
        self.theta = at
        if others.any():
            end = descent(
                lambda part: self.objective.evaluate(whole(part))[0],
                lambda part: self.objective.evaluate(whole(part))[1][:, others],
                at[others],
                (parameters.low[others], parameters.high[others]),
                max_nfev=most,
            )
            cost, self.theta = float(end.cost), whole(end.x)
        if cost < self.least:
            self.least, self.lowest = cost, self.theta
        self.seen[x] = min(2 * (cost - self.cost) / self.scale, self.seen.get(x, np.inf))
        return self.seen[x]


def scales(result: FitResult, objective: Objective) -> NDArray:
    """(P,) s^2, the scale on which the error bar of each element rests; what the data cannot see has an infinite one.

    Args:
        result: what `fit` returned.
        objective: what was minimised, started at the estimate.
    """
    theta = objective.parameters.start
    _, J = objective.evaluate(theta)
    here = np.any(J, axis=0)
    at = np.array([name in result.at_bound for name in result.names])
    # As the error bars have it: what is at a bound is held in those of the others.
    unscaled = np.where(at, inverse_diagonal(J), inverse_diagonal(np.where(at, 0.0, J)))
    variance = np.diag(result.covariance) / objective.parameters.slopes(theta) ** 2
    # Without an effect at the estimate there is no curvature to compare: what all residuals are worth is left.
    worth = result.chi2_per_dof * result.samples / max(result.effective_samples, 1.0)
    return np.where(here | np.isinf(variance), variance / unscaled, worth)


def end_of_interval(scan: ProfileScan, side: float) -> float:
    """Where the rise passes the level on one side: steps that grow, then bisection with secants.

    The bound where it passes it nowhere.
    """
    parameters, j, stderr, level = scan.objective.parameters, scan.j, scan.stderr, scan.level
    start = scan.objective.parameters.start
    scan.theta = start.copy()
    bound = parameters.low[j] if side < 0 else parameters.high[j]
    inside, outside, length = float(start[j]), None, np.sqrt(level)
    while outside is None:
        x = start[j] + side * length * stderr
        beyond = side * (x - bound) >= 0
        x = float(bound if beyond and np.isfinite(bound) else x)
        if scan.rise(x) > level:
            outside = x
        elif beyond or length > _FARTHEST:
            return float(bound)
        else:
            inside, length = x, 1.5 * length
    again = 0
    # A standard error may be far longer than the interval, where a bound or a kink ends it.
    while abs(outside - inside) > RESOLUTION * min(stderr, abs(outside - start[j])):
        # The root of the rise is nearly a straight line.
        low, high = np.sqrt(max(scan.rise(inside), 0.0)), np.sqrt(scan.rise(outside))
        part = np.clip((np.sqrt(level) - low) / max(high - low, 1e-12), 0.02, 0.98) if np.isfinite(high) else 0.5
        # Beside a cliff the line leads to one side again and again.
        part = part if abs(again) < _SAME_SIDE else 0.5
        x = float(inside + part * (outside - inside))
        if x in (inside, outside):
            break  # an interval of a few roundings
        if scan.rise(x) > level:
            outside, again = x, max(again, 0) + 1
        else:
            inside, again = x, min(again, 0) - 1
        if abs(scan.rise(x) - level) < RESOLUTION * level:
            return x
    return (inside + outside) / 2
