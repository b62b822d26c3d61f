r"""Minima next door: an impact may belong between two other samples than those between which the search has left it.

Where a film has few samples to a flight, a bounce that moves past one of them makes another minimum, which no descent
leaves and no start far away hits. From an end theta of the search each impact is moved by the distance of two samples,
to either side, by the change of parameters that costs least in a linear model:

    delta theta = +- dt B j / (j^T B j),    j = dT / d theta,  B = (J^T J)^-1

and the descents begin there. An impact's time T is where the arcs from before and from behind meet; its derivative j is
a difference, over a tenth of what the samples alone leave open of a parameter.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from diffcontact.identify.problem.impacts import struck
from diffcontact.identify.problem.objective import Objective
from diffcontact.identify.problem.run import Run, cut
from diffcontact.report.course import course
from diffcontact.schemes.event_timed import EventTimed
from diffcontact.system import System

# As many descents are worth their time, in as many runs.
_STARTS, _RUNS = 16, 3
_DIFFERENCE = 0.1


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
    at = joint.linearise(theta)
    times = [_impacts(run, one.trajectory) for run, one in zip(joint.runs, at, strict=True)]
    if not 0 < 2 * sum(t.size for t in times) <= _STARTS:
        return None
    J = objective.evaluate(theta)[1]
    if moved is not None:
        J = np.where(np.isin(np.arange(theta.size), moved), J, 0.0)
    norms = np.linalg.norm(J, axis=0)
    scale = np.where(norms > 0, norms, 1.0)
    B = np.linalg.pinv((J / scale).T @ (J / scale), rcond=1e-8, hermitian=True) / np.outer(scale, scale)
    slopes = [np.zeros((t.size, theta.size)) for t in times]
    for j in np.flatnonzero(norms > 0):
        step = np.where(np.arange(theta.size) == j, _DIFFERENCE / norms[j], 0.0)
        ends = [joint.linearise(theta + side * step) for side in (-1.0, 1.0)]
        for run, t, slope, *sides in zip(joint.runs, times, slopes, *ends, strict=True):
            before, after = (_impacts(run, side.trajectory) for side in sides)
            # An impact that comes or goes within the step has no derivative.
            if before.size == after.size == t.size:
                slope[:, j] = (after - before) / (2 * step[j])
    places = []
    for run, slope in zip(joint.runs, slopes, strict=True):
        spacing = float(np.median(np.diff(np.asarray(run.samples.times, float)[: run.length])))
        for j in slope:
            if (length := j @ B @ j) > 0:
                places += [theta + side * spacing * B @ j / length for side in (-1.0, 1.0)]
    if not places:
        return None
    return np.clip(np.stack(places), objective.parameters.low, objective.parameters.high)


def _impacts(run: Run, trajectory) -> NDArray:
    """(m,) when the run's simulated impacts happen; none where times are measured, or not known."""
    system, scheme = run.model.system, run.model.scheme or EventTimed()
    timed = isinstance(system, System) and isinstance(scheme, EventTimed) and not run.model.impacts
    if not timed or not struck(np.asarray(trajectory.impulse)[: run.length - 1]).any():
        return np.zeros(0)
    return course(cut(trajectory, run.length)).impacts
