r"""Error bars: how far the estimate would move if the measurement were repeated.

With residuals r, Jacobian J = dr/dtheta and bread B = (J^T J)^-1, to first order theta_hat - theta = -B J^T (noise), so

    plain          s^2 B,  s^2 = r^T r / (m - P)                   noise independent from sample to sample
    within run     B (sum_i Cov_i(J_i^T r_i)) B                    noise correlated in time: an AR model per channel
    between runs   (G-1)/G sum_g delta_g delta_g^T                 whatever differs from run to run, G runs
                   delta_g = (A - A_g)^-1 s_g,  A_g = S_g^T S_g,  s_g = S_g^T r_g,  A = sum_g A_g

Priors add their information Q, a diagonal matrix, to J^T J, and, being measurements of their own, to what B surrounds:
B (... + Q) B.

The last is the delete-one-run jackknife, linearised (no refit; CR3). S_g are the run's columns of the
shared parameters with the columns of its per-run parameters projected out. With few runs it is the one that keeps its
promise, with Student's t of G - 1 degrees of freedom. Per-run parameters have nothing to be compared with: their score
vanishes run by run. Their error is the one within the run plus what the shared parameters pass on.

Source: R. M. Bell, D. F. McCaffrey, Survey Methodology 28 (2002) 169, and J. G. MacKinnon, M. O. Nielsen, M. D. Webb,
J. Econometrics 232 (2023) 272, for the jackknife over clusters and t(G-1); F. E. Satterthwaite, Biometrics Bulletin 2
(1946) 110, for the degrees of freedom of a variance that is itself estimated, here through the noise model; G. K.
Smyth, Statistical Applications in Genetics and Molecular Biology 3 (2004) 3, for taking them from the variance of a
logarithm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import polygamma
from scipy.stats import norm, t

from diffcontact.identify.covariance.autoregression import effective_count
from diffcontact.identify.covariance.run_noise import run_noise, score_covariance

_RUNS_TO_COMPARE = 3


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
class ErrorBars:
    """Covariances and the quantiles that turn standard errors into 95 % intervals.

    Attributes:
        covariance: (P, P) of the chosen form.
        plain: (P, P) the textbook form, for comparison.
        quantile: (P,) half width of the 95 % interval in standard errors.
        explanation: which form was chosen, and why.
        effective: how many independent samples have as much to say on the residual variance as the correlated ones.
    """

    covariance: NDArray
    plain: NDArray
    quantile: NDArray
    explanation: str
    effective: float


def error_bars(runs: Sequence[RunResidual], P: int, prior: NDArray | None = None) -> ErrorBars:
    """Choose and compute the error bars of P parameters that the runs determine (full column rank).

    From three runs on, parameters that several runs share get the jackknife over runs; everything else the form that
    respects correlation in time within a run. Two runs cannot show their scatter (one degree of freedom): they are
    treated like one. Without any spare sample the stated noise is all there is.

    Args:
        runs: at the solution.
        P: number of parameters.
        prior: (P,) information of the priors, the diagonal of Q; None: there are none.
    """
    prior = np.zeros(P) if prior is None else prior
    rows = [run.rows for run in runs]
    m = sum(r.size for r, _ in rows)
    information = np.zeros((P, P))
    for run, (_, J) in zip(runs, rows, strict=True):
        information[np.ix_(run.index, run.index)] += J.T @ J
    bread = _inverse(information + np.diag(prior))
    spare = m + int(np.sum(prior > 0)) - P
    if spare <= 0:
        text = f"stated noise: {m} samples for {P} parameters leave no residual to measure it by"
        return ErrorBars(bread, bread, np.full(P, norm.ppf(0.975)), text, float(m))
    plain = bread @ (information * sum(r @ r for r, _ in rows) / spare + np.diag(prior)) @ bread
    within = [_within(run) for run in runs]
    seen_by = _seen_by(runs, P)
    shared = seen_by > 1
    if len(runs) >= _RUNS_TO_COMPARE and shared.any():
        between = _jackknife(runs, shared, prior)
        if between is not None:
            return _between_runs(runs, within, between, shared, seen_by, plain, prior)
    return _within_runs(runs, within, bread, plain, shared.any(), prior)


@dataclass(frozen=True, eq=False)
class _Within:
    """One run's correlated residuals.

    Attributes:
        score: (P_i, P_i) covariance of its score.
        perturbations: (D, 2, P_i, P_i) how far the score's covariance is off, one standard deviation to either side
            along each of the D independent directions in which it is uncertain.
        independent: effective number of samples.
        orders: of the autoregressive models.
        correlation: the strongest, of neighbours.
    """

    score: NDArray
    perturbations: NDArray
    independent: float
    orders: tuple[int, ...]
    correlation: float


def _within(run: RunResidual) -> _Within:
    n, P = run.J.shape[0], run.J.shape[2]
    noise = run_noise(run.r, run.J)
    models, score = noise.models, score_covariance(noise.models, run.r, run.J)
    counts = np.sum(~np.isnan(run.r), axis=0)
    independent = sum(effective_count(model, n) * count / n for model, count in zip(models, counts, strict=True))
    lag_one = [model.autocovariance(n)[:2] for model in models]
    return _Within(
        score=score,
        perturbations=np.reshape(
            [[score_covariance(side, run.r, run.J) - score for side in pair] for pair in noise.perturbations],
            (-1, 2, P, P),
        )
        if P
        else np.zeros((0, 2, 0, 0)),
        independent=independent,
        orders=tuple(model.order for model in models),
        correlation=max((float(gamma[1] / gamma[0]) for gamma in lag_one if gamma[0] > 0), key=abs, default=0.0),
    )


def _within_runs(runs, within, bread, plain, shared, prior) -> ErrorBars:
    meat = np.diag(prior)
    for run, noise in zip(runs, within, strict=True):
        meat[np.ix_(run.index, run.index)] += noise.score
    covariance = bread @ meat @ bread
    perturbations = [
        _displaced(bread[:, run.index], noise.perturbations) for run, noise in zip(runs, within, strict=True)
    ]
    why = {1: "one run"}.get(
        len(runs), f"{len(runs)} runs, too few to compare" if shared else f"{len(runs)} separate runs"
    )
    text = (
        f"within the run: {why}, so the scatter is taken from the residuals, whose correlation in time is modelled by "
        f"{_models(within)}; what would differ in another run is not in it"
    )
    quantile = _quantile(np.diag(covariance), np.concatenate(perturbations))
    return ErrorBars(covariance, plain, quantile, text, _independent(within))


def _displaced(bread: NDArray, perturbations: NDArray) -> NDArray:
    """(D, 2, P) how far the variances bread score bread^T of P parameters are off, bread (P, P_i)."""
    return np.einsum("pi,dsij,pj->dsp", bread, perturbations, bread)


def _quantile(variance: NDArray, displaced: NDArray) -> NDArray:
    """(P,) Student's t with the degrees of freedom that uncertain variances (P,) are worth, at least 1.

    The logarithm of chi^2 has the variance trigamma(freedom / 2). The logarithm of an uncertain variance has one too,
    the sum over the directions (D, 2, P) in which it is uncertain. The freedom is where both agree.
    """
    below, above = (np.maximum(variance + side, np.finfo(float).tiny) for side in np.moveaxis(displaced, 1, 0))
    scatter = np.sum((np.log(above / below) / 2) ** 2, axis=0)
    # trigamma falls: 1 degree of freedom is pi^2 / 2, and from 1e7 on Student's t is the normal distribution.
    freedom = np.geomspace(1.0, 1e7, 400)
    return t.ppf(0.975, np.exp(np.interp(-scatter, -polygamma(1, freedom / 2), np.log(freedom))))


def _between_runs(runs, within, between, shared, seen_by, plain, prior) -> ErrorBars:
    """Jackknife for shared parameters; for per-run ones the error within the run plus what the shared ones pass on."""
    P = shared.size
    position = np.cumsum(shared) - 1
    passed_on = np.zeros((P, between.shape[0]))
    passed_on[shared] = np.eye(between.shape[0])
    inside = np.zeros((P, P))
    quantile = t.ppf(0.975, np.where(shared, seen_by - 1.0, np.inf))
    for run, noise in zip(runs, within, strict=True):
        common = shared[run.index]
        separate = run.index[~common]
        if separate.size == 0:
            continue
        _, J = run.rows
        J_separate, J_shared = J[:, ~common], J[:, common]
        Q = np.diag(prior[separate])
        bread = _inverse(J_separate.T @ J_separate + Q)
        inside[np.ix_(separate, separate)] = bread @ (noise.score[np.ix_(~common, ~common)] + Q) @ bread
        perturbations = noise.perturbations[:, :, ~common][:, :, :, ~common]
        quantile[separate] = _quantile(np.diag(inside)[separate], _displaced(bread, perturbations))
        passed_on[np.ix_(separate, position[run.index[common]])] = -bread @ J_separate.T @ J_shared
    covariance = passed_on @ between @ passed_on.T + inside
    text = (
        f"between runs: jackknife over the {len(runs)} runs (each left out in turn, linearised) for what they share, "
        f"with Student's t of {int(seen_by[shared].max()) - 1} degrees of freedom, because it sees whatever differs "
        "from run to run"
    )
    if not shared.all():
        text += f"; per-run parameters by the residuals within the run, modelled by {_models(within)}"
    return ErrorBars(covariance, plain, quantile, text, _independent(within))


@dataclass(frozen=True, eq=False)
class _LeftOut:
    """What leaving out each of G runs would do to the size shared parameters, to first order.

    Attributes:
        delta: (G, size) how far the estimate moves.
        total: (size, size) information of all runs and priors.
        residuals: per run, its residuals (m_g,) under the estimate from the others, its per-run parameters fitted.
    """

    delta: NDArray
    total: NDArray
    residuals: list[NDArray]


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
    return _LeftOut(delta, total, [r + S @ delta[g, at] for g, (r, S, at) in enumerate(columns)])


def _jackknife(runs: Sequence[RunResidual], shared: NDArray, prior: NDArray) -> NDArray | None:
    """Covariance of the shared parameters; None if one run alone determines some combination of them."""
    left_out = _left_out(runs, shared, prior)
    if left_out is None:
        return None
    bread = _inverse(left_out.total)
    scatter = (len(runs) - 1) / len(runs) * left_out.delta.T @ left_out.delta
    return scatter + bread @ np.diag(prior[shared]) @ bread


def prediction_errors(runs: Sequence[RunResidual], P: int, prior: NDArray | None = None) -> tuple[float, ...]:
    """Per run, the root mean square of its residuals when what the runs share is estimated without it (linearised).

    Its per-run parameters are fitted to it. Empty where there is one run, or nothing shared, or where one run alone
    determines some combination of what is shared.
    """
    shared = _seen_by(runs, P) > 1
    if len(runs) < 2 or not shared.any():
        return ()
    left_out = _left_out(runs, shared, np.zeros(P) if prior is None else prior)
    return () if left_out is None else tuple(float(np.sqrt(np.mean(r**2))) for r in left_out.residuals)


def _independent(within: Sequence[_Within]) -> float:
    return float(sum(noise.independent for noise in within))


def _seen_by(runs: Sequence[RunResidual], P: int) -> NDArray:
    """(P,) how many runs have a nonzero column."""
    count = np.zeros(P, int)
    for run in runs:
        count[run.index] += np.any(run.J != 0, axis=(0, 1))
    return count


def _models(within: Sequence[_Within]) -> str:
    orders = sorted({order for noise in within for order in noise.orders})
    name = f"AR({orders[0]})" if len(orders) == 1 else f"AR({orders[0]} to {orders[-1]})"
    strongest = max((noise.correlation for noise in within), key=abs)
    return f"{name} processes (correlation of neighbours up to {strongest:.2f})"


def _inverse(information: NDArray) -> NDArray:
    """Inverse of a positive definite matrix whose diagonal may span many decades."""
    scale = 1.0 / np.sqrt(np.diag(information))
    return np.linalg.inv(information * np.outer(scale, scale)) * np.outer(scale, scale)
