"""From the end of a descent to the result: error bars, what is at a bound, what the data cannot see, the message."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult
from scipy.special import ndtri

from diffcontact.identify.error_bars import error_bars, prediction_errors, under_loss
from diffcontact.identify.identifiable import NullSpace, half_widths, hints, in_values, least_friction, null_space, role
from diffcontact.identify.linearised import LinearisedFit, LinearisedRun
from diffcontact.identify.problem.objective import Objective
from diffcontact.identify.problem.parameters import FreeParameters
from diffcontact.identify.problem.rounding import is_rounding
from diffcontact.identify.result import FitResult
from diffcontact.identify.search.shooting import Outcome
from diffcontact.identify.search.trust_region import MAX_EVALUATIONS
from diffcontact.status import Status


def estimate(objective: Objective, search: Outcome) -> FitResult:
    """The result at the end of a search: the estimate, how well it is known, and what should make one doubt it."""
    end, parameters, joint = search.end, objective.parameters, objective.joint
    theta, slopes = end.x, objective.parameters.slopes(end.x)
    at = joint.linearise(theta)
    trajectories = joint.trajectories(theta, at)
    at, jacobian = _seen_from_inside(objective, theta, at, end.jac, trajectories)
    null = null_space(jacobian, parameters.names, objective.eps)
    runs = under_loss(objective.first_order(at), objective.loss)
    errors = _Errors(runs, null, end, parameters, objective.priors.information(theta))
    finite = not any(np.any(np.isinf(a.r)) or np.any(~np.isfinite(a.J)) for a in at)
    half = errors.quantile * np.sqrt(np.diag(errors.covariance))
    down, up = half_widths(objective, theta, half)
    ends = np.maximum(theta - down, parameters.low), np.minimum(theta + up, parameters.high)
    interval = np.stack([parameters.values(bound) for bound in ends], axis=-1)
    at_bound = tuple(parameters.names[j] for j in np.flatnonzero(errors.at_bound))
    return FitResult(
        params=parameters.merge(theta),
        stderr=parameters.split(slopes * np.sqrt(np.diag(errors.covariance))),
        interval95=parameters.split(interval),
        quantile=parameters.split(errors.quantile),
        covariance=errors.covariance * np.outer(slopes, slopes),
        covariance_plain=errors.plain * np.outer(slopes, slopes),
        names=parameters.names,
        cost=float(end.cost),
        dof=joint.samples + objective.priors.count - joint.size,
        converged=bool(end.status > 0 and finite),
        message=_message(search, trajectories, finite, at_bound, null),
        error_bars=errors.explanation,
        form=errors.form,
        unidentifiable=[in_values(objective, direction, theta) for direction in null.directions],
        at_bound=at_bound,
        residuals=tuple(a.r for a in at),
        trajectories=trajectories,
        start_costs=search.costs,
        iterations=int(end.njev),
        hints=hints(objective, theta, null.directions, trajectories),
        effective_samples=errors.effective,
        prediction_errors=errors.prediction_errors,
        recordings=tuple(run.digest for run in joint.runs),
        objective=objective.started_at(theta),
    )


def _seen_from_inside(objective: Objective, theta: NDArray, at: list, jacobian: NDArray, trajectories: tuple):
    """Runs and Jacobian with a secant where a parameter has no effect at the estimate, but has elsewhere in its bounds.

    A restitution that comes out as zero has none: bodies that stick stay together for all values near it. Nor has one
    so small that the rebound is over before the next sample. That is an estimate whose interval ends somewhere, and not
    a parameter that the data cannot see. A friction with which all contacts grip is left out: it is such a parameter,
    since all larger ones do the same, and has a lower bound only (`intervals.widened`).
    """
    joint, parameters = objective.joint, objective.parameters
    width = parameters.high - parameters.low
    for j in np.flatnonzero((np.linalg.norm(jacobian, axis=0) == 0) & np.isfinite(width)):
        name = parameters.names[j]
        if role(objective, theta, name) == "friction" and least_friction(objective, theta, name, trajectories) > 0:
            continue
        for step in _into(theta[j], parameters.low[j], parameters.high[j]):
            inside = joint.linearise(theta + step * (np.arange(theta.size) == j))
            secants = [_secant(here.r, there.r, step) for here, there in zip(at, inside, strict=True)]
            holders = zip(joint.runs, secants, strict=True)
            length = np.linalg.norm(np.concatenate([secant.ravel() for run, secant in holders if j in run.index]))
            # What has no effect at all, like the mass of a falling body, still moves the residuals by rounding.
            if not is_rounding(length * abs(step), objective.data_norm, objective.eps):
                break
        else:
            continue
        for i, (run, here, secant) in enumerate(zip(joint.runs, at, secants, strict=True)):
            J = here.J.copy()
            J[:, :, run.index == j] = secant[:, :, None]
            at[i] = replace(here, J=J)
        # Orthogonal to the other columns as far as its length is concerned: in rows of its own.
        rows = np.zeros((1, theta.size))
        rows[0, j] = length
        jacobian = np.vstack([jacobian, rows])
    return at, jacobian


def _secant(here: NDArray, there: NDArray, step: float) -> NDArray:
    """(there - here) / step, zero where a sample is missing or a simulation is not finite."""
    finite = np.isfinite(here) & np.isfinite(there)
    return (np.where(finite, there, 0.0) - np.where(finite, here, 0.0)) / step


def _into(x: float, low: float, high: float) -> list[float]:
    """Steps from x into an interval: short ones first, first to the side where there is more of it."""
    side = 1.0 if x - low <= high - x else -1.0
    steps = [sign * part * (high - low) for part in (0.01, 0.03, 0.1, 0.3) for sign in (side, -side)]
    return [step for step in steps if low <= x + step <= high]


class _Errors:
    """Error bars of all P parameters, from those of the ones that the data determine and that are not at a bound."""

    def __init__(
        self,
        runs: list[LinearisedRun],
        null: NullSpace,
        end: OptimizeResult,
        parameters: FreeParameters,
        prior: NDArray,
    ):
        P, self.prior = end.x.size, prior
        self.covariance, self.plain = np.zeros((P, P)), np.zeros((P, P))
        self.quantile = np.full(P, ndtri(0.975))
        self.form, self.explanation = "none", "none: the data determine no parameter"
        self.effective, self.prediction_errors = 0.0, ()
        self._fill(runs, ~null.redundant)
        unbounded = np.sqrt(np.diag(self.covariance))
        self.at_bound = _at_bound(end, parameters, unbounded) & ~null.unidentifiable
        if self.at_bound.any():
            held = [np.where(self.at_bound, np.diag(matrix), 0.0) for matrix in (self.covariance, self.plain)]
            self.covariance[:], self.plain[:] = np.diag(held[0]), np.diag(held[1])
            self._fill(runs, ~null.redundant & ~self.at_bound)
        for matrix in (self.covariance, self.plain):
            matrix[null.unidentifiable, :] = 0.0
            matrix[:, null.unidentifiable] = 0.0
            matrix[null.unidentifiable, null.unidentifiable] = np.inf

    def _fill(self, runs: list[LinearisedRun], keep: NDArray) -> None:
        if not keep.any():
            return
        fit = LinearisedFit.of(runs, self.prior, keep)
        bars = error_bars(fit)
        self.covariance[np.ix_(keep, keep)] = bars.covariance
        self.plain[np.ix_(keep, keep)] = bars.plain
        self.quantile[keep] = bars.quantile
        self.form, self.explanation, self.effective = bars.form, bars.explanation, bars.effective
        self.prediction_errors = prediction_errors(fit)


def _at_bound(end: OptimizeResult, parameters: FreeParameters, stderr: NDArray) -> NDArray:
    """(P,) True where the cost pushes the parameter against its bound and it has arrived.

    The optimiser stays strictly inside: arrived is within a hundredth of a standard error of the bound, but for errors
    beyond the distance between the bounds, or within 1e-6 of that; where that is infinite, of the size of the parameter
    at the start or now.
    """
    width, size = parameters.high - parameters.low, np.maximum(np.abs(end.x), np.abs(parameters.start))
    room = np.where(np.isfinite(width), width, np.where(size > 0, size, 1.0))
    near = np.maximum(1e-2 * np.minimum(stderr, np.where(np.isfinite(width), width, np.inf)), 1e-6 * room)
    flat = np.linalg.norm(end.jac, axis=0) == 0
    low = (end.x - parameters.low <= near) & ((end.grad > 0) | flat)
    high = (parameters.high - end.x <= near) & ((end.grad < 0) | flat)
    return low | high | (end.active_mask != 0)


def _message(search: Outcome, trajectories, finite: bool, at_bound: tuple[str, ...], null: NullSpace) -> str:
    reasons = {
        0: f"stopped after {MAX_EVALUATIONS} evaluations without converging; try other starting values or starts=16",
        1: "converged: the gradient vanishes",
        2: "converged: the cost no longer falls",
        3: "converged: the parameters no longer move",
        4: "converged: neither the cost nor the parameters move",
    }
    parts = [reasons[search.end.status]]
    if search.story:
        parts.append(search.story)
    if not finite:
        parts.append("the simulation at the estimate is not finite somewhere, so this is no fit")
    for i, trajectory in enumerate(trajectories):
        status = Status(int(trajectory.status))
        if status:
            parts.append(f"run {i}: {status.message}")
    if at_bound:
        parts.append(f"at a bound: {', '.join(at_bound)}")
    if null.directions:
        parts.append(f"the data cannot see {len(null.directions)} direction(s): {', '.join(_involved(null))}")
    return "; ".join(parts)


def _involved(null: NullSpace) -> list[str]:
    return list(dict.fromkeys(name for direction in null.directions for name in direction))
