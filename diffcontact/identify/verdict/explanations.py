"""Explanations of the residuals: faults of the measuring, fixed terms, a resistance, impacts that differ.

With y (n, k) what the model says of the samples, a fault of size s would add s d to it,

    scale of channel c       d_tc = y_tc             zero of c     d_tc = 1
    delay of c               d_tc = -dy_tc/dt        clock         d_tc = (t - t_0) dy_tc/dt in all c
    clock that jumps at t_j  d_tc = dy_tc/dt in all c from t_j on: pictures that are missing or too many
    perspective              d_tc = (y_ti - m_i)(y_tc - m_c) / L, a size for each c and i, m the middles, L the width
    impacts that last        d_tc = -dy_tc/dt times the number of impacts so far, as of bounces: what follows is late
    impact i late            d_tc = -(the jump of dy_tc/dt in it) from it on, a size each

in units of the noise. Each is tried by Rao's score test (`LinearisedFit.score_test`). The likeliest by chi^2, with a
penalty of p log n for its p numbers (Schwarz), is told if it is certain and takes half of what chi^2 has too much.
Where what it moved the estimate by exceeds an interval, the verdict is "no".

**Taken as right** (`taken_as_right`) is what the data cannot show. A fault moves the estimate, and leaves what no
parameter makes up for (`LinearisedFit.shift`, `left`). One of which 1 % would not show, and which brings an estimate to
the end of its interval, is taken as absent: scales and clocks, perspective. Of a zero, a term held at zero, a
resistance, impacts that are not all alike it is told how much would just not show. That residuals which follow each
other closely are noise, and not the model's lack, a single run cannot tell either.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri, fdtrc

from diffcontact.identify.estimate import FreedTerm
from diffcontact.identify.linearised import ScoreTest
from diffcontact.identify.verdict.evidence import Evidence
from diffcontact.identify.verdict.reasons import (
    LEVELS,
    LOOKED_AT,
    MISFIT,
    NAMED,
    RUNS_TO_COMPARE,
    UNUSUAL,
    Amount,
    Reason,
)
from diffcontact.numerics.least_squares import TINY

_NAMES = {
    "scale": "scale of {}",
    "perspective": "perspective in {}",
    "zero": "zero of {}",
    "delay": "delay [s] of {}",
    "clock": "rate of the clock",
    "jump": "jump of the clock [s]",
    "lasting": "time [s] that impacts last",
    "late": "moment [s] of the impacts",
    "resistance": "a resistance that the model has not, which takes a part of the speed from start to end,",
    "unlike": "impacts that are not all alike, as where restitution or friction differs from one to the next,",
}
# Where a clock may jump, at most so many places; more impacts are not looked at one by one, nor more channels in pairs.
_IMPACTS, _PAIRED = 4, 4
# Of the excess of chi^2, the part that a fault must explain to be named.
_MOST = 0.5
# In chi^2 over its mean: what is less likely by more than e^4.5 is another thing.
_NEARLY = 9.0


class Fault(NamedTuple):
    """Something that may not be as the model has it: what, in which channels, from when on, or which fixed term."""

    kind: str
    channels: tuple[int, ...] = ()
    time: float | None = None
    term: str = ""

    @property
    def name(self) -> str:
        """What it is called."""
        if self.term:
            return self.term
        if self.kind == "perspective" and not self.channels:
            return self.kind
        told = f"channel{'s' if len(self.channels) > 1 else ''} {' and '.join(map(str, self.channels))}"
        return _NAMES[self.kind].format(told) + ("" if self.time is None else f" at t = {self.time:.4g}")


Faults = dict[Fault, NDArray]


def directions(evidence: Evidence, number: int) -> Faults:
    """(n, k) of what one number describes in a run, in units of the noise; zero in channels that are left alone."""
    run, seen = evidence.runs[number], _Seen(evidence, number)
    found: Faults = {}
    for c in seen.channels:
        shapes = {
            "perspective": seen.bent(c, c),
            "scale": seen.y[:, c],
            "zero": np.ones(len(run.times)),
            "delay": -seen.speed[:, c],
        }
        found |= {Fault(kind, (c,)): seen.weighed(seen.only(c, shape)) for kind, shape in shapes.items()}
    return found | {Fault("clock"): seen.weighed((run.times - run.times[0])[:, None] * seen.speed)}


def faults_of_measuring(evidence: Evidence, number: int) -> Faults:
    """(n, k, m) of every fault of a run, in units of the noise; none of a run that only times impacts."""
    run, seen = evidence.runs[number], _Seen(evidence, number)
    if not seen.channels:
        return {}
    found = {fault: d[..., None] for fault, d in directions(evidence, number).items()}
    pairs = [(c, i) for c in seen.channels for i in seen.channels if c == i or len(seen.channels) <= _PAIRED]
    found[Fault("perspective")] = seen.columns([seen.only(c, seen.bent(c, i)) for c, i in pairs])
    samples = np.arange(len(run.times))[:, None]
    for j in range(2, len(run.times) - 1, max(len(run.times) // LOOKED_AT, 1)):
        found[Fault("jump", time=float(run.times[j]))] = seen.columns([(samples >= j) * seen.speed])
    if impacts := run.impacts:
        passed = np.sum([samples >= behind for _, behind in impacts], axis=0)
        found[Fault("lasting")] = seen.columns([-passed * seen.speed])
        if len(impacts) <= _IMPACTS:
            found[Fault("late")] = seen.columns(_late(seen.y, run.times, impacts))
    return {fault: d for fault, d in found.items() if np.all(np.isfinite(d)) and d.size}


class _Seen:
    """What the model says of a run's samples, missing ones too: y and its derivative (n, tracks)."""

    def __init__(self, evidence: Evidence, number: int):
        run = evidence.runs[number]
        n, tracks = len(run.times), run.tracks
        self.sigma, self.present, self.shape = run.sigma[:, :tracks], run.present[:, :tracks], run.r.shape
        self.channels = [c for c in range(tracks) if self.present[:, c].sum() >= 2]
        self.y, self.speed, self.ends = np.zeros((n, tracks)), np.zeros((n, tracks)), np.zeros((2, tracks))
        for c in self.channels:
            y, here = evidence.seen[number][:, c], self.present[:, c]
            # Where nothing was measured nobody minds what is not finite.
            known = here | np.isfinite(y)
            self.y[:, c] = np.interp(run.times, run.times[known], y[known])
            self.speed[:, c] = _speed(run.times, self.y[:, c], run.impacts)
            self.ends[:, c] = np.min(y[here]), np.max(y[here])

    def bent(self, c: int, i: int) -> NDArray:
        """(n,) what channel c sees of a scale that changes along channel i by 1 over the widest range."""
        middle, width = self.ends.mean(0), max(float(np.max(np.ptp(self.ends, axis=0))), TINY)
        return (self.y[:, i] - middle[i]) * (self.y[:, c] - middle[c]) / width

    def only(self, c: int, shape: NDArray) -> NDArray:
        found = np.zeros_like(self.y)
        found[:, c] = shape
        return found

    def weighed(self, d: NDArray) -> NDArray:
        """(n, k) of d (n, tracks), in units of the noise; zero where nothing was measured."""
        found = np.zeros(self.shape)
        found[:, : d.shape[1]] = np.where(self.present, d / self.sigma, 0.0)
        return found

    def columns(self, several: list[NDArray]) -> NDArray:
        """(n, k, m) of m times d (n, tracks)."""
        return np.stack([self.weighed(d) for d in several], axis=-1)


def _speed(times: NDArray, y: NDArray, impacts: list[tuple[int, int]]) -> NDArray:
    """(n,) the derivative of samples, from one side where an impact is on the other."""
    speed = np.gradient(y, times)
    begins, ends = [0, *(behind for _, behind in impacts)], [*(before + 1 for before, _ in impacts), len(times)]
    for begin, end in zip(begins, ends, strict=True):
        if end - begin > 2:
            speed[begin:end] = np.gradient(y[begin:end], times[begin:end], edge_order=2)
    return speed


def _late(y: NDArray, times: NDArray, impacts: list[tuple[int, int]]) -> list[NDArray]:
    """Per impact, (n, tracks) how much less a motion has gone on that is struck by one second later, per second."""
    n, found = len(times), []
    for before, behind in impacts:
        if before >= 1 and behind <= n - 2:
            slopes = [(y[j + 1] - y[j]) / (times[j + 1] - times[j]) for j in (before - 1, behind)]
            found.append(-(slopes[1] - slopes[0]) * (np.arange(n) >= behind)[:, None])
    return found or [np.zeros_like(y)]


class _Candidate(NamedTuple):
    """A fault, its test, how likely it is, of what false alarm it has to be free, and where a fixed number stands."""

    fault: Fault
    test: ScoreTest
    likely: float
    level: float
    held: float | None = None

    @property
    def told(self) -> str:
        return f"{self.fault.name}, held fixed," if self.fault.term else self.fault.name


def explanations(evidence: Evidence) -> Iterator[Reason]:
    """The one thing that would explain what is wrong, if one would."""
    alike = _likeliest(evidence, list(_candidates(evidence)))
    for best in alike[:NAMED]:
        error = _error(evidence, best) if best.test.taken >= _MOST * evidence.excess else None
        if error is not None:
            yield _told(evidence, best, error, [one for one in alike if one is not best])
            return


def wanted_term(evidence: Evidence, ranges: Mapping[str, tuple[float, float]]) -> tuple[Amount, FreedTerm] | None:
    """The term held fixed that the residuals ask for: what it would be, and what it was with a prior for it.

    Its score test is certain, and it is likelier than faults of the measuring, or explains half of the excess of chi^2.
    Where chi^2 is far too large such a half is enough: no test is certain of residuals that follow each other closely,
    and the fit with the term free tells. The term's prior lets it move the samples by all of the way that they go:
    sigma |column| = |y - mean y|, in the noise.

    Args:
        evidence: of the fit in which it is held.
        ranges: name of each term that may be set free -> the values between which it may lie.
    """

    def may(one: _Candidate) -> bool:
        if one.held is None:
            return True
        low, high = ranges.get(one.fault.term, (0.0, 0.0))
        return low < one.held + float(one.test.size[0]) < high

    for best in _likeliest(evidence, [one for one in _candidates(evidence) if may(one)]):
        halves = evidence.misfit > MISFIT and best.test.taken >= _MOST * evidence.excess
        if best.held is not None and (halves or _error(evidence, best) is not None):
            name, (_, error) = best.fault.term, best.test.certainty(evidence.fit)
            columns = {g: run[name].column for g, run in enumerate(evidence.fixed_terms) if name in run}
            way = np.sqrt(sum(evidence.way(g) ** 2 for g in columns))
            sigma = way / np.sqrt(sum(float(np.sum(column**2)) for column in columns.values()))
            there = Amount(name, best.held + float(best.test.size[0]), error)
            return there, FreedTerm(name, best.held, float(sigma), evidence.misfit)
    return None


def freed_terms(evidence: Evidence) -> Iterator[Reason]:
    """What was set free, one sentence each."""
    for term in evidence.result.freed:
        for row in evidence.result.rows():
            name = row["name"]
            if name == term.name or name.startswith(f"{term.name}["):
                value, held = Amount(name, row["value"], row["stderr"]), Amount(name, term.held)
                figures = {"name": name, "value": value, "held": held, "before": term.chi2, "after": evidence.misfit}
                yield Reason("freed", figures)


def _likeliest(evidence: Evidence, found: list[_Candidate]) -> list[_Candidate]:
    if evidence.objective.loss.robust or not evidence.kept.any() or not found:
        return []
    found = sorted(found, key=lambda one: -one.likely)
    alike = [one for one in found if one.likely > found[0].likely - _NEARLY * max(evidence.misfit, 1.0)]
    # A number of the model's own that explains as much comes first: to set it free asks for no fault of the measuring.
    own = [one for one in found if one.held is not None and one.test.taken >= _MOST * evidence.excess]
    return own + [one for one in alike if one not in own]


def _error(evidence: Evidence, one: _Candidate) -> float | None:
    """The standard error of the first size of a candidate that is certain; None of one that is not."""
    test = one.test
    # Without noise rounding has a shape, too.
    if test.taken < chdtri(test.freedom, one.level):
        return None
    certain, error = test.certainty(evidence.fit)
    # The noise is known from as many samples as those that follow each other are worth.
    sure = fdtrc(test.freedom, max(evidence.fit.effective, 1.0), certain / test.freedom) < one.level
    return error if sure else None


def _told(evidence: Evidence, best: _Candidate, error: float, others: list[_Candidate]) -> Reason:
    # Of several that are nearly as likely one that moves something is enough.
    moves = [evidence.beyond(evidence.by(one.test.added)) for one in [best, *others]]
    moved: tuple[Reason, ...] = next(filter(None, moves), ())
    if best.held is not None:
        name, code = best.fault.name, "held and moved" if moves[0] else "one and moved"
        there = Amount(name, best.held + float(best.test.size[0]), error)
        others = [one for one in others if one.held is None]
        told = Reason(code, {"name": name, "moved": moved}) if moved else ""
        figures = {"name": name, "here": Amount(name, best.held), "there": there, "moved": told}
        return Reason("held fixed", figures | {"others": _others(others)}, fatal=bool(moved))
    single = best.test.size.size == 1
    size = Reason("size", {"size": best.test.size[0], "error": error}) if single else ""
    told = Reason("fault and moved", {"moved": moved}) if moved else ""
    figures = {"name": best.told, "size": size, "others": _others(others), "moved": told}
    return Reason("explanation", figures, fatal=bool(moved))


def _candidates(evidence: Evidence) -> Iterator[_Candidate]:
    log_n, numbers = np.log(max(evidence.fit.effective, 2.0)), range(len(evidence.runs))
    terms, resistance = evidence.fixed_terms, evidence.resistance
    families: list[list[Faults]] = [
        [faults_of_measuring(evidence, number) for number in numbers],
        [{Fault("term", term=name): one.column for name, one in run.items()} for run in terms],
        [{Fault("resistance"): resistance[g][..., None]} if g in resistance else {} for g in numbers],
        [_unlike(evidence, number) for number in numbers],
    ]
    for of_runs in families:
        several = []
        for fault in sorted(set().union(*of_runs), key=lambda fault: fault.name):
            parts: Mapping[int, NDArray] = {g: of_runs[g][fault] for g in numbers if fault in of_runs[g]}
            alike = len({d.shape[-1] for d in parts.values()}) == 1
            if alike and (test := evidence.fit.score_test(parts)):
                several.append((fault, test))
        jumps = sum(fault.kind == "jump" for fault, _ in several)
        for fault, test in several:
            rivals = jumps if fault.kind == "jump" else len(several) - jumps
            held = next((run[fault.term].value for run in terms if fault.term in run), None)
            likely = test.taken - (test.freedom - 1) * log_n * max(evidence.misfit, 1.0)
            yield _Candidate(fault, test, likely, LEVELS["explanation"] / rivals, held)


def _unlike(evidence: Evidence, number: int) -> Faults:
    """(n, k, m) what each of the m impacts of all runs would add to a run if it alone were another."""
    if len(evidence.impacts) < 2:
        return {}
    nothing = np.zeros(evidence.runs[number].r.shape)
    return {Fault("unlike"): np.stack([impact.get(number, nothing) for impact in evidence.impacts], axis=-1)}


def _others(alike: list[_Candidate]) -> Reason | str:
    names = [one.fault._replace(time=None).name if one.fault.kind == "jump" else one.told for one in alike]
    names = tuple(name.rstrip(",") for name in list(dict.fromkeys(names))[:NAMED])
    return Reason("others", {"names": names}) if names else ""


# Scales and clocks are hardly ever wrong by more.
_ORDINARY = 1e-2
# What takes more of the speed from start to end than this does not stay out of a model.
_SLOWED = 0.2
# What impacts scatter by has no shape that is known before, and looks like correlated noise: of simulated bounces half
# are found where it leaves so many standard deviations.
_SCATTER_SHOWS = 10.0
# No two impacts of real bodies change velocities by the same to better than this.
_SCATTER = 2e-3
# Samples that follow each other closely are worth less than this part of their number.
_CLOSELY = 0.1
# Squares of exact residuals over those of the noise count as so much, whose inverse is still a number.
_LEAST = 1e-100

Parts = Mapping[int, NDArray]


def taken_as_right(evidence: Evidence) -> Reason | None:
    """What would go unseen and matter."""
    if not evidence.kept.any():
        return None
    of_runs = [_with_shared(directions(evidence, number)) for number in range(len(evidence.runs))]
    faults = sorted(set().union(*of_runs), key=lambda fault: fault.name)
    parts = {fault: {g: found[fault] for g, found in enumerate(of_runs) if fault in found} for fault in faults}
    things = (
        *_scales_and_clocks(evidence, parts),
        *_perspective(evidence, parts),
        *_zeros(evidence, parts),
        *_terms(evidence),
        *_resistance(evidence),
        *_impacts(evidence),
        *_slow_noise(evidence),
        *([Reason("exact")] if evidence.fit.exact else []),
    )
    return Reason("taken as right", {"things": things}) if things else None


def _with_shared(faults: Faults) -> Faults:
    shared = {}
    for kind in ("scale", "perspective", "zero"):
        for i, j in combinations([fault.channels[0] for fault in faults if fault.kind == kind], 2):
            shared[Fault(kind, (i, j))] = faults[Fault(kind, (i,))] + faults[Fault(kind, (j,))]
    return faults | shared


def _left(evidence: Evidence, parts: Parts) -> float:
    """What parameters leave of d_g (n, k), in standard deviations of the noise as the residuals show it."""
    return evidence.fit.left(parts, evidence.objective.eps) / float(np.sqrt(max(evidence.misfit, _LEAST)))


def _unshown(evidence: Evidence, parts: Parts) -> float:
    """How many times d_g (n, k) just do not show; infinite where parameters make up for all of it."""
    left = _left(evidence, parts)
    return UNUSUAL / left if left > 0 else np.inf


def _terms(evidence: Evidence) -> list[Reason]:
    """Terms that are held at zero, with how much of them would not show."""
    found, terms = [], evidence.fixed_terms
    for name in sorted({name for of_run in terms for name, one in of_run.items() if one.value == 0.0}):
        parts = {number: run[name].column[..., 0] for number, run in enumerate(terms) if name in run}
        size, moved = _unshown(evidence, parts), evidence.by(parts)
        if np.isinf(size):
            if named := evidence.named(moved):
                found.append(Reason("term like", {"name": name, "names": named}))
        elif told := evidence.beyond(size * moved):
            found.append(Reason("term", {"name": name, "size": Amount(name, size), "moved": told}))
    return found[:NAMED]


def _resistance(evidence: Evidence) -> Iterator[Reason]:
    if parts := evidence.resistance:
        size = min(_unshown(evidence, parts), _SLOWED)
        if told := evidence.beyond(size * evidence.by(parts)):
            yield Reason("resistance", {"percent": 100 * size, "moved": told})


def _impacts(evidence: Evidence) -> Iterator[Reason]:
    """That impacts are all alike, where as much as they scatter anyhow would not show."""
    if len(evidence.runs) >= RUNS_TO_COMPARE or len(evidence.impacts) < 2:
        return
    left = float(np.linalg.norm([_left(evidence, parts) for parts in evidence.impacts]))
    size = min(_SCATTER_SHOWS / left if left > 0 else np.inf, _ORDINARY)
    moved = np.linalg.norm([evidence.by(parts) for parts in evidence.impacts], axis=0)
    if size >= _SCATTER and (told := evidence.beyond(size * moved)):
        yield Reason("impacts alike", {"percent": 100 * size, "moved": told})


def _slow_noise(evidence: Evidence) -> Iterator[Reason]:
    samples, effective = evidence.fit.samples, evidence.fit.effective
    if len(evidence.runs) < RUNS_TO_COMPARE and effective <= _CLOSELY * samples:
        sizes = [float(np.sqrt(np.nansum(run.r[:, : run.tracks] ** 2))) for run in evidence.runs]
        if told := evidence.beyond(evidence.at_most(sizes)):
            yield Reason("slow noise", {"samples": samples, "effective": effective, "moved": told})


def _unseen(evidence: Evidence, parts: Mapping[Fault, Parts], kinds: tuple[str, ...]) -> dict[Fault, NDArray]:
    """Faults of these kinds of which 1 % would not show, each with how far one of size 1 moves the parameters (P,)."""
    chosen = {fault: d for fault, d in parts.items() if fault.kind in kinds}
    return {fault: evidence.by(d) for fault, d in chosen.items() if _ORDINARY * _left(evidence, d) < UNUSUAL}


def _worst(evidence: Evidence, moves: Mapping[Fault, NDArray]) -> tuple[Fault, tuple[Reason, ...]] | None:
    worst = max(moves, key=lambda fault: evidence.ratio(moves[fault]).max(), default=None)
    told = evidence.beyond(moves[worst]) if worst else ()
    return (worst, told) if worst and told else None


def _perspective(evidence: Evidence, parts: Mapping[Fault, Parts]) -> Iterator[Reason]:
    moves = {fault: _ORDINARY * moved for fault, moved in _unseen(evidence, parts, ("perspective",)).items()}
    if found := _worst(evidence, moves):
        yield Reason("perspective", {"fault": found[0].name, "percent": 100 * _ORDINARY, "moved": found[1]})


def _zeros(evidence: Evidence, parts: Mapping[Fault, Parts]) -> Iterator[Reason]:
    sizes = {fault: _unshown(evidence, d) for fault, d in parts.items() if fault.kind == "zero"}
    sizes = {
        fault: min(size, _ORDINARY * _way(evidence, parts[fault])) for fault, size in sizes.items() if np.isfinite(size)
    }
    if found := _worst(evidence, {fault: size * evidence.by(parts[fault]) for fault, size in sizes.items()}):
        yield Reason("zero", {"fault": found[0].name, "size": sizes[found[0]], "moved": found[1]})


def _way(evidence: Evidence, parts: Parts) -> float:
    ways = [
        np.ptp(evidence.seen[number][run.present[:, c], c])
        for number, d in parts.items()
        for run in [evidence.runs[number]]
        for c in np.flatnonzero(np.any(d[:, : run.tracks] != 0, axis=0))
    ]
    return float(np.max(ways, initial=0.0))


def _scales_and_clocks(evidence: Evidence, parts: Mapping[Fault, Parts]) -> list[Reason]:
    """Those of which 1 % would not show, with how little moves an estimate as far as its interval goes."""
    kept, matter = evidence.kept, dict[Fault, dict[str, tuple[float, bool]]]()
    own, values = evidence.objective.parameters.own[kept], evidence.result.estimate[kept]
    # Of an interval cut by a bound the longer side.
    reach = np.max(np.abs(evidence.result.ends[kept] - values[:, None]), axis=1)
    for fault, by in _unseen(evidence, parts, ("scale", "clock")).items():
        off = np.divide(reach, np.abs(by), out=np.full_like(reach, np.inf), where=by != 0)
        moves = matter.setdefault(fault, {})
        for j in np.flatnonzero(off < _ORDINARY):
            name = evidence.names[j].partition("[")[0]
            moves[name] = min(moves.get(name, (np.inf, True)), (float(off[j]), bool(own[j])))
    # What a run has to itself, its start above all, is of interest only where nothing else is moved.
    all_own = all(is_own for moves in matter.values() for _, is_own in moves.values())
    told = {}
    for fault, moves in matter.items():
        nearest = sorted((off, name) for name, (off, is_own) in moves.items() if is_own == all_own)[:NAMED]
        each = [{"percent": 100 * off, "name": name} for off, name in nearest]
        if each:
            told[fault] = Reason("first part", each[0]), *(Reason("part", one) for one in each[1:])
    # What is told of a channel is not told again of that channel with another.
    return [
        Reason("fault", {"fault": fault.name, "parts": each})
        for fault, each in told.items()
        if len(fault.channels) < 2 or not any(Fault("scale", (c,)) in told for c in fault.channels)
    ]
