"""The same fit on many sets of data: simulation studies, and the parametric bootstrap.

Nothing is compiled for a replica: only the measured values differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from diffcontact.identify.autocorrelation import Autoregression
from diffcontact.identify.estimate import estimate
from diffcontact.identify.lanes import descend
from diffcontact.identify.objective import Objective
from diffcontact.identify.result import FitResult
from diffcontact.identify.run_noise import run_noise
from diffcontact.identify.shooting import Search

_ITERATIONS = 30
_TOLERANCE = 1e-6


def fit_replicas(objective: Objective, values: Sequence[NDArray]) -> list[FitResult]:
    """Fit every replica from the objective's start, error bars included.

    Args:
        objective: what is minimised (`prepare`).
        values: per run, what each of the N replicas measured (N, n, k); missing samples are those of the original.

    Returns:
        N results.

    Raises:
        ValueError: a shape that does not fit.
    """
    shapes = [run.present.shape for run in objective.joint.runs]
    counts = {len(value) for value in values}
    if [np.shape(value)[1:] for value in values] != shapes or len(counts) != 1:
        raise ValueError(
            f"fit_replicas(values): {[np.shape(v) for v in values]}, expected (N, n, k), (n, k) = {shapes}"
        )
    parameters, (count,) = objective.parameters, counts
    whole = np.ones(count)
    ends = descend(
        lambda theta, lanes: objective.normal_equations(theta, whole[lanes], [value[lanes] for value in values]),
        np.tile(parameters.start, (count, 1)),
        parameters.low,
        parameters.high,
        iterations=_ITERATIONS,
        tolerance=_TOLERANCE,
    )
    results = []
    for lane, theta in enumerate(ends.theta):
        replica = objective.replaced("values", [value[lane] for value in values])
        end = replica.solve(theta)
        results.append(estimate(replica, Search(end, (float(end.cost),), "")))
    return results


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """What the estimate would have been, had the noise been another.

    Attributes:
        names: (P,) as in the fit.
        estimates: (N, P) of the replicas.
        stderr: (P,) their standard deviation.
        interval95: (P, 2) their percentiles 2.5 and 97.5.
        bias: (P,) their median minus the estimate that they were made from.
    """

    names: tuple[str, ...]
    estimates: NDArray
    stderr: NDArray
    interval95: NDArray
    bias: NDArray


def bootstrap(objective: Objective, result: FitResult, replicas: int = 200, seed: int = 0) -> Bootstrap:
    """Parametric bootstrap: simulate at the estimate, add noise like the residuals, fit again, many times.

    The noise of each channel is an autoregressive process with the residuals' correlation in time.

    Args:
        objective: that of the fit, started at its estimate (`prepare`).
        result: the fit.
        replicas: how many.
        seed: of the noise.
    """
    rng = np.random.default_rng(seed)
    values = []
    at = objective.joint.linearise(objective.parameters.start)
    for run, here in zip(objective.joint.runs, at, strict=True):
        sigma, measured = (np.asarray(part, float)[: run.length] for part in (run.samples.sigma, run.samples.values))
        simulated = measured - sigma * np.where(run.present, here.r, 0.0)
        noise = np.stack(
            [_noise(rng, model, run.length, replicas) for model in run_noise(here.r, here.J).models], axis=-1
        )
        values.append(simulated + sigma * noise)
    fits = fit_replicas(objective, values)
    estimates = np.stack([flat(objective, fitted.params) for fitted in fits])
    return Bootstrap(
        names=result.names,
        estimates=estimates,
        stderr=estimates.std(axis=0, ddof=1),
        interval95=np.percentile(estimates, [2.5, 97.5], axis=0).T,
        bias=np.median(estimates, axis=0) - flat(objective, result.params),
    )


def flat(objective: Objective, params: dict[str, Any]) -> NDArray:
    """(P,) the free parameters of a dictionary, in the order of the names."""
    return np.concatenate([np.ravel(np.asarray(params[block.name], float)) for block in objective.parameters.view])


def _noise(rng: np.random.Generator, model: Autoregression, n: int, replicas: int) -> NDArray:
    """(replicas, n) noise of a model."""
    # The process forgets its beginning within so many samples, or within the record's length if it remembers longer.
    warm = n + 200
    white = model.sigma * rng.normal(size=(replicas, warm + n))
    return np.asarray(lfilter([1.0], model.polynomial, white, axis=1))[:, warm:]
