"""The runs of a fit, linearised at its estimate, as error bars take them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from diffcontact.identify.covariance.jackknife import RunResidual
from diffcontact.identify.problem.objective import Objective
from diffcontact.identify.problem.run import Linearised


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
        # Far from where they belong the influence of most samples falls: what is left is no minimum to trust, but
        # neither is it one of negative curvature.
        mean = max(float(np.nanmean(np.concatenate([slope.ravel() for _, slope in pulls]))), 0.05)
        residuals = [psi / np.sqrt(mean) for psi, _ in pulls]
        jacobians = [np.sqrt(mean) * J for J in jacobians]
    for run, r, J in zip(objective.joint.runs, residuals, jacobians, strict=True):
        runs.append(RunResidual(r, J, run.index))
    return runs
