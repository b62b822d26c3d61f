"""All checks of a fit, one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from diffcontact.identify.estimate import Estimate
from diffcontact.identify.impact_law import law_of_impact
from diffcontact.identify.problem.objective import Objective
from diffcontact.identify.verdict.alike import alike
from diffcontact.identify.verdict.ambiguity import elsewhere
from diffcontact.identify.verdict.causes import causes
from diffcontact.identify.verdict.contradiction import contradictions
from diffcontact.identify.verdict.doubts import (
    bounds,
    curvature,
    ending,
    outlying,
    priors,
    rounded,
    starts,
    unseen,
    untested,
)
from diffcontact.identify.verdict.evidence import Evidence, Units
from diffcontact.identify.verdict.outsiders import outsiders
from diffcontact.identify.verdict.patterns import patterns, stated
from diffcontact.identify.verdict.taken import taken_as_right
from diffcontact.identify.verdict.verdict import Reason, Verdict
from diffcontact.identify.verdict.weights import weights


def _law(evidence: Evidence) -> Iterator[Reason]:
    """Whether restitution depends on the speed of approach."""
    if sentence := law_of_impact(evidence.result):
        yield Reason(f"{sentence}. Try a law of the speed, restitution(params, speed)")


_CHECKS = (
    *(ending, untested, rounded, _law, outsiders, patterns, stated, weights, causes, contradictions, alike),
    *(outlying, priors, starts, elsewhere, unseen, bounds, curvature),
)
# Rounding has patterns, too, and intervals of its size hold nothing.
_OF_RESIDUALS = (_law, outsiders, patterns, stated, weights, causes, contradictions, alike)


def judge(result: Estimate, objective: Objective, units: Units | None = None, labels: Sequence[str] = ()) -> Verdict:
    """The verdict on a fit.

    Args:
        result: what `fit` returned.
        objective: what was minimised, started at the estimate.
        units: name of a parameter -> unit in which the reasons give it, and what one of that is in the fit's own units.
        labels: what the runs are called; empty: by their numbers.
    """
    evidence = Evidence.of(result, objective, units or {}, labels)
    checks = [check for check in _CHECKS if not (evidence.exact and check in _OF_RESIDUALS)]
    return Verdict.of((reason for check in checks for reason in check(evidence)), taken_as_right(evidence))
