"""The verdict of a fit: checks are functions (Evidence) -> Iterator[Reason], one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from diffcontact.host.messages import printable
from diffcontact.identify.impact_law import law_of_impact
from diffcontact.identify.levels import NAMED
from diffcontact.identify.problem.observations import labels_of
from diffcontact.identify.verdict import doubts
from diffcontact.identify.verdict.between_runs import common_misfit, contradictions, outsiders
from diffcontact.identify.verdict.evidence import Evidence
from diffcontact.identify.verdict.explanations import explanations, freed_terms
from diffcontact.identify.verdict.residuals import noise_overstated, noise_ratios, patterns
from diffcontact.identify.verdict.texts import Reason, Units, Words
from diffcontact.identify.verdict.untestable_assumptions import taken_as_right

YES, PARTLY, NO = "yes", "partly", "no"
_HEADLINES = {
    YES: "explains the data",
    PARTLY: "explains the data, but for what follows",
    NO: "does not explain the data: do not use these intervals",
}


@dataclass(frozen=True)
class Verdict:
    """Does the model explain the data?

    Attributes:
        explains: "yes", "partly" (the intervals can be used, but for what the reasons say) or "no" (do not use them).
        reasons: sentences, the gravest first; none where it explains them.
        fatal: how many of them, the first ones, forbid the use of the intervals.
        taken: what intervals rest on besides and the data cannot show, in a sentence; empty if nothing.
        codes: of each reason what it is about, the same in every language and unit.
        freed: which terms were set free as residuals asked for them, a sentence each.

    Example:
        >>> print(Verdict.of([Reason("residuals grow with time: something accumulates")]))
        explains the data, but for what follows
          - residuals grow with time: something accumulates
    """

    explains: str
    reasons: tuple[str, ...] = ()
    taken: str = ""
    fatal: int = 0
    codes: tuple[str, ...] = ()
    freed: tuple[str, ...] = ()

    @classmethod
    def of(cls, reasons: Iterable[Reason], taken: str = "", freed: tuple[str, ...] = ()) -> Verdict:
        """The verdict to which reasons lead."""
        ordered = sorted(reasons, key=lambda reason: not reason.fatal)
        explains = YES if not ordered else NO if ordered[0].fatal else PARTLY
        fatal, codes = sum(reason.fatal for reason in ordered), tuple(reason.code for reason in ordered)
        return cls(explains, tuple(reason.text for reason in ordered), taken, fatal, codes, freed)

    @property
    def headline(self) -> str:
        """The verdict in one line."""
        return _HEADLINES[self.explains]

    def to_dict(self) -> dict[str, Any]:
        """As it stands in result.json."""
        told = {"explains": self.explains, "reasons": list(self.reasons), "taken_as_right": self.taken}
        return told | {"fatal": self.fatal, "codes": list(self.codes), "freed": list(self.freed)}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Verdict:
        """What `to_dict` gave."""
        explains, reasons = str(document["explains"]), tuple(map(str, document["reasons"]))
        fatal = int(document.get("fatal", len(reasons) if explains == NO else 0))
        codes, freed = (tuple(map(str, document.get(key, ()))) for key in ("codes", "freed"))
        return cls(explains, reasons, str(document.get("taken_as_right", "")), fatal, codes, freed)

    @property
    def gravest(self) -> tuple[str, ...]:
        """Of the reasons those that decide, three at most."""
        return self.reasons[: min(self.fatal or len(self.reasons), NAMED)]

    def __str__(self) -> str:
        more = len(self.reasons) - len(self.gravest)
        told = [f"  ({more} more: `verdict.reasons`, in the report and in result.json)"] if more else []
        reasons = (f"  - {printable(reason)}" for reason in self.gravest)
        return "\n".join([self.headline, *reasons, *told, *map(printable, self.freed)])


def _law(evidence: Evidence) -> Iterator[Reason]:
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
    evidence: Evidence,
    units: Units | None = None,
    labels: Sequence[str] = (),
    phrases: Sequence[tuple[str, str]] = (),
) -> Verdict:
    """The verdict on a fit; units, labels and phrases as of `FitResult.judged`."""
    problems = evidence.objective.joint.problems
    first, runs = problems[0], labels or labels_of(problems)
    words = Words(first.observations.channels, runs, first.per_run, phrases, units or {})
    checks = [check for check in _CHECKS if not (evidence.fit.exact and check in _OF_RESIDUALS)]
    taken = taken_as_right(evidence)
    reasons = words.grouped(reason for check in checks for reason in check(evidence))
    freed = tuple(words.told(words.sentence(reason)) for reason in freed_terms(evidence))
    return Verdict.of(reasons, words.told(words.sentence(taken)) if taken else "", freed)
