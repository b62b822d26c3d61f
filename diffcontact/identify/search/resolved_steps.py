"""Steps that are short enough at the estimate, not only where the search began."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from diffcontact.identify.problem.objective import Objective
from diffcontact.identify.search.hidden_impacts import gaps
from diffcontact.identify.search.shooting import Outcome
from diffcontact.identify.search.trust_region import solve

_SHORTER = 4


def with_resolved_steps(objective: Objective, found: Outcome) -> tuple[Objective, Outcome]:
    """Go on from a search with shorter steps, as long as halving them changes what is observed at its end.

    Args:
        objective: with the steps that were short enough at the start.
        found: where it ended.

    Returns:
        The objective with steps that are short enough, and where it ends.
    """
    # Numbers of substeps only grow, up to a bound.
    while True:
        finer = objective.resolved(found.end.x)
        if _numbers(finer) == _numbers(objective):
            return finer, found
        objective, end = finer, solve(finer, found.end.x)
        found = replace(found, end=end, costs=(float(end.cost),))


def with_steps_for_hidden_impacts(objective: Objective, found: Outcome) -> tuple[Objective, Outcome]:
    """Go on with shorter steps where a gap in the data hides how often something bounces.

    Steps that are short enough for few long bounces at the end of a search are not for the many short ones that may
    have been there instead, and with too long ones these would not be found.

    Args:
        objective: with steps that are short enough at that end.
        found: where the search ended.
    """
    if not gaps(objective.joint, found.end.x):
        return objective, found
    finer = objective.refined(_SHORTER)
    if _numbers(finer) == _numbers(objective):
        return objective, found
    end = solve(finer, found.end.x)
    return finer, replace(found, end=end, costs=(float(end.cost), *found.costs[1:]))


def story(objective: Objective) -> str:
    """How many substeps were taken, and where they are not enough; empty where there is nothing to tell."""
    numbers, parts = sorted(set(_numbers(objective))), []
    open_ = [problem.substeps == "auto" for problem in objective.joint.problems]
    if any(open_) and numbers[-1] > 1:
        parts.append(f"{' to '.join(map(str, dict.fromkeys((numbers[0], numbers[-1]))))} steps in each interval")
    for i, run in enumerate(objective.joint.runs):
        if run.coarse and run.change < np.inf:
            parts.append(f"run {i}: half as long steps would change what is observed by {run.change:.2g} of its noise")
    return "; ".join(parts)


def _numbers(objective: Objective) -> list[int]:
    return [run.model.substeps for run in objective.joint.runs]
