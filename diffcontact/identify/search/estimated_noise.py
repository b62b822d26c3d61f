r"""The noise of each channel, estimated from what the fit leaves, by iteration.

    s_c^2 = sum over the samples of channel c of r^2 / (m_c (1 - P/m)),      sigma_c <- s_c sigma_c,      fit again

until no s_c differs from 1 by more than a hundredth: iterated generalised least squares, which for normal noise goes to
the maximum of the likelihood. Under a robust loss s_c is 1.4826 times the median of |r|, which outliers do not move.

Source: G. A. F. Seber, C. J. Wild, Nonlinear Regression (1989), section 2.8.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from diffcontact.identify.problem.objective import Objective
from diffcontact.identify.search.shooting import Outcome
from diffcontact.identify.search.trust_region import solve

_ROUNDS = 10
_SETTLED = 0.01


def with_estimated_noise(objective: Objective, found: Outcome) -> tuple[Objective, Outcome, tuple[NDArray, ...]]:
    """Go on from a search with the noise that its residuals show.

    Runs with the same number of channels have their channels in common.

    Args:
        objective: with the stated noise.
        found: where it ended.

    Returns:
        The objective with the estimated noise, where it ends, and per run the factors (k,) from stated to estimated.
    """
    factors = [np.ones(run.present.shape[1]) for run in objective.joint.runs]
    told = ""
    stated = [np.asarray(run.samples.sigma, float)[: run.length] for run in objective.joint.runs]
    for round_ in range(1, _ROUNDS + 1):
        scales = _scales(objective, found.end.x)
        factors = [factor * scale for factor, scale in zip(factors, scales, strict=True)]
        objective = objective.replaced("sigma", [s * factor for s, factor in zip(stated, factors, strict=True)])
        end = solve(objective, found.end.x)
        told = f"noise of each channel estimated in {round_} round{'s' if round_ > 1 else ''}"
        found = replace(found, end=end, costs=(float(end.cost),))
        if all(np.all(np.abs(scale - 1.0) <= _SETTLED) for scale in scales):
            break
    else:
        told += ", not settled"
    return objective, replace(found, story="; ".join(filter(None, (found.story, told)))), tuple(factors)


def _scales(objective: Objective, theta: NDArray) -> list[NDArray]:
    """Per run, (k,) how much larger the residuals of each channel are than stated."""
    residuals = [np.where(np.isfinite(at.r), at.r, np.nan) for at in objective.joint.linearise(theta)]
    roundings = [np.where(run.present, run.rounding, np.nan) for run in objective.joint.runs]
    spare = max(1.0 - objective.joint.size / objective.joint.samples, 1.0 / objective.joint.samples)

    def size(parts: list[NDArray], channels: int) -> NDArray:
        alike = np.concatenate([part for part in parts if part.shape[1] == channels])
        if objective.loss.robust:
            return 1.4826 * np.nanmedian(np.abs(alike), axis=0)
        return np.sqrt(np.nanmean(alike**2, axis=0) / spare)

    scales = []
    for run in objective.joint.runs:
        channels = run.present.shape[1]
        scale, rounding = size(residuals, channels), size(roundings, channels)
        # A channel that is fitted to rounding, holds nothing but zeros, or has no sample, keeps its noise.
        scales.append(np.where((rounding > 0) & (scale > rounding), scale, 1.0))
    return scales
