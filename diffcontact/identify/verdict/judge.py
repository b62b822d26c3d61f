"""All checks of a fit, one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from diffcontact.identify.estimate import Estimate
from diffcontact.identify.impact_law import law_of_impact
from diffcontact.identify.problem.objective import Objective
from diffcontact.identify.problem.observations import labels_of
from diffcontact.identify.verdict.common_misfit import common_misfit
from diffcontact.identify.verdict.contradiction import contradictions
from diffcontact.identify.verdict.doubts import (
    bounds,
    curvature,
    elsewhere,
    ending,
    outlying,
    priors,
    rounded,
    starts,
    unseen,
    untested,
)
from diffcontact.identify.verdict.evidence import Evidence, Units
from diffcontact.identify.verdict.explanations import explanations
from diffcontact.identify.verdict.noise_ratios import noise_ratios
from diffcontact.identify.verdict.outsiders import outsiders
from diffcontact.identify.verdict.patterns import patterns, stated
from diffcontact.identify.verdict.untestable_assumptions import taken_as_right
from diffcontact.identify.verdict.verdict import Reason, Verdict
from diffcontact.identify.verdict.words import Words


def _law(evidence: Evidence) -> Iterator[Reason]:
    """Whether restitution depends on the speed of approach."""
    if sentence := law_of_impact(evidence.result):
        yield Reason(f"{sentence}. Try a law of the speed, restitution(params, speed)")


_CHECKS = (
    *(ending, untested, rounded, _law, outsiders, patterns, stated, noise_ratios),
    *(explanations, contradictions, common_misfit),
    *(outlying, priors, starts, elsewhere, unseen, bounds, curvature),
)
# Rounding has patterns, too, and intervals of its size hold nothing.
_OF_RESIDUALS = (_law, outsiders, patterns, stated, noise_ratios, explanations, contradictions, common_misfit)


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
    labels = labels or labels_of(objective.joint.problems)
    evidence = Evidence.of(result, objective, units or {}, labels)
    checks = [check for check in _CHECKS if not (evidence.exact and check in _OF_RESIDUALS)]
    first = objective.joint.problems[0]
    runs = [evidence.run(number) for number in range(len(evidence.runs))]
    words = Words(first.observations.channels, runs, first.per_run, phrases)
    reasons = words.grouped(reason for check in checks for reason in check(evidence))
    return Verdict.of(reasons, words.told(taken_as_right(evidence)))
