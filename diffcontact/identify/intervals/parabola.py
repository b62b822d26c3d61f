r"""Is the cost a parabola as far as the intervals reach?

Moving theta_j by h to an end of its interval, the others following as they would in a linear model, raises the cost by

    h^2 / (2 B_jj),    B = (J^T J)^-1

Where it rises by much less, the interval is too short. Where it falls, the estimate was a local minimum. Where it rises
by more, the interval is longer than it has to be.

What is at a bound is held there, in the error bars of the others. Where they would be longer were it free, an interval
without it is too short: the truth may be inside.

Twice as far is looked at, too: behind the edge where a contact that slips grips, or grips no longer, a cost that has
risen as it should rises no more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from diffcontact.identify.estimate import Estimate
from diffcontact.identify.least_squares import inverse, inverse_diagonal
from diffcontact.identify.problem.objective import Objective

# The cost should have risen by what its curvature says, or less by this factor at most.
_PARABOLA = 3.0
# Parameters whose intervals are looked at; each takes four simulations of all runs.
_LOOKED_AT = 24
# By how much a standard error grows, at least, with what is at a bound free.
_LEANS = 1.1
# How far, in half widths of the interval.
_FAR = 1.0, 2.0


@dataclass(frozen=True, eq=False)
class Misjudged:
    """An end of an interval at which, or behind which, the cost is lower than the curvature has it.

    Attributes:
        name: of the parameter.
        upper: whether it is the upper end.
        behind: whether it is at twice the distance.
        theta: (P,) where the cost was looked at.
        risen: how much it is above that of the estimate.
        expected: how much it should be.
    """

    name: str
    upper: bool
    behind: bool
    theta: NDArray
    risen: float
    expected: float

    @property
    def lower_than_the_estimate(self) -> bool:
        """Whether the estimate is no minimum; what is lower by a rounding is none either."""
        return self.risen < -0.1 * self.expected


def misjudged(result: Estimate, objective: Objective) -> list[Misjudged]:
    """The ends of intervals at which, or behind which, the cost has risen by less than a third of what it should have.

    Every parameter that is no run's own is looked at, from single runs all; none where there are more than 24. Those
    at a bound, and those whose interval is that of their profile, need no curvature.
    """
    theta, parameters = objective.parameters.start, objective.parameters
    seen = np.isfinite(np.diag(result.covariance)) & np.array([name not in result.at_bound for name in result.names])
    f, J = objective.evaluate(theta)
    if objective.exact(0.5 * float(f @ f)):
        return []
    kept = np.flatnonzero(seen & (np.linalg.norm(J, axis=0) > 0))
    own = parameters.own & (parameters.runs > 1)
    looked_at = [i for i, j in enumerate(kept) if not own[j] and result.names[j] not in result.profiled]
    if not 0 < len(looked_at) <= _LOOKED_AT:
        return []
    B = inverse(J[:, kept].T @ J[:, kept], 1e-15)
    half = result.quantiles * np.sqrt(np.where(seen, np.diag(result.covariance), 0.0)) / parameters.slopes(theta)
    found = []
    for i in looked_at:
        for side in (-1.0, 1.0):
            j, step = int(kept[i]), np.zeros(theta.size)
            step[kept] = side * half[j] * B[:, i] / B[i, i]
            for far in _FAR:
                there = theta + far * step
                if np.any((there < parameters.low) | (there > parameters.high)):
                    break
                expected = 0.5 * float(np.sum((f + far * J @ step) ** 2) - f @ f)
                risen = objective.cost(there) - 0.5 * float(f @ f)
                if risen < expected / _PARABOLA:
                    found.append(Misjudged(result.names[j], side > 0, far > 1, there, risen, expected))
                    break
    objective.evaluate(theta)
    return found


def leaning(result: Estimate, objective: Objective) -> list[str]:
    """Elements whose standard error would be longer by a tenth, were what is at a bound free; no run's own, if many."""
    at, parameters = np.array([name in result.at_bound for name in result.names]), objective.parameters
    if not at.any():
        return []
    _, J = objective.evaluate(parameters.start)
    own = parameters.own & (parameters.runs > 1)
    looked_at = np.isfinite(np.diag(result.covariance)) & np.any(J, axis=0) & ~at & ~own
    longer = inverse_diagonal(J) > _LEANS**2 * inverse_diagonal(np.where(at, 0.0, J))
    return [name for name, here in zip(result.names, looked_at & longer, strict=True) if here]
