"""The runs of a fit, linearised at its estimate, as error bars take them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from diffcontact.identify.covariance.jackknife import RunResidual
from diffcontact.identify.problem.loss import Loss
from diffcontact.identify.problem.objective import Objective
from diffcontact.identify.problem.run import Linearised

# Far from where they belong the influence of most samples falls: what is left is no minimum to trust, but neither is it
# one of negative curvature. A mean of psi' below this is that of a few samples through which the fit happens to pass.
LEAST_SLOPE = 0.05
# Quantiles of the normal distribution at which psi' is averaged.
_QUANTILES = 1000


def run_residuals(objective: Objective, at: Sequence[Linearised]) -> list[RunResidual]:
    """The runs, linearised at the estimate, for the error bars.

    Under a robust loss with influence psi, the estimate is where sum psi(r) J vanishes, and the derivative of that sum
    is sum psi' J J^T. Residuals psi / sqrt(a) and Jacobians sqrt(a) J, with a the mean of psi', have both to first
    order (Huber 1964, eq. 22).
    """
    loss, runs = objective.loss, []
    residuals = [np.where(np.isfinite(a.r), a.r, np.nan) for a in at]
    jacobians = [np.where(np.isfinite(a.J), a.J, 0.0) for a in at]
    if loss.robust:
        pulls = [[np.asarray(part) for part in loss.influence(r)] for r in residuals]
        mean = max(float(np.nanmean(np.concatenate([slope.ravel() for _, slope in pulls]))), LEAST_SLOPE)
        residuals = [psi / np.sqrt(mean) for psi, _ in pulls]
        jacobians = [np.sqrt(mean) * J for J in jacobians]
    for run, r, J in zip(objective.joint.runs, residuals, jacobians, strict=True):
        runs.append(RunResidual(r, J, run.index))
    return runs


def noise_seen(r: NDArray) -> float:
    """The standard deviation of residuals that are normal but for a few, which do not move it; NaN where missing."""
    return 1.4826 * float(np.nanmedian(np.abs(r)))


def slope_in_noise(loss: Loss, sigma: float) -> float:
    """The mean of psi' over normal noise of standard deviation sigma, E psi(r) r / sigma^2.

    Example:
        >>> round(slope_in_noise(Loss("huber"), 1.0), 2), round(slope_in_noise(Loss("huber", 0.1), 10.0), 3)
        (0.68, 0.008)
    """
    r = sigma * ndtri((np.arange(_QUANTILES) + 0.5) / _QUANTILES)
    return float(np.mean(np.asarray(loss.influence(r)[0]) * r) / np.mean(r**2))
