"""Patterns in residuals: too large, following each other, a curve, largest at impacts, growing, a few far off.

If the model is right and the noise as stated, chi^2 / dof is 1 within sqrt(2 / n), of n independent residuals. Two mean
squares are compared by their ratio, which is F-distributed. A noise that is stated large would hide any shape, so
shapes are judged whatever it is, and it is compared with how rough the residuals are (`noise.roughness`).

**A curve** or correlated noise? By their likelihoods, each penalised for its p or K coefficients (Schwarz, p log n):

    r_t = correlated          AR(p), p <= 8 (`identify.noise`)
    r_t = curve(t) + white    curve = sum_k c_k b_k(t), k <= K,  b = 1, t, t^2, t^3, cos(pi t), cos(2 pi t), ...

In a second family every impact at t_i adds (t - t_i)_+^j, j = 0 to 3, behind the cubic. What the fit has taken out of r
is taken out of the b_k, too.

**What intervals do not hold.** A curve, or a misfit at impacts or late in a record, is taken to have moved the
parameters by as much as is left, in the worst shape (`LinearisedFit.worst_shift`): from three runs on by half of it.

**Ratios of the noise.** Where the noise of some samples of a channel is stated larger than that of others, the mean
square sum r_t^2 / sum (1 - h_t) of both halves, h_t the leverage, is of the same size if the ratios are right.

Source: G. Schwarz, Annals of Statistics 6 (1978) 461, for the penalty.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri, fdtrc, ndtri

from diffcontact.identify.linearised import LinearisedRun
from diffcontact.identify.noise import PER_FREEDOM, misfit, robust_size
from diffcontact.identify.verdict.evidence import Evidence
from diffcontact.identify.verdict.reasons import (
    FEWEST,
    GROSS,
    LEVELS,
    MISFIT,
    OF_A_COLUMN,
    OVERSTATED,
    RATIO,
    RUNS_TO_COMPARE,
    Reason,
)
from diffcontact.numerics.least_squares import TINY, orthonormal

# Correlation of neighbours from which on intervals that take the samples as independent are too short by a half.
_CORRELATED = 0.4
# Noise of which each sample follows from those before but for this part of its size has a correlation of 0.9988 between
# neighbours: filtered data aside, that is no noise but a curve.
_SMOOTH = 0.05
# A sample this many standard deviations off is none of the noise, as long as this part of all are at most.
_FAR, _FEW = 6.0, 0.05
# The part of a misfit that runs may have in common, in the shape that does most: all of it has hardly ever.
_ALIKE = 0.5
# One half may be all but alone: intervals are then off by the root of this, a fifth.
_HALVES = 1.5
# A curve is e^15 times as likely as correlated noise, in -2 log L. In shorter records slow noise is a curve, and none
# can tell. A curve has one coefficient in so many samples, and so many at most: else it is no smooth one.
_DECISIVE, _LONG = 30.0, 100
_SAMPLES, _MOST = 10, 50


def patterns(evidence: Evidence) -> Iterator[Reason]:
    """What the residuals of a fit show, if anything."""
    runs = evidence.runs
    tracks, far = _without_outliers(evidence)
    rho, compared = _correlation(tracks), len(runs) >= RUNS_TO_COMPARE
    chi2, large = evidence.misfit, _large(evidence)
    struck, third = [run.struck for run in runs], [(run.times[-1] - run.times[0]) / 3 for run in runs]
    # Of two samples, as before and after an impact, there is no last third.
    third = [length if run.times.size > 2 else -1.0 for run, length in zip(runs, third, strict=True)]
    first = [run.times <= run.times[0] + length for run, length in zip(runs, third, strict=True)]
    last = [run.times >= run.times[-1] - length for run, length in zip(runs, third, strict=True)]
    at_impacts = _ratio(runs, tracks, struck, [~rows for rows in struck])
    late, early = _ratio(runs, tracks, last, first), _ratio(runs, tracks, first, last)
    new = _innovation(runs)
    curves = [np.inf] * len(runs) if new < _SMOOTH else [curve(run) for run in runs]
    correlated, curved = abs(rho) > _CORRELATED, max(curves) > 0
    shapes = [
        (at_impacts > 0, "at impacts", {"ratio": at_impacts}),
        (late > 0, "grow", {"ratio": late}),
        (early > 0, "fade", {"ratio": early}),
        (far > 0, "far off", {"count": far, "limit": _FAR}),
        (new < _SMOOTH, "smooth", {"percent": 100 * new}),
        (new >= _SMOOTH and curved, "curve in runs" if compared else "curve", {"ratio": max(curves)}),
        # Noise that nobody stated may follow itself: intervals hold that.
        (correlated and not curved and (large or not evidence.estimated), "correlated", {"correlation": rho}),
    ]
    unheld = ()
    if curved:
        whole = [float(np.sqrt(np.nansum(run.r[:, : run.tracks] ** 2))) for run in runs]
        sizes = [size / float(np.sqrt(1 + c**-2)) if c else 0.0 for size, c in zip(whole, curves, strict=True)]
        unheld = _unheld(evidence, sizes)
    elif correlated and large:
        places = [(at_impacts, struck), (late, last), (early, first)]
        if compared:
            places = [(float(np.sqrt(chi2)), [np.ones(len(r), bool) for r in tracks])]
        for ratio, here in places:
            if ratio and not unheld:
                parts = [r[rows] for r, rows in zip(tracks, here, strict=True)]
                unheld = _unheld(evidence, [np.sqrt(np.nansum(r**2) * (1 - ratio**-2)) for r in parts], here)
    told = [Reason(code, figures) for holds, code, figures in shapes if holds]
    told += [Reason("unheld in runs" if compared else "unheld", {"moved": unheld})] if unheld else []
    term, shaped = curved or correlated, bool(at_impacts) or curved or correlated
    # Noise that is larger in one part of the record and does not follow itself there.
    uneven = bool(late or early) and not correlated
    advice = [
        (uneven, "try a noise"),
        (far > 0, "try to flag"),
        (at_impacts > 0, "try another impact"),
        (term or late > 0, "try a term"),
    ]
    codes = [code for holds, code in advice if holds]
    codes += ["try starts"] if not codes or (large and not at_impacts) else []
    noise = Reason("estimated noise" if evidence.estimated else "stated noise")
    figures = {"times": np.sqrt(chi2), "chi2": chi2, "noise": noise}
    figures |= {"shapes": tuple(told), "advice": tuple(map(Reason, codes))}
    fatal = bool(unheld) or bool(large and (chi2 > GROSS or (shaped and chi2 > MISFIT * _noise(evidence))))
    if told:
        yield Reason("misfit" if large else "pattern", figures, fatal)
    elif large and (chi2 > GROSS or evidence.estimated):
        # Few samples per flight, fitted with bounces in the wrong places, look like noise.
        yield Reason("gross without a pattern", figures, fatal=True)
    elif large and not evidence.estimated:
        rest = "" if evidence.outlier_scale else " The intervals rest on the residuals."
        yield Reason("noise", figures | {"rest": rest})


def noise_overstated(evidence: Evidence) -> Iterator[Reason]:
    """Whether the noise is stated far larger than samples are rough, so that hardly any misfit exceeds it."""
    rough, freedom = evidence.rough[0], evidence.rough[1] / PER_FREEDOM
    if evidence.estimated or rough >= OVERSTATED or freedom <= 1:
        return
    if rough < chdtri(freedom, 1 - LEVELS["pattern"]) / freedom:
        times = f"{1 / np.sqrt(rough):.2g} times" if rough > 1e-6 else "more than 1000 times"
        yield Reason("noise overstated", {"times": times, "chi2": evidence.misfit})


def noise_ratios(evidence: Evidence) -> Iterator[Reason]:
    """Whether the noise of a channel's samples is stated in the ratios that it has."""
    squares, counts = np.zeros(2), np.zeros(2)
    for run in evidence.runs:
        tracks, present = slice(run.tracks), run.present[:, : run.tracks]
        r = np.asarray(evidence.objective.loss.squared(run.r[:, tracks])[0])
        stated = np.log(run.sigma[:, tracks])
        seen = np.any(present, axis=0)
        low = np.where(seen, np.min(stated, axis=0, where=present, initial=np.inf), 0.0)
        high = np.where(seen, np.max(stated, axis=0, where=present, initial=-np.inf), 0.0)
        left = 1.0 - run.leverage[:, tracks]
        above = stated > (low + high) / 2
        for side, half in enumerate((~above, above)):
            worth = run.worth[tracks] * (present & half & (high > low))
            squares[side] += np.sum(worth * np.nan_to_num(r) ** 2)
            counts[side] += np.sum(worth * left)
    if np.any(counts < FEWEST) or not np.all(squares > 0):
        return
    small, large = mean = squares / counts
    above, below = np.argsort(-mean)
    ratio = mean[above] / mean[below]
    if ratio >= _HALVES and fdtrc(counts[above], counts[below], ratio) <= LEVELS["noise ratios"]:
        length = "short" if small > large else "long"
        yield Reason("noise ratios", {"large": np.sqrt(large), "small": np.sqrt(small), "length": length})


def _large(evidence: Evidence) -> bool:
    chi2, n = evidence.misfit, evidence.fit.effective
    large = chi2 > chdtri(n, LEVELS["correlated misfit"]) / n
    if evidence.estimated:
        # It is as rough as some samples say, and larger by an unknown factor where neighbours are correlated.
        rough, freedom = evidence.rough_mean
        chi2 /= rough
        return bool(chi2 > MISFIT and freedom > 1 and fdtrc(n, freedom, chi2) < LEVELS["correlated misfit"])
    return bool(large and chi2 > chdtri(evidence.fit.samples, LEVELS["pattern"]) / evidence.fit.samples)


def _noise(evidence: Evidence) -> float:
    rough, n = evidence.rough
    freedom = n / PER_FREEDOM
    return rough if freedom > 1 and rough > chdtri(freedom, LEVELS["pattern"]) / freedom else 1.0


def _without_outliers(evidence: Evidence) -> tuple[list[NDArray], int]:
    """The tracks' residuals per run without samples far outside the distribution of the others; how many those are."""
    tracks = [run.r[:, : run.tracks] for run in evidence.runs]
    far = [_far(r) for r in tracks]
    count = int(sum(part.sum() for part in far))
    if evidence.objective.loss.robust or count > _FEW * evidence.fit.samples:
        return tracks, 0
    return [np.where(off, np.nan, r) for off, r in zip(far, tracks, strict=True)], count


def _far(r: NDArray) -> NDArray:
    """(n, k) which samples are far off, by the median of the others; quantised ones may all but agree."""
    size = np.abs(r)
    if np.sum(~np.isnan(r)) < 10:
        return np.zeros(r.shape, bool)
    with warnings.catch_warnings():
        # A channel without samples has none far off.
        warnings.simplefilter("ignore", RuntimeWarning)
        scale = robust_size(r, axis=0)
    return (size > _FAR * scale) & (scale > 0)


def _correlation(tracks: list[NDArray]) -> float:
    """The correlation of neighbours of largest size among those that are certainly not zero."""
    strongest, channels = 0.0, sum(r.shape[1] for r in tracks)
    clear = -ndtri(LEVELS["pattern"] / 2 / max(channels, 1))
    for channel in (channel for r in tracks for channel in r.T):
        pairs = channel[1:] * channel[:-1]
        count = int(np.sum(~np.isnan(pairs)))
        if count < 2 or not np.nansum(channel**2) > 0:
            continue
        rho = float(np.nanmean(pairs) / np.nanmean(channel**2))
        if abs(rho) * np.sqrt(count) > clear and abs(rho) > abs(strongest):
            strongest = rho
    return strongest


def _innovation(runs: tuple[LinearisedRun, ...]) -> float:
    shares = [
        model.sigma / np.sqrt(np.mean(channel[~np.isnan(channel)] ** 2))
        for run in runs
        for model, channel in zip(run.noise.models[: run.tracks], run.r.T, strict=False)
        if model.order and model.sigma > 0
    ]
    return float(min(shares, default=1.0))


def _unheld(evidence: Evidence, sizes: list[float], where: list[NDArray] | None = None) -> tuple[Reason, ...]:
    if not evidence.kept.any():
        return ()
    part = _ALIKE if len(evidence.runs) >= RUNS_TO_COMPARE else 1.0
    return evidence.beyond(part * evidence.at_most(sizes, where))


def _ratio(runs, tracks: list[NDArray], here: list[NDArray], there: list[NDArray]) -> float:
    """Root mean square in one part of the records over that in another; 0 where it is not certainly larger."""
    squares, counts = np.zeros(2), np.zeros(2)
    for run, r, *sides in zip(runs, tracks, here, there, strict=True):
        for side, rows in enumerate(sides):
            squares[side] += np.sum(np.nan_to_num(r[rows]) ** 2 * run.worth[: run.tracks])
            counts[side] += np.sum(~np.isnan(r[rows]) * run.worth[: run.tracks])
    if np.any(counts < FEWEST) or not np.all(squares > 0):
        return 0.0
    ratio = float((squares[0] / counts[0]) / (squares[1] / counts[1]))
    return float(np.sqrt(ratio)) if ratio > RATIO and fdtrc(*counts, ratio) < LEVELS["pattern"] else 0.0


def curve(run: LinearisedRun) -> float:
    """The size of a smooth curve in a run's residuals over the noise about it; 0 where there is certainly none."""
    seen = run.present.sum(axis=0)
    channels = [c for c in range(run.tracks) if seen[c] >= _LONG and np.nansum(run.r[:, c] ** 2) > 0]
    if not channels:
        return 0.0
    models, r = [run.noise.models[c] for c in channels], run.r[:, channels]
    orders = sum(model.order * np.log(seen[c]) for c, model in zip(channels, models, strict=True))
    count = min(int(seen[channels].min()) // _SAMPLES, _MOST)
    families = [shapes_of(len(r), count)]
    # Each impact is in the middle of the samples that it lies between.
    breaks = np.array([before + behind for before, behind in run.impacts]) / (2 * max(len(run.struck) - 1, 1))
    if 0 < 4 * breaks.size < count - 4:
        families.append(shapes_of(len(r), count, breaks))
    smooth, size = min(_fitted(r, run.J[:, channels], shapes) for shapes in families)
    return size if misfit(r, models) + orders - smooth > _DECISIVE else 0.0


def _fitted(r: NDArray, J: NDArray, shapes: NDArray) -> tuple[float, float]:
    """-2 log L with its penalty of the best curves (n, k) and white noise, and the curves' size over the noise's."""
    present = ~np.isnan(r)
    y, count = r[present], present.sum(axis=0)
    # From slow to fast, one of each for every channel.
    basis = np.einsum("nm,cd->ncmd", shapes, np.eye(r.shape[1])).reshape(*r.shape, -1)[present]
    Q = beside(orthonormal(J[present]), basis)
    kept, parts = np.any(Q != 0, axis=0), (Q.T @ y) * Q
    rest = y[:, None] - np.cumsum(np.column_stack([np.zeros_like(y), parts]), axis=1)
    channel = np.nonzero(present)[1]
    squares = np.stack([np.sum(rest[channel == c] ** 2, axis=0) for c in range(r.shape[1])])
    squares = np.maximum(squares, TINY)
    likelihood = count @ np.log(squares / count[:, None])
    schwarz = likelihood + np.append(0, np.cumsum(kept)) * np.log(count.min())
    best = int(np.argmin(schwarz))
    left = float(squares[:, best].sum())
    return float(schwarz[best]), float(np.sqrt(max(float(y @ y) - left, 0.0) / left)) if best else 0.0


def beside(U: NDArray, basis: NDArray) -> NDArray:
    """Columns (m, K) that span the basis one by one, orthogonal to U; zero where the others leave nothing."""
    Q = np.column_stack([U, np.zeros_like(basis)])
    for k, column in enumerate(basis.T, U.shape[1]):
        rest = column
        for _ in range(2):
            rest = rest - Q @ (Q.T @ rest)
        if (size := np.linalg.norm(rest)) > OF_A_COLUMN * np.linalg.norm(column):
            Q[:, k] = rest / size
    return Q[:, U.shape[1] :]


def shapes_of(n: int, count: int, breaks: NDArray | tuple[float, ...] = ()) -> NDArray:
    """(n, count) of functions from slow to fast over n samples: a cubic's, those from a break on, then cosines."""
    t = np.linspace(0.0, 1.0, n)
    broken = [np.where(t > at, (t - at) ** k, 0.0) for at in breaks for k in range(4)]
    cosines = (np.cos(np.pi * k * t) for k in range(1, count - 3 - len(broken)))
    return np.stack([*(t**k for k in range(4)), *broken, *cosines], axis=1)
