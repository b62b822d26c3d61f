"""Fits that are to tell how runs differ: whether every one of them is of a recording of its own.

The same numbers are the same recording. So are others that leave the same noise: a recording that was cut, thinned,
rounded, or put into other units; `verdict.between_runs` has the test, which a fit of several runs applies to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from diffcontact.identify.linearised import LinearisedRun
from diffcontact.identify.result import FitResult
from diffcontact.identify.verdict.between_runs import duplicate_runs

# Residuals so far below the noise that was stated are no noise.
_NONE = 1e-6
# Curves that the parameters of a fit may have taken from its residuals, where nothing says which: up to parabolas.
_DEGREE = 2


def one_recording_twice(fits: Sequence[FitResult]) -> tuple[int, int] | None:
    """The first two of some fits of single runs, also read from files, that are of one recording, whole or in part."""
    pairs = combinations(range(len(fits)), 2)
    same = {pair for pair in pairs if set.intersection(*(set(fits[i].recordings) for i in pair)) - {""}}
    return min(same | set(duplicate_runs([_seen(fitted) for fitted in fits])), default=None)


def _seen(fitted: FitResult) -> LinearisedRun:
    """The run of a fit as far as its residuals tell, in units of the noise that was stated."""
    factors = np.ravel(fitted.noise_factors[0]) if fitted.noise_factors else np.ones(fitted.residuals[0].shape[1])
    if fitted.objective is not None:
        (run,) = fitted.objective.first_order()
        return replace(run, sigma=np.broadcast_to(factors, run.r.shape))
    (r,), (trajectory,) = fitted.residuals, fitted.trajectories
    r = np.where(np.isfinite(r), r, np.nan)
    times, sigma = np.asarray(trajectory.t, float)[: len(r)], np.broadcast_to(factors, r.shape)
    # Parabolas in every channel, in place of the derivatives by parameters that a file does not hold.
    since = (times - times[0]) / max(float(np.ptp(times)), np.finfo(float).tiny)
    powers = since[:, None] ** np.arange(_DEGREE + 1)
    J = np.einsum("np,kl->nklp", powers, np.eye(r.shape[1])).reshape(*r.shape, -1)
    J = np.where(np.isnan(r)[:, :, None], 0.0, J)
    exact = bool(np.nanmax(np.abs(r), initial=0.0) < _NONE)
    return LinearisedRun(r, J, np.arange(J.shape[-1]), times, np.zeros(len(r), bool), sigma, r.shape[1], exact)
