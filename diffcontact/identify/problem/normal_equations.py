"""An objective at several places at once, to second order: what a Gauss-Newton step needs."""

from __future__ import annotations

from dataclasses import dataclass

from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class NormalEquations:
    """The objective of N lanes to second order.

    Attributes:
        cost: (N,) infinite where the simulation is not finite.
        gradient: (N, P).
        curvature: (N, P, P) J^T J.
        reach: (N,) how far into the runs, from 0 to 1, the simulation follows the data. It ends at the first sample
            behind the horizon that is further off than those before it.
    """

    cost: NDArray
    gradient: NDArray
    curvature: NDArray
    reach: NDArray
