r"""How certain a fit of some runs would be, and the noise of a run that is still to be made.

A run with Jacobian J (in units of its noise) and score covariance V = Cov(J^T noise) has parameters of its own, an
initial state say. With these projected out,

    A = J_s^T J_s - J_s^T J_o (J_o^T J_o)^+ J_o^T J_s,        S = X^T V X,    X = [I, -(J_o^T J_o)^+ J_o^T J_s]

is what it tells of the rest: A the curvature of its cost (Schur's complement), S the covariance of its score. Least
squares over several runs add both, and are off by

    C = (sum A)^-1 (sum S) (sum A)^-1

the error bars of a fit (`error_bars`). For white noise S = A, and C is the inverse of Fisher's information.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from diffcontact.identify.error_bars import error_bars, under_loss
from diffcontact.identify.estimate import Estimate
from diffcontact.identify.linearised import LinearisedFit
from diffcontact.identify.noise import Autoregression, correlated_score, grid, innovation_correlation

# Eigenvalues of a scaled J^T J below it are rounding: singular values below its root, as in `null_space`.
_NOTHING = 1e-13
_TAKES_PART = 1e-8

CRITERIA = ("D", "A", "one")


@dataclass(frozen=True, eq=False)
class Evidence:
    """What runs tell of the p parameters that they share.

    Attributes:
        curvature: (p, p) A above.
        score: (p, p) S above.
    """

    curvature: NDArray
    score: NDArray

    def __add__(self, other: Evidence) -> Evidence:
        return Evidence(self.curvature + other.curvature, self.score + other.score)

    def __mul__(self, runs: int) -> Evidence:
        """That of so many runs of the kind."""
        return Evidence(runs * self.curvature, runs * self.score)

    def scattered(self, scatter: NDArray) -> Evidence:
        """The same for a run whose parameters differ from the common ones with variances (p,)."""
        return Evidence(self.curvature, self.score + self.curvature @ np.diag(scatter) @ self.curvature)

    def covariance(self) -> NDArray:
        """(p, p) of the estimates; infinite on the diagonal, and zero beside it, of what is not determined.

        Example:
            >>> Evidence(np.diag([4.0, 0.0]), np.diag([4.0, 0.0])).covariance()
            array([[0.25, 0.  ],
                   [0.  ,  inf]])
        """
        inverse, unknown = _inverse(self.curvature)
        covariance = inverse @ self.score @ inverse
        covariance[unknown, :] = covariance[:, unknown] = 0.0
        covariance[unknown, unknown] = np.inf
        return covariance


def projected(curvature: NDArray, score: NDArray, shared: NDArray) -> Evidence:
    """What a run with curvature and score covariance (P, P) tells of the parameters that are shared, p of P marks.

    Example:
        >>> both = np.array([[2.0, 1.0], [1.0, 1.0]])
        >>> projected(both, both, np.array([True, False])).curvature.tolist()
        [[1.0]]
    """
    own = ~shared
    X = np.zeros((shared.size, int(shared.sum())))
    X[shared] = np.eye(X.shape[1])
    if own.any():
        X[own] = -_inverse(curvature[np.ix_(own, own)])[0] @ curvature[np.ix_(own, shared)]
    return Evidence(X.T @ curvature @ X, X.T @ score @ X)


def _inverse(matrix: NDArray) -> tuple[NDArray, NDArray]:
    """Pseudo-inverse of a positive semidefinite matrix, and (p,) True for what takes part in its null space."""
    size = np.sqrt(np.maximum(np.diag(matrix), 0.0))
    scale = np.divide(1.0, size, out=np.zeros_like(size), where=size > 0)
    values, vectors = np.linalg.eigh(matrix * np.outer(scale, scale))
    kept = values > _NOTHING * max(values.max(initial=0.0), np.finfo(float).tiny)
    inverse = (vectors[:, kept] / values[kept]) @ vectors[:, kept].T * np.outer(scale, scale)
    return inverse, np.sum(vectors[:, ~kept] ** 2, axis=1) > _TAKES_PART


def criterion_value(covariance: NDArray, criterion: str, scales: NDArray) -> float:
    """What a design makes small, of the covariance (t, t) of what is sought; infinite where some of it is unknown.

    "D": log det C / t, the volume of the region of confidence; "A": log of the mean variance, each in units of its
    scale; "one": log of the variance of the one that is sought.

    Args:
        covariance: of what is sought.
        criterion: one of `CRITERIA`.
        scales: (t,) for "A".
    """
    if not np.all(np.isfinite(covariance)):
        return np.inf
    if criterion == "D":
        sign, logarithm = np.linalg.slogdet(covariance)
        return float(logarithm / len(covariance)) if sign > 0 else -np.inf
    return float(np.log(np.mean(np.diag(covariance) / scales**2)))


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
    at = under_loss(objective.first_order(), objective.loss)
    found = at[run].noise
    times = np.asarray(objective.joint.runs[run].samples.times, float)[: at[run].r.shape[0]]
    keep, bars = _known(result), None
    # Fewer runs are not compared.
    if keep.any() and len(at) > 2:
        bars = error_bars(LinearisedFit.of(at, objective.priors.information(objective.parameters.start), keep))
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
