"""Fits that are to tell how runs differ: whether every one of them is of a recording of its own.

The same numbers are the same recording. So are others that leave the same noise: a recording that was cut, thinned,
rounded, or put into other units; `verdict.duplicate_runs` has the test, which a fit of several runs applies to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from diffcontact.identify.error_bars import RunResidual
from diffcontact.identify.problem.rounding import are_rounding
from diffcontact.identify.result import FitResult
from diffcontact.identify.verdict.duplicate_runs import LEVEL, Seen, one_recording
from diffcontact.identify.verdict.evidence import RunEvidence

# Residuals so far below the noise that was stated are no noise.
_NONE = 1e-6
# Curves that the parameters of a fit may have taken from its residuals, where nothing says which: up to parabolas.
_DEGREE = 2


def one_recording_twice(fits: Sequence[FitResult]) -> tuple[int, int] | None:
    """The first two of some fits of single runs, also read from files, that are of one recording, whole or in part."""
    pairs = list(combinations(range(len(fits)), 2))
    seen = [_seen(fitted) for fitted in fits]
    for i, j in pairs:
        if _same_numbers(fits[i], fits[j]) or _same_noise(seen[i], seen[j], LEVEL / (len(pairs) + 1)):
            return i, j
    return None


def _same_numbers(one: FitResult, other: FitResult) -> bool:
    return bool(set(one.recordings) & set(other.recordings) - {""})


def _same_noise(one: Seen, other: Seen, level: float) -> bool:
    return one_recording(one, other, level, float(np.finfo(float).eps))


def _seen(fitted: FitResult) -> Seen:
    """The run of a fit as far as its residuals tell, in units of the noise that was stated."""
    (r,), (trajectory,) = fitted.residuals, fitted.trajectories
    r = np.where(np.isfinite(r), r, np.nan)
    times, tracks = np.asarray(trajectory.t, float)[: len(r)], r.shape[1]
    if fitted.objective is None:
        J, rounding = _curves(times, tracks), bool(np.nanmax(np.abs(r), initial=0.0) < _NONE)
    else:
        (run,), theta = fitted.objective.joint.runs, fitted.objective.parameters.start
        (at,) = fitted.objective.joint.linearise(theta)
        J, tracks = np.where(np.isfinite(at.J), at.J, 0.0), tracks - bool(run.model.impacts)
        rounding = are_rounding(np.where(run.present, r, 0.0), run.rounding)
    J = np.where(np.isnan(r)[:, :, None], 0.0, J)
    index = np.arange(J.shape[-1])
    struck, own = np.zeros(len(r), bool), np.ones(index.size, bool)
    evidence = RunEvidence(RunResidual(r, J, index), times, struck, tracks, own, rounding)
    factors = np.ravel(fitted.noise_factors[0]) if fitted.noise_factors else np.ones(r.shape[1])
    return evidence, (r * factors)[:, :tracks], np.ones((len(r), tracks))


def _curves(times: NDArray, channels: int) -> NDArray:
    """(n, k, 3 k) parabolas in every channel, in place of the derivatives by parameters that a file does not hold."""
    since = (times - times[0]) / max(float(np.ptp(times)), np.finfo(float).tiny)
    powers = since[:, None] ** np.arange(_DEGREE + 1)
    return np.einsum("np,kl->nklp", powers, np.eye(channels)).reshape(len(times), channels, -1)
