"""The same fit on many sets of data: simulation studies, and the parametric bootstrap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from diffcontact.arguments import is_count
from diffcontact.host.progress import stage
from diffcontact.identify.estimate import missed, not_near, resumed
from diffcontact.identify.noise import Autoregression, run_noise
from diffcontact.identify.result import FitResult, estimate
from diffcontact.identify.search import Outcome, explored, solve
from diffcontact.identify.verdict.reasons import Verdict
from diffcontact.report.content import sampled_table, within
from diffcontact.status import Status

_TOLERANCE, _STEPS = 1e-6, 30
# A refit lies astray that is so many times as far from their median as half of them: of normal numbers two in 10^9 are.
# Of fewer refits than these half is too few to tell.
_ASTRAY, _SEVERAL = 9.0, 10
# Where more than this part of the refits end at a bound their scatter says nothing.
_PILED = 0.25
# The standard deviation of 40 refits is off by a third at most.
_WIDER = 1.5


def fit_replicas(result: FitResult, values: Sequence[NDArray], prior_means: NDArray | None = None) -> list[FitResult]:
    """Fit replicas of the data from the estimate, with error bars.

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
    results = []
    with stage(f"{count} replicas", total=count) as at:
        for number, mean in enumerate(means):
            each = [value[number] for value in values]
            replica = objective.replaced("values", each, objective.priors.around(mean))
            # First past the kinks that an impact leaves where it crosses a sample.
            end = solve(replica, explored(replica, parameters.start, _TOLERANCE, _STEPS))
            results.append(estimate(replica, Outcome.of(end)))
            at(number + 1)
    return results


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """Estimates from replicas of the data with other noise.

    Printed it begins with the verdict of the fit and ends with what speaks against the intervals.

    Attributes:
        names: (P,) as in the fit.
        estimates: (N, P) of the replicas.
        stderr: (P,) their standard deviation.
        interval95: (P, 2) their percentiles 2.5 and 97.5.
        bias: (P,) their median minus the estimate that they were made from.
        unconverged: how many replicas did not converge; their last values are among the estimates.
        verdict: whether the model explains the data, by the fit; where it does not, replicas that it made are of no
            use. None if nobody knows.
        scope: what the intervals are called: what differs between runs is never in them.
        at_bound: name -> how many replicas ended at a bound of it.
        unseen: how many replicas do not determine all parameters.
        missed: other minima of the fit that no replica is near, each a dict name -> value as in
            `FitResult.elsewhere`.
        wider: names of the elements whose standard error is much larger by the fit.
        failure: what is wrong with the simulation of some of the replicas; empty if nothing.
    """

    names: tuple[str, ...]
    estimates: NDArray
    stderr: NDArray
    interval95: NDArray
    bias: NDArray
    unconverged: int
    verdict: Verdict | None = None
    scope: str = within(1)
    at_bound: Mapping[str, int] = field(default_factory=dict)
    unseen: int = 0
    missed: tuple[dict[str, float], ...] = ()
    wider: tuple[str, ...] = ()
    failure: str = ""

    @property
    def astray(self) -> int:
        """How many replicas ended far from the others, as in another minimum."""
        count = len(self.estimates)
        spread = [self.at_bound.get(name, 0) <= _PILED * count for name in self.names]
        off = np.abs(self.estimates - np.median(self.estimates, axis=0))[:, spread]
        return int(np.any(off > _ASTRAY * np.median(off, axis=0), axis=1).sum()) if count >= _SEVERAL else 0

    @property
    def doubts(self) -> tuple[str, ...]:
        """What speaks against the intervals, in sentences; the verdict speaks of the model."""
        of, found = f"of {len(self.estimates)} replicas", []
        if self.unconverged:
            found.append(f"{self.unconverged} {of} did not converge: their last values are among the estimates")
        if self.unseen:
            found.append(f"{self.unseen} {of} do not determine all parameters: their values mean little")
        if self.astray:
            found.append(
                f"{self.astray} {of} ended far from the others, as in another minimum: a standard error says little; "
                "look at `estimates`, and compare with `profile`"
            )
        if self.missed:
            found.append(not_near("replica", self.missed))
        if self.wider:
            found.append(
                f"the fit's standard error is more than {_WIDER:g} times as large: {', '.join(self.wider)}; it knows "
                "of noise that these replicas do not have, and its intervals hold"
            )
        if self.failure:
            found.append(f"the simulation cannot be trusted in some of the replicas: {self.failure}")
        return tuple(found)

    def __str__(self) -> str:
        count = len(self.estimates)
        notes = [f"{self.at_bound[name]} of {count} at a bound" if name in self.at_bound else "" for name in self.names]
        values = np.median(self.estimates, axis=0) - self.bias
        return sampled_table(self, values, notes, [f"percentiles of {count} replicas"])


def bootstrap(result: FitResult, replicas: int = 200, seed: int = 0) -> Bootstrap:
    """Compute intervals by parametric bootstrap: simulate, add noise, fit again.

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
        simulated = run.values - run.sigma * np.where(run.present, here.r, 0.0)
        models = run_noise(here.r, here.J).models
        noise = np.stack([_noise(rng, model, run.length, replicas) for model in models], axis=-1)
        values.append(simulated + run.sigma * noise)
    priors = objective.priors
    means = objective.parameters.values(theta)[priors.index] + priors.sigma * rng.normal(size=(replicas, priors.count))
    fits = fit_replicas(result, values, means)
    estimates = np.stack([fitted.estimate for fitted in fits])
    stderr = estimates.std(axis=0, ddof=1)
    arrived = {name: sum(name in fitted.at_bound for fitted in fits) for name in result.names}
    wider = np.sqrt(np.diag(result.covariance)) > _WIDER * stderr
    ends = (Status(int(trajectory.status)) for fitted in fits for trajectory in fitted.trajectories)
    return Bootstrap(
        names=result.names,
        estimates=estimates,
        stderr=stderr,
        interval95=np.percentile(estimates, [2.5, 97.5], axis=0).T,
        bias=np.median(estimates, axis=0) - result.estimate,
        unconverged=sum(not fitted.converged for fitted in fits),
        verdict=result.verdict,
        scope=within(len(result.residuals)),
        at_bound={name: times for name, times in arrived.items() if times},
        unseen=sum(bool(fitted.unidentifiable) for fitted in fits),
        missed=missed(result, estimates),
        wider=tuple(name for name, is_wider in zip(result.names, wider, strict=True) if is_wider and not arrived[name]),
        failure=next((status.message for status in ends if status), ""),
    )


def _noise(rng: np.random.Generator, model: Autoregression, n: int, replicas: int) -> NDArray:
    """(replicas, n) samples of an autoregressive process."""
    from scipy.signal import lfilter  # takes almost a second to import, and few fits need it

    # The process forgets its beginning within so many samples, or within the record's length if it remembers longer.
    warm = n + 200
    white = model.sigma * rng.normal(size=(replicas, warm + n))
    return np.asarray(lfilter([1.0], model.polynomial, white, axis=1))[:, warm:]
