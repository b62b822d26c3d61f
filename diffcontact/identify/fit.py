"""From observations to parameters with error bars: bounded nonlinear least squares with exact Jacobians.

minimise   1/2 sum_i | (values_i - observe(simulate(theta))) / noise_i |^2      subject to   low <= theta <= high
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult, least_squares
from scipy.stats import norm, qmc

from diffcontact.identify.identifiability import Blindness, blindness, negligible_columns
from diffcontact.identify.observations import Problem
from diffcontact.identify.parameters import Domain, FreeParameters, free_parameters
from diffcontact.identify.residual import JointResidual
from diffcontact.identify.result import FitResult
from diffcontact.identify.uncertainty import RunResidual, error_bars
from diffcontact.status import Status

METHODS = ("lm",)
_MAX_EVALUATIONS = 300

Progress = Callable[[int, float], None]


def fit(
    problem: Problem | Sequence[Problem],
    params: Mapping[str, Any],
    free: Mapping[str, Domain],
    *,
    method: str = "lm",
    starts: int = 1,
    seed: int = 0,
    progress: Progress | None = None,
) -> FitResult:
    """Find the free parameters that make the simulation match what was measured, and say how well they are known.

    Several runs are fitted jointly: parameters are shared, except those that a problem calls its `own`. Error bars come
    from the residuals, not from the stated noise: from three runs on by comparing the runs, otherwise with the
    correlation of the residuals in time (`diffcontact.identify.uncertainty`). A parameter at its bound keeps the
    standard error that the curvature gives it, its interval is cut at the bound, and the other errors are those with it
    held there.

    Args:
        problem: one run or a list of them.
        params: starting values of the free parameters and values of all others, by name; numbers, arrays, and (if not
            free) nested containers of them.
        free: the domain of each parameter to be found: `Interval(low, high)`, `Positive()` or `Real()`.
        method: "lm", a trust-region Levenberg-Marquardt method with bounds (scipy's `least_squares`, "trf").
        starts: how many starts: the given one and a Sobol set in the bounds; where there is no finite bound, around the
            given value (within a factor of two, or 1 about zero). The best end is kept.
        seed: of the Sobol set.
        progress: called as `progress(iteration, cost)` at every Jacobian.

    Returns:
        A `FitResult`; printing it gives the table.

    Raises:
        ValueError: names, shapes, values or bounds that do not fit together; an unknown method.

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
    problems = [problem] if isinstance(problem, Problem) else list(problem)
    _check(problems, method, starts)
    parameters = free_parameters(params, free, frozenset(problems[0].own), len(problems))
    objective = _Objective(JointResidual(problems, parameters), parameters, progress)
    ends = [objective.solve(start) for start in _starts(parameters, starts, seed)]
    best = min(ends, key=lambda end: end.cost)
    return _result(objective, best, tuple(float(end.cost) for end in ends))


def _check(problems: Sequence[Problem], method: str, starts: int) -> None:
    if method not in METHODS:
        raise ValueError(f"fit(method): {method!r} does not exist; there is {', '.join(map(repr, METHODS))}")
    if not (isinstance(starts, int) and starts >= 1):
        raise ValueError(f"fit(starts): {starts!r}, expected an integer of at least 1")
    if not problems:
        raise ValueError("fit(problem): empty list, expected at least one Problem")
    for i, problem in enumerate(problems):
        if not isinstance(problem, Problem):
            raise ValueError(f"fit(problem): entry {i} is {type(problem).__name__}, expected Problem")
        if set(problem.own) != set(problems[0].own):
            raise ValueError(
                f"fit(problem): problem {i} owns {problem.own}, problem 0 owns {problems[0].own}; expected the same"
            )


def _starts(parameters: FreeParameters, starts: int, seed: int) -> NDArray:
    """(starts, P): the given start, then a Sobol set."""
    first = parameters.start
    reach = np.where(first == 0.0, 1.0, np.abs(first))
    near_low, near_high = first - np.where(first > 0, reach / 2, reach), first + np.where(first < 0, reach / 2, reach)
    bounded = np.isfinite(parameters.low) & np.isfinite(parameters.high)
    low = np.where(bounded, parameters.low, np.maximum(near_low, parameters.low))
    high = np.where(bounded, parameters.high, np.minimum(near_high, parameters.high))
    exponent = int(np.ceil(np.log2(max(starts - 1, 1))))
    points = qmc.Sobol(first.size, rng=seed).random_base2(exponent)[: starts - 1]
    return np.vstack([first, low + points * (high - low)])


class _Objective:
    """Residuals and Jacobian for scipy, which asks for the latter right after the former, once per accepted step."""

    def __init__(self, joint: JointResidual, parameters: FreeParameters, progress: Progress | None):
        observations = [(run.samples.values / run.samples.sigma).ravel() for run in joint.runs]
        self.joint, self.parameters, self.progress = joint, parameters, progress
        self.data_norm = float(np.linalg.norm(np.concatenate(observations)))
        self.eps = float(jnp.finfo(jnp.result_type(float)).eps)
        self.iterations = 0

    def residuals(self, theta: NDArray) -> NDArray:
        self.theta = theta.copy()
        self.f, J = self.joint.compressed(theta)
        # Columns of pure rounding, scaled up, would send the optimiser anywhere.
        self.J = np.where(negligible_columns(J, theta, self.data_norm, self.eps), 0.0, J)
        return self.f

    def jacobian(self, theta: NDArray) -> NDArray:
        if not np.array_equal(theta, self.theta):
            self.residuals(theta)
        if self.progress is not None:
            self.progress(self.iterations, 0.5 * float(self.f @ self.f))
        self.iterations += 1
        return self.J

    def solve(self, start: NDArray) -> OptimizeResult:
        self.iterations = 0
        # eps^(3/4): the last step has no more to give, yet rounding in the simulation does not keep the fit going.
        tolerance = self.eps**0.75
        return least_squares(
            self.residuals,
            start,
            jac=self.jacobian,  # pyright: ignore[reportArgumentType]  (scipy's stubs forget the callable)
            bounds=(self.parameters.low, self.parameters.high),
            x_scale="jac",
            ftol=tolerance,
            xtol=tolerance,
            gtol=tolerance,
            max_nfev=_MAX_EVALUATIONS,
        )


def _result(objective: _Objective, end: OptimizeResult, costs: tuple[float, ...]) -> FitResult:
    theta, parameters, joint = end.x, objective.parameters, objective.joint
    at, jacobian = _seen_from_inside(joint, parameters, theta, joint.linearise(theta), end.jac)
    trajectories = joint.trajectories(theta, at)
    blind = blindness(jacobian, parameters.names, objective.eps)
    runs = [
        RunResidual(np.where(np.isfinite(a.r), a.r, np.nan), np.where(np.isfinite(a.J), a.J, 0.0), run.index)
        for a, run in zip(at, joint.runs, strict=True)
    ]
    errors = _Errors(runs, blind, end, parameters)
    finite = not any(np.any(np.isinf(a.r)) or np.any(~np.isfinite(a.J)) for a in at)
    stderr = np.sqrt(np.diag(errors.covariance))
    half = errors.quantile * stderr
    interval = np.stack([np.maximum(theta - half, parameters.low), np.minimum(theta + half, parameters.high)], axis=-1)
    at_bound = tuple(parameters.names[j] for j in np.flatnonzero(errors.at_bound))
    return FitResult(
        params=parameters.merge(theta),
        stderr=parameters.split(stderr),
        interval95=parameters.split(interval),
        quantile=parameters.split(errors.quantile),
        covariance=errors.covariance,
        covariance_plain=errors.plain,
        names=parameters.names,
        cost=float(end.cost),
        dof=joint.samples - joint.size,
        converged=bool(end.status > 0 and finite),
        message=_message(end, trajectories, finite, at_bound, blind),
        error_bars=errors.explanation,
        unidentifiable=blind.directions,
        at_bound=at_bound,
        residuals=tuple(a.r for a in at),
        trajectories=trajectories,
        start_costs=costs,
        iterations=int(end.njev),
    )


def _seen_from_inside(joint: JointResidual, parameters: FreeParameters, theta: NDArray, at: list, jacobian: NDArray):
    """Runs and Jacobian with a secant into the interval where a parameter at its bound has no derivative.

    A restitution that comes out as zero does: bodies that stick stay together for all values near it. That is an
    estimate at its bound and not a parameter that the data cannot see.
    """
    width = parameters.high - parameters.low
    step = np.where(theta - parameters.low <= parameters.high - theta, 1e-2, -1e-2) * width
    edge = np.minimum(theta - parameters.low, parameters.high - theta) <= 1e-3 * width
    for j in np.flatnonzero((np.linalg.norm(jacobian, axis=0) == 0) & np.isfinite(width) & edge):
        inside = joint.linearise(theta + step[j] * (np.arange(theta.size) == j))
        column = []
        for i, (run, here, there) in enumerate(zip(joint.runs, at, inside, strict=True)):
            secant = np.where(run.present, (there.r - here.r) / step[j], 0.0)
            J = here.J.copy()
            J[:, :, run.index == j] = secant[:, :, None]
            at[i] = replace(here, J=J)
            column.append(np.where(np.any(run.index == j), secant, 0.0).ravel())
        # Orthogonal to the other columns as far as its length is concerned: in rows of its own.
        rows = np.zeros((1, theta.size))
        rows[0, j] = np.linalg.norm(np.concatenate(column))
        jacobian = np.vstack([jacobian, rows])
    return at, jacobian


class _Errors:
    """Error bars of all P parameters, from those of the ones that the data determine and that are not at a bound."""

    def __init__(self, runs: list[RunResidual], blind: Blindness, end: OptimizeResult, parameters: FreeParameters):
        P = end.x.size
        self.covariance, self.plain = np.zeros((P, P)), np.zeros((P, P))
        self.quantile = np.full(P, norm.ppf(0.975))
        self.explanation = "none: the data determine no parameter"
        self._fill(runs, ~blind.redundant)
        unbounded = np.sqrt(np.diag(self.covariance))
        self.at_bound = _at_bound(end, parameters, unbounded) & ~blind.blurred
        if self.at_bound.any():
            held = [np.where(self.at_bound, np.diag(matrix), 0.0) for matrix in (self.covariance, self.plain)]
            self.covariance[:], self.plain[:] = np.diag(held[0]), np.diag(held[1])
            self._fill(runs, ~blind.redundant & ~self.at_bound)
        for matrix in (self.covariance, self.plain):
            matrix[blind.blurred, :] = 0.0
            matrix[:, blind.blurred] = 0.0
            matrix[blind.blurred, blind.blurred] = np.inf

    def _fill(self, runs: list[RunResidual], keep: NDArray) -> None:
        if not keep.any():
            return
        bars = error_bars([run.restricted(keep) for run in runs], int(keep.sum()))
        self.covariance[np.ix_(keep, keep)] = bars.covariance
        self.plain[np.ix_(keep, keep)] = bars.plain
        self.quantile[keep] = bars.quantile
        self.explanation = bars.explanation


def _at_bound(end: OptimizeResult, parameters: FreeParameters, stderr: NDArray) -> NDArray:
    """(P,) True where the cost pushes the parameter against its bound and it has arrived.

    The optimiser stays strictly inside: arrived is within a hundredth of a standard error of the bound, or within 1e-6
    of the distance between the bounds.
    """
    width = parameters.high - parameters.low
    near = np.maximum(1e-2 * stderr, 1e-6 * np.where(np.isfinite(width), width, np.maximum(np.abs(end.x), 1.0)))
    flat = np.linalg.norm(end.jac, axis=0) == 0
    low = (end.x - parameters.low <= near) & ((end.grad > 0) | flat)
    high = (parameters.high - end.x <= near) & ((end.grad < 0) | flat)
    return low | high | (end.active_mask != 0)


def _message(end, trajectories, finite: bool, at_bound: tuple[str, ...], blind: Blindness) -> str:
    reasons = {
        0: f"stopped after {_MAX_EVALUATIONS} evaluations without converging; try other starting values or starts=16",
        1: "converged: the gradient vanishes",
        2: "converged: the cost no longer falls",
        3: "converged: the parameters no longer move",
        4: "converged: neither the cost nor the parameters move",
    }
    parts = [reasons[end.status]]
    if not finite:
        parts.append("the simulation at the estimate is not finite somewhere, so this is no fit")
    for i, trajectory in enumerate(trajectories):
        status = Status(int(trajectory.status))
        if status:
            parts.append(f"run {i}: {status.message}")
    if at_bound:
        parts.append(f"at a bound: {', '.join(at_bound)}")
    if blind.directions:
        parts.append(f"the data cannot see {len(blind.directions)} direction(s): {', '.join(_involved(blind))}")
    return "; ".join(parts)


def _involved(blind: Blindness) -> list[str]:
    return list(dict.fromkeys(name for direction in blind.directions for name in direction))
