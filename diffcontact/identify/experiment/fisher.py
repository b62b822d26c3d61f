"""How certain a fit of some runs would be, and the noise of a run that is still to be made.

A run with Jacobian J (in noise) and score covariance V = Cov(J^T noise), its own parameters projected out, tells

    A = J_s^T J_s - J_s^T J_o (J_o^T J_o)^+ J_o^T J_s,        S = X^T V X,    X = [I, -(J_o^T J_o)^+ J_o^T J_s]

A is the curvature of its cost (Schur's complement), S the covariance of its score. Least squares over several runs add
both, and have the covariance C = (sum A)^-1 (sum S) (sum A)^-1 (`error_bars`). For white noise S = A.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from diffcontact.identify.error_bars import error_bars, under_loss
from diffcontact.identify.estimate import Estimate
from diffcontact.identify.linearised import LinearisedFit
from diffcontact.identify.noise import Autoregression, correlated_score, grid, innovation_correlation
from diffcontact.identify.objective import Objective
from diffcontact.identify.verdict.reasons import RUNS_TO_COMPARE, SLIGHT, Words
from diffcontact.numerics.least_squares import inverse

# Eigenvalues of a scaled J^T J below it are rounding: singular values below its root, as in `null_space`.
_NOTHING = 1e-13
_TAKES_PART = 1e-8

# More of something.
_MORE = 0.1

CRITERIA = ("D", "A", "one")


@dataclass(frozen=True, eq=False)
class Evidence:
    """What runs tell of the p parameters that they share: curvature A and score S (p, p), as above."""

    curvature: NDArray
    score: NDArray

    def __add__(self, other: Evidence) -> Evidence:
        return Evidence(self.curvature + other.curvature, self.score + other.score)

    def __mul__(self, runs: float) -> Evidence:
        return Evidence(runs * self.curvature, runs * self.score)

    def scattered(self, scatter: NDArray) -> Evidence:
        """The same for a run whose parameters differ from the common ones with variances (p,)."""
        return Evidence(self.curvature, self.score + (self.curvature * scatter) @ self.curvature)

    def of(self, shared: NDArray) -> Evidence:
        """What is told of the parameters that are `shared`, p of P marks, the others projected out.

        Example:
            >>> both = np.array([[2.0, 1.0], [1.0, 1.0]])
            >>> Evidence(both, both).of(np.array([True, False])).curvature.tolist()
            [[1.0]]
        """
        A, own = self.curvature, ~shared
        X = np.zeros((shared.size, int(shared.sum())))
        X[shared] = np.eye(X.shape[1])
        if own.any():
            X[own] = -inverse(A[np.ix_(own, own)], _NOTHING) @ A[np.ix_(own, shared)]
        return Evidence(X.T @ A @ X, X.T @ self.score @ X)

    def covariance(self) -> NDArray:
        """(p, p) of the estimates; infinite on the diagonal, and zero beside it, of what is not determined.

        Example:
            >>> Evidence(np.diag([4.0, 0.0]), np.diag([4.0, 0.0])).covariance()
            array([[0.25, 0.  ],
                   [0.  ,  inf]])
        """
        back = inverse(self.curvature, _NOTHING)
        unknown = 1.0 - np.diag(back @ self.curvature) > _TAKES_PART
        covariance = back @ self.score @ back
        covariance[unknown, :] = covariance[:, unknown] = 0.0
        covariance[unknown, unknown] = np.inf
        return covariance


def criterion_value(covariance: NDArray, criterion: str, scales: NDArray) -> float:
    """What a design makes small, of the covariance (t, t) of what is sought; infinite where some of it is unknown."""
    if not np.all(np.isfinite(covariance)):
        return np.inf
    if criterion == "D":
        sign, logarithm = np.linalg.slogdet(covariance)
        return float(logarithm / len(covariance)) if sign > 0 else -np.inf
    return float(np.log(np.mean(np.diag(covariance) / scales**2)))


@dataclass(frozen=True, eq=False)
class Noise:
    """A model per channel in units of the stated noise; without any, independent samples as noisy as stated."""

    models: tuple[Autoregression, ...]  # one per channel, of samples `spacing` apart
    correlation: NDArray  # (k, k) of the channels' innovations
    spacing: float  # [s]
    scatter: NDArray  # (P,) variances of theta from run to run

    def score(self, J: NDArray, spacing: float) -> NDArray:
        """Covariance (P, P) of J^T noise, J (n, k, P) zero where nothing is measured, samples `spacing` apart."""
        if not self.models:
            return np.einsum("nkp,nkq->pq", J, J)
        ratio = spacing / self.spacing
        spectra = [_spectrum(model, J.shape[0], 1.0 if abs(ratio - 1) < SLIGHT else ratio) for model in self.models]
        return correlated_score(spectra, self.correlation, J)


def _spectrum(model: Autoregression, n: int, ratio: float) -> NDArray:
    """Spectrum on the grid of n samples, `ratio` times as far apart as those of the model."""
    L = grid(n)
    if ratio == 1.0 or model.order == 0:
        return model.spectrum(L)
    gamma = model.autocovariance(max(int(np.ceil(ratio * L / 2)) + 1, n))
    known = np.arange(0, gamma.size, model.every)
    # Straight lines between the lags of an autocovariance are one again.
    half = np.interp(ratio * np.arange(L // 2 + 1), known, gamma[known], right=0.0)
    return np.maximum(np.fft.rfft(np.concatenate([half, half[-2:0:-1]])).real, 0.0)


def as_found(result: Estimate, run: int, names: tuple[str, ...]) -> Noise:
    """The noise that a fit found in one of its runs, and how the elements `names` scatter from run to run."""
    objective = _objective(result)
    at = under_loss(objective.first_order(), objective.loss)
    keep, scatter = result.determined, dict.fromkeys(names, 0.0)
    if keep.any() and len(at) >= RUNS_TO_COMPARE:
        bars = error_bars(LinearisedFit.of(at, objective.priors.information(objective.parameters.start), keep))
        found = zip(np.array(result.names)[keep], bars.scatter, strict=True)
        scatter |= {str(name): variance for name, variance in found if name in scatter}
    models, spacing = at[run].noise.models, float(np.median(np.diff(at[run].times)))
    rho = innovation_correlation(models, at[run].r)
    return Noise(tuple(models), rho, spacing, np.array([*scatter.values()]))


def evidence_of(result: Estimate, names: tuple[str, ...]) -> Evidence:
    """What a fit knows of the parameters (p,) by these names that its runs share, as precise as its own error bars."""
    objective = _objective(result)
    theta, known = objective.parameters.start, result.determined
    keep = known & np.isin(result.names, names)
    J = objective.evaluate(theta)[1][:, known]
    curvature = Evidence(J.T @ J, J.T @ J).of(keep[known]).curvature
    slopes = objective.parameters.slopes(theta)[keep]
    covariance = result.covariance[np.ix_(keep, keep)] / np.outer(slopes, slopes)
    at = [names.index(name) for name, here in zip(result.names, keep, strict=True) if here]
    whole = Evidence(*np.zeros((2, len(names), len(names))))
    whole.curvature[np.ix_(at, at)] = curvature
    whole.score[np.ix_(at, at)] = curvature @ covariance @ curvature
    return whole


def _objective(result: Estimate) -> Objective:
    assert result.objective is not None
    return result.objective


def what_helps(result: Estimate, name: str | None = None) -> dict[str, float]:
    r"""Tell by how much a tenth more data would shrink a standard error.

    The most helpful addition comes first.

    A tenth more runs of the kind, a tenth more frames a second (of noise that is correlated in time, they tell less), a
    record that is longer by a tenth and goes on telling as much as its last tenth does, or noise that is smaller by a
    tenth in one channel (a nearer camera, another angle). All from the Jacobian at the estimate and the noise that the
    fit found, its first run's for all: what is tenfold is `identify.design`'s to say.

    Args:
        result: what `fit` returned.
        name: of an element, as in `result.names`; None: the first of those that runs share, for whose sake a fit is
            made.

    Returns:
        What -> part; empty where nothing is known, or of a result that was read from a file.

    Raises:
        ValueError: an unknown name, or one that the data cannot see.
    """
    j = _asked(result, name)
    if j is None:
        return {}
    objective = _objective(result)
    theta, noise = objective.parameters.start, as_found(result, 0, result.names)
    runs = under_loss(objective.first_order(), objective.loss)
    prior = np.diag(objective.priors.information(theta))
    # A parameter of one run is told by that one.
    shared = (LinearisedFit(tuple(runs), np.diag(prior)).seen_by > 1) | (np.arange(theta.size) == j)

    def stderr(parts: Callable[[NDArray], list[NDArray]], count: float = 1.0, ratio: float = 1.0) -> float:
        """With each run so many times, in `parts` of its Jacobian, its samples so many times as far apart."""
        total, scatter = Evidence(prior.copy(), prior.copy()), np.where(shared, noise.scatter, 0.0)
        for run in runs:
            spacing, at = ratio * float(np.median(np.diff(run.times))), np.ix_(run.index, run.index)
            seen = parts(np.where(np.isnan(run.r)[:, :, None], 0.0, run.J))
            curvature = np.sum([np.einsum("nkp,nkq->pq", J, J) for J in seen], axis=0)
            one = Evidence(curvature, np.sum([noise.score(J, spacing) for J in seen], axis=0))
            # What differs from run to run does so however much a run tells.
            one = one.scattered(scatter[run.index])
            total.curvature[at] += count * one.curvature
            total.score[at] += count * one.score
        return float(np.sqrt(total.of(np.arange(theta.size) == j).covariance()[0, 0]))

    before, ratio = stderr(lambda J: [J]), 1 / (1 + _MORE)
    if not np.isfinite(before):
        # Its interval is that of a secant, or of a profile.
        return {}
    found = {
        "runs of the kind": stderr(lambda J: [J], count=1 + _MORE),
        "frames a second": stderr(lambda J: [_resampled(J, ratio)], ratio=ratio),
        "length of the record": stderr(lambda J: [J, _end(J)]),
    }
    channels = {run.r.shape[1] for run in runs}
    for k in range(max(channels) if len(channels) == 1 and max(channels) > 1 else 0):
        weight = np.where(np.arange(max(channels)) == k, 1 / (1 - _MORE), 1.0)[:, None]
        found[f"precision of channel {k}"] = stderr(lambda J, weight=weight: [J * weight])
    # More of it may weigh wrongly in least squares, and then helps nothing.
    shrinks = {what: max(float(1 - error / before), 0.0) for what, error in found.items()}
    return dict(sorted(shrinks.items(), key=lambda item: -item[1]))


def sentence(result: Estimate) -> str:
    """What would help most, for a report; empty where nothing is known."""
    j = _asked(result, None)
    helps = {} if j is None else what_helps(result, result.names[j])
    if j is None or not helps or max(helps.values()) < SLIGHT:
        return ""
    words = Words(_objective(result).joint.problems[0].observations.channels)
    parts = ", ".join(f"{words.told(what)} {100 * part:.1f} %" for what, part in helps.items() if part >= SLIGHT)
    return f"a tenth more of these would shorten the interval of {result.names[j]} by: {parts}"


def _asked(result: Estimate, name: str | None) -> int | None:
    """Which element; None where none can be asked for."""
    if name is not None and name not in result.names:
        raise ValueError(f"what_helps(name): no element {name!r}; there are {', '.join(result.names)}")
    known = result.determined & (np.diag(result.covariance) > 0)
    if name is not None and not known[result.names.index(name)]:
        raise ValueError(f"what_helps(name): the data cannot see {name!r}")
    if result.objective is None or not known.any():
        return None
    candidates = known & ~result.objective.parameters.own
    return int(np.argmax(candidates if candidates.any() else known)) if name is None else result.names.index(name)


def _resampled(J: NDArray, ratio: float) -> NDArray:
    """(n / ratio, k, P) between the samples."""
    n = J.shape[0]
    at = np.arange(0.0, n - 1 + 1e-9, ratio)
    low = np.minimum(at.astype(int), n - 2)
    part = (at - low)[:, None, None]
    return (1 - part) * J[low] + part * J[low + 1]


def _end(J: NDArray) -> NDArray:
    """Its last tenth (n, k, P), zero before."""
    return np.where((np.arange(J.shape[0]) >= np.ceil((1 - _MORE) * J.shape[0]))[:, None, None], J, 0.0)
