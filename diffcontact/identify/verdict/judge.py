"""All checks of a fit, one after the other: each a function (Evidence) -> Iterator[Reason]."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from diffcontact.identify.estimate import Estimate
from diffcontact.identify.impact_law import law_of_impact
from diffcontact.identify.problem.objective import Objective
from diffcontact.identify.problem.observations import labels_of
from diffcontact.identify.verdict import doubts
from diffcontact.identify.verdict.between_runs import common_misfit, contradictions, outsiders
from diffcontact.identify.verdict.evidence import Evidence
from diffcontact.identify.verdict.explanations import explanations
from diffcontact.identify.verdict.residuals import noise_overstated, noise_ratios, patterns
from diffcontact.identify.verdict.texts import Reason, Units, Words
from diffcontact.identify.verdict.untestable_assumptions import taken_as_right
from diffcontact.identify.verdict.verdict import Verdict


def _law(evidence: Evidence) -> Iterator[Reason]:
    """Whether restitution depends on the speed of approach."""
    if sentence := law_of_impact(evidence.result):
        yield Reason("law of impact", {"law": sentence})


# Rounding has patterns, too, and intervals of its size hold nothing.
_OF_RESIDUALS = (
    *(_law, outsiders, patterns, noise_overstated, noise_ratios),
    *(explanations, contradictions, common_misfit),
)
_CHECKS = (
    *(doubts.ending, doubts.untested, doubts.rounded, *_OF_RESIDUALS, doubts.outlying, doubts.priors, doubts.starts),
    *(doubts.elsewhere, doubts.unseen, doubts.bounds, doubts.curvature),
)


def judge(
    result: Estimate,
    objective: Objective,
    units: Units | None = None,
    labels: Sequence[str] = (),
    phrases: Sequence[tuple[str, str]] = (),
) -> Verdict:
    """The verdict on a fit.

    Args:
        result: what `fit` returned.
        objective: what was minimised, started at the estimate.
        units: name of a parameter -> unit in which the reasons give it, and what one of that is in the fit's own units.
        labels: what the runs are called; empty: by their numbers.
        phrases: (pattern, text) pairs, what the reasons say in place of an argument of `fit`.
    """
    evidence, first = Evidence.of(result, objective), objective.joint.problems[0]
    runs = labels or labels_of(objective.joint.problems)
    words = Words(first.observations.channels, runs, first.per_run, phrases, units or {})
    checks = [check for check in _CHECKS if not (evidence.fit.exact and check in _OF_RESIDUALS)]
    taken = taken_as_right(evidence)
    reasons = words.grouped(reason for check in checks for reason in check(evidence))
    return Verdict.of(reasons, words.told(words.sentence(taken)) if taken else "")
