"""The way from a start to the best estimate: several starts, a growing horizon, shorter steps, the noise of channels.

**A growing horizon.** Where the simulation has another number of impacts than the data, or has them at other times, the
cost is full of local minima. A short record has few impacts. So the beginning of the record is fitted, the simulation
followed on until it leaves the data, and the fit repeated: within its reach the next impacts are nearly right.

**The noise of each channel** is found by iterated generalised least squares, until no s_c differs from 1 by more than a
hundredth: sigma_c <- s_c sigma_c, s_c^2 = sum of the channel's r^2 / (m_c (1 - P/m)), and fit again. Under a robust
loss s_c is 1.4826 times the median of |r|.

Source: A. Ribeiro, K. Tiels, J. Umenberger, T. Schoen, L. Aguirre, Automatica 121 (2020) 109158, on the length of the
simulation; G. A. F. Seber, C. J. Wild, Nonlinear Regression (1989), section 2.8, on the noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult

from diffcontact.host.progress import stage
from diffcontact.identify.noise import neighbourly, robust_size
from diffcontact.identify.problem.objective import Objective
from diffcontact.identify.problem.parameters import starting_points
from diffcontact.identify.search.descents import explored, solve
from diffcontact.identify.search.run_by_run import rub_for_themselves, run_by_run

SHOOTING = ("auto", "single", "growing")

# Relative tolerance and steps of a descent from each of several starts; the best is polished.
_EXPLORED, _ITERATIONS = 1e-3, 25
# The horizon grows by at least this part of the record, less than what lies between two impacts worth resolving.
_STAGE, _FIRST, _STAGE_ITERATIONS = 1.0 / 24.0, 1.0 / 12.0, 12
# Rounds in which the noise of channels settles.
_ROUNDS, _SETTLED = 10, 0.01


@dataclass(frozen=True, eq=False)
class Outcome:
    """The end of a search."""

    end: OptimizeResult  # the best end, polished
    costs: tuple[float, ...]  # (N,) the waterfall: the cost from every start, sorted
    story: str = ""  # how it was found, for the message; empty where there is nothing to tell
    # (N, P) where the starts ended, best first and not polished; None where there was one start.
    ends: NDArray | None = None

    @classmethod
    def of(cls, end: OptimizeResult) -> Outcome:
        """The outcome of a single descent."""
        return cls(end, (float(end.cost),))

    def told(self, *parts: str) -> Outcome:
        """The same with more to tell."""
        return replace(self, story="; ".join(filter(None, (self.story, *parts))))

    def continued(self, end: OptimizeResult, told: str = "", alone: bool = False) -> Outcome:
        """The same with another end; `alone`: of another objective, whose costs are others."""
        costs = (float(end.cost), *(() if alone else self.costs[1:]))
        return replace(self, end=end, costs=costs).told(told)


def search(objective: Objective, starts: int, seed: int, shooting: str) -> Outcome:
    """Find the best minimum that a start or several lead to; arguments as of `fit`."""
    points = np.array([*starting_points(objective.parameters, starts, seed)])
    if shooting == "growing":
        best = _polished(objective, _grown(objective, points)).told("by a growing horizon")
    else:
        best = _polished(objective, points if starts == 1 else _each(objective, points))
        if shooting == "auto" and not objective.explained(best.end.x):
            cost, grown = best.end.cost, _polished(objective, _grown(objective, points))
            won = grown.end.cost < cost * (1 - 1e-6)
            best = (grown if won else best).told(
                f"single shooting ended at cost {cost:.6g}, which noise does not explain; "
                f"a growing horizon found {f'{grown.end.cost:.6g}' if won else 'nothing better'}"
            )
    if len(best.costs) == 1:
        return best
    # Starts are left within their tolerance of the minimum, not polished.
    together = sum(cost <= best.costs[0] * (1 + 10 * _EXPLORED) for cost in best.costs)
    return best.told(f"{together} of {len(best.costs)} starts end within 1 % of the best cost")


def _grown(objective: Objective, points: NDArray) -> list[NDArray]:
    """Where a growing horizon leads from each of the points (N, P)."""
    found = []
    with stage("a growing horizon", total=len(points)) as at:
        for theta in points:
            horizon = _FIRST
            while horizon < 1.0:
                theta = explored(objective, theta, _EXPLORED, _STAGE_ITERATIONS, horizon)
                horizon = min(max(objective.reach(theta, horizon), horizon) + _STAGE, 1.0)
            found.append(theta)
            at(len(found))
    return found


def _each(objective: Objective, points: NDArray) -> list[NDArray]:
    found = []
    with stage(f"{len(points)} starts", total=len(points)) as at:
        for point in points:
            found.append(explored(objective, point, _EXPLORED, _ITERATIONS))
            at(len(found))
    return found


def _polished(objective: Objective, places: Sequence[NDArray] | NDArray) -> Outcome:
    """The end of a descent from the best of several places (N, P), and all of them by their costs; without a story."""
    theta = np.array(places)
    if len(theta) == 1:
        return Outcome.of(_solved(objective, theta[0]))
    costs = np.array([0.5 * float(np.sum(objective.evaluate(place)[0] ** 2)) for place in theta])
    best = int(np.argmin(costs))
    end = _solved(objective, theta[best])
    costs[best] = end.cost
    order = np.argsort(costs, kind="stable")
    return Outcome(end, tuple(float(cost) for cost in costs[order]), "", theta[order])


def _solved(objective: Objective, start: NDArray) -> OptimizeResult:
    end = solve(objective, start)
    if not objective.exact(end.cost) and rub_for_themselves(objective, end.x):
        further = solve(objective, run_by_run(objective, end.x))
        if further.cost < end.cost:
            return further
    return end


def with_resolved_steps(objective: Objective, found: Outcome) -> tuple[Objective, Outcome]:
    """Go on from a search with shorter steps, as long as halving them changes what is observed at its end."""
    # Numbers of substeps only grow, up to a bound.
    while True:
        finer = objective.on(objective.joint.resolved(found.end.x))
        if finer.substeps == objective.substeps:
            return finer, found
        objective, found = finer, found.continued(solve(finer, found.end.x), alone=True)


def with_estimated_noise(
    objective: Objective, found: Outcome, rough: bool = False
) -> tuple[Objective, Outcome, tuple[NDArray, ...]]:
    """Go on with the noise that residuals show; per run the factors (k,) over stated noise."""
    factors = [np.ones(run.present.shape[1]) for run in objective.joint.runs]
    stated = [run.sigma for run in objective.joint.runs]
    round_, settled = 0, False
    while round_ < _ROUNDS and not settled:
        scales, round_ = _scales(objective, found.end.x, rough), round_ + 1
        factors = [factor * scale for factor, scale in zip(factors, scales, strict=True)]
        objective = objective.replaced("sigma", [s * factor for s, factor in zip(stated, factors, strict=True)])
        found = found.continued(solve(objective, found.end.x), alone=True)
        settled = all(np.all(np.abs(scale - 1.0) <= _SETTLED) for scale in scales)
    told = f"noise of each channel estimated in {round_} round{'s' if round_ > 1 else ''}"
    return objective, found.told(told + ("" if settled else ", not settled")), tuple(factors)


def _scales(objective: Objective, theta: NDArray, rough: bool) -> list[NDArray]:
    """Per run, (k,) how much larger the residuals of each channel are than stated."""
    residuals = [np.where(np.isfinite(at.r), at.r, np.nan) for at in objective.joint.linearise(theta)]
    roundings = [np.where(run.present, run.rounding, np.nan) for run in objective.joint.runs]
    spare = max(1.0 - objective.joint.size / objective.joint.samples, 1.0 / objective.joint.samples)

    def size(parts: list[NDArray], channels: int) -> NDArray:
        alike = np.concatenate([part for part in parts if part.shape[1] == channels])
        if rough:
            each = np.array([neighbourly(part) for part in parts if part.shape[1] == channels])
            return np.sqrt(np.mean(np.where(np.isfinite(each), each, 1.0) ** 2, axis=0))
        if objective.loss.robust:
            return robust_size(alike, axis=0)
        return np.sqrt(np.nanmean(alike**2, axis=0) / spare)

    scales = []
    for run in objective.joint.runs:
        scale, rounding = (size(parts, run.present.shape[1]) for parts in (residuals, roundings))
        # A channel that is fitted to rounding, holds nothing but zeros, or has no sample, keeps its noise.
        scales.append(np.where((rounding > 0) & (scale > rounding), scale, 1.0))
    return scales
