r"""One recording that is there twice: as it is, cut, thinned to every s-th picture, or as windows that overlap.

Noise is another in every run, so that it tells where two of them are one. Of runs a and b, b at least as far from
picture to picture, every shift of b's clock is looked at under which enough samples coincide, and the likeliest are
tested on those: where the residuals' cross-correlation rho of m samples is largest by -m log(1 - rho^2).

Two fits of one recording leave residuals that differ by what their parameters do, so that is projected out of both, J
of a and a constant in each channel: bodies at rest are as alike as can be. What is left, u_a and u_b in the noise of a,
is one recording's if it is correlated by more than noise is (`correlated`) and nearly equal, and if the two differ by
less than noise would make them,

    |u_a - u_b| < 2^(1/2) a sigma,    a well below 1

for a misfit that dwarfs the noise makes any two runs look like one recording. Few samples that stand out, an outlier in
each run, are found under each other by some shift: normal residuals are as many as three times (sum u^2)^2 / sum u^4.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtrc

from diffcontact.identify.noise import orthonormal
from diffcontact.identify.verdict.evidence import Evidence, RunEvidence

# One false alarm in ten thousand fits of several runs.
LEVEL = 1e-4
# Two runs whose residuals are correlated by more are one recording, perhaps with its digits rounded.
_SAME = 0.99
# The part a of what noise of the stated size would make two runs differ by: noise is often stated too large.
_ONE = 0.2
# Part of the time between two samples by which two clocks may differ.
_APART = 0.1
# More runs than this are not compared two by two.
_MOST = 100
# Of what two runs can have in common, the part from which on it matters: with less of them counted twice, intervals are
# too short by an eighth of that part at most.
_PART = 0.25
# The true shift is the likeliest, but for short windows whose fits differ.
_TRIED = 3
# Independent numbers whose agreement says something.
_FEWEST = 3.0
_TINY = np.finfo(float).tiny

_Two = tuple[RunEvidence, RunEvidence]
_Residuals = tuple[NDArray, NDArray]
Seen = tuple[RunEvidence, NDArray, NDArray]


def duplicate_runs(evidence: Evidence) -> list[tuple[int, int]]:
    """The pairs of runs that hold the same recording."""
    numbers = range(len(evidence.runs))
    pairs = list(combinations(numbers, 2)) if len(numbers) <= _MOST else []
    return [pair for pair in pairs if _same(evidence, *pair, LEVEL / (len(pairs) + 1))]


def in_step(times: NDArray) -> bool:
    """Whether times (G, n) of several runs are the same, counted from the first."""
    since = times - times[:, :1]
    return bool(np.max(np.ptp(since, axis=0)) < _APART * np.median(np.diff(times[0])))


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


def _same(evidence: Evidence, one: int, other: int, level: float) -> bool:
    """Whether two runs of a fit hold the same recording."""
    first, second = (
        (evidence.runs[number], _measured(evidence, number), _stated(evidence, number)) for number in (one, other)
    )
    return one_recording(first, second, level, float(evidence.objective.eps))


def one_recording(one: Seen, other: Seen, level: float, eps: float) -> bool:
    """Whether two runs hold the same recording, under some shift of their clocks.

    Args:
        one, other: a run, its residuals (n, k) in the units of what was measured, and the noise stated of them.
        level: of false alarms.
        eps: what numbers are rounded by.
    """
    (a, finer, noise), (b, coarser, _) = sorted((one, other), key=lambda seen: _spacing(seen[0]))
    if a.tracks != b.tracks or any(run.rounding or len(run.times) < 2 for run in (a, b)):
        return False
    # As many shifts as there are, of which the likeliest are tested.
    level /= len(a.times) + len(b.times)
    measured, slight = (finer, coarser), float(np.sqrt(eps))
    return any(_equal((a, b), measured, noise, shift, level, slight) for shift in _shifts((a, b), measured))


def _equal(runs: _Two, measured: _Residuals, noise: NDArray, shift: float, level: float, slight: float) -> bool:
    """Whether two runs are equal where they have samples at the same time, the clock of the second put on by so much.

    Args:
        runs: two.
        measured: their residuals (n, k) in the units of what was measured.
        noise: (n, k) stated of the first.
        shift: of the clock [s].
        level: of false alarms.
        slight: the part of residuals that may be their rounding.
    """
    here, there = _together(runs[0].times, runs[1].times + shift)
    u = np.stack([measured[0][here], measured[1][there]]) / noise[here]
    present = ~np.isnan(u).any(axis=0)
    if not present.any():
        return False
    constant = np.broadcast_to(np.eye(runs[0].tracks), (*present.shape, runs[0].tracks))
    columns = np.concatenate([runs[0].residual.J[here, : runs[0].tracks], constant], axis=-1)[present]
    basis, whole = orthonormal(columns), u[:, present]
    rest = whole - (whole @ basis) @ basis.T
    if np.any(np.linalg.norm(rest, axis=1) <= slight * np.linalg.norm(whole, axis=1)):
        return False
    worth = np.minimum(*(run.worth[: run.tracks] for run in runs))
    carried = min(3.0 * float(np.sum(v**2) ** 2 / np.sum(v**4)) for v in rest)
    freedom = min(float(present.sum(axis=0) @ worth), carried) - basis.shape[1] - 1.0
    if freedom < _FEWEST or correlated(rest, freedom, level) <= _SAME:
        return False
    apart = np.zeros(present.shape)
    apart[present] = rest[0] - rest[1]
    return bool(np.all(np.sum(apart**2, axis=0) < 2.0 * _ONE**2 * present.sum(axis=0)))


def _shifts(runs: _Two, measured: _Residuals) -> Iterator[float]:
    """How far the clock of the second run is put on: to begin with the first, and where the two look most alike."""
    from scipy.signal import correlate  # takes half a second to import, and fits of one run do without

    a, b = runs
    yield float(a.times[0] - b.times[0])
    s = max(round(_spacing(b) / max(_spacing(a), _TINY)), 1)
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
    squares = np.maximum(lagged(r[0] ** 2, seen[1]) * lagged(seen[0], r[1] ** 2), _TINY)
    alike = np.clip(cross / np.sqrt(squares), 0.0, 1.0 - 1e-9)
    likely = np.where(count >= _PART * count.max(), -count * np.log1p(-(alike**2)), 0.0)
    for at in np.argsort(-likely)[:_TRIED]:
        lag = int(at) - (len(wide) - 1)
        here = np.arange(len(a.times))
        here = here[((here - lag) % s == 0) & (here >= lag) & ((here - lag) // s < len(b.times))]
        if likely[at] > 0 and here.size:
            yield float(np.median(a.times[here] - b.times[(here - lag) // s]))


def _together(one: NDArray, other: NDArray) -> tuple[NDArray, NDArray]:
    """Rows of two runs' times that are the same."""
    slack = _APART * float(np.median(np.diff(one)))
    rows = np.minimum(np.searchsorted(one, other - slack), one.size - 1)
    there = np.flatnonzero(np.abs(one[rows] - other) < slack)
    return rows[there], there


def _spacing(run: RunEvidence) -> float:
    return float(np.median(np.diff(run.times))) if len(run.times) > 1 else 0.0


def _measured(evidence: Evidence, number: int) -> NDArray:
    """(n, k) residuals of what was measured sample by sample, in its units."""
    run = evidence.runs[number]
    return run.residual.r[:, : run.tracks] * _sigma(evidence, number)


def _stated(evidence: Evidence, number: int) -> NDArray:
    """(n, k) the stated noise; that of a fit may be estimated."""
    factors = evidence.result.noise_factors
    sigma = _sigma(evidence, number)
    return sigma / factors[number][: sigma.shape[1]] if factors else sigma


def _sigma(evidence: Evidence, number: int) -> NDArray:
    run = evidence.runs[number]
    return np.asarray(evidence.objective.joint.runs[number].samples.sigma, float)[: len(run.times), : run.tracks]
