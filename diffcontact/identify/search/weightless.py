r"""Samples whose noise is stated so large that they do not count, taken as missing.

With h_t = q_t^T q_t the leverage of a sample, Q an orthonormal basis of a run's J in units of the noise, samples of a
channel are without weight if together they hold next to nothing of

    sum_t 1 / sigma_t^2    what the channel's mean would be worth,
    sum_t h_t              what its run knows of any combination of parameters.

They leave the estimate where it is. In the scatter of the residuals, from which error bars come, and in whatever else
counts samples, they would count like all others, and as quieter than any noise where their sigma says that they are to
be left out and not how well they were measured.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from diffcontact.identify.least_squares import orthonormal
from diffcontact.identify.problem.objective import Objective
from diffcontact.identify.problem.run import Linearised, Run
from diffcontact.identify.search.shooting import Outcome
from diffcontact.identify.search.trust_region import solve

# Of a channel's weight: ten samples in eleven of a hundred times the noise of the others are left out by it.
_WEIGHT = 1e-3
# Of what is known of a combination of parameters: by half of that its standard error grows.
_KNOWN = 1e-2


def without_weightless(objective: Objective, found: Outcome) -> tuple[Objective, Outcome]:
    """Go on from a search with the samples that have a weight; all others are missing."""
    at = objective.joint.linearise(found.end.x)
    present = [run.present & ~_weightless(run, here) for run, here in zip(objective.joint.runs, at, strict=True)]
    count = objective.joint.samples - sum(int(seen.sum()) for seen in present)
    if count == 0:
        return objective, found
    objective = objective.seeing(present)
    end = solve(objective, found.end.x)
    told = f"{count} samples without weight beside the others of their channel taken as missing"
    story = "; ".join(filter(None, (found.story, told)))
    return objective, replace(found, end=end, costs=(float(end.cost), *found.costs[1:]), story=story)


def _weightless(run: Run, at: Linearised) -> NDArray:
    """(n, k) which samples have no weight."""
    found = np.zeros(run.present.shape, bool)
    sigma = np.asarray(run.samples.sigma, float)[: run.length]
    weight = np.where(run.present, sigma**-2.0, 0.0)
    # Weights of one channel are compared: what another weighs is another thing.
    light = run.present & (weight <= _WEIGHT * weight.max(axis=0))
    if not light.any():
        return found
    leverage = np.zeros(run.present.shape)
    J = np.where(np.isfinite(at.J), at.J, 0.0)[run.present]
    leverage[run.present] = np.sum(orthonormal(J) ** 2, axis=1)
    for c in np.flatnonzero(light.any(axis=0)):
        # From the lightest on, those of one sigma together.
        least, size = np.unique(weight[light[:, c], c]), weight[:, c].sum()
        for limit in least[::-1]:
            below = run.present[:, c] & (weight[:, c] <= limit)
            if weight[below, c].sum() <= _WEIGHT * size and leverage[below, c].sum() <= _KNOWN:
                found[:, c] = below
                break
    return found
