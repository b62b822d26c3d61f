"""The way from a bad start: many starts, a growing horizon, the times of impacts, multiple shooting.

Where the simulation has another number of impacts than the data, or the impacts come at other times, the cost is full
of local minima. Three ways lead past them. `growing_horizon` fits the beginning of the record first. `impact_times`
fits when the impacts happen. `multiple_shooting` cuts the record into segments. Each of them only explores, and ends
with a descent on the whole record. Where that stalls at one run's impacts, runs go on by themselves (`run_by_run`).

Last, an impact may belong between two other samples (`neighbouring_impacts`).

Two impacts that follow each other within a sample or two may end up in the wrong order under a growing horizon. More
starts help there, or another way.

Source: A. Ribeiro, K. Tiels, J. Umenberger, T. Schoen, L. Aguirre, Automatica 121 (2020) 109158, on how the length of
the simulation makes the cost rugged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult

from diffcontact.host.progress import stage
from diffcontact.identify.problem.objective import NormalEquations, Objective
from diffcontact.identify.search.growing_horizon import grow
from diffcontact.identify.search.impact_times import match_impacts
from diffcontact.identify.search.levenberg_marquardt import descend
from diffcontact.identify.search.multiple_shooting import piece_together
from diffcontact.identify.search.neighbouring_impacts import neighbouring_impacts
from diffcontact.identify.search.run_by_run import rub_for_themselves, run_by_run, stalled
from diffcontact.identify.search.starts import starting_points
from diffcontact.identify.search.trust_region import solve

METHODS = ("lm", "lbfgs", "adam")
SHOOTING = ("auto", "single", "growing", "impacts", "multiple")

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


def search(objective: Objective, method: str, starts: int, seed: int, shooting: str) -> Outcome:
    """Find the best minimum that a start or several lead to.

    Args:
        objective: what is minimised.
        method: of the descent on the whole record, one of `METHODS`.
        starts: how many starts: the given one and a Sobol set (`starting_points`).
        seed: of the Sobol set.
        shooting: "single" descends on the whole record at once, "growing" lets the horizon grow, "impacts" fits when
            they happen, "multiple" in segments. "auto" does one after the other, until noise explains what is left, and
            keeps the best end. Methods of first order take the whole record.
    """
    points = np.array([*starting_points(objective.parameters, starts, seed)])
    if method != "lm":
        return _one_by_one(objective, method, points, seed)
    if shooting not in ("auto", "single"):
        return _by_one_way(objective, points, shooting)
    best = _polished(objective, points if starts == 1 else _together(objective, points))
    story = f"single shooting ended at cost {best.end.cost:.6g}, which noise does not explain"
    if shooting == "single":
        return replace(best, story=_waterfall(best.costs))
    if objective.explained(best.end.x):
        return _next_door(objective, replace(best, story=_waterfall(best.costs)))
    for way in _WAYS:
        # Segments are many simulations: from the given start alone, and only if they can gain half of the cost.
        with stage(way.name):
            led = way.lead(objective, points[:1] if way.slow else points, best.end.cost / 2)
        if isinstance(led, str):
            story = _joined(story, f"{way.name}: {led}")
            continue
        found = _polished(objective, led)
        won = found.end.cost < best.end.cost * (1 - 1e-6)
        story = _joined(story, f"{way.name} found {f'{found.end.cost:.6g}' if won else 'nothing better'}")
        if won:
            best = found
        if objective.explained(best.end.x):
            break
    return _next_door(objective, replace(best, story=_joined(story, _waterfall(best.costs))))


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
    return replace(found, end=end, costs=(float(end.cost), *found.costs[1:]), story=_joined(found.story, told))


@dataclass(frozen=True)
class _Way:
    """From bad starts (N, P) to better ones, or the reason why it does not go there, given the cost to be gained."""

    key: str
    name: str
    lead: Callable[[Objective, NDArray, float], NDArray | str]
    slow: bool = False


def _impacts(objective: Objective, points: NDArray, enough: float) -> NDArray | str:
    led = [found for block in _blocks(points) if (found := match_impacts(objective, block)) is not None]
    return np.concatenate(led) if led else "the data do not show two impacts, or the scheme does not time them"


def _grown(objective: Objective, points: NDArray) -> NDArray:
    return np.concatenate([grow(objective, block) for block in _blocks(points)])


def _blocks(points: NDArray) -> list[NDArray]:
    """The points (N, P), so many at a time: lanes do not depend on each other, and their Jacobians take memory."""
    return [points[i : i + _BLOCK] for i in range(0, len(points), _BLOCK)]


def _segments(objective: Objective, points: NDArray, enough: float) -> NDArray | str:
    pieced = [piece_together(objective, point, enough) for point in points]
    whole = [piece.theta for piece in pieced if piece is not None and piece.apart <= enough]
    if any(piece is None for piece in pieced):
        return "not from states in between, from which the simulation does not repeat what is observed"
    if not whole:
        apart = min(piece.apart for piece in pieced if piece is not None)
        return f"segments by themselves come to {apart:.6g}, too little to gain"
    return np.stack(whole)


_WAYS = (
    _Way("growing", "a growing horizon", lambda objective, points, _: _grown(objective, points)),
    _Way("impacts", "the times of impacts", _impacts),
    _Way("multiple", "multiple shooting", _segments, slow=True),
)


def _by_one_way(objective: Objective, points: NDArray, key: str) -> Outcome:
    (way,) = (way for way in _WAYS if way.key == key)
    with stage(way.name):
        led = way.lead(objective, points, np.inf)
    if isinstance(led, str):
        raise ValueError(f"fit(shooting={key!r}): {led}")
    found = _polished(objective, led)
    return replace(found, story=_joined(f"by {way.name}", _waterfall(found.costs)))


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
