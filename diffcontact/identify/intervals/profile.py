"""Profile likelihood: an interval that does not trust the curvature, and whether the curvature may be trusted.

For each value x of one parameter the others are fitted anew. With the cost c(x) and its minimum c, the 95 % interval is

    2 (c(x) - c) / s^2 <= t^2,    s^2 = (stderr / stderr_0)^2,    stderr_0 = sqrt((J^T J)^-1)

where t is the quantile of the fit's own interval: for a linear model that is the fit's interval.

**Is the cost a parabola?** Moving theta_j by h, the others following as in a linear model, raises the cost by
h^2 / (2 B_jj), B = (J^T J)^-1. Where it rises by much less at an end of the interval, or twice as far, the interval is
too short; where it falls, the estimate was a local minimum (`misjudged`).

**Far from the estimate** contacts may grip that slip here, or the other way round. Behind such an edge nothing may
depend on the element any longer, and the data may be explained as well (`further`). No descent tells: the cost rises
first, and has a kink at the edge.

Source: D. M. Bates, D. G. Watts, Nonlinear Regression Analysis and Its Applications (1988), chapter 6.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from diffcontact.identify.estimate import Estimate, Profile, resumed
from diffcontact.identify.identifiable import least_friction, role
from diffcontact.identify.objective import Objective
from diffcontact.identify.search import MAX_EVALUATIONS, descent
from diffcontact.identify.verdict.reasons import LOOKED_AT
from diffcontact.numerics.least_squares import inverse_diagonal

# The cost should have risen by what its curvature says, or less by this factor at most.
_PARABOLA = 3.0
# How far, in half widths of the interval.
_FAR = 1.0, 2.0


@dataclass(frozen=True, eq=False)
class Misjudged:
    """An end of an interval at which, or behind which, the cost is lower than the curvature has it."""

    name: str  # of the parameter
    upper: bool  # whether it is the upper end
    behind: bool  # whether it is at twice the distance
    theta: NDArray  # (P,) where the cost was looked at
    risen: float  # how much it is above that of the estimate
    expected: float  # how much it should be

    @property
    def lower_than_the_estimate(self) -> bool:
        """Whether the estimate is no minimum; what is lower by a rounding is none either."""
        return self.risen < -0.1 * self.expected


def misjudged(result: Estimate, objective: Objective) -> list[Misjudged]:
    """The ends of intervals at which, or behind which, the cost has risen by less than a third of what it should."""
    theta, parameters = objective.parameters.start, objective.parameters
    f, J = objective.evaluate(theta)
    if objective.exact(0.5 * float(f @ f)):
        return []
    seen, own = result.known & np.any(J, axis=0), parameters.of_one_run
    looked_at = [j for j in np.flatnonzero(seen) if not own[j] and result.names[j] not in result.profiled]
    if not 0 < len(looked_at) <= LOOKED_AT:
        return []
    half = result.quantiles * np.sqrt(np.where(seen, np.diag(result.covariance), 0.0)) / parameters.slopes(theta)
    found = []
    for j in looked_at:
        # What is at a bound stays there, but for the element itself.
        others = seen & ~result.bounded & (np.arange(theta.size) != j)
        along = np.linalg.lstsq(J[:, others], -J[:, j], rcond=None)[0]
        for side in (-1.0, 1.0):
            step = np.zeros(theta.size)
            step[j], step[others] = side * half[j], side * half[j] * along
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


# The search for an end stops within this part of a standard error, or of the way there.
RESOLUTION = 0.02
_FARTHEST = 64.0
# A descent of the others stops where a step gains this part of the level: it is then a hundredth of it away at most.
_PRECISION = 1e-4
# After so many secants to one side the interval is halved.
_SAME_SIDE = 3


class ProfileScan:
    """Rise of the cost over its minimum when element j is held, the others fitted from where they were last.

    Attributes:
        scale, level, stderr: s^2, the rise at which the interval ends, and the standard error of theta_j.
        along: (P,) how all move with theta_j in a linear model.
        theta, lowest: (P,) where the others were last, and where the cost was least.
        seen: values of theta_j -> rise.
    """

    @classmethod
    def of(cls, result: Estimate, name: str) -> ProfileScan:
        """Along an element of what was found, with the scale that its error bars rest on."""
        objective = resumed(result, "profile")
        if name not in result.names:
            raise ValueError(f"profile(name): no element {name!r}; there are {', '.join(result.names)}")
        j = result.names.index(name)
        if not np.isfinite(result.covariance[j, j]):
            raise ValueError(f"profile(name): the data cannot see {name!r}, so there is nothing to profile")
        slope = objective.parameters.slopes(objective.parameters.start)[j]
        stderr, scale = float(np.sqrt(result.covariance[j, j]) / slope), float(scales(result, objective)[j])
        return cls(objective, j, scale, float(result.quantiles[j]) ** 2, stderr)

    def __init__(self, objective: Objective, j: int, scale: float = 1.0, level: float = 1.0, stderr: float = 1.0):
        self.objective, self.j, self.scale, self.level, self.stderr = objective, j, scale, level, stderr
        self.theta = objective.parameters.start.copy()
        f, self.jacobian = objective.evaluate(self.theta)
        self.cost = self.least = 0.5 * float(f @ f)
        self.lowest = self.theta
        self.others = np.arange(self.theta.size) != j
        slope, *_ = np.linalg.lstsq(self.jacobian[:, self.others], -self.jacobian[:, j], rcond=objective.eps**0.5)
        self.along = np.insert(slope, j, 1.0)
        self.seen = {float(self.theta[j]): 0.0}

    def rise(self, x: float, anew: bool = False, most: int = MAX_EVALUATIONS) -> float:
        """What it is at x, the lowest that was found; infinite where the simulation does not get through."""
        if x in self.seen and not anew:
            return self.seen[x]
        parameters, others = self.objective.parameters, self.others

        def whole(part):
            return np.where(others, np.insert(part, self.j, 0.0), x)

        # The others where they were, or moved along with x as they would in a linear model: wherever the cost is less.
        stay, along = (
            np.clip(self.theta + (x - self.theta[self.j]) * way, parameters.low, parameters.high)
            for way in (~others, self.along)
        )
        costs = [0.5 * float(np.sum(self.objective.evaluate(at)[0] ** 2)) for at in (stay, along)]
        if not np.isfinite(min(costs)):
            return self.seen.setdefault(x, np.inf)
        cost, at = min(costs), (stay, along)[int(np.argmin(costs))]
        self.theta = at
        if others.any():
            end = descent(
                lambda part: self.objective.evaluate(whole(part))[0],
                lambda part: self.objective.evaluate(whole(part))[1][:, others],
                at[others],
                (parameters.low[others], parameters.high[others]),
                ftol=max(self.level * self.scale / max(cost, self.cost) * _PRECISION, self.objective.eps**0.75),
                max_nfev=most,
            )
            cost, self.theta = float(end.cost), whole(end.x)
        if cost < self.least:
            self.least, self.lowest = cost, self.theta
        self.seen[x] = min(2 * (cost - self.cost) / self.scale, self.seen.get(x, np.inf))
        return self.seen[x]


def scales(result: Estimate, objective: Objective) -> NDArray:
    """(P,) s^2, the scale on which the error bar of each element rests; infinite of what the data cannot see."""
    theta = objective.parameters.start
    _, J = objective.evaluate(theta)
    here = np.any(J, axis=0)
    # As the error bars have it: what is at a bound is held in those of the others.
    at = result.bounded
    unscaled = np.where(at, inverse_diagonal(J), inverse_diagonal(np.where(at, 0.0, J)))
    variance = np.diag(result.covariance) / objective.parameters.slopes(theta) ** 2
    # Without an effect at the estimate there is no curvature to compare: what all residuals are worth is left.
    worth = result.chi2_per_dof * result.samples / max(result.effective_samples, 1.0)
    return np.where(here | np.isinf(variance), variance / unscaled, worth)


def end_of_interval(scan: ProfileScan, side: float) -> float:
    """Where the rise passes the level on one side, by growing steps, then bisection with secants; else the bound."""
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


# Where it is looked whether the cost has levelled off, and whether that is connected with the estimate: half widths.
_AWAY, _NEARBY = 16.0, 2.0
# By how much a friction is larger with which contacts may grip; it goes nine tenths of the way to a bound at most.
_LARGER = 256.0, 16.0, 4.0, 2.0
# Evaluations of a descent.
_MOST = 40


def further(scan: ProfileScan, name: str) -> tuple[bool, bool]:
    """Whether the interval has no end downwards, and none upwards, because of what grips or slips there."""
    start, half = scan.objective.parameters.start, np.sqrt(scan.level) * scan.stderr
    if not scan.objective.joint.rubs or scan.objective.exact(scan.cost):
        return False, False
    if start.size > LOOKED_AT:
        below, above = False, _larger_does(scan, name, _LARGER[1:2])
    else:
        edge = _at_the_edge(scan)
        begins, step = [start] if edge is None else [start, edge], _AWAY * half
        below, above = (any(_levels_off(scan, begin, way) for begin in begins) for way in (-step, step))
        above = above or _larger_does(scan, name, _LARGER)
    for on, side in ((below, -1.0), (above, 1.0)):
        if on:
            # Whether that is connected with the estimate.
            scan.theta = start.copy()
            scan.rise(float(start[scan.j] + side * _NEARBY * half), most=_MOST)
    return below, above


def _at_the_edge(scan: ProfileScan) -> NDArray | None:
    """(P,) the estimate with each friction that grips as small as it can be; None where none does."""
    objective, start = scan.objective, scan.objective.parameters.start
    parameters, edge = objective.parameters, start.copy()
    for i in np.flatnonzero(~np.any(scan.jacobian, axis=0)):
        if role(objective, start, name := parameters.names[i]) == "friction":
            trajectories = [at.trajectory for at in objective.joint.linearise(start)]
            least = least_friction(objective, start, name, trajectories)
            if least > 0:
                edge[i] = np.clip(np.log(least) if parameters.log[i] else least, parameters.low[i], parameters.high[i])
    return None if np.array_equal(edge, start) else edge


def _levels_off(scan: ProfileScan, begin: NDArray, step: float) -> bool:
    """Whether so far away nothing depends on the element any longer, and the cost is as low as within its interval."""
    objective, j = scan.objective, scan.j
    there = begin.copy()
    there[j] += step
    if not objective.parameters.low[j] < there[j] < objective.parameters.high[j]:
        return False
    left = np.linalg.norm(objective.evaluate(there)[1][:, j])
    if not left <= np.sqrt(objective.eps) * np.linalg.norm(scan.jacobian[:, j]):
        return False
    scan.theta = begin.copy()
    return scan.rise(float(there[j]), anew=True) <= scan.level


def _larger_does(scan: ProfileScan, name: str, factors: Sequence[float]) -> bool:
    """Whether a much larger friction explains the data as well: contacts grip then that slip at the estimate."""
    objective, start = scan.objective, scan.objective.parameters.start
    if role(objective, start, name) != "friction":
        return False
    low, high, log = objective.parameters.low, objective.parameters.high, objective.parameters.log
    unseen = ~np.any(scan.jacobian, axis=0)
    begins = [start, np.clip(np.where(unseen, 0.0, start), low, high)] if unseen.any() else [start]
    begins = begins if start.size <= LOOKED_AT else begins[-1:]
    here, bound = start[scan.j], high[scan.j]
    larger = here + np.log(factors) if log[scan.j] else max(here, scan.stderr) * np.array(factors)
    for begin, x in product(begins, np.unique(np.minimum(larger, 0.1 * here + 0.9 * bound))[::-1]):
        scan.theta = begin.copy()
        if scan.rise(float(x), anew=True, most=_MOST) <= scan.level:
            return True
    return False


class LowerCostError(ValueError):
    """The cost is lower elsewhere than at the estimate.

    Attributes:
        theta: (P,) where.
    """

    def __init__(self, message: str, theta: NDArray):
        super().__init__(message)
        self.theta = theta


def profile(result: Estimate, name: str) -> Profile:
    """Profile the cost along one element of the parameters: runs, priors, loss and noise are those of the fit.

    Args:
        result: what `fit` returned.
        name: of the element, as in `result.names`.

    Raises:
        ValueError: an unknown name, or one that the data cannot see; a fit that did not converge; a result that was
            read from a file.
        LowerCostError: a fit whose cost turns out to be lower elsewhere; a ValueError.

    Example:
        >>> import jax.numpy as jnp, diffcontact as dc
        >>> from diffcontact.identify import Observations, Positive, Problem, fit
        >>> sled = dc.System(
        ...     gap=lambda t, q, p: q + 1.0,
        ...     force=lambda t, q, u, p: p["pull"] + 0.0 * q,
        ...     mass=lambda q, p: 1.0 + 0.0 * q,
        ...     restitution=lambda p: 0.0,
        ... )
        >>> times = np.linspace(0.0, 1.0, 21)
        >>> seen = (times**2 + 0.01 * np.random.default_rng(0).normal(size=21))[:, None]  # pull = 2
        >>> start = lambda p: (jnp.zeros(1), jnp.zeros(1))
        >>> run = Problem(sled, Observations(times, seen, 0.01, lambda x, p: x.q), start, dc.VelocityProjection(), 8)
        >>> result = fit(run, {"pull": 1.0}, {"pull": Positive()})
        >>> low, high = profile(result, "pull").interval95
        >>> bool(low < 2.0 < high), bool(high - low < 0.1)
        (True, True)
    """
    found = profiled(result, name)
    if isinstance(found, LowerCostError):
        raise found
    return found


def profiled(result: Estimate, name: str) -> Profile | LowerCostError:
    """The profile of an element, or where it has met a lower cost."""
    scan = ProfileScan.of(result, name)
    objective, j = scan.objective, scan.j
    below, above = further(scan, name)
    low = objective.parameters.low[j] if below else end_of_interval(scan, -1.0)
    high = objective.parameters.high[j] if above else end_of_interval(scan, 1.0)
    values, rise = (np.array(part) for part in zip(*sorted(scan.seen.items()), strict=True))
    convert = np.exp if objective.parameters.log[j] else lambda x: x
    # The estimate is a minimum to the precision with which the descent ends.
    slack = RESOLUTION * scan.level + 20 * objective.eps**0.75 * scan.cost / scan.scale
    if rise.min() < -slack:
        return LowerCostError(
            f"profile(result): at {name} = {convert(values[rise.argmin()]):.6g} the cost is lower than at the "
            "estimate, so the fit ended in a local minimum; expected one from that start, or with starts=16",
            scan.lowest,
        )
    return Profile(name, convert(np.array([low, high])), convert(values), rise)
