"""Intervals that reach across the edge between grip and slip, where nothing depends on a coefficient any longer."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from diffcontact.identify.identifiability.naming import role
from diffcontact.identify.problem.objective import Objective

# Sensitivities that differ by more are not those of one smooth model.
_EDGE = 2.0


def half_widths(objective: Objective, theta: NDArray, half: NDArray) -> tuple[NDArray, NDArray]:
    """Half widths (P,) of intervals downwards and upwards, those of mu and e_t as long as they have to be.

    An impact that slips at the estimate may grip at the end of the interval, and no longer tell mu from any larger one:
    the truth may be there. So may one that grips slip, and no longer tell e_t. Where the sensitivity |dr/dtheta_j| at
    an end of the interval is below half of that at the estimate, the interval is longer by their ratio on that side:
    without an end where nothing is left.

    Args:
        objective: what was fitted.
        theta: (P,) the estimate.
        half: (P,) half widths that hold for a linear model.
    """
    sides = half.copy(), half.copy()
    if not any(getattr(run.model.system, "rubs", False) for run in objective.joint.runs):
        return sides
    here, names = _sensitivities(objective, theta), objective.parameters.names
    for j in np.flatnonzero(np.isfinite(half) & (half > 0) & (here > 0)):
        if role(objective, theta, names[j]) not in ("friction", "tangential_restitution"):
            continue
        for side, sign in zip(sides, (-1.0, 1.0), strict=True):
            moved = theta + sign * half * (np.arange(theta.size) == j)
            there = _sensitivities(objective, np.clip(moved, objective.parameters.low, objective.parameters.high))[j]
            vanishes = there <= np.sqrt(objective.eps) * here[j]
            ratio = np.inf if vanishes else here[j] / there
            side[j] *= ratio if ratio > _EDGE else 1.0
    return sides


def _sensitivities(objective: Objective, theta: NDArray) -> NDArray:
    """(P,) lengths of the columns of the Jacobian of all runs."""
    squares = np.zeros(theta.size)
    for run, at in zip(objective.joint.runs, objective.joint.linearise(theta), strict=True):
        columns = np.where(np.isfinite(at.J), at.J, 0.0).reshape(-1, at.J.shape[-1])
        np.add.at(squares, run.index, np.sum(columns**2, axis=0))
    return np.sqrt(squares)
