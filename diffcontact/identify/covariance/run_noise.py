r"""The noise of one run: a model per channel, how far the models may be wrong, and what they mean for a fit.

The channels of one run share what the fit has taken out, and each by itself has too little left to tell what it was. So
they are given one polynomial and a scale each, unless polynomials of their own are likelier by more than their number
explains (Akaike).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import polygamma

from diffcontact.identify.covariance.autoregression import Autoregression, autoregression, grid, predecessors, whitening


@dataclass(frozen=True)
class RunNoise:
    """The models of a run's channels, and how far they may be wrong.

    Attributes:
        models: one per channel.
        perturbations: pairs of such lists, displaced by one standard deviation to either side. There is one pair for
            each independent direction in which the residuals leave the models uncertain.
    """

    models: list[Autoregression]
    perturbations: list[tuple[list[Autoregression], list[Autoregression]]]


def run_noise(r: NDArray, J: NDArray) -> RunNoise:
    """Models of a run's channels: of one polynomial for all, or of one for each.

    Args:
        r: (n, k) residuals, NaN where missing.
        J: (n, k, P) their Jacobian, zero where missing.

    Example:
        >>> from scipy.signal import lfilter
        >>> noise = np.random.default_rng(0).normal(size=(400, 2)) * [1.0, 5.0]
        >>> noise = run_noise(lfilter([1.0], [1.0, -0.9], noise, axis=0), np.zeros((400, 2, 1)))
        >>> [model.order for model in noise.models], bool(noise.models[1].sigma > 4 * noise.models[0].sigma)
        ([1, 1], True)
    """
    channels = range(r.shape[1])
    models, groups = [autoregression(r[:, c], J[:, c]) for c in channels], [[c] for c in channels]
    common = _common(r, J, models) if len(models) > 1 else models
    if misfit(r, common) + 2 * common[0].order < misfit(r, models) + 2 * sum(model.order for model in models):
        models, groups = common, [list(channels)]
    perturbations = []
    for group in groups:
        for pair in models[group[0]].perturbations:
            perturbations.append(
                tuple([replace(m, polynomial=a) if c in group else m for c, m in enumerate(models)] for a in pair)
            )
    for c, model in enumerate(models):
        # Half that of the logarithm of chi^2.
        deviation = 0.5 * np.sqrt(polygamma(1, model.freedom / 2))
        displaced = (replace(model, sigma=model.sigma * np.exp(side * deviation)) for side in (-1, 1))
        perturbations.append(tuple([*models[:c], other, *models[c + 1 :]] for other in displaced))
    return RunNoise(models, perturbations)


def _common(r: NDArray, J: NDArray, separate: list[Autoregression]) -> list[Autoregression]:
    """One polynomial for all channels, put one behind the other with a gap between.

    Each in the scale of its innovations: its slow motion, of which a record holds little, would be a poor one.
    """
    scale = np.array([model.sigma for model in separate])
    # A channel without noise, or without samples, has nothing to say.
    r, J = np.where(scale > 0, r, np.nan), np.where(scale[:, None] > 0, J, 0.0)
    count, divisor = np.sum(~np.isnan(r), axis=0), np.where(scale > 0, scale, 1.0)
    # As wide as any between two samples, so that no step leads from one channel to the next.
    gap = max(int(np.max(np.diff(np.flatnonzero(seen)), initial=1)) for seen in ~np.isnan(r).T)
    one = np.concatenate([r / divisor, np.full((gap, r.shape[1]), np.nan)]).ravel(order="F")
    columns = np.concatenate([J / divisor[:, None], np.zeros((gap, *J.shape[1:]))]).transpose(1, 0, 2)
    model = autoregression(one, columns.reshape(one.size, -1))
    share = np.maximum(count, 1) / max(count.sum(), 1)
    return [replace(model, sigma=model.sigma * s, freedom=model.freedom * f) for s, f in zip(scale, share, strict=True)]


def misfit(r: NDArray, models: list[Autoregression]) -> float:
    """-2 log L of residuals, whatever was fitted, under polynomials of which each is given the scale that suits it.

    Args:
        r: (n, k) residuals, NaN where missing.
        models: one per channel.
    """
    total = 0.0
    for channel, model in zip(r.T, models, strict=True):
        present = ~np.isnan(channel)
        if model.sigma == 0.0:
            continue
        W, filled = whitening(model, present), np.where(present, channel, 0.0)
        innovations = np.zeros_like(filled)
        for lag in range(W.shape[1]):
            innovations[lag:] += W[lag:, lag] * filled[: filled.size - lag]
        total += present.sum() * np.log(np.mean(innovations[present] ** 2)) - 2 * np.sum(np.log(W[present, 0]))
    return total


def score_covariance(models: list[Autoregression], r: NDArray, J: NDArray) -> NDArray:
    """Covariance (P, P) of the score J^T r when r is noise of the given models, correlated between channels too.

    Args:
        models: one per channel.
        r: (n, k) residuals, NaN where missing.
        J: (n, k, P) Jacobian, zero where missing.
    """
    return correlated_score(
        [model.spectrum(grid(r.shape[0])) for model in models], innovation_correlation(models, r), J
    )


def correlated_score(spectra: Sequence[NDArray], rho: NDArray, J: NDArray) -> NDArray:
    r"""Covariance (P, P) of the score J^T r of noise with given spectra, correlated between channels too.

    sum_cd J_c^T Sigma_cd J_d with Toeplitz matrices Sigma_cd, by Fourier transforms (F that of J, zero-padded)::

        sum_cd rho_cd sum_w sqrt(S_c(w) S_d(w)) F_c(w)^* F_d(w) / L

    Args:
        spectra: one per channel, at the frequencies of a real Fourier transform of length L = `grid(n)`.
        rho: (k, k) correlation of the channels' innovations.
        J: (n, k, P) Jacobian, zero where missing.
    """
    L = grid(J.shape[0])
    F = np.fft.rfft(J, L, axis=0) * np.sqrt(np.asarray(spectra)).T[:, :, None]
    # A real transform holds one of each pair of conjugate frequencies, 0 and the highest (L is even) stand alone.
    weight = np.full(F.shape[0], 2.0 / L)
    weight[[0, -1]] /= 2.0
    return np.einsum("w,cd,wcp,wdq->pq", weight, rho, F.conj(), F, optimize=True).real


def innovation_correlation(models: list[Autoregression], r: NDArray) -> NDArray:
    """(k, k) correlation of the innovations that residuals (n, k) have under models of their channels."""
    present = ~np.isnan(r)
    filled = np.where(present, r, 0.0)
    innovations = np.zeros_like(filled)
    for channel, model in enumerate(models):
        seen = present[:, channel]
        whole = seen & (predecessors(seen, model.order, model.every) == model.order)
        innovations[whole, channel] = np.convolve(model.polynomial, filled[:, channel])[: seen.size][whole]
    norms = np.linalg.norm(innovations, axis=0)
    norms[norms == 0.0] = 1.0
    correlation = (innovations / norms).T @ (innovations / norms)
    np.fill_diagonal(correlation, 1.0)
    return correlation
