"""Where a search begins: the given start, and others that fill the bounds."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from diffcontact.identify.problem.parameters import FreeParameters


def starting_points(parameters: FreeParameters, starts: int, seed: int) -> Iterator[NDArray]:
    """(P,) each: the given start, then a Sobol set in the bounds, or around the start (`surroundings`)."""
    yield parameters.start
    if starts == 1:
        return
    from scipy.stats import qmc  # takes half a second to import, and few fits look beyond their start

    low, high = surroundings(parameters)
    exponent = int(np.ceil(np.log2(max(starts - 1, 1))))
    points = qmc.Sobol(parameters.start.size, rng=seed).random_base2(exponent)[: starts - 1]
    yield from low + points * (high - low)


def surroundings(parameters: FreeParameters) -> tuple[NDArray, NDArray]:
    """Low and high ends (P,) of where a minimum is looked for: the bounds.

    Where a parameter has no finite bounds: around its start, within a factor of two, or 1 about zero.
    """
    first = parameters.start
    reach = np.where(first == 0.0, 1.0, np.abs(first))
    near_low, near_high = first - np.where(first > 0, reach / 2, reach), first + np.where(first < 0, reach / 2, reach)
    near_low, near_high = (
        np.where(parameters.log, first + side * np.log(2.0), near) for side, near in ((-1, near_low), (1, near_high))
    )
    bounded = np.isfinite(parameters.low) & np.isfinite(parameters.high)
    low = np.where(bounded, parameters.low, np.maximum(near_low, parameters.low))
    high = np.where(bounded, parameters.high, np.minimum(near_high, parameters.high))
    return low, high
