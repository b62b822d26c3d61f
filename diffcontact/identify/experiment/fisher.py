r"""How certain a fit of some runs would be, and the noise of a run that is still to be made.

A run with Jacobian J (in units of its noise) and score covariance V = Cov(J^T noise) has parameters of its own, an
initial state say. With these projected out,

    A = J_s^T J_s - J_s^T J_o (J_o^T J_o)^+ J_o^T J_s,        S = X^T V X,    X = [I, -(J_o^T J_o)^+ J_o^T J_s]

is what it tells of the rest: A the curvature of its cost (Schur's complement), S the covariance of its score. Least
squares over several runs add both, and are off by

    C = (sum A)^-1 (sum S) (sum A)^-1

the error bars of a fit (`error_bars`). For white noise S = A, and C is the inverse of Fisher's information.

Of what a tenth more would help is told from the Jacobian that a fit has, without another simulation (`what_helps`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from diffcontact.identify.error_bars import error_bars, under_loss
from diffcontact.identify.estimate import Estimate
from diffcontact.identify.linearised import LinearisedFit, LinearisedRun
from diffcontact.identify.noise import Autoregression, correlated_score, grid, innovation_correlation
from diffcontact.identify.verdict.texts import Words

# Eigenvalues of a scaled J^T J below it are rounding: singular values below its root, as in `null_space`.
_NOTHING = 1e-13
_TAKES_PART = 1e-8

CRITERIA = ("D", "A", "one")


@dataclass(frozen=True, eq=False)
class Evidence:
    """What runs tell of the p parameters that they share: curvature A and score S (p, p), as above."""

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

    `names` are those of the elements of theta of a single run, for the scatter.
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
    """What a fit knows of the parameters (p,) by these names that its runs share, as precise as its own error bars."""
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


_MORE = 0.1
# Below it nothing helps.
_VISIBLE = 1e-3


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
    objective = result.objective
    assert objective is not None
    theta = objective.parameters.start
    runs = under_loss(objective.first_order(), objective.loss)
    noise = as_found(result, 0, result.names)
    told = _Told(runs, noise, objective.priors.information(theta), j, _spacings(result))
    before = told.stderr(runs)
    if not np.isfinite(before):
        # Its interval is that of a secant, or of a profile.
        return {}
    found = {
        "runs of the kind": told.stderr(runs, count=1 + _MORE),
        "frames a second": told.stderr(runs, ratio=1 / (1 + _MORE)),
        "length of the record": told.stderr(runs, longer=True),
    }
    channels = runs[0].r.shape[1]
    for k in range(channels if channels > 1 and all(run.r.shape[1] == channels for run in runs) else 0):
        found[f"precision of channel {k}"] = told.stderr([_sharper(run, k) for run in runs])
    # More of it may weigh wrongly in least squares, and then helps nothing.
    shrinks = {what: max(float(1 - error / before), 0.0) for what, error in found.items()}
    return dict(sorted(shrinks.items(), key=lambda item: -item[1]))


def sentence(result: Estimate, name: str | None = None) -> str:
    """What would help most, for a report; empty where nothing is known."""
    j = _asked(result, name)
    helps = {} if j is None else what_helps(result, result.names[j])
    if j is None or not helps or max(helps.values()) < _VISIBLE:
        return ""
    assert result.objective is not None
    words = Words(result.objective.joint.problems[0].observations.channels)
    parts = ", ".join(f"{words.told(what)} {100 * part:.1f} %" for what, part in helps.items() if part >= _VISIBLE)
    return f"a tenth more of these would shorten the interval of {result.names[j]} by: {parts}"


def _asked(result: Estimate, name: str | None) -> int | None:
    """Which element; None where none can be asked for."""
    if name is not None and name not in result.names:
        raise ValueError(f"what_helps(name): no element {name!r}; there are {', '.join(result.names)}")
    variance = np.diag(result.covariance)
    known = np.isfinite(variance) & (variance > 0) & ~np.isin(result.names, result.at_bound)
    if name is not None:
        if not known[result.names.index(name)]:
            raise ValueError(f"what_helps(name): the data cannot see {name!r}")
        return result.names.index(name) if result.objective is not None else None
    if result.objective is None:
        return None
    candidates = known & ~result.objective.parameters.own
    candidates = candidates if candidates.any() else known
    if not candidates.any():
        return None
    return int(np.argmax(candidates))


class _Told:
    """The standard error of one element under variations of the runs."""

    def __init__(self, runs: list[LinearisedRun], noise: Noise, prior: NDArray, j: int, spacings: list[float]):
        self.noise, self.prior, self.j, self.spacings = noise, prior, j, spacings
        shared = LinearisedFit(tuple(runs), prior).seen_by > 1
        # A parameter of one run is told by that one.
        self.shared = shared | (np.arange(prior.size) == j)

    def stderr(self, runs: list[LinearisedRun], count: float = 1.0, ratio: float = 1.0, longer: bool = False) -> float:
        """With each run so many times, samples so many times as far apart and as many more, or its end twice."""
        P = self.prior.size
        total = Evidence(np.diag(self.prior), np.diag(self.prior))
        scatter = np.diag(np.where(self.shared, self.noise.scatter, 0.0))
        for run, spacing in zip(runs, self.spacings, strict=True):
            J = np.where(np.isnan(run.r)[:, :, None], 0.0, run.J)
            curvature, score = np.zeros((P, P)), np.zeros((P, P))
            for part in (J, _end(J)) if longer else (_resampled(J, ratio),):
                at = np.ix_(run.index, run.index)
                curvature[at] += np.einsum("nkp,nkq->pq", part, part)
                score[at] += self.noise.score(part, ratio * spacing)
            # What differs from run to run does so however much a run tells.
            score += curvature @ scatter @ curvature
            total = total + Evidence(count * curvature, count * score)
        rest = projected(total.curvature, total.score, np.arange(P) == self.j)
        return float(np.sqrt(rest.covariance()[0, 0]))


def _resampled(J: NDArray, ratio: float) -> NDArray:
    """(n / ratio, k, P) between the samples."""
    if ratio == 1.0:
        return J
    n = J.shape[0]
    at = np.arange(0.0, n - 1 + 1e-9, ratio)
    low = np.minimum(at.astype(int), n - 2)
    part = (at - low)[:, None, None]
    return (1 - part) * J[low] + part * J[low + 1]


def _end(J: NDArray) -> NDArray:
    """Its last tenth (n, k, P), zero before."""
    return np.where((np.arange(J.shape[0]) >= np.ceil((1 - _MORE) * J.shape[0]))[:, None, None], J, 0.0)


def _sharper(run: LinearisedRun, k: int) -> LinearisedRun:
    weight = np.where(np.arange(run.r.shape[1]) == k, 1 / (1 - _MORE), 1.0)
    return replace(run, J=run.J * weight[:, None])


def _spacings(result: Estimate) -> list[float]:
    """[s] of the runs' samples."""
    assert result.objective is not None
    return [float(np.median(np.diff(problem.observations.times))) for problem in result.objective.joint.problems]
