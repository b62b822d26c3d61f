"""Intervals that reach across the edge between grip and slip, where nothing depends on a parameter any longer."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from diffcontact.identify.identifiability.naming import role
from diffcontact.identify.problem.objective import Objective

# Sensitivities that differ by more are not those of one smooth model.
_EDGE = 2.0


def half_widths(objective: Objective, theta: NDArray, half: NDArray) -> tuple[NDArray, NDArray]:
    """Half widths (P,) of intervals downwards and upwards, as long as they have to be where contacts rub.

    An impact that slips at the estimate may grip at the end of the interval, and no longer tell mu from any larger one:
    the truth may be there. So may one that grips slip, and no longer tell e_t, or the spin with which a body came.
    Where the sensitivity |dr/dtheta_j| at an end of the interval is below half of that at the estimate, the interval is
    longer by their ratio on that side: without an end where nothing is left.

    Args:
        objective: what was fitted.
        theta: (P,) the estimate.
        half: (P,) half widths that hold for a linear model.
    """
    sides = half.copy(), half.copy()
    if not objective.joint.rubs:
        return sides
    here, parameters = _sensitivities(objective, theta), objective.parameters
    told = np.isfinite(half) & (half > 0) & (here > 0)
    for together in _places(objective, theta):
        j = together[told[together]]
        if j.size == 0:
            continue
        for side, sign in zip(sides, (-1.0, 1.0), strict=True):
            moved = theta.copy()
            moved[j] = np.clip(theta[j] + sign * half[j], parameters.low[j], parameters.high[j])
            there = _sensitivities(objective, moved)[j]
            left = there > np.sqrt(objective.eps) * here[j]
            ratio = np.where(left, here[j] / np.where(left, there, 1.0), np.inf)
            side[j] *= np.where(ratio > _EDGE, ratio, 1.0)
    return sides


def _places(objective: Objective, theta: NDArray) -> list[NDArray]:
    """The elements that are looked at, those that runs have of their own together: they do not touch each other.

    What several runs share is seen in many ways, but for a friction or a tangential restitution.
    """
    runs, names = objective.joint.runs, objective.parameters.names
    places = [np.unique(elements) for elements in np.transpose([run.index for run in runs])]
    alone = len(runs) == 1
    contact = ("friction", "tangential_restitution")
    return [j for j in places if alone or j.size > 1 or role(objective, theta, names[j[0]]) in contact]


def _sensitivities(objective: Objective, theta: NDArray) -> NDArray:
    """(P,) lengths of the columns of the Jacobian of all runs."""
    squares = np.zeros(theta.size)
    for run, at in zip(objective.joint.runs, objective.joint.linearise(theta), strict=True):
        columns = np.where(np.isfinite(at.J), at.J, 0.0).reshape(-1, at.J.shape[-1])
        np.add.at(squares, run.index, np.sum(columns**2, axis=0))
    return np.sqrt(squares)
