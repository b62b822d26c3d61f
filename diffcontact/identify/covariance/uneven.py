r"""Noise that is larger where it matters: in one half of a record, at one end of the picture, where a body is slow.

Error bars of noise that is as large everywhere are too short for a parameter that rests on the noisier samples. With W
the filter that makes the noise of a channel white (`whitening`), e = W r its innovations, and B the bread,

    theta_hat - theta = -sum_t b_t eta_t,    b = W^-T J B,    eta the innovations of the noise itself
    F = sum_t w_t e_t^2 / K_t  /  (sum_t w_t  mean e^2 / mean K),    Var e_t = K_t Var eta_t

with w_t the mean of b^2 over a third of the record about t, is by how much the variance of a parameter is larger than
where eta is as large everywhere in its channel. K_t, what the fit leaves of a sample, makes F unbiased if it is (HC2,
there with b_t^2 itself, which for a parameter that rests on few samples is as uncertain as these). The squares are
known with (sum w)^2 / sum w^2 / K degrees of freedom, which gives F a standard error. By chance F is above 1 in every
second record: up to half of that error it counts as 1, beyond a whole one as it is, and in between in part.

Source: J. G. MacKinnon, H. White, J. Econometrics 29 (1985) 305, for HC2; R. M. Bell, D. F. McCaffrey, Survey
Methodology 28 (2002) 169, for the degrees of freedom.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_banded
from scipy.ndimage import uniform_filter1d
from scipy.special import polygamma

from diffcontact.identify.covariance.autoregression import Autoregression, whitening
from diffcontact.identify.covariance.jackknife import RunResidual

# A sample of which the fit leaves less than this part says nothing of the noise there.
_LEFT = 1e-3
# Of a channel's samples, the part over which the size of the noise is taken as one.
_WINDOW = 3
# Residuals this many times the stated noise, in squares, are a misfit, whose intervals nobody may use (the verdict's
# `patterns`). As noise it is uneven, and intervals that are the longer reach past the better minimum next door.
_GROSS = 20.0
_TINY = np.finfo(float).tiny


def uneven(
    runs: Sequence[RunResidual], models: Sequence[Sequence[Autoregression]], bread: NDArray
) -> tuple[NDArray, NDArray]:
    """By how much uneven noise makes the variances larger, and how uncertain that is.

    Args:
        runs: at the solution, with indices into the parameters of `bread`.
        models: per run, of the noise of its channels.
        bread: (P, P).

    Returns:
        (P,) factors of the variances, at least 1, and (P,) by how much the variances of their logarithms grow.

    Example:
        >>> rng, J = np.random.default_rng(0), np.kron(np.eye(2), np.ones((100, 1)))  # two means, of a half each
        >>> y = rng.normal(size=200) * np.repeat([1.0, 3.0], 100)
        >>> r = (y - J @ (J.T @ y) / 100)[:, None]
        >>> run, white = RunResidual(r, -J[:, None], np.arange(2)), Autoregression(np.ones(1), 1.0)
        >>> factor, _ = uneven([run], [[white]], np.eye(2) / 100)
        >>> bool(factor[0] == 1.0), bool(1.5 < factor[1] < 2.1)  # 9 instead of (1 + 9) / 2
        (True, True)
    """
    rows = [run.rows[0] for run in runs]
    if sum(float(r @ r) for r in rows) > _GROSS * sum(r.size for r in rows):
        return np.ones(len(bread)), np.zeros(len(bread))
    channels = list(_channels(runs, models, bread))
    inner = sum((b.T @ b for _, _, b, _ in channels), np.zeros_like(bread))
    seen, stated, squares, count = np.zeros(len(bread)), np.zeros(len(bread)), np.zeros(len(bread)), 0.0
    for e, U, b, index in channels:
        left = 1.0 - 2.0 * np.sum(U * b[:, index], axis=1) + np.einsum("tp,pq,tq->t", U, inner[np.ix_(index, index)], U)
        if not np.sum(left) > _LEFT * left.size:
            continue
        mean, left = np.sum(e**2) / np.sum(left), np.maximum(left, 0.0)
        each = np.where(left > _LEFT, e**2 / np.maximum(left, _LEFT), mean)
        w = uniform_filter1d(b**2, max(left.size // _WINDOW, 1), axis=0, mode="reflect")
        seen += each @ w
        stated += mean * np.sum(w, axis=0)
        squares += np.sum(mean**2 * w**2 / np.maximum(left, _LEFT)[:, None], axis=0)
        count += float(np.sum(left))
    known, count = (stated > 0) & (squares > 0), max(count, 1.0)
    F = np.divide(seen, stated, out=np.ones_like(seen), where=known)
    freedom = np.maximum(np.divide(stated**2, squares, out=np.full_like(seen, np.inf), where=known), 1.0)
    error = np.sqrt(np.maximum(2.0 / freedom - 2.0 / count, 0.0))
    share = np.clip(2.0 * (F - 1.0) / np.maximum(error, _TINY) - 1.0, 0.0, 1.0)
    unsure = polygamma(1, 0.5 / (1.0 / count + share * error**2 / 2.0)) - polygamma(1, 0.5 * count)
    return 1.0 + share * np.maximum(F - 1.0, 0.0), np.where(share > 0, unsure, 0.0)


def _channels(runs, models, bread) -> Iterator[tuple[NDArray, NDArray, NDArray, NDArray]]:
    """Of every channel with noise: innovations (m,), filtered J (m, P_i), b (m, P), where its parameters lie."""
    for run, of_run in zip(runs, models, strict=True):
        for c, model in enumerate(of_run):
            present = ~np.isnan(run.r[:, c])
            if not (model.sigma > 0 and present.any()):
                continue
            W = whitening(model, present)
            J = np.where(present[:, None], run.J[:, c], 0.0)
            e = _filtered(W, np.where(present, run.r[:, c], 0.0)[:, None])[:, 0]
            # W^T is an upper band; a sample that is missing has no row, and what belongs to it is zero.
            band = W.T[::-1].copy()
            band[-1] = np.where(present, band[-1], 1.0)
            b = solve_banded((0, len(band) - 1), band, J @ bread[run.index])
            yield e[present], _filtered(W, J)[present], b[present], run.index


def _filtered(W: NDArray, x: NDArray) -> NDArray:
    """(n, m) sum over lags of W (n, p+1) with x (n, m)."""
    found = np.zeros_like(x)
    for lag in range(min(W.shape[1], len(x))):
        found[lag:] += W[lag:, lag, None] * x[: len(x) - lag]
    return found
