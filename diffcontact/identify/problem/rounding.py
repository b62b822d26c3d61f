r"""What of simulated data is rounding.

Each step rounds a state by eps / 2 of its size at most. Equal steps of equal numbers are rounded alike, so it does not
cancel, and n steps leave in a channel y

    (4 + n / 10) eps max |y|

as root mean square. Bodies that slide, fall and bounce, in 60 to 120 000 steps of either precision, leave n / 17 at
most. The size is that about the origin: what is far from there is stored less finely.

A fit whose residuals are no larger has nothing left to explain, and what its cost rises by says nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

# Of the last few steps and of `observe`, and of each step, in eps.
_AT_ALL, _PER_STEP = 4.0, 0.1
# Derivatives pass through more operations than values do.
_OF_DERIVATIVES = 100.0


def rounding(values: NDArray, sigma: NDArray, present: NDArray, steps: int) -> NDArray:
    """(n, k) how large rounding of simulated samples is, in units of their noise; zero where one is missing.

    Example:
        >>> rounding(np.ones((2, 1)), np.full((2, 1), 1e-3), np.array([[True], [False]]), 60).round(14).tolist()
        [[2.22e-12], [0.0]]
    """
    largest = np.max(np.where(present, np.abs(values), 0.0), axis=0, initial=0.0)
    return np.where(present, (_AT_ALL + _PER_STEP * steps) * np.finfo(values.dtype).eps * largest / sigma, 0.0)


def are_rounding(r: NDArray, of: NDArray) -> bool:
    """Whether residuals (n, k) are, in every channel, no larger than their `rounding`; those that are NaN never are."""
    return bool(np.all(np.sum(r**2, axis=0) <= np.sum(of**2, axis=0)))


def negligible_columns(J: NDArray, theta: NDArray, size: float, eps: float) -> NDArray:
    """(P,) True where a column of J (m, P) at theta (P,) is zero but for rounding.

    A parameter that cancels, like the mass of a body in free fall, leaves rounding errors in its column. It counts as
    zero where changing the parameter by itself (by 1 if it is smaller) moves data of this size by no more than rounding
    does (`is_rounding`).

    Example:
        >>> negligible_columns(np.array([[1.0, 0.0], [1.0, 1e-15]]), np.ones(2), 10.0, 2e-16).tolist()
        [False, True]
    """
    return is_rounding(np.linalg.norm(J, axis=0) * np.maximum(np.abs(theta), 1.0), size, eps)


def is_rounding(change: Any, size: float, eps: float) -> Any:
    """Whether a change that derivatives promise of data of this size (norms, in noise) is rounding: 100 eps of it."""
    return change <= _OF_DERIVATIVES * eps * size
