"""Whether an interval goes on far from the estimate, where contacts grip that slip here, or the other way round.

Behind such an edge nothing may depend on the element any longer, and the data may be explained there as well. No
descent tells: the cost rises first, and has a kink at the edge.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import NDArray

from diffcontact.identify.identifiability.naming import least_friction, role
from diffcontact.identify.intervals.scan import Scan

# Where it is looked whether the cost has levelled off, in half widths of the interval.
_AWAY = 16.0
# By how much a friction is larger with which contacts may grip; it goes nine tenths of the way to a bound at most.
_LARGER = 256.0, 16.0, 4.0, 2.0


def further(scan: Scan, name: str) -> tuple[bool, bool]:
    """Whether the interval has no end downwards, and none upwards, because of what grips or slips there."""
    if not scan.objective.joint.rubs:
        return False, False
    start, edge = scan.objective.parameters.start, _at_the_edge(scan)
    begins = [start] if edge is None else [start, edge]
    step = _AWAY * np.sqrt(scan.level) * scan.stderr
    below, above = (any(_levels_off(scan, begin, way) for begin in begins) for way in (-step, step))
    return below, above or _larger_does(scan, name)


def _at_the_edge(scan: Scan) -> NDArray | None:
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


def _levels_off(scan: Scan, begin: NDArray, step: float) -> bool:
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


def _larger_does(scan: Scan, name: str) -> bool:
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
    here, bound, factors = start[scan.j], high[scan.j], np.array(_LARGER)
    larger = here + np.log(factors) if log[scan.j] else max(here, scan.stderr) * factors
    for begin, x in product(begins, np.unique(np.minimum(larger, 0.1 * here + 0.9 * bound))[::-1]):
        scan.theta = begin.copy()
        if scan.rise(float(x), anew=True) <= scan.level:
            return True
    return False
