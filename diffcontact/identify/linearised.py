"""Fits to first order at the estimate: residuals, Jacobian, noise of every run, in numpy.

With J_g the derivatives of the residuals r_g of run g, in units of the noise, and Q the information of the priors,

    information           A = sum_g J_g^T J_g + Q
    what adds d_g         moves the estimate by -A^-1 b,   b = sum_g J_g^T d_g,   and leaves |d|^2 - b^T A^-1 b
    what is |c_g| large   moves it by at most   w_j = sum_g |c_g| |J_g A^-1 e_j|
    run g alone           moves what runs share by d_g = -A_g^+ S_g^T r_g,   A_g = S_g^T S_g

with S_g the columns of what runs share, the run's own projected out. Rao's score test of columns D_g (sizes s (m,)):

    s = I^-1 sum_g L_g^T r_g,   L_g = (1 - J_g J_g^+) D_g,   I = sum_g L_g^T L_g,   z^2 = s^T I (Cov sum L^T r)^-1 I s

z^2 ~ chi^2(m) where there is nothing. The covariance is that of noise correlated like r - L s, or like r if that is
larger and r - L s follows itself closely, too (C. R. Rao, Proc. Cambridge Philosophical Society 44 (1948) 50).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from diffcontact.identify.noise import RunNoise, effective_count, run_noise, score_covariance
from diffcontact.identify.verdict.reasons import DIFFERENCE, SLIGHT
from diffcontact.numerics.least_squares import TINY, inverse, orthonormal, without

# What a run's own parameters leave of a shared column, below which it sees nothing of that.
_SHARED = 1e-9
# Resolution of a parameter that a run determines by itself.
_RESOLVED = 0.99
# Samples that follow each other closely are worth less than this part of their number.
_CLOSELY = 0.5


@dataclass(frozen=True, eq=False)
class LinearisedRun:
    """One run at the estimate."""

    r: NDArray  # (n, k) residuals, NaN where missing
    J: NDArray  # (n, k, P_i) their derivatives, zero where missing
    index: NDArray  # (P_i,) where the run's parameters lie among all
    times: NDArray = field(default_factory=lambda: np.zeros(0))  # (n,) of the samples
    # (n,) samples with an impact in the interval before or behind them.
    struck: NDArray = field(default_factory=lambda: np.zeros(0, bool))
    sigma: NDArray = field(default_factory=lambda: np.ones((1, 1)))  # (n, k) the noise that r is in units of
    tracks: int = 0  # how many channels were measured sample by sample; times of impacts that were heard are the rest
    rounding: bool = False  # whether the residuals are no larger than the rounding of what was measured

    @property
    def present(self) -> NDArray:
        """(n, k) which samples were measured."""
        return ~np.isnan(self.r)

    @property
    def rows(self) -> tuple[NDArray, NDArray]:
        """Residuals (m_i,) and Jacobian (m_i, P_i) of the measured samples."""
        return self.r[self.present], self.J[self.present]

    def flat(self, columns: NDArray) -> NDArray:
        """(n k, m) of columns (n, k, m), zero where nothing was measured."""
        return np.where(self.present[..., None], columns, 0.0).reshape(self.r.size, columns.shape[-1])

    def restricted(self, keep: NDArray) -> LinearisedRun:
        """This run with only those parameters, renumbered, that `keep` (P,) marks and that have an effect on it."""
        free = keep[self.index] & np.any(self.J != 0, axis=(0, 1))
        index = (np.cumsum(keep) - 1)[self.index[free]]
        rest = self.times, self.struck, self.sigma, self.tracks, self.rounding
        return LinearisedRun(self.r, self.J[:, :, free], index, *rest)

    @cached_property
    def noise(self) -> RunNoise:
        """What the residuals look like as noise."""
        return run_noise(self.r, self.J)

    @cached_property
    def score(self) -> NDArray:
        """(P_i, P_i) covariance of J^T r, of noise that is correlated as the residuals are."""
        return score_covariance(self.noise.models, self.r, self.J)

    @cached_property
    def perturbations(self) -> NDArray:
        """(D, 2, P_i, P_i) how far that is off in each direction in which it is uncertain, one sigma to either side."""
        P, pairs = self.index.size, self.noise.perturbations if self.index.size else []
        off = [[score_covariance(side, self.r, self.J) - self.score for side in pair] for pair in pairs]
        return np.reshape(off, (len(pairs), 2, P, P))

    @cached_property
    def independent(self) -> NDArray:
        """(k,) how many independent samples each sample of a channel is worth for the size of the noise."""
        n = len(self.r)
        return np.array([effective_count(model, n) / n for model in self.noise.models])

    @property
    def worth(self) -> NDArray:
        """(k,) the same, at most 1."""
        return np.minimum(self.independent, 1.0)

    @cached_property
    def impacts(self) -> list[tuple[int, int]]:
        """The samples before and behind every impact; of those that follow each other closely those about them all."""
        edges = np.flatnonzero(np.diff(np.concatenate([[False], self.struck, [False]]).astype(int)))
        return [(int(a), int(b) - 1) for a, b in zip(edges[::2], edges[1::2], strict=True)]

    @cached_property
    def basis(self) -> NDArray:
        """(n k, rank) orthonormal columns that span the Jacobian."""
        return orthonormal(self.flat(self.J))

    @property
    def leverage(self) -> NDArray:
        """(n, k) the part of each sample that the parameters take up."""
        return np.sum(self.basis**2, axis=1).reshape(self.r.shape)

    def project_out(self, columns: NDArray) -> NDArray:
        """(n, k, m) of columns (n, k, m) less what the run's parameters make up for."""
        d = self.flat(columns)
        return (d - self.basis @ (self.basis.T @ d)).reshape(columns.shape)

    def alone(self, own: NDArray) -> Iterator[tuple[int, float, float]]:
        """Place, step and its standard deviation of each shared parameter that the run determines by itself.

        Args:
            own: (P_i,) which of its parameters no other run has.
        """
        shared, flat = np.flatnonzero(~own), self.flat(self.J)
        if shared.size == 0 or self.present.sum() <= own.size:
            return
        S = without(flat[:, own], flat[:, shared])
        scale = np.linalg.norm(S, axis=0)
        seen = scale > _SHARED * np.linalg.norm(flat[:, shared], axis=0)
        if not seen.any():
            return
        shared, scale, S = shared[seen], scale[seen], S[:, seen] / scale[seen]
        back = np.linalg.pinv(S.T @ S, rcond=1e-8, hermitian=True)
        resolution = np.diag(back @ (S.T @ S))
        moved = -back @ (S.T @ np.nan_to_num(self.r).ravel())
        score = score_covariance(self.noise.models, self.r, S.reshape(*self.r.shape, -1))
        deviation = np.sqrt(np.diag(back @ score @ back))
        for i, j in enumerate(shared):
            if resolution[i] > _RESOLVED and deviation[i] > 0:
                yield int(j), float(moved[i] / scale[i]), float(deviation[i] / scale[i])


@dataclass(frozen=True, eq=False)
class LinearisedFit:
    """All runs of a fit at the estimate, by the P parameters that the data determine.

    Example:
        >>> x = np.linspace(0.0, 1.0, 50)
        >>> line = LinearisedRun(np.full((50, 1), 0.1), np.stack([0 * x + 1, x], axis=1)[:, None], np.arange(2))
        >>> LinearisedFit((line,), np.zeros(2)).shift({0: 3.0 * x[:, None]}).round(9) + 0.0
        array([ 0., -3.])
    """

    runs: tuple[LinearisedRun, ...]  # with indices into these parameters
    prior: NDArray  # (P,) information of the priors, the diagonal of Q

    @classmethod
    def of(cls, runs: Sequence[LinearisedRun], prior: NDArray, keep: NDArray) -> LinearisedFit:
        """Runs and the information of the priors (P,), restricted to those parameters that `keep` (P,) marks."""
        return cls(tuple(run.restricted(keep) for run in runs), prior[keep])

    @cached_property
    def information(self) -> NDArray:
        """(P, P) A."""
        A = np.diag(self.prior.astype(float))
        for run in self.runs:
            J = run.flat(run.J)
            A[np.ix_(run.index, run.index)] += J.T @ J
        return A

    @cached_property
    def inverse(self) -> NDArray:
        """(P, P) A^-1."""
        return inverse(self.information)

    @cached_property
    def seen_by(self) -> NDArray:
        """(P,) how many runs have a column of each parameter that is not zero."""
        count = np.zeros(self.prior.size, int)
        for run in self.runs:
            count[run.index] += np.any(run.J != 0, axis=(0, 1))
        return count

    @property
    def samples(self) -> int:
        """How many numbers were measured."""
        return sum(int(run.present.sum()) for run in self.runs)

    @property
    def effective(self) -> float:
        """How many independent samples the measured ones are worth."""
        return float(sum(np.sum(run.present * run.worth) for run in self.runs))

    @property
    def exact(self) -> bool:
        """Whether nothing is left but rounding: data that were simulated, without noise."""
        return all(run.rounding for run in self.runs)

    def score(self, parts: Mapping[int, NDArray]) -> NDArray:
        """(P,) b of what adds d_g (n, k) to some runs, by their numbers."""
        b = np.zeros(self.prior.size)
        for number, d in parts.items():
            run = self.runs[number]
            b[run.index] += run.flat(run.J).T @ run.flat(d[..., None])[:, 0]
        return b

    def shift(self, parts: Mapping[int, NDArray]) -> NDArray:
        """(P,) how far d_g (n, k) of some runs move the estimate."""
        return -self.inverse @ self.score(parts)

    def left(self, parts: Mapping[int, NDArray], eps: float) -> float:
        """The size of what no parameter makes up for of d_g (n, k); zero where that is rounding, by eps."""
        whole = sum(float(np.sum(self.runs[number].flat(d[..., None]) ** 2)) for number, d in parts.items())
        b = self.score(parts)
        left = max(whole - float(b @ self.inverse @ b), 0.0)
        return float(np.sqrt(left)) if left > eps ** (2 * DIFFERENCE) * whole else 0.0

    def worst_shift(self, sizes: Sequence[float], where: Sequence[NDArray] | None = None) -> NDArray:
        """(P,) how far something moves the estimate that has the shape which moves it most.

        Args:
            sizes: |c_g| of each run.
            where: (n,) of each run, the samples that it can touch; None: all.
        """
        total = np.zeros(self.prior.size)
        for number, (run, size) in enumerate(zip(self.runs, sizes, strict=True)):
            J = run.J if where is None else np.where(where[number][:, None, None], run.J, 0.0)
            total += size * np.linalg.norm(run.flat(J) @ self.inverse[run.index], axis=0)
        return total

    def score_test(self, parts: Mapping[int, NDArray]) -> ScoreTest | None:
        """How much of columns D_g (n, k, m) the runs together hold; None where their parameters make up for it."""
        m = next(iter(parts.values())).shape[-1]
        score, information, whole, left = np.zeros(m), np.zeros((m, m)), np.zeros(m), {}
        for number, columns in parts.items():
            run = self.runs[number]
            left[number] = run.project_out(columns)
            flat = left[number].reshape(-1, m)
            score += flat.T @ np.nan_to_num(run.r).ravel()
            information += flat.T @ flat
            whole += np.sum(run.flat(columns) ** 2, axis=0)
        scale = np.sqrt(np.maximum(whole, TINY))
        values, vectors = np.linalg.eigh(information / np.outer(scale, scale))
        seen = values > SLIGHT**2
        if not seen.any() or not np.all(np.isfinite(score)):
            return None
        V = vectors[:, seen] / scale[:, None]
        size = V @ ((V.T @ score) / values[seen])
        added = {number: columns @ size for number, columns in parts.items()}
        return ScoreTest(added, left, size, float(score @ size), int(seen.sum()))


@dataclass(frozen=True, eq=False)
class ScoreTest:
    """How much of something that the model has not is in the residuals."""

    # Per run that it touches, what it adds to the samples (n, k), of the size that the data would like best.
    added: Mapping[int, NDArray]
    left: Mapping[int, NDArray]  # per run, (n, k, m) what the parameters leave of its columns
    size: NDArray  # (m,) s
    taken: float  # by how much chi^2 would fall
    freedom: int  # of how many numbers

    def certainty(self, fit: LinearisedFit) -> tuple[float, float]:
        """z^2 and the standard error of the first size; of noise with and without it the smaller z^2."""
        certain, error, white = self._tested(fit, 1.0)
        if not white:
            certain, error, _ = min((certain, error, white), self._tested(fit, 0.0))
        return certain, error

    def _tested(self, fit: LinearisedFit, share: float) -> tuple[float, float, bool]:
        """z^2, the standard error, and whether noise that is left without this share of it is nearly white."""
        m = self.size.size
        variance, information, white = np.zeros((m, m)), np.zeros((m, m)), True
        for number, left in self.left.items():
            run, n = fit.runs[number], len(left)
            rest = run.r - share * left @ self.size
            models = (run_noise(rest, run.J) if share else run.noise).models
            white &= all(effective_count(model, n) > _CLOSELY * n for model in models if model.sigma > 0)
            variance += score_covariance(models, rest, left)
            flat = run.flat(left)
            information += flat.T @ flat
        back = np.linalg.pinv(information, rcond=SLIGHT**2, hermitian=True)
        score = information @ self.size
        certain = float(score @ np.linalg.pinv(variance, rcond=SLIGHT**2, hermitian=True) @ score)
        return certain, float(np.sqrt((back @ variance @ back)[0, 0])), white
