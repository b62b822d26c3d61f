r"""Runs with the same residuals: one recording that is there twice (`duplicate_runs`), or a misfit that all share.

Noise is another in every run, so that the residuals of several, on times that are the same from their start, have
hardly anything in common (`correlated`). What they have moves them all alike. Their scatter, on which intervals rest
from three runs on, shows nothing of it, so what it may have moved is compared with the intervals (`shifts`). A slow
curve is worth few independent numbers: that a few runs have one in common may be chance.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from diffcontact.identify.verdict.duplicate_runs import LEVEL, correlated, duplicate_runs, in_step
from diffcontact.identify.verdict.evidence import Evidence, RunEvidence
from diffcontact.identify.verdict.shifts import Shifts
from diffcontact.identify.verdict.verdict import Reason

_NAMED = 3


def common_misfit(evidence: Evidence) -> Iterator[Reason]:
    """Whether runs are the same recording, or lack the same."""
    if same := duplicate_runs(evidence):
        named = "; ".join(" and ".join(evidence.run(number) for number in pair) for pair in same[:_NAMED])
        yield Reason(
            f"residuals are the same in {named}, though noise is another in every run: a recording that is there "
            "twice, whole or in part, counts as two runs that agree, and the intervals are too short. Fit every run "
            "once",
            fatal=True,
        )
    elif len(evidence.runs) > 2 and (common := _correlation(evidence)) > 0:
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


def _correlation(evidence: Evidence) -> float:
    """The mean correlation of the residuals of two runs; 0 where they certainly have nothing in common."""
    runs = evidence.runs
    n = min(len(run.times) for run in runs)
    if len({run.tracks for run in runs}) > 1 or n < 2 or not in_step(np.stack([run.times[:n] for run in runs])):
        return 0.0
    if any(run.rounding for run in runs):
        return 0.0
    r = np.stack([run.residual.r[:n, : run.tracks] for run in runs])
    r = np.where(np.isnan(r).any(axis=0), 0.0, r).reshape(len(runs), -1)
    return correlated(r, min(_independent(run, n) for run in runs), LEVEL)


def _independent(run: RunEvidence, n: int) -> float:
    """How many independent numbers there are among a run's residuals at its first n times, at least one.

    The parameters have taken away some, and the size of the residuals one more.
    """
    seen = run.present[:n, : run.tracks].sum(axis=0) @ run.worth[: run.tracks]
    return max(float(seen) - run.residual.J.shape[-1] - 1.0, 1.0)
