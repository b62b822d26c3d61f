"""The noise of a run that is still to be made: as it is stated, or as a fit found it in runs of the same kind."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from diffcontact.identify.error_bars import error_bars, run_residuals
from diffcontact.identify.estimate import Estimate
from diffcontact.identify.experiment.fisher import Evidence, projected
from diffcontact.identify.noise import Autoregression, correlated_score, grid, innovation_correlation, run_noise

# Sampling that differs by less is the same.
_SAME = 1e-3


@dataclass(frozen=True, eq=False)
class Noise:
    """A model per channel in units of the stated noise; without any, independent samples as noisy as stated.

    Attributes:
        models: one per channel, of samples `spacing` apart.
        correlation: (k, k) of the channels' innovations.
        spacing: [s].
        scatter: (P,) variances of theta from run to run.
    """

    models: tuple[Autoregression, ...]
    correlation: NDArray
    spacing: float
    scatter: NDArray

    def score(self, J: NDArray, spacing: float) -> NDArray:
        """Covariance (P, P) of J^T noise, J (n, k, P) zero where nothing is measured, samples `spacing` apart.

        Noise that was correlated in time is as correlated at another frame rate: its autocovariance, straight between
        the lags at which it is known. Noise that was white is white at any.
        """
        if not self.models:
            return np.einsum("nkp,nkq->pq", J, J)
        ratio = spacing / self.spacing
        spectra = [_spectrum(model, J.shape[0], 1.0 if abs(ratio - 1) < _SAME else ratio) for model in self.models]
        return correlated_score(spectra, self.correlation, J)


def _spectrum(model: Autoregression, n: int, ratio: float) -> NDArray:
    """Spectrum on the grid of n samples, `ratio` times as far apart as those of the model."""
    L = grid(n)
    if ratio == 1.0 or model.order == 0:
        return model.spectrum(L)
    reach = int(np.ceil(ratio * L / 2)) + 1
    gamma = model.autocovariance(max(reach, n))
    known = np.arange(0, gamma.size, model.every)
    # Straight lines between the lags of an autocovariance are one again.
    half = np.interp(ratio * np.arange(L // 2 + 1), known, gamma[known], right=0.0)
    return np.maximum(np.fft.rfft(np.concatenate([half, half[-2:0:-1]])).real, 0.0)


def stated(channels: int, P: int) -> Noise:
    """Independent samples as noisy as stated."""
    return Noise((), np.eye(channels), 1.0, np.zeros(P))


def as_found(result: Estimate, run: int, names: tuple[str, ...]) -> Noise:
    """The noise that a fit found in one of its runs, and how its runs scatter, from three runs on.

    Args:
        result: with its objective.
        run: which.
        names: of the elements of theta of a single run, for the scatter.
    """
    objective = result.objective
    assert objective is not None
    at = run_residuals(objective, objective.joint.linearise(objective.parameters.start))
    found = run_noise(at[run].r, at[run].J)
    times = np.asarray(objective.joint.runs[run].samples.times, float)[: at[run].r.shape[0]]
    keep, bars = _known(result), None
    # Fewer runs are not compared.
    if keep.any() and len(at) > 2:
        prior = objective.priors.information(objective.parameters.start)[keep]
        bars = error_bars([one.restricted(keep) for one in at], int(keep.sum()), prior)
    scatter = np.zeros(len(names))
    for name, variance in zip(
        np.array(result.names)[keep], [] if bars is None else bars.scatter, strict=bars is not None
    ):
        if name in names:
            scatter[names.index(str(name))] = variance
    rho = innovation_correlation(found.models, at[run].r)
    return Noise(tuple(found.models), rho, float(np.median(np.diff(times))), scatter)


def evidence_of(result: Estimate, names: tuple[str, ...]) -> Evidence:
    """What a fit knows of the parameters (p,) by these names that its runs share, as precise as its own error bars.

    Args:
        result: with its objective.
        names: of the parameters that another run would share with it.
    """
    objective = result.objective
    assert objective is not None
    theta = objective.parameters.start
    keep = _known(result) & np.array([name in names for name in result.names])
    J = objective.evaluate(theta)[1][:, _known(result)]
    shared = keep[_known(result)]
    curvature = projected(J.T @ J, J.T @ J, shared).curvature
    slopes = objective.parameters.slopes(theta)[keep]
    covariance = result.covariance[np.ix_(keep, keep)] / np.outer(slopes, slopes)
    at = np.array([names.index(name) for name, here in zip(result.names, keep, strict=True) if here], int)
    p = len(names)
    whole = Evidence(np.zeros((p, p)), np.zeros((p, p)))
    whole.curvature[np.ix_(at, at)] = curvature
    whole.score[np.ix_(at, at)] = curvature @ covariance @ curvature
    return whole


def _known(result: Estimate) -> NDArray:
    """(P,) the parameters that have a finite error and are not at a bound."""
    return np.isfinite(np.diag(result.covariance)) & ~np.isin(result.names, result.at_bound)
