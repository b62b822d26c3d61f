"""A verdict in the words of whoever reads it: names of columns, keys of a scene, what several runs have in common."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from diffcontact.identify.verdict.verdict import Reason

_CHANNELS = re.compile(r"\bchannels? (\d+)(?: and (\d+))?")
_ELEMENT = re.compile(r"\b([^\W\d]\w*)\[(\d+)([^\]]*)\]")
_NUMBER = re.compile(r"-?\d+(\.\d+)?(e[+-]?\d+)?")


@dataclass(frozen=True)
class Words:
    """What sentences on a fit call things.

    Attributes:
        channels: names of what was observed; empty: by their numbers.
        runs: what the runs are called; empty: by their numbers.
        own: names of the parameters that every run keeps to itself.
        phrases: (pattern, text) pairs: what a scene says for an argument of `fit`, each put in once.
    """

    channels: Sequence[str] = ()
    runs: Sequence[str] = ()
    own: Sequence[str] = ()
    phrases: Sequence[tuple[str, str]] = ()

    def told(self, text: str) -> str:
        """A sentence in these words.

        Example:
            >>> words = Words(("x", "y"), phrases=((r"loss='(\\w+)'", r'[fit] loss = "\\1"'),))
            >>> words.told("scale of channels 0 and 1 by 0.2. Try loss='huber'")
            'scale of x and y by 0.2. Try [fit] loss = "huber"'
        """
        text = _ELEMENT.sub(self._element, _CHANNELS.sub(self._channels, text))
        for pattern, put in self.phrases:
            text = re.sub(pattern, put, text, count=1)
        return text

    def _channels(self, found: re.Match) -> str:
        numbers = [int(number) for number in found.groups() if number]
        return " and ".join(self.channels[c] for c in numbers) if max(numbers) < len(self.channels) else found[0]

    def _element(self, found: re.Match) -> str:
        """An element of what each run has to itself, by the name of the run: drag[3] is drag[A2_4]."""
        i = int(found[2])
        if found[1] not in self.own or len(self.runs) < 2 or i >= len(self.runs) or self.runs[i] == f"run {i}":
            return found[0]
        return f"{found[1]}[{self.runs[i].removesuffix('.csv').removesuffix('.txt')}{found[3]}]"

    def grouped(self, reasons: Iterable[Reason]) -> list[Reason]:
        """Reasons in these words; of those that differ only in a run and in figures the first, with the others' runs.

        Example:
            >>> words = Words(runs=("a.csv", "b.csv", "c.csv"), own=("drag",))
            >>> [one.text for one in words.grouped(Reason(f"drag[{i}] = 0 is at its bound") for i in (0, 2))]
            ['drag[a] = 0 is at its bound; likewise c.csv']
        """
        alike: dict[tuple[str, bool], list[Reason]] = {}
        for reason in reasons:
            alike.setdefault((_NUMBER.sub("#", self._without_runs(reason.text)), reason.fatal), []).append(reason)
        return [
            replace(first, text=self.told(first.text) + (f"; likewise {_listed(others)}" if others else ""))
            for first, *rest in alike.values()
            for others in [list(dict.fromkeys(self._differs(first.text, one.text) for one in rest))]
        ]

    def _without_runs(self, text: str) -> str:
        for label in sorted(self.runs, key=len, reverse=True):
            text = text.replace(label, "run 0")
        return text

    def _differs(self, first: str, other: str) -> str:
        """What a reason is about and the first of its kind is not: a run, or an element."""
        known = set(_ELEMENT.findall(first))
        for found in _ELEMENT.finditer(other):
            if (found[1], found[2], found[3]) not in known:
                own = found[1] in self.own and len(self.runs) > int(found[2])
                return self.runs[int(found[2])] if own else found[0]
        return next((label for label in self.runs if label in other and label not in first), "others")


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
