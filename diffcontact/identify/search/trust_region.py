"""The descent that every fit ends with: scipy's trust-region least squares within bounds, with exact Jacobians.

Source: M. A. Branch, T. F. Coleman, Y. Li, SIAM J. Sci. Comput. 21 (1999) 1.
"""

from __future__ import annotations

from itertools import count

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult, least_squares

from diffcontact.identify.problem.objective import Objective

MAX_EVALUATIONS = 300


def solve(objective: Objective, start: NDArray) -> OptimizeResult:
    """Trust-region descent within the bounds until neither cost nor parameters move."""
    if not np.all(np.isfinite(objective.evaluate(start)[0])):
        raise ValueError(
            "fit(params): at the starting values the simulation is not finite up to the last sample; "
            "expected values from which it is"
        )
    iterations = count()

    def jacobian(theta):
        f, J = objective.evaluate(theta)
        objective.told(next(iterations), 0.5 * float(f @ f))
        return J

    # eps^(3/4): the last step has no more to give, yet rounding in the simulation does not keep the fit going.
    tolerance = objective.eps**0.75
    return least_squares(
        lambda theta: objective.evaluate(theta)[0],
        start,
        jac=jacobian,  # pyright: ignore[reportArgumentType]  (scipy's stubs forget the callable)
        bounds=(objective.parameters.low, objective.parameters.high),
        x_scale="jac",
        ftol=tolerance,
        xtol=tolerance,
        gtol=tolerance,
        max_nfev=MAX_EVALUATIONS,
    )
