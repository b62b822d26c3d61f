"""From observations to parameters with error bars: bounded nonlinear least squares with exact Jacobians.

minimise   1/2 sum_i | (values_i - observe(simulate(theta))) / noise_i |^2      subject to   low <= theta <= high
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from diffcontact.arguments import is_count
from diffcontact.host.progress import stage
from diffcontact.identify.identifiable import POINTS, Identifiability, assess, refuse_hopeless, require_finite
from diffcontact.identify.intervals.widened import widened
from diffcontact.identify.problem.objective import Objective, Progress
from diffcontact.identify.problem.observations import Problem
from diffcontact.identify.problem.parameters import Domain, Normal, Tie
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
