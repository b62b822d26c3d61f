r"""What a search goes on with at its end: shorter steps, samples of no weight left out, the noise of each channel.

**Samples of no weight.** With h_t = q_t^T q_t the leverage of a sample, Q an orthonormal basis of a run's J in units of
the noise, samples of a channel are without weight if together they hold next to nothing of sum_t 1 / sigma_t^2, what
the channel's mean would be worth, and of sum_t h_t, what its run knows of any combination of parameters. They leave the
estimate where it is. In the scatter of the residuals, from which error bars come, they would count like all others.

**The noise of each channel** is found by iterated generalised least squares, which for normal noise goes to the maximum
of the likelihood: until no s_c differs from 1 by more than a hundredth,

    s_c^2 = sum over the samples of channel c of r^2 / (m_c (1 - P/m)),      sigma_c <- s_c sigma_c,      fit again

Under a robust loss s_c is 1.4826 times the median of |r|, which outliers do not move.

Source: G. A. F. Seber, C. J. Wild, Nonlinear Regression (1989), section 2.8.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from diffcontact.identify.noise import neighbourly
from diffcontact.identify.problem.objective import Objective
from diffcontact.identify.problem.run import Linearised, Run
from diffcontact.identify.search.hidden_impacts import gaps
from diffcontact.identify.search.shooting import Outcome
from diffcontact.identify.search.trust_region import solve

_SHORTER = 4
# Of a channel's weight: ten samples in eleven of a hundred times the noise of the others are left out by it.
_WEIGHT = 1e-3
# Of what is known of a combination of parameters: by half of that its standard error grows.
_KNOWN = 1e-2
_ROUNDS, _SETTLED = 10, 0.01


def with_resolved_steps(objective: Objective, found: Outcome) -> tuple[Objective, Outcome]:
    """Go on from a search with shorter steps, as long as halving them changes what is observed at its end."""
    # Numbers of substeps only grow, up to a bound.
    while True:
        finer = objective.on(objective.joint.resolved(found.end.x))
        if _numbers(finer) == _numbers(objective):
            return finer, found
        objective, found = finer, found.continued(solve(finer, found.end.x), alone=True)


def with_steps_for_hidden_impacts(objective: Objective, found: Outcome) -> tuple[Objective, Outcome]:
    """Go on with shorter steps where a gap in the data hides how often something bounces.

    Steps that are short enough for few long bounces are not for the many short ones that may have been there instead.
    """
    if not gaps(objective.joint, found.end.x):
        return objective, found
    finer = objective.on(objective.joint.refined(_SHORTER))
    if _numbers(finer) == _numbers(objective):
        return objective, found
    return finer, found.continued(solve(finer, found.end.x))


def story(objective: Objective) -> str:
    """How many substeps were taken, and where they are not enough; empty where there is nothing to tell."""
    numbers, parts = sorted(set(_numbers(objective))), []
    open_ = [problem.substeps == "auto" for problem in objective.joint.problems]
    if any(open_) and numbers[-1] > 1:
        parts.append(f"{' to '.join(map(str, dict.fromkeys((numbers[0], numbers[-1]))))} steps in each interval")
    for i, run in enumerate(objective.joint.runs):
        if run.coarse and run.change < np.inf:
            parts.append(f"run {i}: half as long steps would change what is observed by {run.change:.2g} of its noise")
    return "; ".join(parts)


def _numbers(objective: Objective) -> list[int]:
    return [run.model.substeps for run in objective.joint.runs]


def without_weightless(objective: Objective, found: Outcome) -> tuple[Objective, Outcome]:
    """Go on from a search with the samples that have a weight; all others are missing."""
    at = objective.joint.linearise(found.end.x)
    present = [run.present & ~_weightless(run, here) for run, here in zip(objective.joint.runs, at, strict=True)]
    count = objective.joint.samples - sum(int(seen.sum()) for seen in present)
    if count == 0:
        return objective, found
    objective = objective.on(objective.joint.seeing(present))
    told = f"{count} samples without weight beside the others of their channel taken as missing"
    return objective, found.continued(solve(objective, found.end.x), told)


def _weightless(run: Run, at: Linearised) -> NDArray:
    """(n, k) which samples have no weight."""
    found = np.zeros(run.present.shape, bool)
    weight = np.where(run.present, np.asarray(run.samples.sigma, float)[: run.length] ** -2.0, 0.0)
    # Weights of one channel are compared: what another weighs is another thing.
    light = run.present & (weight <= _WEIGHT * weight.max(axis=0))
    if not light.any():
        return found
    leverage = run.first_order(at).leverage
    for c in np.flatnonzero(light.any(axis=0)):
        # From the lightest on, those of one sigma together.
        for limit in np.unique(weight[light[:, c], c])[::-1]:
            below = run.present[:, c] & (weight[:, c] <= limit)
            if weight[below, c].sum() <= _WEIGHT * weight[:, c].sum() and leverage[below, c].sum() <= _KNOWN:
                found[:, c] = below
                break
    return found


def with_estimated_noise(
    objective: Objective, found: Outcome, rough: bool = False
) -> tuple[Objective, Outcome, tuple[NDArray, ...]]:
    """Go on from a search with the noise that its residuals show; runs with as many channels have them in common.

    Args:
        objective, found: the search.
        rough: whether only what differs between neighbouring samples counts as noise (`noise.neighbourly`).

    Returns:
        The objective with the estimated noise, where it ends, and per run the factors (k,) from stated to estimated.
    """
    factors = [np.ones(run.present.shape[1]) for run in objective.joint.runs]
    stated = [np.asarray(run.samples.sigma, float)[: run.length] for run in objective.joint.runs]
    round_, settled = 0, False
    while round_ < _ROUNDS and not settled:
        scales, round_ = _scales(objective, found.end.x, rough), round_ + 1
        factors = [factor * scale for factor, scale in zip(factors, scales, strict=True)]
        objective = objective.replaced("sigma", [s * factor for s, factor in zip(stated, factors, strict=True)])
        found = found.continued(solve(objective, found.end.x), alone=True)
        settled = all(np.all(np.abs(scale - 1.0) <= _SETTLED) for scale in scales)
    told = f"noise of each channel estimated in {round_} round{'s' if round_ > 1 else ''}"
    return objective, found.continued(found.end, told + ("" if settled else ", not settled")), tuple(factors)


def _scales(objective: Objective, theta: NDArray, rough: bool) -> list[NDArray]:
    """Per run, (k,) how much larger the residuals of each channel are than stated."""
    residuals = [np.where(np.isfinite(at.r), at.r, np.nan) for at in objective.joint.linearise(theta)]
    roundings = [np.where(run.present, run.rounding, np.nan) for run in objective.joint.runs]
    spare = max(1.0 - objective.joint.size / objective.joint.samples, 1.0 / objective.joint.samples)

    def size(parts: list[NDArray], channels: int) -> NDArray:
        alike = np.concatenate([part for part in parts if part.shape[1] == channels])
        if rough:
            each = np.array([neighbourly(part) for part in parts if part.shape[1] == channels])
            return np.sqrt(np.mean(np.where(np.isfinite(each), each, 1.0) ** 2, axis=0))
        if objective.loss.robust:
            return 1.4826 * np.nanmedian(np.abs(alike), axis=0)
        return np.sqrt(np.nanmean(alike**2, axis=0) / spare)

    scales = []
    for run in objective.joint.runs:
        scale, rounding = (size(parts, run.present.shape[1]) for parts in (residuals, roundings))
        # A channel that is fitted to rounding, holds nothing but zeros, or has no sample, keeps its noise.
        scales.append(np.where((rounding > 0) & (scale > rounding), scale, 1.0))
    return scales
