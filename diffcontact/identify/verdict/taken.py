r"""What a verdict takes as right because the data cannot show it: a scale, a clock that parameters make up for.

Two riders in one picture of which one is magnified by 1 % collide as if they had other masses: no residual tells. With
d_g what a fault of size 1 adds to run g (`calibration.directions`), it moves the estimate by A^-1 b and leaves as
residuals what no parameter makes up for,

    A = sum_g J_g^T J_g + priors,    b = sum_g J_g^T d_g,    |left|^2 = sum_g |d_g|^2 - b^T A^-1 b

all in units of the noise. A scale is looked at channel by channel, and of two channels together, as of one axis along
which two bodies are seen. What of a fault of 1 % would be left within the noise, and brings an estimate to the end of
its interval, is taken as right: no interval holds it, so it has to be known besides.
"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from diffcontact.identify.verdict.calibration import SCALE, directions
from diffcontact.identify.verdict.evidence import Evidence

# Scales and clocks are hardly ever wrong by more.
_ORDINARY = 1e-2
# Standard deviations that a fault of that size must leave to be seen; `calibration` asks for 3.3.
_SHOWS = 3.0
_NAMED = 3
_KINDS = ("scale", "rate")



def taken_as_right(evidence: Evidence) -> str:
    """The faults of the measuring that would go unseen and matter, in words; empty where there is none."""
    if not evidence.kept.any():
        return ""
    of_runs = [_with_shared_scales(directions(evidence, number)) for number in range(len(evidence.runs))]
    A = np.diag(evidence.objective.priors.information(evidence.theta)[evidence.kept])
    for run in evidence.runs:
        J = _rows(run.residual.J, run.present)
        A[np.ix_(run.residual.index, run.residual.index)] += J.T @ J
    size = np.sqrt(np.maximum(np.diag(A), np.finfo(float).tiny))
    inverse = np.linalg.pinv(A / np.outer(size, size), rcond=1e-10, hermitian=True) / np.outer(size, size)
    matter: dict[str, dict[str, _Moved]] = {}
    for fault in sorted(fault for fault in set().union(*of_runs) if fault.startswith(_KINDS)):
        b, whole = np.zeros(size.size), 0.0
        for run, found in zip(evidence.runs, of_runs, strict=True):
            if fault in found:
                d = np.where(run.present, found[fault], 0.0).ravel()
                b[run.residual.index] += _rows(run.residual.J, run.present).T @ d
                whole += float(d @ d)
        moved = inverse @ b
        left = np.sqrt(max(whole - float(b @ moved), 0.0) / max(evidence.misfit, np.finfo(float).tiny))
        if _ORDINARY * left < _SHOWS:
            matter[fault] = _moved(evidence, moved)
    # What a run has to itself, its start above all, is of interest only where nothing else is moved.
    own = all(one.own for moves in matter.values() for one in moves.values())
    texts = {
        fault: text
        for fault, moves in matter.items()
        if (text := _told({name: one for name, one in moves.items() if one.own == own}))
    }
    # What is told of a channel is not told again of that channel with another.
    told = [
        f"{fault} ({text})"
        for fault, text in texts.items()
        if not any(SCALE + channel in texts for channel in _shared(fault))
    ]
    return f"taken as right, for these data cannot show it: {'; '.join(told)}" if told else ""


def _with_shared_scales(faults: dict[str, NDArray]) -> dict[str, NDArray]:
    """The same, and a scale that two channels have in common, of each two."""
    scales = {name.removeprefix(SCALE): d for name, d in faults.items() if name.startswith(SCALE)}
    pairs = {f"scale of channels {i} and {j}": scales[i] + scales[j] for i, j in combinations(scales, 2)}
    return faults | pairs


def _shared(fault: str) -> list[str]:
    """The channels of a fault that two have in common."""
    return fault.removeprefix("scale of channels ").split(" and ") if " and " in fault else []


class _Moved(NamedTuple):
    """How small a fault brings a parameter to the end of its interval, and whether every run has that to itself."""

    off: float
    own: bool


def _rows(J: NDArray, present: NDArray) -> NDArray:
    """(n k, P) the Jacobian of a run, zero where nothing was measured."""
    return np.where(present[..., None], J, 0.0).reshape(-1, J.shape[-1])


def _moved(evidence: Evidence, moved: NDArray) -> dict[str, _Moved]:
    """The parameters that an ordinary fault moves so far, by their names; `moved` is by how much per size of it."""
    parameters, result = evidence.objective.parameters, evidence.result
    slopes = parameters.slopes(evidence.theta)[evidence.kept]
    rows = [row for row, kept in zip(result.rows(), evidence.kept, strict=True) if kept]
    found: dict[str, _Moved] = {}
    for row, own, by in zip(rows, parameters.own[evidence.kept], np.abs(slopes * moved), strict=True):
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
