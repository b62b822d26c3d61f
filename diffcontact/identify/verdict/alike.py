r"""Runs of which the same is left: one recording that is there twice, or a misfit that all runs have in common.

Noise is another in every run. With u_g the residuals of G runs, each scaled to size 1, on times that are the same from
their start, and m their mean,

    F = (G - 1) G |m|^2 / sum_g |u_g - m|^2 ~ F(nu, (G - 1) nu),    nu independent numbers in each

if there is nothing else, and the mean correlation of two runs, (G |m|^2 - 1) / (G - 1), is near zero. What runs have in
common moves them all alike. Their scatter, on which intervals rest from three runs on, shows nothing of it, so what it
may have moved is compared with the intervals (`shifts`). A slow curve is worth few independent numbers: that a few runs
have one in common may be chance. A misfit that dwarfs the noise makes any two runs look like one recording. Two that
are one differ by less than noise would make them,

    |r_g - r_h| < 2^(1/2) a sigma,    a well below 1
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtrc

from diffcontact.identify.verdict.evidence import Evidence, RunEvidence
from diffcontact.identify.verdict.shifts import Shifts
from diffcontact.identify.verdict.verdict import Reason

# One false alarm in ten thousand fits of several runs.
_LEVEL = 1e-4
# Two runs whose residuals are correlated by more are one recording, perhaps with its digits rounded.
_SAME = 0.99
# The part a of what noise of the stated size would make two runs differ by: noise is often stated too large.
_ONE = 0.2
# Part of the time between two samples by which two clocks may differ.
_APART = 0.1
# More runs than this are not compared two by two.
_MOST = 100
_NAMED = 3


def alike(evidence: Evidence) -> Iterator[Reason]:
    """Whether runs are the same recording, or lack the same."""
    numbers = range(len(evidence.runs))
    pairs = list(combinations(numbers, 2)) if len(numbers) <= _MOST else []
    level = _LEVEL / (len(pairs) + 1)
    same = [pair for pair in pairs if _correlation(evidence, pair, level) > _SAME and _apart(evidence, *pair) < _ONE]
    if same:
        named = "; ".join(" and ".join(evidence.run(number) for number in pair) for pair in same[:_NAMED])
        yield Reason(
            f"residuals are the same in {named}, though noise is another in every run: a recording that is there twice "
            "counts as two runs that agree, and the intervals are too short. Fit every run once",
            fatal=True,
        )
    elif len(numbers) > 2 and (common := _correlation(evidence, numbers, level)) > 0:
        yield _common(evidence, common)


def _common(evidence: Evidence, correlation: float) -> Reason:
    shifts = Shifts(evidence)
    sizes = [float(np.sqrt(correlation * np.nansum(run.residual.r**2))) for run in evidence.runs]
    moved = shifts.beyond(shifts.at_most(sizes)) if evidence.kept.any() else ""
    text = (
        f"residuals are alike in all runs (correlation {correlation:.2f}), so that something is missing in all of them "
        "that is no noise and does not scatter, while the intervals hold what differs between runs. "
    )
    if moved:
        text += f"It may have moved the parameters: were that by as much as is left, {moved}. "
    advice = "Try another term of the model (drag, a slope, friction), and look for what the camera adds to all"
    return Reason(f"{text}{advice}", fatal=bool(moved))


def _correlation(evidence: Evidence, numbers: Sequence[int], level: float) -> float:
    """The mean correlation of the residuals of two of these runs; 0 where they certainly have nothing in common."""
    runs = [evidence.runs[number] for number in numbers]
    n = min(len(run.times) for run in runs)
    if len({run.tracks for run in runs}) > 1 or n < 2 or not _in_step(runs, n):
        return 0.0
    r = np.stack([run.residual.r[:n, : run.tracks] for run in runs])
    r = np.where(np.isnan(r).any(axis=0), 0.0, r).reshape(len(runs), -1)
    size = np.linalg.norm(r, axis=1, keepdims=True)
    if any(run.rounding for run in runs) or not np.all(size > 0):
        return 0.0
    u = r / size
    common = len(runs) * float(np.sum(u.mean(axis=0) ** 2))
    rest = max(len(runs) - common, np.finfo(float).eps)
    freedom = min(_independent(run, n) for run in runs)
    if fdtrc(freedom, (len(runs) - 1) * freedom, (len(runs) - 1) * common / rest) > level:
        return 0.0
    return (common - 1.0) / (len(runs) - 1)


def _apart(evidence: Evidence, *pair: int) -> float:
    """By how much two runs differ, beside what noise of the stated size would make them differ by.

    In the channel in which they differ most.
    """
    n = min(len(evidence.runs[number].times) for number in pair)
    one, other = (_in_stated_noise(evidence, number)[:n] for number in pair)
    return max(float(np.sqrt(np.mean(d[~np.isnan(d)] ** 2) / 2)) for d in (one - other).T if not np.isnan(d).all())


def _in_stated_noise(evidence: Evidence, number: int) -> NDArray:
    """(n, k) residuals of what was measured sample by sample; those of a fit may be in units of an estimated noise."""
    run, factors = evidence.runs[number], evidence.result.noise_factors
    r = run.residual.r[:, : run.tracks]
    return r * factors[number][: run.tracks] if factors else r


def _in_step(runs: Sequence[RunEvidence], n: int) -> bool:
    """Whether the first n times of all runs are the same, counted from the first."""
    times: NDArray = np.stack([run.times[:n] - run.times[0] for run in runs])
    return bool(np.max(np.ptp(times, axis=0)) < _APART * np.median(np.diff(times[0])))


def _independent(run: RunEvidence, n: int) -> float:
    """How many independent numbers there are among a run's residuals at its first n times, at least one.

    The parameters have taken away some, and the size of the residuals one more.
    """
    seen = run.present[:n, : run.tracks].sum(axis=0) @ run.worth[: run.tracks]
    return max(float(seen) - run.residual.J.shape[-1] - 1.0, 1.0)
