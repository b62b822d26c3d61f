"""Steps halved until the motion stays the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from diffcontact.arguments import placed
from diffcontact.status import Status
from diffcontact.trajectory import Trajectory

T = TypeVar("T")
# The finest step is 1/16384 of an interval.
HALVINGS = 14
# What smaller steps may mend.
OF_THE_STEP = (
    Status.OK,
    Status.TOO_COARSE,
    Status.TOO_MANY_EVENTS,
    Status.INFEASIBLE,
    Status.PROJECTION_LIMIT,
    Status.NOT_FINITE,
)


def refined(run: Callable[[int], Trajectory], tolerance: float) -> tuple[int, Trajectory]:
    """Take as many substeps as it takes until halving the steps changes the motion by less than the tolerance.

    Args:
        run: substeps -> trajectory.
        tolerance: largest change allowed of any position and velocity at the times asked for [m, m/s]; see `change`.

    Returns:
        The number of substeps and the finer one of the last two runs, whose `error` is the change.
    """
    substeps, found, error = halved(run, change, lambda found: found.status, tolerance, HALVINGS)
    return substeps, judged(found, error, tolerance)


def halved(
    run: Callable[[int], T],
    change: Callable[[T, T], Any],
    status: Callable[[T], Any],
    tolerance: float,
    halvings: int,
) -> tuple[int, T, float]:
    """Halve the steps of a run, so often at most, until what it finds changes by no more than the tolerance.

    Args:
        run: substeps -> what is found; change: of one finding to the next.
        status: of a finding. One that smaller steps cannot mend ends the search, one that they can prolongs it.

    Returns:
        The number of substeps, what is found with it, and the last change; NaN where there was nothing to mend.
    """
    coarse, substeps, error = run(1), 1, np.inf
    for _ in range(halvings):
        if int(status(coarse)) not in OF_THE_STEP:
            return substeps, coarse, np.nan
        substeps *= 2
        fine = run(substeps)
        error, coarse = float(change(coarse, fine)), fine
        if error <= tolerance and int(status(fine)) == Status.OK:
            break
    return substeps, coarse, error


def judged(found: Trajectory, error: Any, tolerance: float) -> Trajectory:
    """The trajectory with its error; TOO_COARSE where that is above the tolerance."""
    numbers, told = _numbers(found), found.status
    missed = numbers.where(error > tolerance, Status.TOO_COARSE, Status.OK).astype(told.dtype)
    status = numbers.where(numbers.asarray(told) == Status.OK, missed, told)
    return replace(found, status=placed(status), error=placed(error, found.q.dtype))


def change(one: Trajectory, other: Trajectory) -> Any:
    """() the largest difference between two runs of any position [m] and any velocity [m/s], at the same times.

    A velocity is left out where an impact falls on the output time itself; see `astride`.
    """
    numbers = _numbers(one)
    q, u = (abs(numbers.asarray(a) - numbers.asarray(b)) for a, b in ((one.q, other.q), (one.u, other.u)))
    largest = numbers.maximum(q.max(), numbers.where(astride(one, other)[:, None], 0, u).max())
    finite = numbers.isfinite(q).all() & numbers.isfinite(u).all()
    return numbers.where(finite, largest, np.inf)


def _numbers(run: Trajectory) -> Any:
    """numpy, whose operations need no compilation, or what traces them within a transformation."""
    return jnp if isinstance(run.q, Tracer) else np


def astride(one: Trajectory, other: Trajectory) -> Any:
    """(n + 1,) where an impact falls on the output time itself and two runs put it on either side.

    Its impulse belongs to the interval before in one of them and to the one after in the other.
    """
    numbers = _numbers(one)
    impulse = numbers.asarray(one.impulse)
    moved = impulse - numbers.asarray(other.impulse)
    both = abs(moved[:-1] + moved[1:]) <= 1e-3 * numbers.maximum(abs(moved[:-1]), abs(moved[1:]))
    across = both & (abs(moved[:-1]) > 1e-3 * numbers.max(abs(impulse), initial=0.0))
    return numbers.pad(across.any(axis=tuple(range(1, across.ndim))), 1)
