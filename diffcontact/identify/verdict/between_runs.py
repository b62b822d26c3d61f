"""Differences between runs that should be none, and likenesses that should not be.

**Outsiders.** Each run is compared with the middle one, by a quantile that outliers do not raise:

    s_g = (7/10 quantile of |r|) / 1.036,    s_g^2 / s_middle^2 ~ F(a n_g, a n_middle), a = 0.55

for noise, with n independent samples each. A run that its own stated noise explains is no outsider.

**Contradictions.** Runs that agree scatter in what each alone says of a shared parameter (`LinearisedRun.alone`) by

    sum_g (d_g - d)^2 / Var d_g ~ chi^2(G - 1),    d the weighted mean

**A misfit in common** (`correlated`) moves all runs alike, and their scatter, on which intervals rest, does not show
it. So what it may have moved is compared with the intervals.

**One recording twice:** whole, cut, thinned to every s-th picture, or as windows that overlap. Shifts of one run's
clock are tested where the residuals' cross-correlation rho of m samples is largest by -m log(1 - rho^2). What
parameters of both fits do is projected out. The rest, u_a and u_b, is one recording's if it is correlated by more than
noise is and |u_a - u_b| < 2^(1/2) a sigma, a well below 1. It is worth 3 (sum u^2)^2 / sum u^4 normal residuals at
most.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc, chdtri, fdtrc

from diffcontact.identify.estimate import Estimate, resumed
from diffcontact.identify.linearised import LinearisedFit, LinearisedRun
from diffcontact.identify.verdict.evidence import Evidence
from diffcontact.identify.verdict.reasons import (
    FEWEST,
    GROSS,
    IMPOSSIBLE,
    LEVELS,
    NAMED,
    RATIO,
    RUNS_TO_COMPARE,
    Amount,
    Reason,
    Run,
)
from diffcontact.numerics.least_squares import TINY, orthonormal

_PART, _NORMAL, _EFFICIENCY = 0.7, 1.0364, 0.55
# Where all residuals are gross a run is named by its ratio alone.
_CLEAR = 3.0
# Two runs whose residuals are correlated by more are one recording, perhaps with its digits rounded.
_SAME = 0.99
# The part a of what noise of the stated size would make two runs differ by: noise is often stated too large.
_ONE = 0.2
# Part of the time between two samples by which two clocks may differ.
_CLOCK = 0.1
# More runs than this are not compared two by two.
_PAIRED = 100
# Of what two runs can have in common, the part from which on it matters: with less of them counted twice, intervals are
# too short by an eighth of that part at most.
_COMMON = 0.25


def outsiders(evidence: Evidence) -> Iterator[Reason]:
    """Which runs stand apart from the others by the size of what is left of them."""
    gross, level = evidence.misfit > GROSS, LEVELS["outsider"]
    sized = [(number, *_size(run)) for number, run in enumerate(evidence.runs) if not run.rounding]
    sized = sorted((one for one in sized if one[2] >= (0 if gross else FEWEST)), key=lambda one: one[1])
    if len(sized) < 2:
        return
    _, middle, known = sized[(len(sized) - 1) // 2]
    apart = []
    for number, size, n in sized:
        ratio = size / max(middle, TINY)
        if n <= 0 or ratio < RATIO or size**2 < chdtri(n, level) / n:
            continue
        if (gross and ratio > _CLEAR) or fdtrc(n, known, ratio**2) < level / len(sized):
            apart.append(Reason("times", {"run": Run(number), "ratio": ratio}))
    if apart:
        yield Reason("outsider", {"runs": tuple(apart[::-1][:NAMED])}, fatal=gross)


def _size(run: LinearisedRun) -> tuple[float, float]:
    r = np.abs(run.r[:, : run.tracks])
    present = ~np.isnan(r)
    if not present.any():
        return 0.0, 0.0
    independent = float(np.sum(present * run.worth[: run.tracks]))
    return float(np.quantile(r[present], _PART)) / _NORMAL, _EFFICIENCY * independent


@dataclass(frozen=True, eq=False)
class Alone:
    """What each run by itself says of a shared parameter."""

    place: int  # of the parameter
    runs: NDArray  # (G,) which runs determine it by themselves
    step: NDArray  # (G,) how far each would move it, to first order
    stderr: NDArray  # (G,) standard errors of these, within the run

    @property
    def excess(self) -> float:
        """chi^2 of the runs' scatter, with one degree of freedom less than there are runs."""
        weight = self.stderr**-2.0
        return float(np.sum(((self.step - weight @ self.step / weight.sum()) / self.stderr) ** 2))


def alone(fit: LinearisedFit) -> list[Alone]:
    """For every parameter that several runs determine by themselves: what each says of it."""
    seen: dict[int, list[tuple[int, float, float]]] = {}
    for g, run in enumerate(fit.runs):
        for j, moved, deviation in run.alone(fit.seen_by[run.index] == 1):
            seen.setdefault(int(run.index[j]), []).append((g, moved, deviation))
    return [
        Alone(place, *map(np.array, zip(*entries, strict=True))) for place, entries in seen.items() if len(entries) > 1
    ]


def contradictions(evidence: Evidence) -> Iterator[Reason]:
    """Whether the runs contradict each other, and in which parameters most."""
    found, level = alone(evidence.fit), LEVELS["contradiction"]
    apart = [one for one in found if chdtrc(one.step.size - 1, one.excess) < level / len(found)]
    if not apart:
        return
    apart.sort(key=lambda one: one.excess / (one.step.size - 1), reverse=True)
    figures = {"apart": tuple(_apart(evidence, one) for one in apart[:NAMED])}
    worst = np.sqrt(apart[0].excess / (apart[0].step.size - 1))
    compared = len(evidence.runs) >= RUNS_TO_COMPARE
    yield Reason("scatter" if compared else "contradiction", figures, fatal=bool(not compared and worst > IMPOSSIBLE))


def _apart(evidence: Evidence, one: Alone) -> Reason:
    name, slope = evidence.names[one.place], evidence.slopes[one.place]
    value = evidence.result.estimate[evidence.kept][one.place] + slope * one.step
    g, h = int(np.argmin(value)), int(np.argmax(value))
    least, most = (Amount(name, value[i], abs(slope) * one.stderr[i]) for i in (g, h))
    where = {"one": Run(one.runs[g]), "other": Run(one.runs[h])}
    return Reason("apart", {"name": name, "least": least, "most": most, **where})


def common_misfit(evidence: Evidence) -> Iterator[Reason]:
    """Whether runs are the same recording, or lack the same."""
    runs, factors = evidence.runs, evidence.result.noise_factors
    if same := duplicate_runs(runs, factors, float(evidence.objective.eps)):
        pairs = [Reason("pair", {"one": Run(one), "other": Run(other)}) for one, other in same[:NAMED]]
        yield Reason("same recording", {"pairs": tuple(pairs)}, fatal=True)
    elif len(runs) > 2 and (common := _in_common(runs)) > 0:
        sizes = [float(np.sqrt(common * np.nansum(run.r**2))) for run in runs]
        moved = evidence.beyond(evidence.at_most(sizes)) if evidence.kept.any() else ()
        told = Reason("common and moved", {"moved": moved}) if moved else ""
        yield Reason("common misfit", {"correlation": common, "moved": told}, fatal=bool(moved))


def _in_common(runs: tuple[LinearisedRun, ...]) -> float:
    """The mean correlation of the residuals of two runs; 0 where they certainly have nothing in common."""
    n = min(len(run.times) for run in runs)
    if len({run.tracks for run in runs}) > 1 or n < 2 or any(run.rounding for run in runs):
        return 0.0
    since = np.stack([run.times[:n] - run.times[0] for run in runs])
    if np.max(np.ptp(since, axis=0)) >= _CLOCK * np.median(np.diff(runs[0].times[:n])):
        return 0.0
    r = np.stack([run.r[:n, : run.tracks] for run in runs])
    r = np.where(np.isnan(r).any(axis=0), 0.0, r).reshape(len(runs), -1)
    # The parameters have taken away some of the independent numbers, and the size of the residuals one more.
    seen = [run.present[:n, : run.tracks].sum(axis=0) @ run.worth[: run.tracks] - run.J.shape[-1] - 1.0 for run in runs]
    return correlated(r, max(float(min(seen)), 1.0), LEVELS["same recording"])


def correlated(r: NDArray, freedom: float, level: float) -> float:
    """The mean correlation of two of some residuals (G, m); 0 where they certainly have nothing in common.

    With u_g the residuals, each scaled to size 1, and m their mean,

        F = (G - 1) G |m|^2 / sum_g |u_g - m|^2 ~ F(nu, (G - 1) nu),    nu independent numbers in each

    if there is nothing else, and the mean correlation of two runs, (G |m|^2 - 1) / (G - 1), is near zero.
    """
    G, size = len(r), np.linalg.norm(r, axis=1, keepdims=True)
    if not np.all(size > 0):
        return 0.0
    common = G * float(np.sum((r / size).mean(axis=0) ** 2))
    rest = max(G - common, np.finfo(float).eps)
    if fdtrc(freedom, (G - 1) * freedom, (G - 1) * common / rest) > level:
        return 0.0
    return (common - 1.0) / (G - 1)


def duplicate_runs(runs, factors=(), eps: float = float(np.finfo(float).eps)) -> list[tuple[int, int]]:
    """The pairs of some runs that hold the same recording.

    Args:
        runs: linearised.
        factors: per run, (k,) estimated noise over stated noise; empty where the stated noise was taken.
        eps: what numbers are rounded by.
    """
    pairs = list(combinations(range(len(runs)), 2)) if len(runs) <= _PAIRED else []
    level = LEVELS["same recording"] / (len(pairs) + 1)

    def same(i: int, j: int) -> bool:
        # b is at least as far from picture to picture.
        (a, i), (b, j) = sorted([(runs[i], i), (runs[j], j)], key=lambda one: _spacing(one[0].times))
        if a.tracks != b.tracks or any(run.rounding or len(run.times) < 2 for run in (a, b)):
            return False
        # Of a few samples nothing is left that could be equal.
        if min(len(run.times) for run in (a, b)) * a.tracks - a.tracks - 1 < FEWEST:
            return False
        measured = [run.r[:, : run.tracks] * run.sigma[:, : run.tracks] for run in (a, b)]
        noise = a.sigma[:, : a.tracks] / (factors[i][: a.tracks] if len(factors) else 1.0)
        # As many shifts as there are, of which the likeliest are tested.
        each = level / (len(a.times) + len(b.times))
        return any(_equal(a, b, measured, noise, shift, each, np.sqrt(eps)) for shift in _shifts(a, b, measured))

    return [pair for pair in pairs if same(*pair)]


def _equal(a: LinearisedRun, b: LinearisedRun, measured, noise, shift: float, level: float, slight: float) -> bool:
    """Whether two runs are equal where they have samples at the same time, the clock of b put on by a shift [s].

    Args:
        a, b: the runs.
        measured, noise: their residuals (n, k) in the units of what was measured; (n, k) the stated noise of a.
        shift, level: of the clock [s]; of false alarms.
        slight: the part of residuals that may be their rounding.
    """
    slack = _CLOCK * float(np.median(np.diff(a.times)))
    here = np.minimum(np.searchsorted(a.times, b.times + shift - slack), a.times.size - 1)
    there = np.flatnonzero(np.abs(a.times[here] - b.times - shift) < slack)
    here = here[there]
    u = np.stack([measured[0][here], measured[1][there]]) / noise[here]
    present = ~np.isnan(u).any(axis=0)
    if not present.any():
        return False
    constant = np.broadcast_to(np.eye(a.tracks), (*present.shape, a.tracks))
    basis = orthonormal(np.concatenate([a.J[here, : a.tracks], constant], axis=-1)[present])
    whole = u[:, present]
    rest = whole - (whole @ basis) @ basis.T
    if np.any(np.linalg.norm(rest, axis=1) <= slight * np.linalg.norm(whole, axis=1)):
        return False
    worth = np.minimum(a.worth[: a.tracks], b.worth[: b.tracks])
    carried = min(3.0 * float(np.sum(v**2) ** 2 / np.sum(v**4)) for v in rest)
    freedom = min(float(present.sum(axis=0) @ worth), carried) - basis.shape[1] - 1.0
    if freedom < FEWEST or correlated(rest, freedom, level) <= _SAME:
        return False
    apart = np.zeros(present.shape)
    apart[present] = rest[0] - rest[1]
    return bool(np.all(np.sum(apart**2, axis=0) < 2.0 * _ONE**2 * present.sum(axis=0)))


def _shifts(a: LinearisedRun, b: LinearisedRun, measured: list[NDArray]) -> Iterator[float]:
    """How far the clock of b is put on: to begin with the first sample, and where the two look most alike."""
    from scipy.signal import correlate  # takes half a second to import, and fits of one run do without

    yield float(a.times[0] - b.times[0])
    s = max(round(_spacing(b.times) / max(_spacing(a.times), TINY)), 1)
    size = max(float(np.max(np.abs(np.nan_to_num(r)), initial=0.0)) for r in measured)
    if not size > 0:
        return
    wide = np.full(((len(b.times) - 1) * s + 1, b.tracks), np.nan)
    wide[::s] = measured[1]
    seen = [(~np.isnan(r)).astype(float) for r in (measured[0], wide)]
    r = [np.nan_to_num(r) / size for r in (measured[0], wide)]

    def lagged(x: NDArray, y: NDArray) -> NDArray:
        return np.sum([correlate(p, q) for p, q in zip(x.T, y.T, strict=True)], axis=0)

    cross, count = lagged(*r), np.round(lagged(*seen))
    squares = np.maximum(lagged(r[0] ** 2, seen[1]) * lagged(seen[0], r[1] ** 2), TINY)
    alike = np.clip(cross / np.sqrt(squares), 0.0, 1.0 - 1e-9)
    likely = np.where(count >= _COMMON * count.max(), -count * np.log1p(-(alike**2)), 0.0)
    for at in np.argsort(-likely)[:NAMED]:
        lag = int(at) - (len(wide) - 1)
        here = np.arange(len(a.times))
        here = here[((here - lag) % s == 0) & (here >= lag) & ((here - lag) // s < len(b.times))]
        if likely[at] > 0 and here.size:
            yield float(np.median(a.times[here] - b.times[(here - lag) // s]))


def _spacing(times: NDArray) -> float:
    return float(np.median(np.diff(times))) if len(times) > 1 else 0.0


def one_recording_twice(fits: Sequence[Estimate]) -> tuple[int, int] | None:
    """The first two of some fits of single runs that are of one recording, whole or in part."""
    runs = []
    for fitted in fits:
        (run,) = resumed(fitted, "spread").first_order()
        factors = np.ravel(fitted.noise_factors[0]) if fitted.noise_factors else np.ones(run.r.shape[1])
        runs.append(replace(run, sigma=np.broadcast_to(factors, run.r.shape)))
    return min(duplicate_runs(runs), default=None)
