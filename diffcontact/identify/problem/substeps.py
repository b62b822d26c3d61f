"""How many steps an interval needs, for what is observed of it: halving them must not show in the noise."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jax import Array
from numpy.typing import NDArray

from diffcontact.refinement import OF_THE_STEP, astride
from diffcontact.simulate import Trajectory
from diffcontact.status import Status

# What halving the steps may change, in standard deviations of the noise.
TOLERANCE = 0.1
# The finest step is 1/64 of an interval: a fit simulates hundreds of times.
FINEST = 64


def enough(run: Callable[[int], tuple[Array, Trajectory]], least: int = 1) -> tuple[int, float]:
    """The number of substeps, from `least` on, for which halving the steps changes the residuals by less than a tenth.

    `run` gives, for a number of substeps, normalised residuals (n, k), zero where a sample is missing, and the
    trajectory. The largest change of a residual when the number is doubled is returned, too. Where no number up to
    `FINEST` is enough, the one with the smallest change is. One with a status that smaller steps may mend is enough
    only where they do not.

    Example:
        >>> import jax.numpy as jnp, diffcontact as dc
        >>> spring = dc.System(
        ...     gap=lambda t, q, p: q + 5.0,
        ...     force=lambda t, q, u, p: -4 * q,
        ...     mass=lambda q, p: jnp.ones(1),
        ...     restitution=lambda p: 0.5,
        ... )
        >>> def run(number):
        ...     seen = dc.simulate(spring, None, [1.0], [0.0], [0.0, 1.0, 2.0], substeps=jnp.array(number))
        ...     return seen.q / 0.01, seen
        >>> enough(run)[0]
        4
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
    """The largest difference of a residual; samples at an impact that the runs put on either side are left out."""
    moved: NDArray = np.abs(np.asarray(one[0], float) - np.asarray(other[0], float))
    if not np.all(np.isfinite(moved)):
        return np.inf
    return float(np.max(moved[~astride(one[1], other[1])], initial=0.0))
