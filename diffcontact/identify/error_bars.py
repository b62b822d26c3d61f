"""Error bars: how far an estimate would move if the measurement were repeated.

With residuals r, Jacobian J = dr/dtheta, information Q of the priors and bread B = (J^T J + Q)^-1, to first order
theta_hat - theta = -B J^T (noise), so

    plain          s^2 B,  s^2 = r^T r / (m - P)                   noise independent from sample to sample
    within run     B (sum_i Cov_i(J_i^T r_i)) B, not below plain   noise correlated in time: an AR model per channel
    between runs   the jackknife over runs                         whatever differs from run to run

**The jackknife** (linearised delete-one, CR3). With S_g the columns of what runs share, the run's own projected out,

    V = (G-1)/G sum_g delta_g delta_g^T,    delta_g = (A - A_g)^-1 s_g,    A_g = S_g^T S_g,    s_g = S_g^T r_g

Runs of unequal weight give it another mean and fewer than G - 1 degrees of freedom. Both follow from a model in which
the runs' true parameters scatter with variances tau^2, found by moments from the same delta_g:

    Cov s_g = V_g + A_g diag(tau^2) A_g,    V_g the covariance of the score within the run

All delta_g are linear in the scores. S_j, their covariance over the runs for parameter j, gives the mean of V_jj, and
Student's t has (tr S_j)^2 / tr S_j^2 degrees of freedom (Satterthwaite).

**A run's own parameters** have the error within the run plus what the shared ones pass on. With E the change of the
run's own parameters with the shared ones, and W = A^-1 A_g by how much the run has moved what they share,

    Cov = within the run + E (V + (1 - W) diag(tau^2) (1 - W)^T) E^T

**Beside a bound** (`beside_bounds`) the 95 % interval of an element is that of its profile in the linear model,

    the ends of theta_j over all theta with (theta - m)^T C^-1 (theta - m) <= t^2 + its least value,  theta in bounds

with the covariance C and the minimum m that there would be without the bounds. It holds the interval with what is at a
bound held there, and is longer where others would move with it.

**Noise that is larger where it matters** makes the form within the run larger by a factor F. With W the filter that
makes a channel white (`whitening`), e = W r, and w_t the mean of b^2 over a third of the record about t,

    theta_hat - theta = -sum_t b_t eta_t,    b = W^-T J B,    F = sum_t w_t e_t^2 / K_t / (sum_t w_t mean e^2 / mean K)

K_t, what the fit leaves of a sample, makes F unbiased (HC2). F has (sum w)^2 / sum w^2 / K degrees of freedom: up to
half of its standard error it counts as 1, beyond a whole one as it is, and in between in part.

Source: R. M. Bell, D. F. McCaffrey, Survey Methodology 28 (2002) 169; J. G. MacKinnon, M. O. Nielsen, M. D. Webb,
J. Econometrics 232 (2023) 272, for the jackknife; J. G. MacKinnon, H. White, J. Econometrics 29 (1985) 305, for HC2;
G. K. Smyth, Statistical Applications in Genetics and Molecular Biology 3 (2004) 3, for degrees of freedom.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_banded
from scipy.optimize import nnls
from scipy.special import ndtri, polygamma, stdtrit

from diffcontact.identify.linearised import LinearisedFit, LinearisedRun
from diffcontact.identify.noise import Autoregression, Loss, filtered, whitening
from diffcontact.identify.verdict.reasons import GROSS, RUNS_TO_COMPARE, SLIGHT
from diffcontact.numerics.least_squares import TINY, inverse

# Far from where they belong the influence of most samples falls: what is left is no minimum to trust, but neither is it
# one of negative curvature. A mean of psi' below this is that of a few samples through which the fit happens to pass.
LEAST_SLOPE = 0.05
# Quantiles of the normal distribution at which psi' is averaged.
_QUANTILES = 1000
# Of a channel's samples, the part over which the size of the noise is taken as one.
_WINDOW = 3


@dataclass(frozen=True, eq=False)
class ErrorBars:
    """Covariances and the quantiles that turn standard errors into 95 % intervals."""

    covariance: NDArray  # (P, P) of the chosen form
    plain: NDArray  # (P, P) the textbook form, for comparison
    quantile: NDArray  # (P,) half width of the 95 % interval in standard errors
    form: str  # which was chosen: "stated", "within" or "between" runs
    explanation: str  # the same in words, and why
    effective: float  # how many independent samples have as much to say on the residual variance as the correlated ones
    # (P,) variances of the runs' true parameters about what they have in common; zero where runs were not compared.
    scatter: NDArray


def error_bars(fit: LinearisedFit) -> ErrorBars:
    """Error bars of P parameters that the runs determine (full column rank).

    From three runs on the jackknife for what several runs share; else the form within the runs. Without any spare
    sample the stated noise is all there is.
    """
    P, m, Q = fit.prior.size, fit.samples, np.diag(fit.prior)
    bread = inverse(fit.information, 0.0)
    spare = m + int(np.sum(fit.prior > 0)) - P
    if spare <= 0:
        text = f"stated noise: {m} samples for {P} parameters leave no residual to measure it by"
        return ErrorBars(bread, bread, np.full(P, ndtri(0.975)), "stated", text, float(m), np.zeros(P))
    squares = sum(float(r @ r) for r, _ in (run.rows for run in fit.runs))
    plain = bread @ ((fit.information - Q) * squares / spare + Q) @ bread
    between = jackknife(fit) if len(fit.runs) >= RUNS_TO_COMPARE and np.any(fit.seen_by > 1) else None
    return _within_runs(fit, bread, plain) if between is None else _between_runs(fit, between, plain)


def _within_runs(fit: LinearisedFit, bread: NDArray, plain: NDArray) -> ErrorBars:
    meat = np.diag(fit.prior)
    for run in fit.runs:
        meat[np.ix_(run.index, run.index)] += run.score
    covariance, count = bread @ meat @ bread, len(fit.runs)
    perturbations = [_displaced(bread[:, run.index], run.perturbations) for run in fit.runs]
    several = f"{count} runs, too few to compare" if np.any(fit.seen_by > 1) else f"{count} separate runs"
    text = (
        f"within the run: {'one run' if count == 1 else several}, so the scatter is taken from the residuals, whose "
        f"correlation in time is modelled by {_models(fit)}; what would differ in another run is not in it"
    )
    models = [run.noise.models for run in fit.runs]
    factor, unsure = _without_priors(uneven(fit.runs, models, bread), bread, fit.prior, covariance)
    quantile = _quantile(np.diag(covariance), np.concatenate(perturbations), unsure)
    # A hundred white samples look now and then as if noise of opposite signs followed each other and cancelled. Error
    # bars that halve because of that would be wrong; so none is smaller than for independent samples.
    longer = np.sqrt(np.maximum(np.diag(plain) / np.maximum(np.diag(covariance), TINY), 1.0)) * np.sqrt(factor)
    covariance = covariance * np.outer(longer, longer)
    return ErrorBars(covariance, plain, quantile, "within", text, _independent(fit), np.zeros(fit.prior.size))


def _between_runs(fit: LinearisedFit, between: Jackknife, plain: NDArray) -> ErrorBars:
    """Jackknife for shared parameters; for a run's own its error within the run plus what the shared ones pass on."""
    P, prior, shared = fit.prior.size, fit.prior, fit.seen_by > 1
    position, p = np.cumsum(shared) - 1, between.freedom.size
    passed_on = np.zeros((P, p))
    passed_on[shared] = np.eye(p)
    # What no run shows is known by its prior alone.
    told = (fit.seen_by == 0) & (prior > 0)
    inside = np.diag(np.where(told, 1.0 / np.where(told, prior, 1.0), 0.0))
    quantile = np.full(P, ndtri(0.975))
    quantile[shared] = stdtrit(between.freedom, 0.975)
    for run, share in zip(fit.runs, between.shares, strict=True):
        common = shared[run.index]
        separate = run.index[~common]
        if separate.size == 0:
            continue
        J, Q = run.rows[1], np.diag(prior[separate])
        bread = inverse(J[:, ~common].T @ J[:, ~common] + Q, 0.0)
        at, moved = position[run.index[common]], -bread @ J[:, ~common].T @ J[:, common]
        passed_on[np.ix_(separate, at)] = moved
        departing = moved @ (np.eye(p) - share)[at]
        alone = LinearisedRun(run.r, run.J[:, :, ~common], np.arange(separate.size))
        by_noise = bread @ (run.score[np.ix_(~common, ~common)] + Q) @ bread
        factor, unsure = _without_priors(uneven([alone], [run.noise.models], bread), bread, prior[separate], by_noise)
        by_noise = by_noise * np.sqrt(np.outer(factor, factor))
        inside[np.ix_(separate, separate)] = by_noise + departing * between.scatter @ departing.T
        perturbations = _displaced(bread, run.perturbations[:, :, ~common][:, :, :, ~common])
        # One standard deviation of the logarithm of chi^2 to either side.
        factors = np.exp(np.outer([-1, 1], np.sqrt(polygamma(1, between.freedom / 2)))) - 1
        uncertain = np.einsum("sk,pk->ksp", factors, departing**2 * between.scatter)
        displaced = np.concatenate([perturbations * factor, uncertain])
        quantile[separate] = _quantile(np.diag(inside)[separate], displaced, unsure)
    covariance = passed_on @ between.covariance @ passed_on.T + inside
    fewest, most = (f"{value:.2g}" for value in (between.freedom.min(), between.freedom.max()))
    text = (
        f"between runs: jackknife over the {len(fit.runs)} runs (each left out in turn, linearised) for what they "
        f"share, with Student's t of {fewest if fewest == most else f'{fewest} to {most}'} degrees of freedom, because "
        "it sees whatever differs from run to run"
    )
    if not shared.all():
        text += (
            f"; per-run parameters by the residuals within the run, modelled by {_models(fit)}, and by how much the "
            "run may depart from what they share"
        )
    scatter = np.zeros(P)
    scatter[shared] = between.scatter
    return ErrorBars(covariance, plain, quantile, "between", text, _independent(fit), scatter)


def _without_priors(noisier, bread: NDArray, prior: NDArray, covariance: NDArray) -> tuple[NDArray, NDArray]:
    """What is noisier, (P,) factors and how unsure they are, where a part of each variance is what priors say."""
    factor, unsure = noisier
    told = (bread**2 @ prior) / np.maximum(np.diag(covariance), TINY)
    share = np.clip(1.0 - told, 0.0, 1.0)
    return 1.0 + share * (factor - 1.0), share**2 * unsure


def beside_bounds(
    covariance: NDArray, bread: NDArray, gradient: NDArray, inwards: NDArray, quantile: NDArray
) -> tuple[NDArray, NDArray]:
    """Return how far the intervals of P elements reach downwards and upwards (P,), where some elements are at bounds.

    Towards its own bound an element reaches infinitely far.

    Args:
        covariance, bread: (P, P) error bars and (J^T J + Q)^-1 as if there were no bounds.
        gradient: (P,) of the cost at the estimate; it vanishes but for what is at a bound.
        inwards: (P,) 1 of an element at its lower bound, -1 at its upper one, 0 of all others.
        quantile: (P,) half widths of intervals in standard errors.
    """
    bound = np.flatnonzero(inwards)
    beyond = -bread @ gradient

    def away(held: NDArray) -> float:
        return float(beyond[held] @ inverse(covariance[np.ix_(held, held)]) @ beyond[held])

    def reach(j: int, side: float) -> float:
        held = np.zeros(0, int)
        while inwards[j] * side >= 0:
            # With these at their bounds: the minimum, and what is left of the covariance.
            follow = [matrix[:, held] @ inverse(matrix[np.ix_(held, held)]) for matrix in (bread, covariance)]
            minimum, left = beyond - follow[0] @ beyond[held], covariance[:, j] - follow[1] @ covariance[held, j]
            radius = np.sqrt(quantile[j] ** 2 + max(away(bound) - away(held), 0.0))
            end = minimum + side * radius * left / max(np.sqrt(max(left[j], 0.0)), TINY)
            outside = [k for k in bound if k not in held and k != j and inwards[k] * end[k] < 0]
            if not outside:
                return max(side * float(end[j]), 0.0)
            held = np.append(held, outside)
        return np.inf

    sides = np.array([[reach(j, side) for j in range(quantile.size)] for side in (-1.0, 1.0)])
    return sides[0], sides[1]


def _displaced(bread: NDArray, perturbations: NDArray) -> NDArray:
    """(D, 2, P) how far the variances bread score bread^T of P parameters are off, bread (P, P_i)."""
    return np.einsum("pi,dsij,pj->dsp", bread, perturbations, bread)


def _quantile(variance: NDArray, displaced: NDArray, unsure: NDArray | float = 0.0) -> NDArray:
    """(P,) Student's t with the degrees of freedom that uncertain variances (P,) are worth, at least 1.

    The variance of log chi^2, trigamma(freedom / 2), is set to that of the logarithm of the variance: the sum over the
    directions `displaced` (D, 2, P) and `unsure` (P,).
    """
    below, above = (np.maximum(variance + side, TINY) for side in np.moveaxis(displaced, 1, 0))
    scatter = np.sum((np.log(above / below) / 2) ** 2, axis=0) + unsure
    # trigamma falls: 1 degree of freedom is pi^2 / 2, and from 1e7 on Student's t is the normal distribution.
    freedom = np.geomspace(1.0, 1e7, 400)
    return stdtrit(np.exp(np.interp(-scatter, -polygamma(1, freedom / 2), np.log(freedom))), 0.975)


def _independent(fit: LinearisedFit) -> float:
    return float(sum(run.present.sum(axis=0) @ run.independent for run in fit.runs))


def _models(fit: LinearisedFit) -> str:
    models = [(model, len(run.r)) for run in fit.runs for model in run.noise.models]
    orders = sorted({model.order for model, _ in models})
    name = f"AR({orders[0]})" if len(orders) == 1 else f"AR({orders[0]} to {orders[-1]})"
    neighbours = [model.autocovariance(n)[[0, min(model.every, n - 1)]] for model, n in models]
    strongest = max((float(gamma[1] / gamma[0]) for gamma in neighbours if gamma[0] > 0), key=abs, default=0.0)
    return f"{name} processes (correlation of neighbours up to {round(strongest, 2) + 0.0:.2f})"


@dataclass(frozen=True, eq=False)
class Jackknife:
    """Error bars of what several runs share."""

    covariance: NDArray  # (p, p) of the shared parameters
    freedom: NDArray  # (p,) degrees of freedom of the variances
    scatter: NDArray  # (p,) variances tau^2 of the runs' true parameters about their mean
    shares: NDArray  # (G, p, p) by how much of its own departure each run moves the estimate, A^-1 A_g


@dataclass(frozen=True, eq=False)
class _LeftOut:
    """What leaving out each of G runs would do to the p shared parameters, to first order."""

    delta: NDArray  # (G, p) how far the estimate moves
    information: NDArray  # (G, p, p) of the runs
    total: NDArray  # (p, p) information of all runs and priors
    removed: NDArray  # (G, p, p) inverses of the information of all but one
    # Per run, its residuals (m_g,) under the estimate from the others, its per-run parameters fitted.
    residuals: list[NDArray]
    mixing: list[NDArray]  # per run, (P_g, p) how its parameters move with the shared ones, its own made up for

    @classmethod
    def of(cls, fit: LinearisedFit) -> _LeftOut | None:
        """The estimates without each run; None if one run alone determines some combination of the shared ones."""
        shared = fit.seen_by > 1
        position, rows, mixings = np.cumsum(shared) - 1, [], []
        for run in fit.runs:
            r, J = run.rows
            common = shared[run.index]
            mixing = np.zeros((common.size, int(shared.sum())))
            mixing[common, position[run.index[common]]] = 1.0
            mixing[~common] = -np.linalg.lstsq(J[:, ~common], J @ mixing, rcond=None)[0]
            rows.append((r, J @ mixing))
            mixings.append(mixing)
        information, scores = np.array([S.T @ S for _, S in rows]), np.array([S.T @ r for r, S in rows])
        total = information.sum(axis=0) + np.diag(fit.prior[shared])
        scale = 1.0 / np.sqrt(np.diag(total))
        rest = (total - information) * np.outer(scale, scale)
        if np.linalg.cond(rest).max() > 1.0 / np.sqrt(np.finfo(float).eps):
            return None
        delta = np.linalg.solve(rest, (scores * scale)[:, :, None])[:, :, 0] * scale
        removed = np.linalg.inv(rest) * np.outer(scale, scale)
        residuals = [r + S @ moved for (r, S), moved in zip(rows, delta, strict=True)]
        return cls(delta, information, total, removed, residuals, mixings)


def jackknife(fit: LinearisedFit) -> Jackknife | None:
    """Covariance of what several runs share; None if one run alone determines some combination of it."""
    left_out = _LeftOut.of(fit)
    if left_out is None:
        return None
    G, p = left_out.delta.shape
    bread = inverse(left_out.total, 0.0)
    scatter = (G - 1) / G * left_out.delta.T @ left_out.delta
    known = np.diag(fit.prior[fit.seen_by > 1])
    score = np.array([X.T @ run.score @ X for X, run in zip(left_out.mixing, fit.runs, strict=True)])
    shares = left_out.information @ bread
    # delta_g = sum_h L_gh s_h, of the scores at the truth; those at the estimate are less by A_g A^-1 of all.
    centred = np.eye(G)[:, :, None, None] * np.eye(p) - shares[:, None]
    L = np.einsum("gij,ghjk->ghik", left_out.removed, centred)
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


def _spread(L: NDArray, score: NDArray) -> NDArray:
    """(G, G) covariance of one parameter's L s, rows (G, G, p), under scores of covariance (G, p, p)."""
    return np.einsum("ghk,hkl,mhl->gm", L, score, L, optimize=True)


def prediction_errors(fit: LinearisedFit) -> tuple[float, ...]:
    """Per run, the rms of its residuals with what runs share estimated without it; empty where that cannot be told."""
    if len(fit.runs) < 2 or not np.any(fit.seen_by > 1):
        return ()
    left_out = _LeftOut.of(fit)
    return () if left_out is None else tuple(float(np.sqrt(np.mean(r**2))) for r in left_out.residuals)


def under_loss(runs: Sequence[LinearisedRun], loss: Loss) -> list[LinearisedRun]:
    """The runs as error bars are computed from them: psi / sqrt(a), sqrt(a) J, a = mean psi' (Huber 1964, eq. 22)."""
    if not loss.robust:
        return list(runs)
    pulls = [[np.asarray(part) for part in loss.influence(run.r)] for run in runs]
    mean = max(float(np.nanmean(np.concatenate([slope.ravel() for _, slope in pulls]))), LEAST_SLOPE)
    both = zip(runs, pulls, strict=True)
    return [replace(run, r=psi / np.sqrt(mean), J=np.sqrt(mean) * run.J) for run, (psi, _) in both]


def slope_in_noise(loss: Loss, sigma: float) -> float:
    """The mean of psi' over normal noise of standard deviation sigma, E psi(r) r / sigma^2."""
    r = sigma * ndtri((np.arange(_QUANTILES) + 0.5) / _QUANTILES)
    return float(np.mean(np.asarray(loss.influence(r)[0]) * r) / np.mean(r**2))


def uneven(
    runs: Sequence[LinearisedRun], models: Sequence[Sequence[Autoregression]], bread: NDArray
) -> tuple[NDArray, NDArray]:
    """Factors (P,) by which uneven noise makes variances larger, and how uncertain their logarithms are (P,)."""
    rows = [run.rows[0] for run in runs]
    if sum(float(r @ r) for r in rows) > GROSS * sum(r.size for r in rows):
        return np.ones(len(bread)), np.zeros(len(bread))
    channels = list(_channels(runs, models, bread))
    inner = sum((b.T @ b for _, _, b, _ in channels), np.zeros_like(bread))
    seen, stated, squares, count = np.zeros(len(bread)), np.zeros(len(bread)), np.zeros(len(bread)), 0.0
    for e, U, b, index in channels:
        left = 1.0 - 2.0 * np.sum(U * b[:, index], axis=1) + np.einsum("tp,pq,tq->t", U, inner[np.ix_(index, index)], U)
        if not np.sum(left) > SLIGHT * left.size:
            continue
        mean, left = np.sum(e**2) / np.sum(left), np.maximum(left, 0.0)
        each = np.where(left > SLIGHT, e**2 / np.maximum(left, SLIGHT), mean)
        w = _moving_mean(b**2, max(left.size // _WINDOW, 1))
        seen += each @ w
        stated += mean * np.sum(w, axis=0)
        squares += np.sum(mean**2 * w**2 / np.maximum(left, SLIGHT)[:, None], axis=0)
        count += float(np.sum(left))
    known, count = (stated > 0) & (squares > 0), max(count, 1.0)
    F = np.divide(seen, stated, out=np.ones_like(seen), where=known)
    freedom = np.maximum(np.divide(stated**2, squares, out=np.full_like(seen, np.inf), where=known), 1.0)
    error = np.sqrt(np.maximum(2.0 / freedom - 2.0 / count, 0.0))
    share = np.clip(2.0 * (F - 1.0) / np.maximum(error, TINY) - 1.0, 0.0, 1.0)
    unsure = polygamma(1, 0.5 / (1.0 / count + share * error**2 / 2.0)) - polygamma(1, 0.5 * count)
    return 1.0 + share * np.maximum(F - 1.0, 0.0), np.where(share > 0, unsure, 0.0)


def _moving_mean(x: NDArray, size: int) -> NDArray:
    """(n, P) the mean of x (n, P) over `size` rows about each, mirrored at the ends."""
    around = np.pad(x, ((size // 2 + 1, (size - 1) // 2), (0, 0)), "symmetric")
    total = np.cumsum(around, axis=0)
    return (total[size:] - total[:-size]) / size


def _channels(runs, models, bread) -> Iterator[tuple[NDArray, NDArray, NDArray, NDArray]]:
    """Of every channel with noise: innovations (m,), filtered J (m, P_i), b (m, P), where its parameters lie."""
    for run, of_run in zip(runs, models, strict=True):
        for c, model in enumerate(of_run):
            present = ~np.isnan(run.r[:, c])
            if not (model.sigma > 0 and present.any()):
                continue
            W = whitening(model, present)
            J = np.where(present[:, None], run.J[:, c], 0.0)
            e = filtered(W, np.where(present, run.r[:, c], 0.0)[:, None])[:, 0]
            # W^T is an upper band; a sample that is missing has no row, and what belongs to it is zero.
            band = W.T[::-1].copy()
            band[-1] = np.where(present, band[-1], 1.0)
            b = solve_banded((0, len(band) - 1), band, J @ bread[run.index])
            yield e[present], filtered(W, J)[present], b[present], run.index
