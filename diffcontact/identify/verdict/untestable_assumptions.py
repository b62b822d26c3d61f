r"""What a verdict takes as right because the data cannot show it: a scale, a clock that parameters make up for.

Two riders in one picture of which one is magnified by 1 % collide as if they had other masses: no residual tells. With
d_g what a fault of size 1 adds to run g (`calibration.directions`), it moves the estimate by -A^-1 b and leaves as
residuals what no parameter makes up for,

    A = sum_g J_g^T J_g + priors,    b = sum_g J_g^T d_g,    |left|^2 = sum_g |d_g|^2 - b^T A^-1 b

all in units of the noise. A scale is looked at channel by channel, and of two channels together, as of one axis along
which two bodies are seen. What of a fault of 1 % would be left within the noise, and brings an estimate to the end of
its interval, is taken as right: no interval holds it, so it has to be known besides. Perspective is a scale that
changes by that much across the picture; of its channels those are told in which it moves most. A zero, the height of a
floor for one, may be off by as much of the way; of it is told how much would just not show. Where nothing at all would
show, it is a place from which places are counted, and nothing is told. A term that is held at
zero, as a drag, has no hundredth part: of it is told how much would just not show, where that moves an estimate
further; and so of a resistance to motion that the model has not, and of impacts that are not all alike: the restitution
of a ball is not the same in each. Of a term that does to the data what parameters do,
however much there is of it, no size is told. Residuals that follow each other closely may be noise
or the model's lack, an uneven rail's, and a single run cannot tell: that they are noise is taken as right, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from diffcontact.identify.error_bars import RUNS_TO_COMPARE
from diffcontact.identify.verdict.evidence import Evidence
from diffcontact.identify.verdict.explanations import CLOCK, PERSPECTIVE, SCALE, ZERO, directions
from diffcontact.identify.verdict.shifts import Shifts

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
_NAMED = 3
# Samples that follow each other closely are worth less than this part of their number.
_CLOSELY = 0.1
_TINY = np.finfo(float).tiny


def taken_as_right(evidence: Evidence) -> str:
    """What would go unseen and matter, in words; empty where there is nothing."""
    if not evidence.kept.any():
        return ""
    shifts = Shifts(evidence)
    of_runs = [_with_shared(directions(evidence, number)) for number in range(len(evidence.runs))]
    told = [
        *_scales_and_clocks(evidence, shifts, of_runs),
        *_perspective(evidence, shifts, of_runs),
        *_zeros(evidence, shifts, of_runs),
        *_terms(evidence, shifts),
        *_resistance(evidence, shifts),
        *_impacts(evidence, shifts),
        *_slow_noise(evidence, shifts),
        *_rounding(evidence),
    ]
    return f"taken as right, for these data cannot show it: {'; '.join(told)}" if told else ""


def _terms(evidence: Evidence, shifts: Shifts) -> list[str]:
    """Terms that are held at zero, with how much of them would not show."""
    found = []
    names = {name for of_run in evidence.fixed_terms for name, one in of_run.items() if one.value == 0.0}
    for name in sorted(names):
        parts = {number: run[name].column[..., 0] for number, run in enumerate(evidence.fixed_terms) if name in run}
        size, moved = _unshown(evidence, shifts, parts), shifts.by(parts)
        if np.isinf(size):
            if named := shifts.named(moved):
                found.append(f"{name} = 0 (nothing tells it from {named})")
        elif words := shifts.beyond(size * moved):
            found.append(f"{name} = 0 ({evidence.shown(name, size)} would hardly show, and moves {words})")
    return found[:_NAMED]


def _unshown(evidence: Evidence, shifts: Shifts, parts: Mapping[int, NDArray]) -> float:
    """How many times d_g (n, k) just do not show; infinite where parameters make up for all of it."""
    left = shifts.left(parts)
    return _SHOWS * float(np.sqrt(max(evidence.misfit, _TINY))) / left if left > 0 else np.inf


def _resistance(evidence: Evidence, shifts: Shifts) -> list[str]:
    """That nothing else resists the motion, with how much of it would not show: as a part of the speed at the end."""
    parts = evidence.resistance
    if not parts:
        return []
    size = min(_unshown(evidence, shifts, parts), _SLOWED)
    if not (words := shifts.beyond(size * shifts.by(parts))):
        return []
    return [
        "that nothing resists the motion besides what the model has (what takes "
        f"{100 * size:.2g} % of the speed until the end would hardly show, and moves {words})"
    ]


def _impacts(evidence: Evidence, shifts: Shifts) -> list[str]:
    """That impacts are all alike, where as much as they scatter anyhow would not show.

    Runs that are compared with each other hold it in their intervals.
    """
    if len(evidence.runs) >= RUNS_TO_COMPARE or len(evidence.impacts) < 2:
        return []
    left = float(np.linalg.norm([shifts.left(parts) for parts in evidence.impacts]))
    shows = _SCATTER_SHOWS * float(np.sqrt(max(evidence.misfit, _TINY))) / left if left > 0 else np.inf
    size, moved = min(shows, _ORDINARY), np.linalg.norm([shifts.by(parts) for parts in evidence.impacts], axis=0)
    if size < _ALIKE or not (words := shifts.beyond(size * moved)):
        return []
    return [
        f"that impacts are all alike (a scatter of {100 * size:.2g} % from one to the next, in what they change of the "
        f"velocity, would hardly show, and moves {words})"
    ]


def _slow_noise(evidence: Evidence, shifts: Shifts) -> list[str]:
    """That residuals that follow each other closely are noise, where as much of a misfit would matter."""
    if len(evidence.runs) >= RUNS_TO_COMPARE or evidence.effective > _CLOSELY * evidence.samples:
        return []
    sizes = [float(np.sqrt(np.nansum(run.residual.r[:, : run.tracks] ** 2))) for run in evidence.runs]
    if not (words := shifts.beyond(shifts.at_most(sizes))):
        return []
    return [
        f"that residuals are noise, of which {evidence.samples} samples are worth {evidence.effective:.2g} (a misfit "
        f"as large, in the shape that does most, moves {words})"
    ]


def _rounding(evidence: Evidence) -> list[str]:
    """That what is left is rounding: no pattern is looked for in it."""
    return ["that residuals are rounding of the simulation, in which nothing is looked for"] if evidence.exact else []


def _unseen(evidence: Evidence, shifts: Shifts, of_runs: list[dict[str, NDArray]], kinds: tuple[str, ...]):
    """Faults of these kinds of which 1 % would not show, each with how far one of size 1 moves the parameters (P,)."""
    noise = np.sqrt(max(evidence.misfit, _TINY))
    for fault in sorted(name for name in set().union(*of_runs) if name.startswith(kinds)):
        parts = {number: found[fault] for number, found in enumerate(of_runs) if fault in found}
        if _ORDINARY * shifts.left(parts) < _SHOWS * noise:
            yield fault, shifts.by(parts)


def _perspective(evidence: Evidence, shifts: Shifts, of_runs: list[dict[str, NDArray]]) -> list[str]:
    """The channels in which a scale that changes by 1 % across the picture moves most."""
    found = {name: _ORDINARY * moved for name, moved in _unseen(evidence, shifts, of_runs, ("perspective",))}
    worst = max(found, key=lambda name: shifts.ratio(found[name]).max(), default="")
    if not (worst and (words := shifts.beyond(found[worst]))):
        return []
    return [f"{worst} ({100 * _ORDINARY:g} % across the picture moves {words})"]


def _zeros(evidence: Evidence, shifts: Shifts, of_runs: list[dict[str, NDArray]]) -> list[str]:
    """The zero, of one channel or of two together, that would hardly show and moves most."""
    found = {}
    for fault in sorted(name for name in set().union(*of_runs) if name.startswith(ZERO.rstrip())):
        parts = {number: faults[fault] for number, faults in enumerate(of_runs) if fault in faults}
        size = _unshown(evidence, shifts, parts)
        if np.isfinite(size):
            found[fault] = min(size, _ORDINARY * _way(evidence, parts)), shifts.by(parts)
    worst = max(found, key=lambda name: shifts.ratio(found[name][0] * found[name][1]).max(), default="")
    if not worst or not (words := shifts.beyond(found[worst][0] * found[worst][1])):
        return []
    return [f"{worst} ({found[worst][0]:.2g} off it would hardly show, and moves {words})"]


def _way(evidence: Evidence, parts: Mapping[int, NDArray]) -> float:
    """How far what is seen goes, in the channels that a fault touches."""
    ways = [
        np.ptp(evidence.seen[number][run.present[:, c], c])
        for number, d in parts.items()
        for run in [evidence.runs[number]]
        for c in np.flatnonzero(np.any(d[:, : run.tracks] != 0, axis=0))
    ]
    return float(np.max(ways, initial=0.0))


def _scales_and_clocks(evidence: Evidence, shifts: Shifts, of_runs: list[dict[str, NDArray]]) -> list[str]:
    """Those of which 1 % would not show, with how little moves an estimate as far as its interval goes."""
    unseen = _unseen(evidence, shifts, of_runs, ("scale", CLOCK))
    matter = {fault: _moved(evidence, moved) for fault, moved in unseen}
    # What a run has to itself, its start above all, is of interest only where nothing else is moved.
    own = all(one.own for moves in matter.values() for one in moves.values())
    texts = {
        fault: text
        for fault, moves in matter.items()
        if (text := _told({name: one for name, one in moves.items() if one.own == own}))
    }
    # What is told of a channel is not told again of that channel with another.
    return [
        f"{fault} ({text})"
        for fault, text in texts.items()
        if not any(SCALE + channel in texts for channel in _shared(fault))
    ]


def _with_shared(faults: dict[str, NDArray]) -> dict[str, NDArray]:
    """The same, and a scale, a zero or a perspective that two channels have in common, of each two."""
    pairs = {}
    for kind in (SCALE, PERSPECTIVE, ZERO):
        alone = {name.removeprefix(kind): d for name, d in faults.items() if name.startswith(kind)}
        pairs |= {f"{kind.rstrip()}s {i} and {j}": alone[i] + alone[j] for i, j in combinations(alone, 2)}
    return faults | pairs


def _shared(fault: str) -> list[str]:
    """The channels of a fault that two have in common."""
    return fault.removeprefix("scale of channels ").split(" and ") if " and " in fault else []


class _Moved(NamedTuple):
    """How small a fault brings a parameter to the end of its interval, and whether every run has that to itself."""

    off: float
    own: bool


def _moved(evidence: Evidence, moved: NDArray) -> dict[str, _Moved]:
    """The parameters that an ordinary fault moves so far, by their names; `moved` (P,) is that of one of size 1."""
    rows = [row for row, kept in zip(evidence.result.rows(), evidence.kept, strict=True) if kept]
    found: dict[str, _Moved] = {}
    for row, own, by in zip(rows, evidence.objective.parameters.own[evidence.kept], np.abs(moved), strict=True):
        low, high = row["interval95"]
        if low is None or high is None or not by > 0:
            continue
        # Of an interval cut by a bound the longer side.
        off = max(high - row["value"], row["value"] - low) / float(by)
        name = row["name"].partition("[")[0]
        if off < _ORDINARY:
            found[name] = min(found.get(name, _Moved(np.inf, True)), _Moved(off, bool(own)))
    return found


def _told(moves: dict[str, _Moved]) -> str:
    """The parameters that are moved most easily."""
    chosen = sorted(moves, key=lambda name: moves[name])[:_NAMED]
    each = [f"of {100 * moves[name].off:.2g} % {name}" for name in chosen]
    return f"an error {', '.join(each).replace('%', '% moves', 1)} as far as its interval goes" if each else ""
