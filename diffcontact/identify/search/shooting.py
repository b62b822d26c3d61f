"""The way from a bad start: many starts, a growing horizon, each run by itself.

Where the simulation has another number of impacts than the data, or the impacts come at other times, the cost is full
of local minima. A growing horizon leads past them: it fits the beginning of the record, follows the simulation on until
it leaves the data, and fits again. A short record has few impacts, and within the reach of a fit to it the next ones
are nearly right. Where the descent on the whole record stalls at one run's impacts, runs go on by themselves
(`run_by_run`).

Two impacts that follow each other within a sample or two may end up in the wrong order under a growing horizon. More
starts help there.

Source: A. Ribeiro, K. Tiels, J. Umenberger, T. Schoen, L. Aguirre, Automatica 121 (2020) 109158, on how the length of
the simulation makes the cost rugged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult

from diffcontact.host.progress import stage
from diffcontact.identify.problem.objective import Objective
from diffcontact.identify.problem.parameters import starting_points
from diffcontact.identify.search.run_by_run import rub_for_themselves, run_by_run, stalled
from diffcontact.identify.search.trust_region import explored, solve

METHODS = ("lm", "lbfgs", "adam")
SHOOTING = ("auto", "single", "growing")

# The best of several starts is polished; where they end is asked to this part of the cost.
_EXPLORED, _ITERATIONS = 1e-3, 25
# The horizon grows by at least this part of the record, less than what lies between two impacts worth resolving.
_STAGE, _FIRST, _STAGE_ITERATIONS = 1.0 / 24.0, 1.0 / 12.0, 12


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
    """Find the best minimum that a start or several lead to; arguments as of `fit`."""
    points = np.array([*starting_points(objective.parameters, starts, seed)])
    if method != "lm":
        return _one_by_one(objective, method, points, seed)
    if shooting == "growing":
        found = _polished(objective, _grown(objective, points))
        return replace(found, story=_joined("by a growing horizon", _waterfall(found.costs)))
    best = _polished(objective, points if starts == 1 else _each(objective, points))
    story = ""
    if shooting == "auto" and not objective.explained(best.end.x):
        grown = _polished(objective, _grown(objective, points))
        won = grown.end.cost < best.end.cost * (1 - 1e-6)
        story = (
            f"single shooting ended at cost {best.end.cost:.6g}, which noise does not explain; "
            f"a growing horizon found {f'{grown.end.cost:.6g}' if won else 'nothing better'}"
        )
        best = grown if won else best
    return replace(best, story=_joined(story, _waterfall(best.costs)))


def grow(objective: Objective, theta: NDArray, horizon: float = _FIRST) -> NDArray:
    """(P,) where a growing horizon leads from theta (P,)."""
    while horizon < 1.0:
        theta = explored(objective, theta, _EXPLORED, _STAGE_ITERATIONS, horizon)
        horizon = min(max(objective.reach(theta, horizon), horizon) + _STAGE, 1.0)
    return theta


def _grown(objective: Objective, points: NDArray) -> list[NDArray]:
    with stage("a growing horizon", total=len(points)) as at:
        return [_counted(at, grow(objective, point)) for point in points]


def _each(objective: Objective, points: NDArray) -> list[NDArray]:
    """Where each start leads on the whole record."""
    with stage(f"{len(points)} starts", total=len(points)) as at:
        return [_counted(at, explored(objective, point, _EXPLORED, _ITERATIONS)) for point in points]


def _counted(at, theta: NDArray) -> NDArray:
    at(at.done + 1)
    return theta


def _polished(objective: Objective, places: Sequence[NDArray] | NDArray) -> Outcome:
    """The end of a descent from the best of several places (N, P), and all of them by their costs; without a story."""
    theta = np.array(places)
    if len(theta) == 1:
        end = _solved(objective, theta[0])
        return Outcome(end, (float(end.cost),), "")
    costs = np.array([0.5 * float(np.sum(objective.evaluate(place)[0] ** 2)) for place in theta])
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


def _one_by_one(objective: Objective, method: str, points: NDArray, seed: int) -> Outcome:
    # Only here: least squares do without optax, whose import takes as long as many a fit.
    from diffcontact.identify.search import first_order

    descent = {"lbfgs": first_order.lbfgs, "adam": first_order.adam}[method]
    ends = sorted((descent(objective, point, seed) for point in points), key=lambda end: end.cost)
    costs = tuple(float(end.cost) for end in ends)
    places = np.stack([end.x for end in ends]) if len(ends) > 1 else None
    return Outcome(ends[0], costs, _waterfall(costs), places)


def _waterfall(costs: tuple[float, ...]) -> str:
    if len(costs) == 1:
        return ""
    # Starts are left within their tolerance of the minimum, not polished.
    together = sum(cost <= costs[0] * (1 + 10 * _EXPLORED) for cost in costs)
    return f"{together} of {len(costs)} starts end within 1 % of the best cost"


def _joined(*parts: str) -> str:
    return "; ".join(filter(None, parts))
