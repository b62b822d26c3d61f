"""The same fit on many sets of data: simulation studies, and the parametric bootstrap.

Nothing is compiled for a replica: only the measured values differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from diffcontact.arguments import is_count
from diffcontact.identify.covariance.autoregression import Autoregression
from diffcontact.identify.covariance.run_noise import run_noise
from diffcontact.identify.estimate import estimate
from diffcontact.identify.result import FitResult, resumed
from diffcontact.identify.search.levenberg_marquardt import descend
from diffcontact.identify.search.shooting import Outcome
from diffcontact.identify.search.trust_region import solve
from diffcontact.progress import stage

_ITERATIONS = 30
_TOLERANCE = 1e-6


def fit_replicas(result: FitResult, values: Sequence[NDArray], prior_means: NDArray | None = None) -> list[FitResult]:
    """Fit every replica as the result was fitted, from its estimate, error bars included.

    Runs, free parameters, loss, priors and noise (as estimated, if it was) are those of the result. Only what was
    measured differs.

    Args:
        result: what `fit` returned.
        values: per run, what each of the N replicas measured (N, n, k); missing samples are those of the original.
            Measured times of impacts are one more channel, the last.
        prior_means: (N, m) what each replica knows besides, in the order of the m elements that have a prior; None: the
            same as the original.

    Returns:
        N results; their `problems` are those of the original.

    Raises:
        ValueError: a shape that does not fit; a result that was read from a file, or did not converge.
    """
    objective = resumed(result, "fit_replicas")
    shapes = [run.present.shape for run in objective.joint.runs]
    counts = {len(value) for value in values}
    if [np.shape(value)[1:] for value in values] != shapes or len(counts) != 1:
        raise ValueError(
            f"fit_replicas(values): {[np.shape(v) for v in values]}, expected (N, n, k), (n, k) = {shapes}"
        )
    parameters, (count,) = objective.parameters, counts
    means = np.tile(objective.priors.mean, (count, 1)) if prior_means is None else np.asarray(prior_means, float)
    if means.shape != (count, objective.priors.count):
        raise ValueError(
            f"fit_replicas(prior_means): shape {means.shape}, expected (N, m) = {(count, objective.priors.count)}"
        )
    priors = [objective.priors.around(mean) for mean in means]
    whole = np.ones(count)

    def evaluate(theta, lanes):
        chosen = [priors[lane] for lane in lanes]
        return objective.normal_equations(theta, whole[lanes], [value[lanes] for value in values], chosen)

    with stage(f"{count} replicas together"):
        ends = descend(
            evaluate,
            np.tile(parameters.start, (count, 1)),
            parameters.low,
            parameters.high,
            iterations=_ITERATIONS,
            tolerance=_TOLERANCE,
        )
    results = []
    with stage("replicas one by one", total=count) as at:
        for lane, theta in enumerate(ends.theta):
            replica = objective.replaced("values", [value[lane] for value in values]).under(priors[lane])
            end = solve(replica, theta)
            results.append(estimate(replica, Outcome(end, (float(end.cost),), "")))
            at(lane + 1)
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
        unconverged: how many replicas did not converge; their last values are among the estimates.
    """

    names: tuple[str, ...]
    estimates: NDArray
    stderr: NDArray
    interval95: NDArray
    bias: NDArray
    unconverged: int


def bootstrap(result: FitResult, replicas: int = 200, seed: int = 0) -> Bootstrap:
    """Parametric bootstrap: simulate at the estimate, add noise like the residuals, fit again, many times.

    The noise of each channel is an autoregressive process with the residuals' correlation in time. A prior is a
    measurement too: its mean is drawn anew around the estimate. What differs from run to run is not in it, nor that
    noise may be larger in the samples that matter; there the intervals of the fit are wider, and it is they that hold.

    Args:
        result: what `fit` returned, with loss "linear"; runs, priors and noise are those of the fit.
        replicas: how many, at least 2.
        seed: of the noise.

    Raises:
        ValueError: too few replicas; a robust loss, whose outliers are not normal noise; a direction that the data
            cannot see. A fit that did not converge; a result that was read from a file.
    """
    if not is_count(replicas, 2):
        raise ValueError(f"bootstrap(replicas): {replicas!r}, expected an integer of at least 2")
    objective = resumed(result, "bootstrap", all_seen=True)
    if objective.loss.robust:
        raise ValueError(
            f"bootstrap(result): loss {objective.loss.name!r} is for outliers, which the normal noise of the replicas "
            "would not have; expected 'linear'"
        )
    rng = np.random.default_rng(seed)
    values, theta = [], objective.parameters.start
    for run, here in zip(objective.joint.runs, objective.joint.linearise(theta), strict=True):
        sigma, measured = (np.asarray(part, float)[: run.length] for part in (run.samples.sigma, run.samples.values))
        simulated = measured - sigma * np.where(run.present, here.r, 0.0)
        noise = np.stack(
            [_noise(rng, model, run.length, replicas) for model in run_noise(here.r, here.J).models], axis=-1
        )
        values.append(simulated + sigma * noise)
    priors = objective.priors
    means = objective.parameters.values(theta)[priors.index] + priors.sigma * rng.normal(size=(replicas, priors.count))
    fits = fit_replicas(result, values, means)
    estimates = np.stack([fitted.estimate for fitted in fits])
    return Bootstrap(
        names=result.names,
        estimates=estimates,
        stderr=estimates.std(axis=0, ddof=1),
        interval95=np.percentile(estimates, [2.5, 97.5], axis=0).T,
        bias=np.median(estimates, axis=0) - result.estimate,
        unconverged=sum(not fitted.converged for fitted in fits),
    )


def _noise(rng: np.random.Generator, model: Autoregression, n: int, replicas: int) -> NDArray:
    """(replicas, n) samples of an autoregressive process."""
    from scipy.signal import lfilter  # takes almost a second to import, and few fits need it

    # The process forgets its beginning within so many samples, or within the record's length if it remembers longer.
    warm = n + 200
    white = model.sigma * rng.normal(size=(replicas, warm + n))
    return np.asarray(lfilter([1.0], model.polynomial, white, axis=1))[:, warm:]
