r"""Levenberg and Marquardt's method within bounds, for many lanes at once.

    p = -(A_FF + mu D_F)^-1 g_F,      theta' = clip(theta + p)
    A = J^T J,  g = J^T r,  D = the largest diag(A) so far

F are the parameters that are free to move: those at a bound that the gradient pushes against are held. The damping mu
follows the ratio of actual to predicted decrease. It explores: what it finds is polished afterwards.

Source: J. J. More, Lecture Notes in Mathematics 630 (1978) 105, for the scaling D; H. B. Nielsen, Damping Parameter in
Marquardt's Method, IMM-REP-1999-05, for mu.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from diffcontact.identify.problem.objective import NormalEquations

# Of the way to a bound that may not be reached (the zero of a mass), a step takes at most so much.
_SHARE = 0.9
_INITIAL_DAMPING = 1e-2


@dataclass(frozen=True, eq=False)
class Lanes:
    """Where N lanes are.

    Attributes:
        theta: (N, P).
        cost: (N,).
        reach: (N,) see `NormalEquations`.
    """

    theta: NDArray
    cost: NDArray
    reach: NDArray


def descend(
    evaluate: Callable[[NDArray, NDArray], NormalEquations],
    theta: NDArray,
    low: NDArray,
    high: NDArray,
    *,
    iterations: int,
    tolerance: float,
) -> Lanes:
    """Descend every lane until a step promises less than the tolerance, relatively, or for so many iterations.

    Lanes that have arrived are no longer evaluated. A lane whose cost is infinite at its start stays there.

    Args:
        evaluate: `evaluate(theta (M, P), lanes (M,)) -> NormalEquations` of the given lanes.
        theta: (N, P) starts within the bounds.
        low, high: (P,) bounds. One-sided ones are not reached (at the zero of a mass there is no simulation).
        iterations: evaluations per lane, at most.
        tolerance: relative decrease of the cost that is not worth a step.
    """
    theta = theta.copy()
    at = evaluate(theta, np.arange(len(theta)))
    cost, g, A, reach = at.cost.copy(), at.gradient.copy(), at.curvature.copy(), at.reach.copy()
    scale = np.einsum("npp->np", A).copy()
    damping, growth = np.full(len(theta), _INITIAL_DAMPING), np.full(len(theta), 2.0)
    active = np.isfinite(cost)
    for _ in range(iterations - 1):
        lanes = np.flatnonzero(active)
        if lanes.size == 0:
            break
        step = bounded_step(theta[lanes], g[lanes], A[lanes], damping[lanes], scale[lanes], low, high)
        predicted = -np.einsum("np,np->n", g[lanes], step) - 0.5 * np.einsum("np,npq,nq->n", step, A[lanes], step)
        # Rounding must not carry a step to a bound beyond it.
        there = np.clip(theta[lanes] + step, low, high)
        trial = evaluate(there, lanes)
        gain = (cost[lanes] - trial.cost) / np.where(predicted > 0, predicted, np.inf)
        better = (trial.cost < cost[lanes]) & (gain > 1e-3)
        # Much damping promises little as well: a lane that every step makes worse stands before a jump of the cost.
        arrived = predicted <= tolerance * cost[lanes]
        won = lanes[better]
        theta[won] = there[better]
        cost[won], g[won], A[won] = trial.cost[better], trial.gradient[better], trial.curvature[better]
        reach[won] = trial.reach[better]
        scale[won] = np.maximum(scale[won], np.einsum("npp->np", A[won]))
        damping[won] *= np.maximum(1 / 3, 1 - (2 * gain[better] - 1) ** 3)
        growth[won] = 2.0
        lost = lanes[~better]
        damping[lost] *= growth[lost]
        growth[lost] *= 2.0
        active[lanes[arrived]] = False
    return Lanes(theta, cost, reach)


def bounded_step(
    theta: NDArray, g: NDArray, A: NDArray, damping: NDArray, scale: NDArray, low: NDArray, high: NDArray
) -> NDArray:
    """(N, P) damped steps of N lanes; parameters that would leave their bounds go there, and the others with them.

    Args:
        theta, g: (N, P) where the lanes are, and the gradients there.
        A: (N, P, P) curvatures.
        damping: (N,) mu.
        scale: (N, P) the diagonal of D; where it is zero a parameter stays.
        low, high: (P,) bounds.
    """
    N, P = theta.shape
    closed = np.isfinite(low) & np.isfinite(high)
    down = np.where(closed, low - theta, np.where(np.isfinite(low), _SHARE * (low - theta), -np.inf))
    up = np.where(closed, high - theta, np.where(np.isfinite(high), _SHARE * (high - theta), np.inf))
    step = np.zeros((N, P))
    held = ((theta <= low) & (g > 0)) | ((theta >= high) & (g < 0)) | (scale == 0)
    for _ in range(P + 1):
        pull = g + np.einsum("npq,nq->np", A, np.where(held, step, 0.0))
        wanted = _solve(A, damping[:, None] * scale, pull, ~held)
        step = np.where(held, step, np.clip(wanted, down, up))
        beyond = ~held & ((wanted < down) | (wanted > up))
        if not beyond.any():
            break
        held |= beyond
    return step


def _solve(A, D, pull, free) -> NDArray:
    """(N, P) -(A_FF + D_F)^-1 pull_F, zero elsewhere."""
    index = np.arange(pull.shape[1])
    system = A * free[:, :, None] * free[:, None, :]
    system[:, index, index] += np.where(free, D, 1.0)
    # Scaled to a unit diagonal: parameters may differ by many decades.
    unit = 1.0 / np.sqrt(system[:, index, index])
    scaled = system * unit[:, :, None] * unit[:, None, :]
    return -unit * np.linalg.solve(scaled, (np.where(free, pull, 0.0) * unit)[..., None])[..., 0]
