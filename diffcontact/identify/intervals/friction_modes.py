"""Whether an interval goes on far from the estimate, where contacts grip that slip here, or the other way round.

Behind such an edge nothing may depend on the element any longer, and the data may be explained there as well. No
descent tells: the cost rises first, and has a kink at the edge.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from diffcontact.identify.identifiable import least_friction, role
from diffcontact.identify.intervals.profile_scan import ProfileScan

# Where it is looked whether the cost has levelled off, in half widths of the interval.
_AWAY = 16.0
# By how much a friction is larger with which contacts may grip; it goes nine tenths of the way to a bound at most.
_LARGER = 256.0, 16.0, 4.0, 2.0
# Where it is looked whether that is connected with the estimate, in half widths.
_NEARBY = 2.0
# Up to so many parameters each is asked for.
_FEW = 24
# Evaluations of a descent.
_MOST = 40


def further(scan: ProfileScan, name: str) -> tuple[bool, bool]:
    """Whether the interval has no end downwards, and none upwards, because of what grips or slips there.

    Of many runs together only a friction is asked for, by a single descent.
    """
    start, half = scan.objective.parameters.start, np.sqrt(scan.level) * scan.stderr
    if not scan.objective.joint.rubs or scan.objective.exact(scan.cost):
        return False, False
    if start.size > _FEW:
        below, above = False, _larger_does(scan, name, _LARGER[1:2])
    else:
        edge = _at_the_edge(scan)
        begins, step = [start] if edge is None else [start, edge], _AWAY * half
        below, above = (any(_levels_off(scan, begin, way) for begin in begins) for way in (-step, step))
        above = above or _larger_does(scan, name, _LARGER)
    for on, side in ((below, -1.0), (above, 1.0)):
        if on:
            # Whether that is connected with the estimate.
            scan.theta = start.copy()
            scan.rise(float(start[scan.j] + side * _NEARBY * half), most=_MOST)
    return below, above


def _at_the_edge(scan: ProfileScan) -> NDArray | None:
    """(P,) the estimate with each friction that grips as small as it can be; None where none does.

    What grips with any larger friction may have slipped with this one.
    """
    objective, start = scan.objective, scan.objective.parameters.start
    parameters, edge = objective.parameters, start.copy()
    for i in np.flatnonzero(~np.any(scan.jacobian, axis=0)):
        if role(objective, start, name := parameters.names[i]) == "friction":
            trajectories = [at.trajectory for at in objective.joint.linearise(start)]
            least = least_friction(objective, start, name, trajectories)
            if least > 0:
                edge[i] = np.clip(np.log(least) if parameters.log[i] else least, parameters.low[i], parameters.high[i])
    return None if np.array_equal(edge, start) else edge


def _levels_off(scan: ProfileScan, begin: NDArray, step: float) -> bool:
    """Whether so far away nothing depends on the element any longer, and the cost is as low as within its interval.

    A descent that goes there little by little may stay in the kink between grip and slip.
    """
    objective, j = scan.objective, scan.j
    there = begin.copy()
    there[j] += step
    if not objective.parameters.low[j] < there[j] < objective.parameters.high[j]:
        return False
    left = np.linalg.norm(objective.evaluate(there)[1][:, j])
    if not left <= np.sqrt(objective.eps) * np.linalg.norm(scan.jacobian[:, j]):
        return False
    scan.theta = begin.copy()
    return scan.rise(float(there[j]), anew=True) <= scan.level


def _larger_does(scan: ProfileScan, name: str, factors: Sequence[float]) -> bool:
    """Whether a much larger friction explains the data as well: contacts grip then that slip at the estimate.

    Of a contact that slips the data show mu and not the spin, of one that grips the spin and not mu. Where neither is
    seen otherwise, both do alike, and no descent leads from one to the other. What is not seen begins at zero, too: it
    may have come to where nothing grips.
    """
    objective, start = scan.objective, scan.objective.parameters.start
    if role(objective, start, name) != "friction":
        return False
    low, high, log = objective.parameters.low, objective.parameters.high, objective.parameters.log
    unseen = ~np.any(scan.jacobian, axis=0)
    begins = [start, np.clip(np.where(unseen, 0.0, start), low, high)] if unseen.any() else [start]
    begins = begins if start.size <= _FEW else begins[-1:]
    here, bound = start[scan.j], high[scan.j]
    larger = here + np.log(factors) if log[scan.j] else max(here, scan.stderr) * np.array(factors)
    for begin, x in product(begins, np.unique(np.minimum(larger, 0.1 * here + 0.9 * bound))[::-1]):
        scan.theta = begin.copy()
        if scan.rise(float(x), anew=True, most=_MOST) <= scan.level:
            return True
    return False
