r"""Minima next door: an impact may belong between two other samples than those between which the search has left it.

Where a film has few samples to a flight, a bounce that moves past one of them makes another minimum, which no descent
leaves and no start far away hits. From an end theta of the search each impact is moved by the distance of two samples,
to either side, by the change of parameters that costs least in a linear model:

    delta theta = +- dt B j / (j^T B j),    j = dT / d theta,  B = (J^T J)^-1

and the descents begin there.
"""

from __future__ import annotations

from copy import copy

import numpy as np
from numpy.typing import NDArray

from diffcontact.identify.problem.impacts import Impacts, struck
from diffcontact.identify.problem.objective import Objective
from diffcontact.identify.problem.run import Linearised, Run, with_impacts
from diffcontact.schemes.event_timed import EventTimed
from diffcontact.system import System

# As many descents are worth their time, in as many runs.
_STARTS, _RUNS = 16, 3


def neighbouring_impacts(objective: Objective, theta: NDArray, moved: NDArray | None = None) -> NDArray | None:
    """(N, P) places around theta (P,) at which one impact each happens a sample earlier or later.

    Args:
        objective: of whose runs.
        theta: around where.
        moved: which elements of theta may move; None: all.

    Returns:
        None where there are no impacts whose times are known and not measured, or too many.
    """
    joint = objective.joint
    if len(joint.runs) > _RUNS:
        return None
    timed = [_timed(run, at) for run, at in zip(joint.runs, joint.linearise(theta), strict=True)]
    count = sum(run.model.impacts for run in timed if run is not None)
    if not 0 < 2 * count <= _STARTS:
        return None
    with_times = copy(joint)
    with_times.runs = [new or run for run, new in zip(joint.runs, timed, strict=True)]
    J = objective.evaluate(theta)[1]
    if moved is not None:
        J = np.where(np.isin(np.arange(theta.size), moved), J, 0.0)
    norms = np.linalg.norm(J, axis=0)
    scale = np.where(norms > 0, norms, 1.0)
    B = np.linalg.pinv((J / scale).T @ (J / scale), rcond=1e-8, hermitian=True) / np.outer(scale, scale)
    places = []
    for run, new, at in zip(joint.runs, timed, with_times.linearise(theta), strict=True):
        if new is None:
            continue
        for k in np.flatnonzero(np.any(at.J[:, -1] != 0, axis=-1)):
            j = np.zeros(theta.size)
            # The residual of a time is (measured - simulated) / sigma, and sigma the spacing of the samples.
            j[run.index] = -np.where(np.isfinite(at.J[k, -1]), at.J[k, -1], 0.0)
            if (length := j @ B @ j) > 0:
                places += [theta + side * B @ j / length for side in (-1.0, 1.0)]
    if not places:
        return None
    return np.clip(np.stack(places), objective.parameters.low, objective.parameters.high)


def _timed(run: Run, at: Linearised) -> Run | None:
    """The run with the times of its simulated impacts as one more channel; None where they are measured, or unknown."""
    model = run.model
    if (
        not isinstance(model.system, System)
        or not isinstance(model.scheme or EventTimed(), EventTimed)
        or model.impacts
    ):
        return None
    onset = struck(at.trajectory.impulse[: run.length - 1])
    if not onset.any():
        return None
    times = np.asarray(run.samples.times, float)[: run.length]
    between = (times[1:] + times[:-1])[onset] / 2
    return with_impacts(run, Impacts(between, float(np.median(np.diff(times)))))
