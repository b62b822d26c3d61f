"""A verdict and its reasons: from which level on a finding counts, by which code it goes, and its sentence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from string import Formatter
from typing import Any, NamedTuple

from diffcontact.host.messages import printable

# Of a fit whose model is right: some twenty checks together raise one false alarm in a hundred fits.
LEVELS = {
    "pattern": 1e-3,
    # A model that is wrong leaves residuals that follow each other: counted as few, they would be believed too easily.
    "correlated misfit": 1e-2,
    # Of two ratios, above one and below.
    "noise ratios": 5e-4,
    # Shared by terms of the model, a resistance that it has not, impacts, jumps of the clock, and all others: the
    # model's own terms are few, and are not to pay for the many places where a clock may jump.
    "explanation": 1e-3,
    "outsider": 1e-4,
    "contradiction": 1e-4,
    "same recording": 1e-4,
    "law of impact": 1e-2,
}
# Squares of residuals over those of the noise: no noise at all; mostly none, where they have a shape; noise overstated.
GROSS, MISFIT, OVERSTATED = 20.0, 4.0, 0.25
# Ratio of two mean squares, or of two sizes, that is worth a word.
RATIO = 2.0
# Independent samples of which a mean square is worth having.
FEWEST = 3
# Standard deviations of a prior, or beyond a bound: once in 400 fits, and never.
UNUSUAL, IMPOSSIBLE = 3.0, 5.0
# From so many runs on their scatter gives the error bars.
RUNS_TO_COMPARE = 3
# Things that a sentence names, at most, or that are tried where several are nearly as likely.
NAMED = 3
# Numbers, places or parameters that are looked at one by one, at most: each costs a simulation or a fit.
LOOKED_AT = 24
# A thousandth of a thing is none of it: what parameters leave of a column, a part of an error, of a spacing.
SLIGHT = 1e-3
# What other columns leave of one, below which it is rounding.
OF_A_COLUMN = 1e-6
# Steps of a difference are this power of machine epsilon: between rounding and what is no derivative any more.
DIFFERENCE = 0.4

# Sentences by their codes, with a brace for each figure. `{figure:, }` puts several in a row; all else is as
# `str.format` has it.
TEXTS = {
    # How the fit ended.
    "not converged": "the fit did not converge: {message}",
    "status": "the simulation of {run} cannot be trusted: {message}",
    "untested": "{samples} samples{priors} are not more than {free} free parameters, so nothing tests the model. "
    "Measure more, or hold parameters",
    "untested and missed": "{samples} samples{priors} are not more than {free} free parameters, and the model misses "
    "them by {missed:.2g} standard deviations: a bound or a local minimum has stopped the fit. Try more starts, "
    "measure more, or hold parameters",
    "rounding": "residuals are {times:.2g} times as large as the stated noise, and no larger than the rounding of the "
    "simulation: nothing was looked for in them. {advice}",
    "imprecise": "the simulation is rounded by {rounding:.2g} of the stated noise, whatever its steps: {precision} "
    "precision is too coarse for such a noise. {advice}",
    "single precision": "Compute in double precision (jax_enable_x64)",
    "double precision": "State the noise as it is, or fewer steps",
    "starts": "{together} of {starts} starts ended at the best cost {best:.4g}, the next at {next:.4g}: a better "
    "minimum may exist. Try more starts, or a start from the fit of a similar run",
    "elsewhere": "the data do not tell {here:, } from {others:; or }{more}: each explains them as well, and the "
    "intervals hold all of these. Hold or bound what is known otherwise",
    "value": "{name} = {value}",
    "values": "{values:, }",
    "lower elsewhere": "the fit may have ended in a local minimum: {where}. Try more starts",
    "lower at an end": "{where} the cost is lower than at the estimate, by {risen:.3g}: the fit ended in a local "
    "minimum. Try more starts",
    "short interval": "{where} the cost has risen by {risen:.3g} only, {expected:.3g} were to be expected, so it may "
    "be too short. Use identify.profile",
    "end": "at the {side} end of the interval of {name}",
    "behind an end": "at twice the way to the {side} end of the interval of {name}",
    # What parameters are.
    "outliers": "loss={loss!r} takes the noise for outliers: f_scale = {scale:.3g} is {part:.2g} standard deviations "
    "of the residuals, and the intervals are too short. State the noise as it is, or noise='estimated', and an "
    "f_scale of 1 or more",
    "gripped": "{name} >= {least} (95 %): it gripped, so the data only bound it from below",
    "two valleys": "{name} may also be far from its estimate, as {far}: there a contact grips that slips here, or the "
    "other way round. The interval holds both. Measure the spin, or hold it",
    "unseen": "the data cannot see {names: with }: no error can be given. Hold it, or tie it",
    "bound": "{name} = {value} is at its bound, and the data would go {pushed:.1f} standard errors beyond. Widen a "
    "bound that is no law of nature; else the model may lack what pushes it there",
    "prior": "the data and the prior of {name} are {off:.1f} standard deviations apart: either the prior is wrong, or "
    "the model is, and the parameter makes up for it",
    "law of impact": "{law}. Try a law of the speed, restitution(params, speed)",
    # Patterns in residuals.
    "at impacts": "are {ratio:.1f} times as large at the impacts as elsewhere",
    "grow": "grow: {ratio:.1f} times as large in the last third of the record as in the first",
    "fade": "are {ratio:.1f} times as large in the first third of the record as in the last",
    "far off": "hold {count} far off, by more than {limit:g} standard deviations of the others",
    "smooth": "are a smooth curve, not noise, for which the intervals take it: each sample follows from those before "
    "to {percent:.1g} % of their size",
    "curve": "are noise about a smooth curve, {ratio:.2g} times as large as that noise, which the intervals take for "
    "noise, too",
    "curve in runs": "are noise about a smooth curve, {ratio:.2g} times as large as that noise; the intervals hold "
    "what it does only as far as that differs from run to run",
    "correlated": "follow each other (correlation of neighbours {correlation:.2f})",
    "unheld": "may have moved the parameters, which take up a part of such a misfit: were that as much as is left, "
    "{moved: and }",
    "unheld in runs": "may have moved the parameters, and intervals hold what differs from run to run: were half of "
    "what is left alike in all, {moved: and }",
    "moved": "{name} by {by}, {times:.2g} times as far as its interval reaches",
    "moved further": "{name} by {by}, further than its interval reaches",
    "gross without a pattern": "residuals are {times:.2g} times as large as {noise} (chi^2/dof {chi2:.3g}) without a "
    "pattern: bounces may be taken for others. Try more starts",
    "noise": "residuals are {times:.2g} times as large as {noise} (chi^2/dof {chi2:.3g}), but without a "
    "pattern: the noise is larger than stated.{rest} State the noise as it is, or noise='estimated'; else try more "
    "starts",
    "misfit": "residuals are {times:.2g} times as large as {noise} (chi^2/dof {chi2:.3g}) and "
    "{shapes:; they }. Try {advice:; }",
    "stated noise": "the stated noise",
    "estimated noise": "samples are rough",
    "pattern": "residuals {shapes:; they }. Try {advice:; }",
    "try a noise": "a noise for every sample, `noise` of shape (n, k), if the measuring is less sure there",
    "try to flag": "to flag those samples as missing, or loss='soft_l1'",
    "try another impact": "another law of impact (e that depends on speed, or one per contact), to leave out the "
    "samples while bodies touch, and more starts",
    "try a term": "another term of the model (drag, a slope, friction, one that depends on the speed as Stribeck's), a "
    "shorter window",
    "try starts": "more starts",
    "noise overstated": "the noise is stated {times} as large as residuals are rough from one sample to the next "
    "(chi^2/dof {chi2:.3g}): against it a misfit does not show. State the noise as it is, or noise='estimated'",
    "noise ratios": "samples of a larger stated noise are off by {large:.2g} of it, the others of their channel by "
    "{small:.2g} of theirs: the ratios are not as stated, and intervals of what rests on the others are too {length}. "
    "State the noise of every sample as it is; what is not to count is missing (NaN)",
    # What differs between runs, and what does not.
    "outsider": "residuals in {runs: and } are far larger than in the other runs: something else may be recorded "
    "there (another body, swapped columns, another unit or clock). Look at it first, and fit without it",
    "times": "{run} ({ratio:.2g} times)",
    "same recording": "residuals are the same in {pairs:; }, though noise is another in every run: a recording that "
    "is there twice counts as two runs that agree. Fit every run once",
    "pair": "{one} and {other}",
    "common misfit": "residuals are alike in all runs (correlation {correlation:.2f}): something is missing in all of "
    "them, and the intervals hold only what differs between runs. {moved}Try another term of the model (drag, a "
    "slope, friction), and look for what the camera adds to all",
    "common and moved": "It may have moved the parameters: were that by as much as is left, {moved: and }. ",
    "scatter": "the runs differ by more than their own errors: {apart:; }. The intervals hold this scatter if the "
    "runs are of one kind; look at those that stand apart, or give each run its own (per_run)",
    "contradiction": "the runs contradict each other: {apart:; }. Fit them separately, give each its own (per_run), "
    "or measure more runs",
    "apart": "{name} would be {least} in {one} alone and {most} in {other}",
    # What would explain the residuals.
    "held fixed": "{name}, held fixed at {here}, would be {there} by the shape of the residuals{others}.{moved} Set it "
    "free",
    "held and moved": " {name} as it is has moved {moved: and }.",
    "one and moved": " One of these would have moved {moved: and }.",
    "explanation": "residuals have the shape that a fault of the measuring leaves, or a number held fixed that is "
    "another: {name}{size}{others}. {moved}Check scale, zero and clock, and what is held fixed (gravity, lengths, a "
    "term at zero); set it free, or give the model the term that it lacks",
    "size": " by {size:.2g} +- {error:.1g}",
    "others": " (or {names:, or })",
    "fault and moved": "It would have moved {moved: and }. ",
    "freed": "set free: {name} = {value}, held at {held} before; chi^2/dof was {before:.3g} and is {after:.3g}",
    # What is taken as right.
    "taken as right": "taken as right, for these data cannot show it: {things:; }",
    "fault": "{fault} (an error {parts:, } as far as its interval goes)",
    "first part": "of {percent:.2g} % moves {name}",
    "part": "of {percent:.2g} % {name}",
    "perspective": "{fault} ({percent:g} % across the picture moves {moved: and })",
    "zero": "{fault} ({size:.2g} off it would hardly show, and moves {moved: and })",
    "term": "{name} = 0 ({size} would hardly show, and moves {moved: and })",
    "term like": "{name} = 0 (nothing tells it from {names: and })",
    "resistance": "that nothing resists the motion besides what the model has (what takes {percent:.2g} % of the speed "
    "until the end would hardly show, and moves {moved: and })",
    "impacts alike": "that impacts are all alike (a scatter of {percent:.2g} % from one to the next, in what they "
    "change of the velocity, would hardly show, and moves {moved: and })",
    "slow noise": "that residuals are noise, of which {samples} samples are worth {effective:.2g} (a misfit as large, "
    "in the shape that does most, moves {moved: and })",
    "exact": "that residuals are rounding of the simulation, in which nothing is looked for",
}

Units = Mapping[str, tuple[str, float]]


class Amount(NamedTuple):
    """A value of a parameter, perhaps with its standard error, shown in the unit in which people read it."""

    name: str
    value: float
    stderr: float | None = None

    def shown(self, units: Units) -> str:
        unit, factor = units.get(self.name.partition("[")[0], ("", 1.0))
        error = "" if self.stderr is None else f" +- {self.stderr / factor:.2g}"
        return f"{self.value / factor:.4g}{error}{f' {unit}' if unit not in ('', '1') else ''}"


class Run(NamedTuple):
    """A run by its number, shown by what it is called."""

    number: int


@dataclass(frozen=True)
class Reason:
    """One thing that speaks against a fit."""

    code: str  # what was found, a key of `TEXTS`; any other text is its own sentence
    # Name -> number, text, `Amount`, `Run`, `Reason`, or a tuple of these, as the sentence takes them.
    figures: Mapping[str, Any] = field(default_factory=dict)
    fatal: bool = False  # whether the intervals cannot be used because of it
    said: str = ""  # the sentence in somebody's words; empty: in none

    @property
    def text(self) -> str:
        """The sentence: what was found, in figures, and what to try."""
        return self.said or Words().sentence(self)


_CHANNELS = re.compile(r"\bchannels? (\d+)(?: and (\d+))?")
_ELEMENT = re.compile(r"\b([^\W\d]\w*)\[(\d+)([^\]]*)\]")
_NUMBER = re.compile(r"-?\d+(\.\d+)?(e[+-]?\d+)?")


@dataclass(frozen=True)
class Words(Formatter):
    """What sentences on a fit call things."""

    channels: Sequence[str] = ()  # names of what was observed; empty: by their numbers
    runs: Sequence[str] = ()  # what the runs are called; empty: by their numbers
    own: Sequence[str] = ()  # names of the parameters that every run keeps to itself
    # (pattern, text) pairs: what a scene says for an argument of `fit`, each put in once.
    phrases: Sequence[tuple[str, str]] = ()
    # Name of a parameter -> its unit and what one of that is in the fit's own units, where they differ.
    units: Units = field(default_factory=dict)

    def sentence(self, reason: Reason) -> str:
        """What was found, with runs and values as they are called."""
        return self.vformat(TEXTS[reason.code], (), reason.figures) if reason.code in TEXTS else reason.code

    def format_field(self, value: Any, format_spec: str) -> str:
        if isinstance(value, Amount):
            return value.shown(self.units)
        if isinstance(value, Run):
            return self.runs[value.number] if self.runs else f"run {value.number}"
        if isinstance(value, Reason):
            return self.sentence(value)
        if isinstance(value, tuple):
            return format_spec.join(self.format_field(part, "") for part in value)
        return format(value, format_spec)

    def told(self, text: str) -> str:
        """A sentence in these words."""
        text = _ELEMENT.sub(self._element, _CHANNELS.sub(self._channels, text))
        for pattern, put in self.phrases:
            text = re.sub(pattern, put, text, count=1)
        return text

    def _channels(self, found: re.Match) -> str:
        numbers = [int(number) for number in found.groups() if number]
        return " and ".join(self.channels[c] for c in numbers) if max(numbers) < len(self.channels) else found[0]

    def _element(self, found: re.Match) -> str:
        i = int(found[2])
        if found[1] not in self.own or len(self.runs) < 2 or i >= len(self.runs) or self.runs[i] == f"run {i}":
            return found[0]
        return f"{found[1]}[{self.runs[i].removesuffix('.csv').removesuffix('.txt')}{found[3]}]"

    def grouped(self, reasons: Iterable[Reason]) -> list[Reason]:
        """Reasons in these words; of those that differ only in a run and figures the first, with the others' runs."""
        alike: dict[tuple[str, bool], list[tuple[str, Reason]]] = {}
        for reason in reasons:
            text = self.sentence(reason)
            alike.setdefault((_NUMBER.sub("#", self._without_runs(text)), reason.fatal), []).append((text, reason))
        found = []
        for (text, first), *rest in alike.values():
            others = list(dict.fromkeys(self._differs(text, other) for other, _ in rest))
            found.append(replace(first, said=self.told(text) + (f"; likewise {listed(others)}" if others else "")))
        return found

    def _without_runs(self, text: str) -> str:
        for label in sorted(self.runs, key=len, reverse=True):
            text = text.replace(label, "run 0")
        return text

    def _differs(self, first: str, other: str) -> str:
        known = set(_ELEMENT.findall(first))
        for found in _ELEMENT.finditer(other):
            if (found[1], found[2], found[3]) not in known:
                own = found[1] in self.own and len(self.runs) > int(found[2])
                return self.runs[int(found[2])] if own else found[0]
        return next((label for label in self.runs if label in other and label not in first), "others")


def listed(names: Sequence[str]) -> str:
    """Several names as a sentence has them."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


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
