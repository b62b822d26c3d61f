"""Functions of a run that return NaN wherever a fit may begin: that is said before a search, not after it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffcontact.identify.identifiability.assessment import POINTS
from diffcontact.identify.problem.objective import Objective
from diffcontact.identify.search.starts import starting_points


def require_finite(objective: Objective) -> None:
    """Refuse `initial`, `clock` and `observe` that return what is not finite, at the start and at all other points.

    A function that does so at the start only, like the square root of what becomes positive on the way, has a chance.
    Where the simulation itself is not finite `observe` is not to blame.

    Args:
        objective: what is to be fitted; its first Jacobian is kept for what follows.

    Raises:
        ValueError: which function, which of its numbers, and in which run.
    """
    for not_finite in (_to_begin_with, _observed):
        points = starting_points(objective.parameters, POINTS, seed=0)
        told = next(not_finite(objective, next(points)), None)
        if told and all(any(not_finite(objective, theta)) for theta in points):
            raise ValueError(told)


def _to_begin_with(objective: Objective, theta: NDArray) -> Iterator[str]:
    """What `initial` and `clock` return at theta (P,) that is not finite, in words."""
    for number, run in enumerate(objective.joint.runs):
        begun = run.beginning(theta)
        for name, state in zip(("q0", "u0"), begun.state, strict=True):
            if shown := _first(state):
                yield _told(objective, "Problem(initial)", f"{shown} of {name}", number)
        if begun.times is not None and (shown := _first(begun.times)):
            yield _told(objective, "Problem(clock)", shown, number)


def _observed(objective: Objective, theta: NDArray) -> Iterator[str]:
    """What `observe` makes of a trajectory at theta (P,) that is not finite though the trajectory is, in words."""
    runs = objective.joint.runs
    f, _ = objective.evaluate(theta)
    # A residual that is not finite counts as a penalty: without one in the cost there is none.
    penalties = [float(np.ravel(objective.loss.squared(np.array([run.penalty]))[0])[0]) for run in runs]
    if np.linalg.norm(f) < 0.99 * min(penalties):
        return
    for number, (run, at) in enumerate(zip(runs, objective.joint.linearise(theta), strict=True)):
        if not (np.all(np.isfinite(at.trajectory.q)) and np.all(np.isfinite(at.trajectory.u))):
            continue
        seen = run.observed(theta, at.trajectory)
        # Where nothing was measured nobody looks.
        if shown := _first(np.where(run.present[:, : seen.shape[1]], seen, 0.0), "row {}, channel {}"):
            yield _told(objective, "Observations(observe)", f"{shown}, of a trajectory that is finite", number)


def _told(objective: Objective, function: str, shown: str, number: int) -> str:
    where = f", in run {number}" if len(objective.joint.runs) > 1 else ""
    return f"{function}: returned {shown}{where}; expected finite numbers"


def _first(array: Any, place: str = "entry {}") -> str:
    """The first number that is not finite, and where; empty if all are."""
    array = np.atleast_1d(np.asarray(array, float))
    wrong = np.argwhere(~np.isfinite(array))
    return f"{array[tuple(wrong[0])]} in {place.format(*wrong[0])}" if wrong.size else ""
