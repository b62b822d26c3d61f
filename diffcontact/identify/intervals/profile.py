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
from numpy.typing import NDArray

from diffcontact.identify.intervals.friction_modes import further
from diffcontact.identify.intervals.profile_scan import RESOLUTION, ProfileScan, end_of_interval
from diffcontact.identify.intervals.profiled import Profile
from diffcontact.identify.result import FitResult


class LowerCostError(ValueError):
    """The cost is lower elsewhere than at the estimate.

    Attributes:
        theta: (P,) where.
    """

    def __init__(self, message: str, theta: NDArray):
        super().__init__(message)
        self.theta = theta


def profile(result: FitResult, name: str) -> Profile:
    """Profile the cost along one element of the parameters.

    Runs, priors, loss and noise are those of the fit.

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
        raise LowerCostError(
            f"profile(result): at {name} = {convert(values[rise.argmin()]):.6g} the cost is lower than at the "
            "estimate, so the fit ended in a local minimum; expected one from that start, or with starts=16",
            scan.lowest,
        )
    return Profile(name, convert(np.array([low, high])), convert(values), rise)
