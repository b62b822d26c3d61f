"""Steps halved until the motion stays the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np

from diffcontact.status import Status, first

if TYPE_CHECKING:
    from diffcontact.simulate import Trajectory

# The finest step is 1/16384 of an interval.
HALVINGS = 14
# What smaller steps may mend.
_OF_THE_STEP = (
    Status.OK,
    Status.TOO_COARSE,
    Status.TOO_MANY_EVENTS,
    Status.INFEASIBLE,
    Status.PROJECTION_LIMIT,
    Status.NOT_FINITE,
)


def refined(run: Callable[[int], Trajectory], tolerance: float) -> tuple[int, Trajectory]:
    """The motion with as many substeps as it takes until halving the steps changes it by less than the tolerance.

    Args:
        run: substeps -> trajectory.
        tolerance: largest change allowed of any position and velocity at the times asked for [m, m/s]; see `change`.

    Returns:
        The number of substeps and the trajectory, whose `error` is the last change: an estimate of the error of the
        coarser of the two runs, of which the finer one is given. Its status is TOO_COARSE where the tolerance was not
        reached with the finest steps.
    """
    coarse, substeps, error = run(1), 1, np.inf
    for _ in range(HALVINGS):
        if int(coarse.status) not in _OF_THE_STEP:
            return substeps, replace(coarse, error=jnp.full((), jnp.nan, coarse.q.dtype))
        substeps *= 2
        fine = run(substeps)
        error, coarse = change(coarse, fine), fine
        if error <= tolerance and int(fine.status) == Status.OK:
            break
    missed = jnp.where(error <= tolerance, Status.OK, Status.TOO_COARSE).astype(coarse.status.dtype)
    return substeps, replace(coarse, status=first(coarse.status, missed), error=jnp.asarray(error, coarse.q.dtype))


def change(one: Trajectory, other: Trajectory) -> float:
    """The largest difference between two runs of any position [m] and of any velocity [m/s], at the same times.

    A velocity is left out where an impact falls on the output time itself and the runs put it on either side, so that
    its impulse belongs to the interval before in one of them and to the one after in the other.
    """
    q, u = (np.abs(np.asarray(a) - np.asarray(b)) for a, b in ((one.q, other.q), (one.u, other.u)))
    if not all(np.all(np.isfinite(x)) for x in (q, u)):
        return np.inf
    moved = np.asarray(one.impulse) - np.asarray(other.impulse)
    both = np.abs(moved[:-1] + moved[1:]) <= 1e-3 * np.maximum(np.abs(moved[:-1]), np.abs(moved[1:]))
    astride = both & (np.abs(moved[:-1]) > 1e-3 * np.max(np.abs(np.asarray(one.impulse)), initial=0.0))
    inner = np.any(astride, axis=tuple(range(1, astride.ndim)))
    counts = ~np.concatenate([[False], inner, [False]])
    return float(max(np.max(q), np.max(u[counts], initial=0.0)))
