r"""What would explain the residuals, if one thing would: a fault of the measuring, a term held fixed, a resistance,
impacts that are not all alike.

Each is tried by Rao's `score_test`, and the one is told that makes the residuals likeliest, by chi^2 with a
penalty of p log n for its p numbers (Schwarz), if it is certain, and takes half of what chi^2 has too much. Others that
are nearly as likely are named beside it, as residuals do not tell them apart. On an uneven rail one run of carts would
have its scale changed by 0.3 %.

What the fault moved the estimate by follows from its size. Where an interval does not reach as far, it is wrong, and
the verdict is "no". Of several faults that are nearly as likely one that does it is enough.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri, fdtrc

from diffcontact.identify.verdict.calibration import JUMP, faults_of_measuring
from diffcontact.identify.verdict.evidence import Evidence
from diffcontact.identify.verdict.score_test import Fault, Projected
from diffcontact.identify.verdict.shifts import Shifts
from diffcontact.identify.verdict.verdict import Reason

# One false alarm in two hundred fits, shared by terms of the model, a resistance that it has not, impacts, jumps of the
# clock, and all others: the model's own terms are few, and are not to pay for the many places where a clock may jump.
_LEVEL = 5e-3
_KINDS = 5
# Of the excess of chi^2, the part that a fault must explain to be named.
_MOST = 0.5
# In chi^2 over its mean: what is less likely by more than e^4.5 is another thing.
_ALIKE = 9.0
_NAMED = 3
_RESISTANCE = "a resistance that the model has not, which takes a part of the speed from start to end,"
_UNLIKE = "impacts that are not all alike, as where restitution or friction differs from one to the next,"
# Of those that are nearly as likely: each has the noise estimated anew.
_TRIED = 3


class _Candidate(NamedTuple):
    """A fault, what it is called in a sentence, how likely it is, and of what false alarm it has to be free."""

    fault: Fault
    told: str
    likely: float
    level: float


def explanations(evidence: Evidence) -> Iterator[Reason]:
    """The one thing that would explain what is wrong, if one would."""
    if evidence.objective.loss.robust or not evidence.kept.any():
        return
    found = _candidates(evidence)
    if not found:
        return
    found.sort(key=lambda one: -one.likely)
    alike = [one for one in found if one.likely > found[0].likely - _ALIKE * max(evidence.misfit, 1.0)]
    excess = sum(float(np.nansum(run.residual.r**2)) for run in evidence.runs) - evidence.result.dof
    for best in alike[:_TRIED]:
        fault = best.fault
        # Without noise rounding has a shape, too.
        if fault.taken < max(_MOST * excess, chdtri(fault.freedom, best.level)):
            continue
        certain, error = fault.certainty(evidence)
        # The noise is known from as many samples as those that follow each other are worth.
        if fdtrc(fault.freedom, max(evidence.effective, 1.0), certain / fault.freedom) < best.level:
            yield _told(evidence, best, error, [one for one in alike if one is not best])
            return


def _told(evidence: Evidence, best: _Candidate, error: float, others: list[_Candidate]) -> Reason:
    shifts = Shifts(evidence)
    moved = [words for one in [best, *others] if (words := shifts.beyond(shifts.by(one.fault.added)))]
    size = f" by {best.fault.size[0]:.2g} +- {error:.1g}" if best.fault.size.size == 1 else ""
    text = (
        "residuals have the shape that a fault of the measuring leaves, or a number held fixed that is another, or "
        f"something alike: {best.told}{size}{_others(others)}. "
    )
    if moved:
        text += f"It would have moved {moved[0]}. "
    return Reason(
        f"{text}The parameters may have given way to it: check scale, zero and clock, and what is held fixed (gravity, "
        "lengths, a term at zero); set it free, or give the model the term that it lacks",
        fatal=bool(moved),
    )


def _candidates(evidence: Evidence) -> list[_Candidate]:
    projected, log_n = Projected(evidence), np.log(max(evidence.effective, 2.0))
    numbers = range(len(evidence.runs))
    families = (
        ("{}", [faults_of_measuring(evidence, number) for number in numbers]),
        ("{}, held fixed,", [{name: one.column for name, one in run.items()} for run in evidence.fixed_terms]),
        ("{}", [{_RESISTANCE: evidence.resistance[i][..., None]} if i in evidence.resistance else {} for i in numbers]),
        ("{}", [_unlike(evidence, number) for number in numbers]),
    )
    found = []
    for words, of_runs in families:
        several = []
        for name in sorted(set().union(*of_runs)):
            parts: Mapping[int, NDArray] = {
                number: of_runs[number][name] for number in numbers if name in of_runs[number]
            }
            if len({d.shape[-1] for d in parts.values()}) > 1:
                continue
            if fault := projected.fault(name, parts):
                likely = fault.taken - (fault.freedom - 1) * log_n * max(evidence.misfit, 1.0)
                several.append((fault, words.format(name), likely))
        jumps = sum(_is_jump(told) for _, told, _ in several)
        for fault, told, likely in several:
            rivals = jumps if _is_jump(told) else len(several) - jumps
            found.append(_Candidate(fault, told, likely, _LEVEL / _KINDS / rivals))
    return found


def _unlike(evidence: Evidence, number: int) -> dict[str, NDArray]:
    """(n, k, m) what each of the m impacts of all runs would add to a run if it alone were another."""
    if len(evidence.impacts) < 2:
        return {}
    nothing = np.zeros(evidence.runs[number].residual.r.shape)
    return {_UNLIKE: np.stack([impact.get(number, nothing) for impact in evidence.impacts], axis=-1)}


def _is_jump(told: str) -> bool:
    return told.startswith(JUMP)


def _others(alike: list[_Candidate]) -> str:
    """Those that explain it nearly as well, one for each of a kind."""
    names = list(dict.fromkeys(one.told.partition(" at t =")[0] for one in alike))[:_NAMED]
    return f" (or {', or '.join(name.rstrip(',') for name in names)})" if names else ""
