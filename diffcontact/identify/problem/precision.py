"""What of simulated data is rounding, and how short steps have to be.

Each step rounds a state by eps / 2 of its size at most, and n steps leave in a channel y a root mean square of
(4 + n / 10) eps max |y|: bodies that slide, fall and bounce, in 60 to 120 000 steps of either precision, leave n / 17.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jax import Array
from numpy.typing import NDArray

from diffcontact.simulate import OF_THE_STEP, Trajectory, astride
from diffcontact.status import Status

# Of the last few steps and of `observe`, and of each step, in eps.
_AT_ALL, _PER_STEP = 4.0, 0.1
# Derivatives pass through more operations than values do.
_OF_DERIVATIVES = 100.0


def rounding(values: NDArray, sigma: NDArray, present: NDArray, steps: int) -> NDArray:
    """(n, k) how large rounding of simulated samples is, in units of their noise; zero where one is missing."""
    largest = np.max(np.where(present, np.abs(values), 0.0), axis=0, initial=0.0)
    return np.where(present, (_AT_ALL + _PER_STEP * steps) * np.finfo(values.dtype).eps * largest / sigma, 0.0)


def are_rounding(r: NDArray, of: NDArray) -> bool:
    """Whether residuals (n, k) are, in every channel, no larger than their `rounding`; those that are NaN never are."""
    return bool(np.all(np.sum(r**2, axis=0) <= np.sum(of**2, axis=0)))


def negligible_columns(J: NDArray, theta: NDArray, size: float, eps: float) -> NDArray:
    """(P,) True where a column of J (m, P) at theta (P,) is zero but for rounding, as of a mass in free fall."""
    return is_rounding(np.linalg.norm(J, axis=0) * np.maximum(np.abs(theta), 1.0), size, eps)


def is_rounding(change: Any, size: float, eps: float) -> Any:
    """Whether a change that derivatives promise of data of this size (norms, in noise) is rounding: 100 eps of it."""
    return change <= _OF_DERIVATIVES * eps * size


# What halving the steps may change, in standard deviations of the noise.
TOLERANCE = 0.1
# The finest step is 1/64 of an interval: a fit simulates hundreds of times.
FINEST = 64


def enough(run: Callable[[int], tuple[Array, Trajectory]], least: int = 1) -> tuple[int, float]:
    """The number of substeps, from `least` on, for which halving the steps changes the residuals by less than a tenth.

    `run` gives, for a number of substeps, normalised residuals (n, k) and the trajectory. The largest change of a
    residual is returned, too. Where no number up to `FINEST` is enough, the one with the smallest change is. One with a
    status that smaller steps may mend is enough only where they do not.
    """
    changes: dict[int, float] = {}
    substeps, coarse = least, run(least)
    while substeps <= max(FINEST, least):
        fine = run(2 * substeps)
        changes[substeps] = _change(coarse, fine)
        status = int(coarse[1].status)
        if changes[substeps] <= TOLERANCE and (status == Status.OK or status not in OF_THE_STEP):
            return substeps, changes[substeps]
        substeps, coarse = 2 * substeps, fine
    # No number mends the status, or none is enough.
    best = next(
        (number for number, change in changes.items() if change <= TOLERANCE),
        min(changes, key=lambda number: changes[number]),
    )
    return best, changes[best]


def _change(one: tuple[Array, Trajectory], other: tuple[Array, Trajectory]) -> float:
    moved: NDArray = np.abs(np.asarray(one[0], float) - np.asarray(other[0], float))
    if not np.all(np.isfinite(moved)):
        return np.inf
    return float(np.max(moved[~astride(one[1], other[1])], initial=0.0))
