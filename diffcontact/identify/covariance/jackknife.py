r"""The jackknife over runs: how far an estimate would move if other runs of the same kind had been measured.

With S_g the columns of run g for what the runs share, those of its own parameters projected out,

    V = (G-1)/G sum_g delta_g delta_g^T,    delta_g = (A - A_g)^-1 s_g
    A_g = S_g^T S_g,    s_g = S_g^T r_g,    A = sum_g A_g

is the delete-one-run jackknife, linearised (no refit; CR3). It sees whatever differs from run to run, and its sum has
at most G - 1 degrees of freedom: fewer where some runs weigh more than others. It has another mean then, too. Both are
known for a working model in which the runs' true parameters scatter with variances tau^2 about their mean,

    Cov s_g = V_g + A_g diag(tau^2) A_g,    V_g the covariance of the score within the run

with tau^2 by moments from the same delta_g. All delta_g are linear in the scores, so their covariance S_j over the runs
follows for each parameter j. V_jj is scaled by what it should be over what it is in the mean, and Student's t has
(tr S_j)^2 / tr S_j^2 degrees of freedom.

Source: R. M. Bell, D. F. McCaffrey, Survey Methodology 28 (2002) 169, for the correction and its degrees of freedom; J.
G. MacKinnon, M. O. Nielsen, M. D. Webb, J. Econometrics 232 (2023) 272, for the jackknife over clusters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls


@dataclass(frozen=True, eq=False)
class RunResidual:
    """A run at the solution.

    Attributes:
        r: (n, k) residuals, NaN where missing.
        J: (n, k, P_i) their derivatives, zero where missing.
        index: (P_i,) where the run's parameters lie in theta.
    """

    r: NDArray
    J: NDArray
    index: NDArray

    @property
    def rows(self) -> tuple[NDArray, NDArray]:
        """Residuals (m_i,) and Jacobian (m_i, P_i) of the measured samples."""
        present = ~np.isnan(self.r)
        return self.r[present], self.J[present]

    def restricted(self, keep: NDArray) -> RunResidual:
        """This run with only those parameters, renumbered, that `keep` (P,) marks and that have an effect on it."""
        free = keep[self.index] & np.any(self.J != 0, axis=(0, 1))
        return RunResidual(self.r, self.J[:, :, free], (np.cumsum(keep) - 1)[self.index[free]])


@dataclass(frozen=True, eq=False)
class Jackknife:
    """Error bars of what several runs share.

    Attributes:
        covariance: (p, p) of the shared parameters.
        freedom: (p,) degrees of freedom of the variances.
        scatter: (p,) variances tau^2 of the runs' true parameters about their mean.
        shares: (G, p, p) by how much of its own departure each run moves the estimate, A^-1 A_g.
    """

    covariance: NDArray
    freedom: NDArray
    scatter: NDArray
    shares: NDArray


@dataclass(frozen=True, eq=False)
class _LeftOut:
    """What leaving out each of G runs would do to the p shared parameters, to first order.

    Attributes:
        delta: (G, p) how far the estimate moves.
        information: (G, p, p) of the runs.
        total: (p, p) information of all runs and priors.
        removed: (G, p, p) inverses of the information of all but one.
        residuals: per run, its residuals (m_g,) under the estimate from the others, its per-run parameters fitted.
    """

    delta: NDArray
    information: NDArray
    total: NDArray
    removed: NDArray
    residuals: list[NDArray]


def jackknife(
    runs: Sequence[RunResidual], shared: NDArray, prior: NDArray, within: Sequence[NDArray]
) -> Jackknife | None:
    """Covariance of the shared parameters; None if one run alone determines some combination of them.

    Args:
        runs: at the solution.
        shared: (P,) which parameters several runs see, p of them.
        prior: (P,) information of the priors.
        within: per run, the covariance (P_i, P_i) of its score J^T r.
    """
    left_out = _left_out(runs, shared, prior)
    if left_out is None:
        return None
    G, p = left_out.delta.shape
    bread = inverse(left_out.total)
    scatter = (G - 1) / G * left_out.delta.T @ left_out.delta
    known = np.diag(prior[shared])
    score = _projected(runs, shared, within)
    # delta_g = sum_h L_gh s_h, of the scores at the truth.
    L = np.einsum("gij,ghjk->ghik", left_out.removed, _centred(left_out.information @ bread))
    units = [a[:, :, None] * a[:, None, :] for a in np.moveaxis(left_out.information, 2, 0)]
    moments = np.array([[_spread(L[:, :, j], unit).trace() for unit in units] for j in range(p)])
    found = np.sum(left_out.delta**2, axis=0)
    expected = np.array([_spread(L[:, :, j], score).trace() for j in range(p)])
    # Each in units of its own, so that none is lost beside the others.
    size = np.maximum(found, expected)
    size = np.where(size > 0, size, 1.0)
    tau2 = nnls(moments / size[:, None], np.maximum(found - expected, 0.0) / size)[0]
    score = score + np.einsum("k,kgij->gij", tau2, units)
    spreads = [_spread(L[:, :, j], score) for j in range(p)]
    traces = np.array([spread.trace() for spread in spreads])
    ought = np.diag(bread @ score.sum(axis=0) @ bread)
    # Runs that are fitted exactly scatter by nothing: there is nothing to correct.
    noisy = traces > 0
    correction = np.sqrt(np.where(noisy, ought / np.where(noisy, (G - 1) / G * traces, 1.0), 1.0))
    squares = np.array([np.sum(spread**2) for spread in spreads])
    freedom = np.where(squares > 0, traces**2 / np.where(squares > 0, squares, 1.0), G - 1.0)
    covariance = scatter * np.outer(correction, correction) + bread @ known @ bread
    return Jackknife(covariance, freedom, tau2, bread @ left_out.information)


def _centred(shares: NDArray) -> NDArray:
    """(G, G, p, p) from the scores of all runs at the truth to those at the estimate: identity minus A_g A^-1."""
    G, p = shares.shape[:2]
    return np.eye(G)[:, :, None, None] * np.eye(p) - shares[:, None]


def _spread(L: NDArray, score: NDArray) -> NDArray:
    """(G, G) covariance of one parameter's L s, rows (G, G, p), under scores of covariance (G, p, p)."""
    return np.einsum("ghk,hkl,mhl->gm", L, score, L, optimize=True)


def _projected(runs: Sequence[RunResidual], shared: NDArray, within: Sequence[NDArray]) -> NDArray:
    """(G, p, p) covariances of the scores of the shared parameters, the runs' own projected out."""
    p, position = int(shared.sum()), np.cumsum(shared) - 1
    found = np.zeros((len(runs), p, p))
    for g, (run, score) in enumerate(zip(runs, within, strict=True)):
        _, J = run.rows
        common = shared[run.index]
        mixing = np.zeros((J.shape[1], int(common.sum())))
        mixing[common] = np.eye(mixing.shape[1])
        mixing[~common] = -np.linalg.lstsq(J[:, ~common], J[:, common], rcond=None)[0]
        at = position[run.index[common]]
        found[g][np.ix_(at, at)] = mixing.T @ score @ mixing
    return found


def _left_out(runs: Sequence[RunResidual], shared: NDArray, prior: NDArray) -> _LeftOut | None:
    """The estimates without each run; None if one run alone determines some combination of the shared parameters.

    Priors of per-run parameters do not take part in the projection: what they would add there is second order.
    """
    size = int(shared.sum())
    position = np.cumsum(shared) - 1
    information, scores, columns = np.zeros((len(runs), size, size)), np.zeros((len(runs), size)), []
    for g, run in enumerate(runs):
        r, J = run.rows
        common = shared[run.index]
        Q = np.linalg.qr(J[:, ~common])[0]
        S = J[:, common] - Q @ (Q.T @ J[:, common])
        at = position[run.index[common]]
        information[g][np.ix_(at, at)] = S.T @ S
        scores[g, at] = S.T @ r
        columns.append((r, S, at))
    total = information.sum(axis=0) + np.diag(prior[shared])
    scale = 1.0 / np.sqrt(np.diag(total))
    rest = (total - information) * np.outer(scale, scale)
    if np.linalg.cond(rest).max() > 1.0 / np.sqrt(np.finfo(float).eps):
        return None
    delta = np.linalg.solve(rest, (scores * scale)[:, :, None])[:, :, 0] * scale
    removed = np.linalg.inv(rest) * np.outer(scale, scale)
    residuals = [r + S @ delta[g, at] for g, (r, S, at) in enumerate(columns)]
    return _LeftOut(delta, information, total, removed, residuals)


def prediction_errors(runs: Sequence[RunResidual], P: int, prior: NDArray | None = None) -> tuple[float, ...]:
    """Per run, the root mean square of its residuals when what the runs share is estimated without it (linearised).

    Its per-run parameters are fitted to it. Empty where there is one run, or nothing shared, or where one run alone
    determines some combination of what is shared.
    """
    shared = seen_by(runs, P) > 1
    if len(runs) < 2 or not shared.any():
        return ()
    left_out = _left_out(runs, shared, np.zeros(P) if prior is None else prior)
    return () if left_out is None else tuple(float(np.sqrt(np.mean(r**2))) for r in left_out.residuals)


def seen_by(runs: Sequence[RunResidual], P: int) -> NDArray:
    """(P,) how many runs have a nonzero column."""
    count = np.zeros(P, int)
    for run in runs:
        count[run.index] += np.any(run.J != 0, axis=(0, 1))
    return count


def inverse(information: NDArray) -> NDArray:
    """Inverse of a positive definite matrix whose diagonal may span many decades."""
    scale = 1.0 / np.sqrt(np.diag(information))
    return np.linalg.inv(information * np.outer(scale, scale)) * np.outer(scale, scale)
