r"""Error bars: how far the estimate would move if the measurement were repeated.

With residuals r, Jacobian J = dr/dtheta and bread B = (J^T J)^-1, to first order theta_hat - theta = -B J^T (noise), so

    plain          s^2 B,  s^2 = r^T r / (m - P)                   noise independent from sample to sample
    within run     B (sum_i Cov_i(J_i^T r_i)) B, not below plain   noise correlated in time: an AR model per channel
    between runs   the jackknife over runs                         whatever differs from run to run

Priors add their information Q, a diagonal matrix, to J^T J, and, being measurements of their own, to what B surrounds:
B (... + Q) B.

The last is in `covariance.jackknife`; it is for what several runs share. Per-run parameters have nothing to be compared
with: their score vanishes run by run. Their error is the one within the run plus what the shared parameters pass on:
their common value by its own error V, and the run's departure from it by the scatter tau^2 of the runs. With
E = -(O^T O + Q)^-1 O^T S the change of a run's own parameters, columns O, with the shared ones, columns S,

    Cov = within the run + E (V + (1 - W) diag(tau^2) (1 - W)^T) E^T,     W = A^-1 A_g

of which W is by how much of its own departure the run has moved what they share.

Noise that is not as large everywhere makes the form within the run larger for what rests on the noisier samples
(`covariance.uneven`).

Source: F. E. Satterthwaite, Biometrics Bulletin 2 (1946) 110, for the degrees of freedom of a variance that is itself
estimated, here through the noise model; G. K. Smyth, Statistical Applications in Genetics and Molecular Biology 3
(2004) 3, for taking them from the variance of a logarithm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, polygamma, stdtrit

from diffcontact.identify.covariance.autoregression import Autoregression, effective_count
from diffcontact.identify.covariance.jackknife import Jackknife, RunResidual, inverse, jackknife, seen_by
from diffcontact.identify.covariance.run_noise import run_noise, score_covariance
from diffcontact.identify.covariance.uneven import uneven

# From so many runs on their scatter gives the error bars.
RUNS_TO_COMPARE = 3
# How the explanation of error bars begins that hold nothing of what would differ in another run.
WITHIN = "within the run"


@dataclass(frozen=True, eq=False)
class ErrorBars:
    """Covariances and the quantiles that turn standard errors into 95 % intervals.

    Attributes:
        covariance: (P, P) of the chosen form.
        plain: (P, P) the textbook form, for comparison.
        quantile: (P,) half width of the 95 % interval in standard errors.
        explanation: which form was chosen, and why.
        effective: how many independent samples have as much to say on the residual variance as the correlated ones.
        scatter: (P,) variances of the runs' true parameters about what they have in common; zero where runs were not
            compared.
    """

    covariance: NDArray
    plain: NDArray
    quantile: NDArray
    explanation: str
    effective: float
    scatter: NDArray


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
    bread = inverse(information + np.diag(prior))
    spare = m + int(np.sum(prior > 0)) - P
    if spare <= 0:
        text = f"stated noise: {m} samples for {P} parameters leave no residual to measure it by"
        return ErrorBars(bread, bread, np.full(P, ndtri(0.975)), text, float(m), np.zeros(P))
    plain = bread @ (information * sum(r @ r for r, _ in rows) / spare + np.diag(prior)) @ bread
    within = [_within(run) for run in runs]
    shared = seen_by(runs, P) > 1
    if len(runs) >= RUNS_TO_COMPARE and shared.any():
        between = jackknife(runs, shared, prior, [noise.score for noise in within])
        if between is not None:
            return _between_runs(runs, within, between, shared, plain, prior)
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
        models: of the noise of each channel.
    """

    score: NDArray
    perturbations: NDArray
    independent: float
    orders: tuple[int, ...]
    correlation: float
    models: Sequence[Autoregression] = ()


def _within(run: RunResidual) -> _Within:
    n, P = run.J.shape[0], run.J.shape[2]
    noise = run_noise(run.r, run.J)
    models, score = noise.models, score_covariance(noise.models, run.r, run.J)
    counts = np.sum(~np.isnan(run.r), axis=0)
    independent = sum(effective_count(model, n) * count / n for model, count in zip(models, counts, strict=True))
    lag_one = [model.autocovariance(n)[[0, min(model.every, n - 1)]] for model in models]
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
        models=models,
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
        f"{WITHIN}: {why}, so the scatter is taken from the residuals, whose correlation in time is modelled by "
        f"{_models(within)}; what would differ in another run is not in it"
    )
    factor, unsure = _without_priors(uneven(runs, [noise.models for noise in within], bread), bread, prior, covariance)
    quantile = _quantile(np.diag(covariance), np.concatenate(perturbations), unsure)
    # A hundred white samples look now and then as if noise of opposite signs followed each other and cancelled. Error
    # bars that halve because of that would be wrong; so none is smaller than for independent samples.
    longer = np.sqrt(np.maximum(np.diag(plain) / np.maximum(np.diag(covariance), np.finfo(float).tiny), 1.0))
    longer = longer * np.sqrt(factor)
    covariance = covariance * np.outer(longer, longer)
    return ErrorBars(covariance, plain, quantile, text, _independent(within), np.zeros(prior.size))


def _without_priors(noisier, bread, prior, covariance) -> tuple[NDArray, NDArray]:
    """What is noisier, (P,) factors and how unsure they are, where a part of each variance is what priors say."""
    factor, unsure = noisier
    told = (bread**2 @ prior) / np.maximum(np.diag(covariance), np.finfo(float).tiny)
    share = np.clip(1.0 - told, 0.0, 1.0)
    return 1.0 + share * (factor - 1.0), share**2 * unsure


def _displaced(bread: NDArray, perturbations: NDArray) -> NDArray:
    """(D, 2, P) how far the variances bread score bread^T of P parameters are off, bread (P, P_i)."""
    return np.einsum("pi,dsij,pj->dsp", bread, perturbations, bread)


def _quantile(variance: NDArray, displaced: NDArray, unsure: NDArray | float = 0.0) -> NDArray:
    """(P,) Student's t with the degrees of freedom that uncertain variances (P,) are worth, at least 1.

    The logarithm of chi^2 has the variance trigamma(freedom / 2). The logarithm of an uncertain variance has one too,
    the sum over the directions (D, 2, P) in which it is uncertain, and what is `unsure` besides (P,). The freedom is
    where both agree.
    """
    below, above = (np.maximum(variance + side, np.finfo(float).tiny) for side in np.moveaxis(displaced, 1, 0))
    scatter = np.sum((np.log(above / below) / 2) ** 2, axis=0) + unsure
    # trigamma falls: 1 degree of freedom is pi^2 / 2, and from 1e7 on Student's t is the normal distribution.
    freedom = np.geomspace(1.0, 1e7, 400)
    return stdtrit(np.exp(np.interp(-scatter, -polygamma(1, freedom / 2), np.log(freedom))), 0.975)


def _between_runs(runs, within, between: Jackknife, shared, plain, prior) -> ErrorBars:
    """Jackknife for shared parameters; for per-run ones the error within the run plus what the shared ones pass on.

    The scatter is known from few runs: each tau^2 counts with the degrees of freedom of its parameter's variance.
    """
    P = shared.size
    position = np.cumsum(shared) - 1
    passed_on = np.zeros((P, between.freedom.size))
    passed_on[shared] = np.eye(between.freedom.size)
    # What no run shows is known by its prior alone.
    told = (seen_by(runs, P) == 0) & (prior > 0)
    inside = np.diag(np.where(told, 1.0 / np.where(told, prior, 1.0), 0.0))
    quantile = np.full(P, ndtri(0.975))
    quantile[shared] = stdtrit(between.freedom, 0.975)
    for run, noise, share in zip(runs, within, between.shares, strict=True):
        common = shared[run.index]
        separate = run.index[~common]
        if separate.size == 0:
            continue
        _, J = run.rows
        J_separate, J_shared = J[:, ~common], J[:, common]
        Q = np.diag(prior[separate])
        bread = inverse(J_separate.T @ J_separate + Q)
        at, moved = position[run.index[common]], -bread @ J_separate.T @ J_shared
        passed_on[np.ix_(separate, at)] = moved
        departing = moved @ (np.eye(between.freedom.size) - share)[at]
        alone = RunResidual(run.r, run.J[:, :, ~common], np.arange(separate.size))
        by_noise = bread @ (noise.score[np.ix_(~common, ~common)] + Q) @ bread
        factor, unsure = _without_priors(uneven([alone], [noise.models], bread), bread, prior[separate], by_noise)
        by_noise = by_noise * np.sqrt(np.outer(factor, factor))
        inside[np.ix_(separate, separate)] = by_noise + departing * between.scatter @ departing.T
        perturbations = _displaced(bread, noise.perturbations[:, :, ~common][:, :, :, ~common])
        # One standard deviation of the logarithm of chi^2 to either side.
        factors = np.exp(np.outer([-1, 1], np.sqrt(polygamma(1, between.freedom / 2)))) - 1
        uncertain = np.einsum("sk,pk->ksp", factors, departing**2 * between.scatter)
        displaced = np.concatenate([perturbations * factor, uncertain])
        quantile[separate] = _quantile(np.diag(inside)[separate], displaced, unsure)
    covariance = passed_on @ between.covariance @ passed_on.T + inside
    fewest, most = (f"{value:.2g}" for value in (between.freedom.min(), between.freedom.max()))
    freedom = fewest if fewest == most else f"{fewest} to {most}"
    text = (
        f"between runs: jackknife over the {len(runs)} runs (each left out in turn, linearised) for what they share, "
        f"with Student's t of {freedom} degrees of freedom, because it sees whatever differs from run to run"
    )
    if not shared.all():
        text += (
            f"; per-run parameters by the residuals within the run, modelled by {_models(within)}, and by how much the "
            "run may depart from what they share"
        )
    scatter = np.zeros(P)
    scatter[shared] = between.scatter
    return ErrorBars(covariance, plain, quantile, text, _independent(within), scatter)


def _independent(within: Sequence[_Within]) -> float:
    return float(sum(noise.independent for noise in within))


def _models(within: Sequence[_Within]) -> str:
    orders = sorted({order for noise in within for order in noise.orders})
    name = f"AR({orders[0]})" if len(orders) == 1 else f"AR({orders[0]} to {orders[-1]})"
    strongest = max((noise.correlation for noise in within), key=abs)
    return f"{name} processes (correlation of neighbours up to {round(strongest, 2) + 0.0:.2f})"
