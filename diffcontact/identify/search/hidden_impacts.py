r"""Minima on the other side of a gap in the data: bounces that nobody saw may have been more, or fewer.

Where bodies strike several times between two samples, what comes after the gap may be explained by other numbers of
bounces, each with parameters of its own. No descent leads from one to another. All the other samples are explained
along the directions d that they hardly see,

    A_rest d = lambda A d,    d^T A d = 1,    lambda << 1

with A = J^T J of all rows and A_rest of those that the gap does not separate from the beginning of their run. So the
cost is looked at along theta + s d, as far as the rest allows. Descents begin in its valleys.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from diffcontact.host.progress import stage
from diffcontact.identify.problem.impacts import struck
from diffcontact.identify.problem.joint_residual import JointResidual
from diffcontact.identify.problem.objective import Objective
from diffcontact.identify.problem.parameters import surroundings
from diffcontact.identify.problem.run import Run
from diffcontact.system import System

# An interval is long beyond so many times the lower quartile of the run's: several bounces may be in it.
_LONG = 3.0
# The rest is asked along directions of which it knows five times less than all samples; it allows six standard errors.
_UNKNOWN = 0.2**2
_ALLOWED = 6.0
# Each line takes so many simulations; from so many of its valleys descents are worth their time.
_LINES, _PLACES, _VALLEYS = 3, 128, 12


def gaps(joint: JointResidual, theta: NDArray) -> list[tuple[int, int]]:
    """Gaps in which at least two impacts are simulated at theta (P,), each as its run and the sample behind it.

    In a long interval one impact counts as two: there is no telling how many it were. Where samples are evenly spaced
    and none is missing there are no gaps, and nothing is simulated.
    """
    room = [_room(run) for run in joint.runs]
    wide = [
        [(a, b) for a, b in pairwise(_seen(run)) if of[a:b].sum() > 1] for run, of in zip(joint.runs, room, strict=True)
    ]
    if not any(wide):
        return []
    found = []
    for i, (run, at) in enumerate(zip(joint.runs, joint.linearise(theta), strict=True)):
        hit = room[i] * struck(np.asarray(at.trajectory.impulse)[: run.length - 1])
        found += [(i, b) for a, b in wide[i] if hit[a:b].sum() > 1]
    return found


def behind_gaps(objective: Objective) -> NDArray:
    """(N, P) places from which descents may lead to other numbers of bounces in gaps, the lowest of each line first.

    None (N = 0) without gaps, or where other samples tell how many bounces there were.
    """
    joint, theta = objective.joint, objective.parameters.start
    hidden, places = gaps(joint, theta), [np.zeros((0, theta.size))]
    if hidden:
        with stage("bounces that nobody saw", note=""):
            lines = sorted((line for gap in hidden for line in _unknown(objective, *gap)), key=lambda line: line[0])
            places += [_valleys(objective, *line) for line in lines[:_LINES]]
    return np.concatenate(places)


def _seen(run: Run) -> list[int]:
    """The samples of which something was measured."""
    return np.flatnonzero(np.any(run.present, axis=1)).tolist()


def _room(run: Run) -> NDArray:
    """(n - 1,) for how many impacts there is room in an interval between samples, as far as that matters: 0, 1 or 2."""
    length = np.diff(np.asarray(run.samples.times, float)[: run.length])
    if not isinstance(run.model.system, System):
        return np.zeros(length.size, int)
    return np.where(length > _LONG * np.quantile(length, 0.25), 2, 1)


def _unknown(objective: Objective, i: int, end: int) -> list[tuple[float, NDArray]]:
    """(lambda, d) for the directions d (P,) that hardly anything but the samples of run i from `end` on shows."""
    theta = objective.parameters.start
    at = objective.joint.linearise(theta)
    _, slopes = objective.priors.rows(theta)
    rest, behind = slopes.T @ slopes, np.zeros((theta.size, theta.size))
    for number, (run, here) in enumerate(zip(objective.joint.runs, at, strict=True)):
        J = np.where(np.isfinite(here.J), here.J, 0.0)
        first = end if number == i else len(J)
        for A, rows in ((rest, J[:first]), (behind, J[first:])):
            A[np.ix_(run.index, run.index)] += np.einsum("nkp,nkq->pq", rows, rows)
    A = rest + behind
    scale = np.sqrt(np.where(np.diag(A) > 0, np.diag(A), 1.0))
    values, vectors = np.linalg.eigh(A / np.outer(scale, scale))
    known = values > np.sqrt(objective.eps) * values[-1]
    # Columns of unit length in terms of A.
    unit = vectors[:, known] / np.sqrt(values[known]) / scale[:, None]
    shares, directions = np.linalg.eigh(unit.T @ rest @ unit)
    return [
        (max(float(share), 0.0), unit @ direction)
        for share, direction in zip(shares, directions.T, strict=True)
        if share < _UNKNOWN
    ]


def _valleys(objective: Objective, share: float, direction: NDArray) -> NDArray:
    """(N, P) the lowest places of the valleys that the cost has along a line through theta, the lowest first."""
    theta = objective.parameters.start
    low, high = surroundings(objective.parameters)
    # Residuals larger than stated let the rest go further.
    far = _ALLOWED * np.sqrt(max(objective.misfit(theta), 1.0) / max(share, np.finfo(float).tiny))
    with np.errstate(divide="ignore", invalid="ignore"):
        ends = np.stack([(low - theta) / direction, (high - theta) / direction])
    ends = ends[:, direction != 0]
    first, last = max(-far, float(ends.min(axis=0).max())), min(far, float(ends.max(axis=0).min()))
    line = theta + np.linspace(first, last, _PLACES)[:, None] * direction
    line = np.clip(line, objective.parameters.low, objective.parameters.high)
    cost = np.array([objective.cost(place) for place in line])
    around = np.pad(cost, 1, constant_values=np.inf)
    lowest = np.flatnonzero((cost <= around[:-2]) & (cost < around[2:]))
    return line[lowest[np.argsort(cost[lowest])][:_VALLEYS]]
