"""Whether the data tell the estimate from other values at all."""

from __future__ import annotations

from collections.abc import Iterator

from diffcontact.identify.verdict.evidence import Evidence
from diffcontact.identify.verdict.verdict import Reason

_NAMED = 3


def elsewhere(evidence: Evidence) -> Iterator[Reason]:
    """Other minima that explain the data as well, one sentence for all."""
    result = evidence.result
    if not result.elsewhere:
        return
    names = list(dict.fromkeys(name for other in result.elsewhere for name in other))[:_NAMED]
    values = dict(zip(result.names, map(float, result.estimate), strict=True))

    def told(place: dict[str, float]) -> str:
        return ", ".join(f"{name} = {evidence.shown(name, place[name])}" for name in names if name in place)

    others = list(dict.fromkeys(filter(None, map(told, result.elsewhere))))
    more = f" (and {len(others) - _NAMED} more)" if len(others) > _NAMED else ""
    yield Reason(
        f"the data do not tell {told(values)} from {'; or '.join(others[:_NAMED])}{more}: each explains them as well. "
        "The intervals hold all of these, and most of what lies in between explains nothing. Where a gap hides how "
        "often something bounced, measure within it; else hold or bound what is known otherwise"
    )
