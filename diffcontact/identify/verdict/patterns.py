r"""Patterns in residuals: too large, following each other, largest at impacts, growing, a few far off.

If the model is right and the noise as stated, chi^2 / dof is 1 within sqrt(2 / n). Residuals that follow each other are
worth fewer than their number, n of them independent (`effective_count`); every test here counts those. Two mean squares
are compared by their ratio, which is F-distributed.

Noise is stated by people, and a noise that is stated large would hide any shape. So shapes are judged whatever it is,
and it is itself compared with how rough the residuals are from sample to sample (`noise.roughness`): that much is
noise certainly, and a misfit is as large as what exceeds both.

Intervals take what is left for noise. A curve, or what stands at impacts or late in a record and follows itself, is
none, and what of it the parameters have taken up nobody sees. It is taken to be as large as what is left, in the shape
that moves a parameter most (`shifts`): where an interval reaches less far, it cannot be used. From three runs on
intervals rest on what differs between them, and hold the misfit as far as it does. What is alike in all runs they do
not hold: then half of everything that is left beyond the noise is weighed in this way.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri, fdtrc, ndtri

from diffcontact.identify.error_bars import RUNS_TO_COMPARE
from diffcontact.identify.noise import PER_FREEDOM
from diffcontact.identify.verdict.curve import curve_in
from diffcontact.identify.verdict.evidence import Evidence, RunEvidence
from diffcontact.identify.verdict.shifts import Shifts
from diffcontact.identify.verdict.verdict import Reason

# One false alarm in a thousand fits and test, so that some ten tests together raise one in a hundred.
LEVEL = 1e-3
# A model that is wrong leaves residuals that follow each other, too: counted as few, they would be believed too easily.
_CORRELATED_LEVEL = 1e-2
# Residuals this many times the stated noise, in squares, that are no noise: what is left out is not small.
_GROSS = 20.0
# Residuals with a shape whose squares are this many times the noise: most of what is left is no noise.
_MISFIT = 4.0
# Squares over what was stated below which the noise was certainly not as large as that.
_OVERSTATED = 0.25
# A pattern that is significant and smaller than this changes nobody's mind.
_RATIO = 2.0
# Correlation of neighbours from which on intervals that take the samples as independent are too short by a half.
_CORRELATED = 0.4
# Noise of which each sample follows from those before but for this part of its size has a correlation of 0.9988 between
# neighbours: filtered data aside, that is no noise but a curve.
_SMOOTH = 0.05
# A sample this many standard deviations off is none of the noise, as long as this part of all are at most.
_FAR, _FEW = 6.0, 0.05
# The part of a misfit that runs may have in common, in the shape that does most: all of it has hardly ever.
_ALIKE = 0.5
# Independent samples of which a mean square is worth having.
_FEWEST = 3


def patterns(evidence: Evidence) -> Iterator[Reason]:
    """What the residuals of a fit show, if anything."""
    tracks, far = _without_outliers(evidence)
    correlation = _correlation(tracks)
    struck, last, first = ([part(run) for run in evidence.runs] for part in (_at_impacts, _last, _first))
    worth = [run.worth[: run.tracks] for run in evidence.runs]
    at_impacts = _ratio(tracks, worth, struck, [~rows for rows in struck])
    late, early = _ratio(tracks, worth, last, first), _ratio(tracks, worth, first, last)
    shapes = []
    if at_impacts:
        shapes.append(f"are {at_impacts:.1f} times as large at the impacts as elsewhere")
    if late:
        shapes.append(f"grow: {late:.1f} times as large in the last third of the record as in the first")
    if early:
        shapes.append(f"are {early:.1f} times as large in the first third of the record as in the last")
    if far:
        shapes.append(f"hold {far} far off, by more than {_FAR:g} standard deviations of the others")
    misfit, n = evidence.misfit, evidence.effective
    large = misfit > chdtri(n, _CORRELATED_LEVEL) / n
    large &= misfit > chdtri(evidence.samples, LEVEL) / evidence.samples
    new, curves = _innovation(evidence), [0.0] * len(evidence.runs)
    if new < _SMOOTH:
        curves = [np.inf] * len(evidence.runs)
        shapes.append(
            f"are a smooth curve, not noise, for which the intervals take it: each sample follows from those before to "
            f"{100 * new:.1g} % of their size"
        )
    elif curve := max(curves := [_curve(run) for run in evidence.runs]):
        shapes.append(f"are noise about a smooth curve, {curve:.2g} times as large as that noise; {_taken(evidence)}")
    elif abs(correlation) > _CORRELATED:
        shapes.append(f"follow each other (correlation of neighbours {correlation:.2f})")
    unheld = ""
    if new < _SMOOTH or any(curves):
        unheld = _unheld(evidence, [_part(run, size) for run, size in zip(evidence.runs, curves, strict=True)])
    elif abs(correlation) > _CORRELATED and large:
        places = [(at_impacts, struck), (late, last), (early, first)]
        if len(evidence.runs) >= RUNS_TO_COMPARE:
            places = [(float(np.sqrt(misfit)), [np.ones(len(r), bool) for r in tracks])]
        for ratio, here in places:
            unheld = unheld or (_unheld(evidence, _excess(tracks, here, ratio), here) if ratio else "")
    if unheld:
        shapes.append(unheld)
    term = bool(late) or new < _SMOOTH or any(curves) or abs(correlation) > _CORRELATED
    uneven = bool(late or early) and abs(correlation) <= _CORRELATED
    shaped = bool(at_impacts) or new < _SMOOTH or any(curves) or abs(correlation) > _CORRELATED
    gross = misfit > _GROSS or (shaped and misfit > _MISFIT * _noise(evidence))
    advice = _advice(bool(at_impacts), term, bool(far), bool(large), uneven)
    if large:
        size = f"residuals are {np.sqrt(misfit):.2g} times as large as the stated noise (chi^2/dof {misfit:.3g})"
        if not shapes and misfit > _GROSS:
            # Few samples per flight, fitted with bounces in the wrong places, look like noise.
            yield Reason(
                f"{size} without a pattern: more than a noise that was stated too small, unless by far. "
                "Try more starts: bounces may be taken for others",
                fatal=True,
            )
        elif not shapes:
            rest = "" if evidence.within_noise else " The intervals rest on the residuals."
            yield Reason(
                f"{size}, but without a pattern: the noise is larger than stated.{rest} State the noise as it is, or "
                "noise='estimated'; else try more starts"
            )
        else:
            yield Reason(f"{size} and {'; they '.join(shapes)}. Try {advice}", fatal=bool(gross) or bool(unheld))
    elif shapes:
        yield Reason(f"residuals {'; they '.join(shapes)}. Try {advice}", fatal=bool(unheld))


def _noise(evidence: Evidence) -> float:
    """What is noise certainly, in squares of the stated one: that, or more where residuals are certainly rougher."""
    rough, n = evidence.rough
    freedom = n / PER_FREEDOM
    return rough if freedom > 1 and rough > chdtri(freedom, LEVEL) / freedom else 1.0


def stated(evidence: Evidence) -> Iterator[Reason]:
    """Whether the noise is stated far larger than samples are rough, so that hardly any misfit exceeds it."""
    rough, n = evidence.rough
    freedom = n / PER_FREEDOM
    if rough < _OVERSTATED and freedom > 1 and rough < chdtri(freedom, 1 - LEVEL) / freedom:
        yield Reason(
            f"the noise is stated {_times(rough)} as large as residuals are rough from one sample to the next "
            f"(chi^2/dof {evidence.misfit:.3g}): against it a misfit does not show. State the noise as it is, or "
            "noise='estimated'"
        )


def _times(rough: float) -> str:
    return f"{1 / np.sqrt(rough):.2g} times" if rough > 1e-6 else "more than 1000 times"


def _advice(at_impacts: bool, term: bool, far: bool, large: bool, uneven: bool) -> str:
    """What to try.

    Args:
        at_impacts: residuals are largest there.
        term: they look as if the model lacked a term.
        far: some samples are far off.
        large: they are larger than the noise.
        uneven: they are larger in one part of the record, and do not follow each other there.
    """
    things = []
    if uneven:
        things.append("a noise for every sample, `noise` of shape (n, k), if the measuring is less sure there")
    if far:
        things.append("to flag those samples as missing, or loss='soft_l1'")
    if at_impacts:
        things.append(
            "another law of impact (e that depends on speed, or one per contact), to leave out the samples while "
            "bodies touch, and more starts: a bounce may be taken for another"
        )
    if term:
        things.append(
            "another term of the model (drag, a slope, friction, one that depends on the speed as Stribeck's), a "
            "shorter window"
        )
    if not things or (large and not at_impacts):
        things.append("more starts")
    return "; ".join(things)


def _without_outliers(evidence: Evidence) -> tuple[list[NDArray], int]:
    """The tracks' residuals per run without the samples far outside the distribution of the others; how many those are.

    A robust loss knows of them. Many are no outliers but a heavy tail, or a misfit in one place, which others name.
    """
    tracks = [run.residual.r[:, : run.tracks] for run in evidence.runs]
    if evidence.objective.loss.robust:
        return tracks, 0
    far = [_far(r) for r in tracks]
    count = int(sum(part.sum() for part in far))
    if count > _FEW * evidence.samples:
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
        scale = 1.4826 * np.nanmedian(size, axis=0)
    return (size > _FAR * scale) & (scale > 0)


def _correlation(tracks: list[NDArray]) -> float:
    """The correlation of neighbours of largest size among those that are certainly not zero."""
    strongest, channels = 0.0, sum(r.shape[1] for r in tracks)
    clear = -ndtri(LEVEL / 2 / max(channels, 1))
    for channel in (channel for r in tracks for channel in r.T):
        pairs = channel[1:] * channel[:-1]
        count = int(np.sum(~np.isnan(pairs)))
        if count < 2 or not np.nansum(channel**2) > 0:
            continue
        rho = float(np.nanmean(pairs) / np.nanmean(channel**2))
        if abs(rho) * np.sqrt(count) > clear and abs(rho) > abs(strongest):
            strongest = rho
    return strongest


def _innovation(evidence: Evidence) -> float:
    """What is new in a sample after those before it, over its size, in the channel where that is least."""
    shares = [
        model.sigma / np.sqrt(np.mean(channel[~np.isnan(channel)] ** 2))
        for run in evidence.runs
        for model, channel in zip(run.noise.models[: run.tracks], run.residual.r.T, strict=False)
        if model.order and model.sigma > 0
    ]
    return float(min(shares, default=1.0))


def _curve(run: RunEvidence) -> float:
    """How large a smooth curve stands in a run's residuals beside their noise; 0 where there is certainly none."""
    found = curve_in(run)
    return found.size if found else 0.0


def _part(run: RunEvidence, curve: float) -> float:
    """The size of the curve in a run's residuals, in units of the noise; `curve` is that over its noise, infinite for
    residuals that are nothing else."""
    size = float(np.sqrt(np.nansum(run.residual.r[:, : run.tracks] ** 2)))
    return size / float(np.sqrt(1.0 + curve**-2)) if curve else 0.0


def _excess(tracks: list[NDArray], here: list[NDArray], ratio: float) -> list[float]:
    """Per run, the size of what is too much in a part of the record, where residuals are `ratio` times as large."""
    return [float(np.sqrt(np.nansum(r[rows] ** 2) * (1 - ratio**-2))) for r, rows in zip(tracks, here, strict=True)]


def _unheld(evidence: Evidence, sizes: list[float], where: list[NDArray] | None = None) -> str:
    """That a misfit of such sizes may have moved something further than intervals reach; empty if it has nothing."""
    if not evidence.kept.any():
        return ""
    shifts = Shifts(evidence)
    part, how = 1.0, "which fit as much of such a misfit as they can: were that as much as is left"
    if len(evidence.runs) >= RUNS_TO_COMPARE:
        part, how = _ALIKE, "and intervals hold what differs from run to run: were half of what is left alike in all"
    words = shifts.beyond(part * shifts.at_most(sizes, where))
    return f"may have moved the parameters, {how}, {words}" if words else ""


def _taken(evidence: Evidence) -> str:
    """What intervals make of a curve that the model lacks."""
    if len(evidence.runs) >= RUNS_TO_COMPARE:
        return "the intervals hold what it does to the estimates only as far as that differs from run to run"
    return "the intervals take the curve for noise, too, and may miss what it does to the estimates"


def _at_impacts(run: RunEvidence) -> NDArray:
    return run.struck


def _first(run: RunEvidence) -> NDArray:
    return run.times <= run.times[0] + (run.times[-1] - run.times[0]) / 3


def _last(run: RunEvidence) -> NDArray:
    return run.times >= run.times[-1] - (run.times[-1] - run.times[0]) / 3


def _ratio(tracks: list[NDArray], worth: list[NDArray], here: list[NDArray], there: list[NDArray]) -> float:
    """Root mean square in one part of the records over that in another; 0 where it is not certainly larger."""
    squares, counts = np.zeros(2), np.zeros(2)
    for r, weight, *sides in zip(tracks, worth, here, there, strict=True):
        for side, rows in enumerate(sides):
            squares[side] += np.sum(np.nan_to_num(r[rows]) ** 2 * weight)
            counts[side] += np.sum(~np.isnan(r[rows]) * weight)
    if np.any(counts < _FEWEST) or not np.all(squares > 0):
        return 0.0
    ratio = float((squares[0] / counts[0]) / (squares[1] / counts[1]))
    return float(np.sqrt(ratio)) if ratio > _RATIO and fdtrc(*counts, ratio) < LEVEL else 0.0
