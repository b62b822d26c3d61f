"""Before a fit: can these data determine these parameters at all?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffcontact.identify.identifiability.naming import explain
from diffcontact.identify.identifiability.null_space import null_space
from diffcontact.identify.problem.objective import Objective
from diffcontact.identify.search.starts import starting_points
from diffcontact.status import Status

POINTS = 9


@dataclass(frozen=True, eq=False)
class Identifiability:
    """Which parameters data can determine, at the most favourable point examined.

    Attributes:
        names: (P,) free parameters.
        singular_values: (P,) of the Jacobian with its columns scaled to unit length, largest first: how different the
            parameters' effects are. The last over the first is 1 for effects as different as can be, 0 for a
            combination without any.
        directions: that the data cannot see, each a dict name -> weight.
        hints: the same in words, and what would resolve it; or `untrusted`.
        untrusted: what is wrong with the simulation, where nothing can be seen because something is at all points; else
            empty.
    """

    names: tuple[str, ...]
    singular_values: NDArray
    directions: list[dict[str, float]]
    hints: tuple[str, ...]
    untrusted: str = ""

    @property
    def hopeless(self) -> bool:
        """Whether some direction cannot be seen."""
        return bool(self.directions)

    def __str__(self) -> str:
        if self.hopeless:
            return "\n".join(self.hints)
        ratio = self.singular_values[-1] / self.singular_values[0]
        return f"all of {', '.join(self.names)} can be seen; least to most distinct effect {ratio:.2g}"


def assess(objective: Objective, points: int = POINTS, seed: int = 0) -> Identifiability:
    """Look at the Jacobian at the start and at a Sobol set of other points in the bounds.

    What is unseen at one point may be seen at another: a start may lack an impact. What is unseen at the most
    favourable point will be unseen by the fit. Combinations that a prior determines count as seen.

    Args:
        objective: what is to be fitted.
        points: how many to look at.
        seed: of the Sobol set.
    """
    best: tuple[int, Any, NDArray, Any] | None = None
    places = list(starting_points(objective.parameters, points, seed))
    for theta in places:
        _, J = objective.evaluate(theta)
        null = null_space(J, objective.parameters.names, objective.eps)
        if best is None or len(null.directions) < best[0]:
            best = len(null.directions), null, theta, J
        if best[0] == 0:
            break
    assert best is not None
    _, null, theta, J = best
    norms = np.linalg.norm(J, axis=0)
    values = np.linalg.svd(J / np.where(norms > 0, norms, 1.0), compute_uv=False)
    trajectories = [at.trajectory for at in objective.joint.linearise(theta)]
    untrusted = _untrusted(objective, places) if null.directions else ""
    return Identifiability(
        objective.parameters.names,
        np.pad(values, (0, max(theta.size - values.size, 0))),
        [in_values(objective, direction, theta) for direction in null.directions],
        (untrusted,) if untrusted else hints(objective, theta, null.directions, trajectories),
        untrusted,
    )


def _untrusted(objective: Objective, places: Sequence[NDArray]) -> str:
    """What is wrong with a simulation at the first of the places (P,), where something is at all of them; else empty.

    A simulation that was refused, of a negative mass or on a clock that runs backwards, depends on no parameter. That
    is not for want of an impact.
    """
    told = ""
    for theta in places:
        trajectories = objective.joint.trajectories(theta, objective.joint.linearise(theta))
        wrong = [(i, status) for i, one in enumerate(trajectories) if (status := Status(int(one.status)))]
        if not wrong:
            return ""
        (i, status), *_ = wrong
        told = told or f"the simulation of run {i} cannot be trusted: {status.message}"
    return told


def refuse_hopeless(objective: Objective, strict: bool) -> None:
    """Raise where a fit would find nothing out; where there is hope, it costs the Jacobian at the start.

    Args:
        objective: what is to be fitted; its first Jacobian is kept for the fit.
        strict: refuse already where some direction cannot be seen. Otherwise there is hope as long as a single free
            parameter has an effect, at the start or at another of the points that `assess` looks at. What is determined
            is worth fitting, and the result names what is not.

    Raises:
        ValueError: why, and what would resolve it.
    """
    if (strict or _without_effect(objective)) and (assessed := assess(objective)).hopeless:
        expected = "a simulation with status 0" if assessed.untrusted else "other data, fewer free parameters or priors"
        raise ValueError(
            f"fit(check): {'; '.join(assessed.hints)}; expected {expected} (check=False fits all the same)"
        )


def _without_effect(objective: Objective) -> bool:
    """Whether no free parameter has any effect at any point; a simulation that is not finite says nothing of that."""
    for theta in starting_points(objective.parameters, POINTS, seed=0):
        if np.any(objective.evaluate(theta)[1]) or not objective.finite(objective.joint.linearise(theta)):
            return False
    return True


def hints(
    objective: Objective, theta: NDArray, directions: Sequence[Mapping[str, float]], trajectories: Sequence[Any]
) -> tuple[str, ...]:
    """Unseen directions of theta in words."""
    return tuple(
        explain(objective, theta, in_values(objective, direction, theta), trajectories) for direction in directions
    )


def in_values(objective: Objective, direction: Mapping[str, float], theta: NDArray) -> dict[str, float]:
    """A direction in theta (logarithms, for some) as a direction in the parameters, its largest weight 1."""
    parameters, slopes = objective.parameters, objective.parameters.slopes(theta)
    weights = {name: weight * slopes[parameters.names.index(name)] for name, weight in direction.items()}
    largest = max(weights.values(), key=abs)
    return {name: float(weight / largest) for name, weight in weights.items()}
