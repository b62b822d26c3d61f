"""The descent that every fit ends with: scipy's trust-region least squares within bounds, with exact Jacobians.

Source: M. A. Branch, T. F. Coleman, Y. Li, SIAM J. Sci. Comput. 21 (1999) 1; H. B. Nielsen, Damping Parameter in
Marquardt's Method, IMM-REP-1999-05, for `explored`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult, least_squares, lsq_linear
from scipy.sparse import csr_array

from diffcontact.identify.problem.objective import Objective
from diffcontact.numerics.least_squares import TINY

Vector = Callable[[NDArray], NDArray]

MAX_EVALUATIONS = 300
# Parameters smaller than one in so many, or larger than so many, are sought in units of their own size.
_ORDINARY = 2.0**20
# Of the exploring steps: the damping at first, the gain over what was promised that is one, and the part of the way to
# a bound that may not be reached.
_DAMPING, _GAINS, _SHARE = 1e-2, 1e-3, 0.9
# With more parameters, nearly all of them the runs' own, a step is sought by iterations on a sparse Jacobian: its
# singular values would take longer than all else.
_MANY = 200


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
    return descent(
        lambda theta: objective.evaluate(theta)[0],
        jacobian,
        start,
        (objective.parameters.low, objective.parameters.high),
        ftol=tolerance,
        xtol=tolerance,
        gtol=tolerance,
        max_nfev=MAX_EVALUATIONS,
    )


def explored(objective: Objective, start: NDArray, tolerance: float, most: int, horizon: float = 1.0) -> NDArray:
    """(P,) where Levenberg and Marquardt's steps on the samples up to a horizon (a part of the record) lead.

    It ends where a step promises less than the tolerance, relatively, or after `most` evaluations. The damping follows
    the ratio of actual to predicted decrease (Nielsen); the least step within the bounds goes along them.
    """
    low, high = objective.parameters.low, objective.parameters.high
    theta, damping, growth = np.clip(start, low, high), _DAMPING, 2.0
    (f, J), scale = objective.evaluate(theta, horizon), np.zeros(start.size)
    # The zero of a mass, where there is no simulation, is not reached.
    open_sides = np.where(np.isfinite(low) ^ np.isfinite(high), _SHARE, 1.0)
    for iteration in range(most - 1):
        cost = 0.5 * float(f @ f)
        objective.told(iteration, cost)
        scale = np.maximum(scale, np.linalg.norm(J, axis=0))
        rows = np.vstack([J, np.sqrt(damping) * np.diag(np.where(scale > 0, scale, 1.0))])
        room = open_sides * (low - theta), open_sides * (high - theta)
        step = lsq_linear(rows, -np.append(f, np.zeros(theta.size)), room).x
        predicted = cost - 0.5 * float(np.sum((f + J @ step) ** 2))
        there = np.clip(theta + step, low, high)
        trial = objective.evaluate(there, horizon)
        gain = (cost - 0.5 * float(trial[0] @ trial[0])) / max(predicted, TINY)
        if gain > _GAINS:
            theta, (f, J) = there, trial
            damping, growth = damping * max(1 / 3, 1 - min(2 * gain - 1, 1.0) ** 3), 2.0
        else:
            damping, growth = damping * growth, 2.0 * growth
        if predicted <= tolerance * cost:
            break
    return theta


def descent(f: Vector, J: Vector, start: NDArray, bounds: tuple[NDArray, NDArray], **options: Any) -> OptimizeResult:
    """scipy's trust-region least squares in units in which no parameter is far from 1; its result in those given."""
    size = np.abs(start)
    far = (size > 0) & ((size < 1 / _ORDINARY) | (size > _ORDINARY))
    # Powers of two round nothing.
    unit = np.where(far, np.exp2(np.round(np.log2(np.where(far, size, 1.0)))), 1.0)
    sparse = start.size > _MANY

    def scaled(z):
        found = J(unit * z) * unit
        return csr_array(found) if sparse else found

    end = least_squares(
        lambda z: f(unit * z),
        start / unit,
        jac=scaled,  # pyright: ignore[reportArgumentType]  (scipy's stubs forget the callable)
        tr_solver="lsmr" if sparse else "exact",
        bounds=tuple(bound / unit for bound in bounds),
        x_scale="jac",
        **options,
    )
    if sparse:
        end.jac = end.jac.toarray()
    end.x, end.jac, end.grad = unit * end.x, end.jac / unit, end.grad / unit
    return end
