"""From observations to parameters with error bars: bounded nonlinear least squares with exact Jacobians.

minimise   1/2 sum_i | (values_i - observe(simulate(theta))) / noise_i |^2      subject to   low <= theta <= high

Intervals are widened where a standard error says nothing: by profiles, of friction that grips, by minima elsewhere.

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
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult
from scipy.special import stdtrit

from diffcontact.arguments import is_count
from diffcontact.host.progress import stage
from diffcontact.identify.identifiable import (
    POINTS,
    Identifiability,
    assess,
    least_friction,
    refuse_hopeless,
    require_finite,
    role,
)
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
from diffcontact.identify.objective import Objective, Progress
from diffcontact.identify.observations import Problem
from diffcontact.identify.parameters import Domain, Normal, Tie
from diffcontact.identify.result import FitResult, estimate
from diffcontact.identify.search import (
    METHODS,
    SHOOTING,
    Outcome,
    search,
    solve,
    with_estimated_noise,
    with_resolved_steps,
)

NOISES = ("stated", "estimated", "rough")
# How often a fit goes on from a lower cost that was found within its intervals.
_DEEPER = 3
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


def fit(
    problem: Problem | Sequence[Problem],
    params: Mapping[str, Any],
    free: Mapping[str, Domain],
    *,
    method: str = "lm",
    starts: int = 1,
    seed: int = 0,
    shooting: str = "auto",
    loss: str = "linear",
    f_scale: float = 1.0,
    priors: Mapping[str, Normal] | None = None,
    tied: Mapping[str, Tie] | None = None,
    noise: str = "stated",
    check: bool | None = None,
    progress: Progress | None = None,
) -> FitResult:
    """Fit parameters to measurements, with error bars and a verdict.

    Whether the model explains the data at all is in `FitResult.verdict`: read it first.

    Where a problem leaves the number of substeps open ("auto"), halving the steps changes what is observed by less than
    a tenth of the noise. The message says where 64 substeps are not enough; the trajectory's status then is TOO_COARSE.

    Several runs are fitted jointly: parameters are shared, except those that a problem names in `per_run`. Error bars
    come from the residuals, not from the stated noise. From three runs on they compare the runs; otherwise they hold
    the correlation of the residuals in time, and are wider where the samples that matter are noisier than the others
    (`identify.error_bars`). A parameter at its bound keeps the standard error that the curvature gives it; the other
    errors are those with it held there.

    An interval is that of the profile likelihood at a bound, where a bound would cut it, and where the cost is no
    parabola as far as it reaches (`FitResult.profiles`, four at most). Where all contacts grip, only the least friction
    is known (`FitResult.gripped`). A contact that slips shows friction and not spin, one that grips spin and not
    friction: so the fit tries a much larger friction, and values far from the estimate. Where those, or the ends of
    other starts, explain the data as well, the interval holds them, too (`FitResult.elsewhere`). Of more than 24
    parameters only frictions are tried.

    Args:
        problem: one run or a list of them.
        params: starting values of the free parameters and values of all others, by name; numbers, arrays, and (if not
            free) nested containers of them.
        free: the domain of each parameter to be found: `Interval(low, high)`, `Positive()` or `Real()`.
        method: "lm", a trust-region Levenberg-Marquardt method with bounds (scipy's `least_squares`, "trf"), the best
            for up to hundreds of parameters. "lbfgs" (scipy's L-BFGS-B) and "adam" (optax) descend by gradients of
            reverse mode, for so many parameters that a Jacobian in every step is too much; error bars need one.
        starts: how many starts: the given one and a Sobol set in the bounds. Where there is no finite bound, the set
            lies around the given value, within a factor of two, or 1 about zero. The best end is polished, all are in
            `start_costs`.
        seed: of the Sobol set.
        shooting: "single" fits the whole record at once. "growing" fits its beginning and lets the horizon grow, which
            finds the way from starts at which the simulation has other impacts than the data. "auto" begins with the
            first and goes on to the other where noise does not explain what is left.
        loss, f_scale: "linear", "soft_l1", "huber" or "cauchy" as in scipy's `least_squares`; beyond f_scale standard
            deviations of the noise, which must not be far below 1, a residual counts as an outlier.
        priors: name -> `Normal(mean, sigma)`, what is known of free parameters besides the data.
        tied: name -> function of the (run's) parameters, for those that follow from others. `{"restitution": lambda p:
            p["e"] * jnp.ones(9)}` gives nine contacts one coefficient. `tied` parameters need no entry in `params`.
        noise: "stated", or "estimated": each channel's noise is taken from its residuals and the fit repeated with it,
            until that settles (`FitResult.noise_factors`). For channels of unknown quality, one of which would
            otherwise outweigh the others. "rough" takes only what differs between neighbouring samples for noise, so
            that chi^2 still tests the model where nobody knows the noise.
        check: None refuses a fit in which no free parameter has any effect on what was measured, or where a function
            of the run returns NaN, at the start and at eight other points of the bounds. True refuses already where the
            data cannot determine every parameter (see `check`), False never.
        progress: called as `progress(iteration, cost)` at every Jacobian. Within `diffcontact.host.progress.shown()` a
            terminal shows what goes on without it.

    Returns:
        A `FitResult`; printing it gives the table.

    Raises:
        ValueError: names, shapes, values or bounds that do not fit together; an unknown method; a fit without
            hope (`check`).

    Example:
        >>> import numpy as np, diffcontact as dc
        >>> from diffcontact.identify import Interval, Observations, Problem, Real
        >>> cart = dc.System(
        ...     gap=lambda t, q, p: 1.0 - q,
        ...     force=lambda t, q, u, p: 0.0 * q,
        ...     mass=lambda q, p: 1.0 + 0.0 * q,
        ...     restitution=lambda p: p["e"],
        ... )
        >>> times = np.linspace(0.0, 1.0, 41)
        >>> seen = np.where(times < 0.5, 2.0 * times, 2.0 - 2.0 * times)[:, None]  # hits the wall at 0.5 s, e = 1
        >>> noise = 1e-3 * np.random.default_rng(0).normal(size=seen.shape)
        >>> run = Problem(cart, Observations(times, seen + noise, 1e-3, lambda x, p: x.q), lambda p: ([0.0], p["u0"]))
        >>> result = fit(run, {"e": 0.8, "u0": [1.9]}, {"e": Interval(0.0, 1.1), "u0": Real()})
        >>> print(f"{result.params['e']:.2f}")
        1.00
    """
    _check_search(method, starts, seed, shooting)
    if noise not in NOISES:
        raise ValueError(f"fit(noise): {noise!r} does not exist; there is {', '.join(map(repr, NOISES))}")
    with stage("fit"):
        objective = Objective.of(
            problem, params, free, loss=loss, f_scale=f_scale, priors=priors, tied=tied, progress=progress
        )
        if check is not False:
            require_finite(objective)
            refuse_hopeless(objective, strict=check is True)
        found, factors = search(objective, method, starts, seed, shooting), ()
        objective, found = with_resolved_steps(objective, found)
        if noise != "stated":
            objective, found, factors = with_estimated_noise(objective, found, rough=noise == "rough")
            objective, found = with_resolved_steps(objective, found)
        found = found.told(*objective.remarks)
        return replace(_with_intervals(objective, found), noise_factors=factors)


def check(
    problem: Problem | Sequence[Problem],
    params: Mapping[str, Any],
    free: Mapping[str, Domain],
    *,
    priors: Mapping[str, Normal] | None = None,
    tied: Mapping[str, Tie] | None = None,
    points: int = POINTS,
    seed: int = 0,
) -> Identifiability:
    """Check before a fit whether data can determine the parameters.

    Only times, noise and observed quantities matter; measured values do not.

    Args:
        problem, params, free, priors, tied: as for `fit`.
        points: the start and so many points less one in the bounds are looked at; the most favourable one counts.
        seed: of those points.

    Returns:
        An `Identifiability`: `hopeless`, and `hints` in words ("only m1/m2 is identified, not m1 and m2").

    Raises:
        ValueError: as `fit`.
    """
    return assess(Objective.of(problem, params, free, priors=priors, tied=tied), points, seed)


def _with_intervals(objective: Objective, found: Outcome) -> FitResult:
    """The result at the end of a search, or of one that goes on where its intervals have met a lower cost."""
    for attempt in range(_DEEPER + 1):
        result = estimate(objective, found)
        held = widened(result, found.ends)
        if isinstance(held, FitResult):
            return held
        if attempt < _DEEPER:
            end = solve(objective, held.theta)
            found = found.continued(end, f"a lower minimum of {end.cost:.6g} was found nearby")
    return replace(result, lower_elsewhere=str(held))


def _check_search(method: str, starts: int, seed: int, shooting: str) -> None:
    if method not in METHODS:
        raise ValueError(f"fit(method): {method!r} does not exist; there is {', '.join(map(repr, METHODS))}")
    if shooting not in SHOOTING:
        raise ValueError(f"fit(shooting): {shooting!r} does not exist; there is {', '.join(map(repr, SHOOTING))}")
    if method != "lm" and shooting not in ("auto", "single"):
        raise ValueError(f"fit(shooting): {shooting!r} goes with method 'lm', not {method!r}")
    if not is_count(starts, 1):
        raise ValueError(f"fit(starts): {starts!r}, expected an integer of at least 1")
    if not is_count(seed, 0):
        raise ValueError(f"fit(seed): {seed!r}, expected an integer of at least 0")


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
