"""The way from a bad start: many starts, a growing horizon, the minima next door.

Where the simulation has another number of impacts than the data, or the impacts come at other times, the cost is full
of local minima. `growing_horizon` leads past them: it fits the beginning of the record first, only explores, and ends
with a descent on the whole record. Where that stalls at one run's impacts, runs go on by themselves (`run_by_run`).

Last, an impact may belong between two other samples (`neighbouring_impacts`).

Two impacts that follow each other within a sample or two may end up in the wrong order under a growing horizon. More
starts help there.

Source: A. Ribeiro, K. Tiels, J. Umenberger, T. Schoen, L. Aguirre, Automatica 121 (2020) 109158, on how the length of
the simulation makes the cost rugged.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult

from diffcontact.host.progress import stage
from diffcontact.identify.problem.objective import NormalEquations, Objective
from diffcontact.identify.search.growing_horizon import grow
from diffcontact.identify.search.levenberg_marquardt import descend
from diffcontact.identify.search.neighbouring_impacts import neighbouring_impacts
from diffcontact.identify.search.run_by_run import rub_for_themselves, run_by_run, stalled
from diffcontact.identify.search.starts import starting_points
from diffcontact.identify.search.trust_region import solve

METHODS = ("lm", "lbfgs", "adam")
SHOOTING = ("auto", "single", "growing")

_LANE_ITERATIONS = 25
_LANE_TOLERANCE = 1e-3
# Standard errors by which chi^2 per degree of freedom may exceed 1 before the minima next door are looked at.
_SURPRISE = 1.3
# Starts whose Jacobians are in memory together, and after which there is a sign of life.
_BLOCK = 256


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a search found.

    Attributes:
        end: the best end, polished.
        costs: (N,) the waterfall: the cost from every start, sorted.
        story: how it was found, for the message; empty where there is nothing to tell.
        ends: (N, P) where the starts ended, best first and not polished; None where there was one start.
    """

    end: OptimizeResult
    costs: tuple[float, ...]
    story: str
    ends: NDArray | None = None

    def continued(self, end: OptimizeResult, told: str = "", alone: bool = False) -> Outcome:
        """The same with another end; what was told of it; `alone`: of another objective, whose costs are others."""
        costs = (float(end.cost), *(() if alone else self.costs[1:]))
        return replace(self, end=end, costs=costs, story=_joined(self.story, told))


def search(objective: Objective, method: str, starts: int, seed: int, shooting: str) -> Outcome:
    """Find the best minimum that a start or several lead to.

    Args:
        objective: what is minimised.
        method: of the descent on the whole record, one of `METHODS`.
        starts: how many starts: the given one and a Sobol set (`starting_points`).
        seed: of the Sobol set.
        shooting: "single" descends on the whole record at once, "growing" lets the horizon grow. "auto" does the one
            and then, where noise does not explain what is left, the other, and keeps the best end. Methods of first
            order take the whole record.
    """
    points = np.array([*starting_points(objective.parameters, starts, seed)])
    if method != "lm":
        return _one_by_one(objective, method, points, seed)
    if shooting == "growing":
        found = _polished(objective, _grown(objective, points))
        return replace(found, story=_joined("by a growing horizon", _waterfall(found.costs)))
    best = _polished(objective, points if starts == 1 else _together(objective, points))
    story = ""
    if shooting == "auto" and not objective.explained(best.end.x):
        grown = _polished(objective, _grown(objective, points))
        won = grown.end.cost < best.end.cost * (1 - 1e-6)
        story = (
            f"single shooting ended at cost {best.end.cost:.6g}, which noise does not explain; "
            f"a growing horizon found {f'{grown.end.cost:.6g}' if won else 'nothing better'}"
        )
        best = grown if won else best
    best = replace(best, story=_joined(story, _waterfall(best.costs)))
    return best if shooting == "single" else _next_door(objective, best)


def _next_door(objective: Objective, found: Outcome) -> Outcome:
    """What is found from an end at which noise might not explain all, with an impact on the other side of a sample."""
    surprise = (objective.misfit(found.end.x) - 1) * np.sqrt(objective.freedom / 2)
    if surprise < _SURPRISE or not np.isfinite(surprise):
        return found
    places = neighbouring_impacts(objective, found.end.x)
    if places is None:
        return found
    end = _polished(objective, _together(objective, places)).end
    if not end.cost < found.end.cost * (1 - 1e-6):
        return found
    told = f"with an impact on the other side of a sample {end.cost:.6g}"
    return found.continued(end, told)


def _grown(objective: Objective, points: NDArray) -> NDArray:
    with stage("a growing horizon"):
        return np.concatenate([grow(objective, block) for block in _blocks(points)])


def _blocks(points: NDArray) -> list[NDArray]:
    """The points (N, P), so many at a time: lanes do not depend on each other, and their Jacobians take memory."""
    return [points[i : i + _BLOCK] for i in range(0, len(points), _BLOCK)]


def _joined(*parts: str) -> str:
    return "; ".join(filter(None, parts))


def _one_by_one(objective: Objective, method: str, points: NDArray, seed: int) -> Outcome:
    # Only here: least squares do without optax, whose import takes as long as many a fit.
    from diffcontact.identify.search import first_order

    descent = {"lbfgs": first_order.lbfgs, "adam": first_order.adam}[method]
    ends = sorted((descent(objective, point, seed) for point in points), key=lambda end: end.cost)
    costs = tuple(float(end.cost) for end in ends)
    places = np.stack([end.x for end in ends]) if len(ends) > 1 else None
    return Outcome(ends[0], costs, _waterfall(costs), places)


def _together(objective: Objective, points: NDArray) -> NDArray:
    """(N, P) where the lanes end on the whole record; progress counts the steps of all."""
    rounds, best, ends = count(), np.inf, []
    low, high = objective.parameters.low, objective.parameters.high
    blocks = _blocks(points)
    with stage(f"{len(points)} starts", total=len(blocks) * _LANE_ITERATIONS) as at_round:

        def evaluate(trial: NDArray, _) -> NormalEquations:
            nonlocal best
            at = objective.normal_equations(trial, np.ones(len(trial)))
            best = min(best, float(at.cost.min()))
            at_round(at_round.done + 1)
            objective.told(next(rounds), best)
            return at

        for number, block in enumerate(blocks):
            at_round(number * _LANE_ITERATIONS)
            ends.append(
                descend(evaluate, block, low, high, iterations=_LANE_ITERATIONS, tolerance=_LANE_TOLERANCE).theta
            )
    return np.concatenate(ends)


def _polished(objective: Objective, theta: NDArray) -> Outcome:
    """The end of the best lane, polished, and where all lanes are, sorted by their costs; without a story."""
    if len(theta) == 1:
        end = _solved(objective, theta[0])
        return Outcome(end, (float(end.cost),), "")
    costs = np.concatenate([objective.normal_equations(block, np.ones(len(block))).cost for block in _blocks(theta)])
    best = int(np.argmin(costs))
    end = _solved(objective, theta[best])
    costs[best] = end.cost
    order = np.argsort(costs, kind="stable")
    return Outcome(end, tuple(float(cost) for cost in costs[order]), "", theta[order])


def _solved(objective: Objective, start: NDArray) -> OptimizeResult:
    """The end of a descent; each run goes on by itself where a joint one stalls or each has a friction of its own."""
    end = solve(objective, start)
    if stalled(objective, end) or (not objective.exact(end.cost) and rub_for_themselves(objective, end.x)):
        further = solve(objective, run_by_run(objective, end.x))
        if further.cost < end.cost:
            return further
    return end


def _waterfall(costs: tuple[float, ...]) -> str:
    if len(costs) == 1:
        return ""
    # Lanes are left within their tolerance of the minimum, not polished.
    together = sum(cost <= costs[0] * (1 + 10 * _LANE_TOLERANCE) for cost in costs)
    return f"{together} of {len(costs)} starts end within 1 % of the best cost"
