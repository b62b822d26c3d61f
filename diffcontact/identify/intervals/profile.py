r"""Profile likelihood: an interval that does not trust the curvature.

For each value x of one parameter the others are fitted anew. With the cost c(x) and its minimum c, the 95 % interval is

    2 (c(x) - c) / s^2 <= t^2

where t is the quantile of the fit's own interval and s^2 = (stderr / stderr_0)^2 the scale that its error bars rest on.
Here stderr_0 = sqrt((J^T J)^-1); s^2 says how much larger than stated the residuals are, and how correlated. For a
linear model that is the fit's interval; near a bound, or where the cost is no parabola, it is the better one.

Source: D. M. Bates, D. G. Watts, Nonlinear Regression Analysis and Its Applications (1988), chapter 6.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import least_squares

from diffcontact.identify.intervals.profiled import Profile
from diffcontact.identify.problem.objective import Objective
from diffcontact.identify.result import FitResult, resumed
from diffcontact.identify.search.trust_region import MAX_EVALUATIONS

# The search for an end stops within this part of a standard error.
_RESOLUTION = 0.02
_FARTHEST = 64.0


def profile(result: FitResult, name: str) -> Profile:
    """Profile one element of the parameters, with the runs, priors, loss and noise of the fit.

    Args:
        result: what `fit` returned.
        name: of the element, as in `result.names`.

    Raises:
        ValueError: an unknown name, or one that the data cannot see; a fit that did not converge. A fit whose cost
            turns out to be lower elsewhere; a result that was read from a file.

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
    objective = resumed(result, "profile")
    if name not in result.names:
        raise ValueError(f"profile(name): no element {name!r}; there are {', '.join(result.names)}")
    j = result.names.index(name)
    if not np.isfinite(result.covariance[j, j]):
        raise ValueError(f"profile(name): the data cannot see {name!r}, so there is nothing to profile")
    scan = Scan(objective, j)
    quantile = float(np.concatenate([np.ravel(q) for q in result.quantile.values()])[j])
    theta = objective.parameters.start
    slope = objective.parameters.slopes(theta)[j]
    stderr = np.sqrt(result.covariance[j, j]) / slope
    stated = np.sqrt(np.linalg.pinv(scan.jacobian.T @ scan.jacobian)[j, j])
    # Without an effect at the estimate there is no curvature to compare: what all residuals are worth is left.
    worth = result.chi2_per_dof * result.samples / max(result.effective_samples, 1.0)
    scan.scale = (stderr / stated) ** 2 if np.any(scan.jacobian[:, j]) else worth
    ends = [_end(scan, side, stderr, quantile**2) for side in (-1.0, 1.0)]
    values, rise = (np.array(part) for part in zip(*sorted(scan.seen.items()), strict=True))
    convert = np.exp if objective.parameters.log[j] else lambda x: x
    # The estimate is a minimum to the precision with which the descent ends.
    slack = _RESOLUTION * quantile**2 + 20 * objective.eps**0.75 * scan.cost / scan.scale
    if rise.min() < -slack:
        raise ValueError(
            f"profile(result): at {name} = {convert(values[rise.argmin()]):.6g} the cost is lower than at the "
            "estimate, so the fit ended in a local minimum; expected one from that start, or with starts=16"
        )
    return Profile(name, convert(np.array(ends)), convert(values), rise)


class Scan:
    """Rise of the cost over its minimum when element j is held, the others fitted from where they were last."""

    def __init__(self, objective: Objective, j: int):
        self.objective, self.j, self.scale = objective, j, 1.0
        self.theta = objective.parameters.start.copy()
        f, self.jacobian = objective.evaluate(self.theta)
        self.cost = 0.5 * float(f @ f)
        self.others = np.arange(self.theta.size) != j
        self.seen = {float(self.theta[j]): 0.0}

    def rise(self, x: float) -> float:
        if x in self.seen:
            return self.seen[x]
        at = self.theta.copy()
        at[self.j] = x
        parameters, others = self.objective.parameters, self.others

        def whole(part):
            return np.where(others, np.insert(part, self.j, 0.0), x)

        cost = 0.5 * float(np.sum(self.objective.evaluate(at)[0] ** 2))
        if others.any():
            end = least_squares(
                lambda part: self.objective.evaluate(whole(part))[0],
                at[others],
                jac=lambda part: self.objective.evaluate(whole(part))[1][:, others],  # pyright: ignore[reportArgumentType]
                bounds=(parameters.low[others], parameters.high[others]),
                x_scale="jac",
                max_nfev=MAX_EVALUATIONS,
            )
            cost, self.theta = float(end.cost), whole(end.x)
        self.seen[x] = 2 * (cost - self.cost) / self.scale
        return self.seen[x]


def lower_end(scan: Scan, step: float, level: float) -> float:
    """Where the rise passes the level below the start, looked for in steps of this length; the bound where nowhere."""
    return _end(scan, -1.0, step, level)


def _end(scan: Scan, side: float, stderr: float, level: float) -> float:
    """Where the rise passes the level on one side: doubling steps, then bisection with secants."""
    parameters, j = scan.objective.parameters, scan.j
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
    while abs(outside - inside) > _RESOLUTION * stderr:
        # The root of the rise is nearly a straight line.
        low, high = np.sqrt(max(scan.rise(inside), 0.0)), np.sqrt(scan.rise(outside))
        part = np.clip((np.sqrt(level) - low) / max(high - low, 1e-12), 0.02, 0.98)
        x = float(inside + part * (outside - inside))
        if x in (inside, outside):
            break  # an interval of a few roundings
        if scan.rise(x) > level:
            outside = x
        else:
            inside = x
        if abs(scan.rise(x) - level) < _RESOLUTION * level:
            return x
    return (inside + outside) / 2
