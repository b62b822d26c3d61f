"""A growing horizon: fit the beginning of a record, follow the simulation on until it leaves the data, fit again.

A short record has few impacts, and within the reach of a fit to it the next ones are nearly right.

Source: A. Ribeiro, K. Tiels, J. Umenberger, T. Schoen, L. Aguirre, Automatica 121 (2020) 109158, on how the length of
the simulation makes the cost rugged.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from diffcontact.host.progress import stage
from diffcontact.identify.problem.objective import Objective
from diffcontact.identify.search.levenberg_marquardt import descend

# The horizon grows by at least this part of the record, less than what lies between two impacts worth resolving.
_STAGE = 1.0 / 24.0
_FIRST = 1.0 / 12.0
_STAGE_ITERATIONS = 12
_STAGE_TOLERANCE = 1e-3


def grow(objective: Objective, points: NDArray) -> NDArray:
    """(N, P) where a growing horizon leads from the points (N, P)."""
    theta, horizon = points.copy(), np.full(len(points), _FIRST)
    low, high = objective.parameters.low, objective.parameters.high
    with stage("part of the record", total=1.0) as reached:
        while True:
            lanes = np.flatnonzero(horizon < 1.0)
            if lanes.size == 0:
                return theta
            now = horizon[lanes]
            at = descend(
                lambda trial, which, now=now: objective.normal_equations(trial, now[which]),
                theta[lanes],
                low,
                high,
                iterations=_STAGE_ITERATIONS,
                tolerance=_STAGE_TOLERANCE,
            )
            theta[lanes] = at.theta
            horizon[lanes] = np.minimum(np.maximum(at.reach, now) + _STAGE, 1.0)
            reached(float(horizon.min()))
