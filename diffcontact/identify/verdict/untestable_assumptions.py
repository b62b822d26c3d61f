"""Assumptions that a verdict takes as right because the data cannot show them.

A fault (`explanations.directions`) moves the estimate, and leaves what no parameter makes up for
(`LinearisedFit.shift`, `left`). One of which 1 % would not show, and which brings an estimate to the end of its
interval, is taken as absent.

- Scales and clocks: channel by channel, and of two channels together, as of one axis along which two bodies are seen.
- Perspective, a scale that changes by 1 % across the picture: the channels in which it moves most.
- A zero, as the height of a floor: how much would just not show.
- A term held at zero, a resistance, impacts that are not all alike: how much would just not show.
- That residuals which follow each other closely are noise, and not the model's lack: a single run cannot tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from diffcontact.identify.levels import NAMED, RUNS_TO_COMPARE
from diffcontact.identify.verdict.evidence import Evidence
from diffcontact.identify.verdict.explanations import Fault, Faults, directions
from diffcontact.identify.verdict.texts import Amount, Reason

# Scales and clocks are hardly ever wrong by more.
_ORDINARY = 1e-2
# Standard deviations that a fault of that size must leave to be seen; `explanations` asks for a little more.
_SHOWS = 3.0
# What takes more of the speed from start to end than this does not stay out of a model.
_SLOWED = 0.2
# What impacts scatter by has no shape that is known before, and looks like correlated noise: of simulated bounces half
# are found where it leaves so many standard deviations.
_SCATTER_SHOWS = 10.0
# No two impacts of real bodies change velocities by the same to better than this.
_ALIKE = 2e-3
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
    return _SHOWS / left if left > 0 else np.inf


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
    if size >= _ALIKE and (told := evidence.beyond(size * moved)):
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
    return {fault: evidence.by(d) for fault, d in chosen.items() if _ORDINARY * _left(evidence, d) < _SHOWS}


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
    matter = {fault: _moved(evidence, by) for fault, by in _unseen(evidence, parts, ("scale", "clock")).items()}
    # What a run has to itself, its start above all, is of interest only where nothing else is moved.
    own = all(one.own for moves in matter.values() for one in moves.values())
    told = {}
    for fault, moves in matter.items():
        moves = sorted((one.off, name) for name, one in moves.items() if one.own == own)[:NAMED]
        if moves:
            each = [{"percent": 100 * off, "name": name} for off, name in moves]
            told[fault] = Reason("first part", each[0]), *(Reason("part", one) for one in each[1:])
    # What is told of a channel is not told again of that channel with another.
    return [
        Reason("fault", {"fault": fault.name, "parts": each})
        for fault, each in told.items()
        if len(fault.channels) < 2 or not any(Fault("scale", (c,)) in told for c in fault.channels)
    ]


class _Moved(NamedTuple):
    """How small a fault brings a parameter to the end of its interval, and whether every run has that to itself."""

    off: float
    own: bool


def _moved(evidence: Evidence, moved: NDArray) -> dict[str, _Moved]:
    """The parameters that an ordinary fault moves so far, by their names; `moved` (P,) is that of one of size 1."""
    result, kept, found = evidence.result, evidence.kept, dict[str, _Moved]()
    own, ends, values = evidence.objective.parameters.own[kept], result.ends[kept], result.estimate[kept]
    for j, by in enumerate(np.abs(moved)):
        if np.all(np.isfinite(ends[j])) and by > 0:
            # Of an interval cut by a bound the longer side.
            off, name = float(np.max(np.abs(ends[j] - values[j])) / by), evidence.names[j].partition("[")[0]
            if off < _ORDINARY:
                found[name] = min(found.get(name, _Moved(np.inf, True)), _Moved(off, bool(own[j])))
    return found
