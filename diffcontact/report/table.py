"""Tables of estimates with as many digits as errors deserve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from diffcontact.report.content import Estimate

INTERVAL = "95 % interval"
# Of what is taken as right so many things are printed.
_SHOWN = 3
_LEFT = ("parameter", "unit", "note")


def within(runs: int) -> str:
    """What intervals are called that hold nothing of what differs between runs."""
    return "within this run" if runs == 1 else "within these runs"


def caveat(scope: str) -> str:
    """Warn of intervals that are not `INTERVAL`."""
    told = f"{scope}: another run may differ by more than these intervals hold; fit several together"
    return "" if scope == INTERVAL else told


def estimates_of(rows: Sequence[Mapping[str, Any]]) -> list[Estimate]:
    """Estimates as they are printed, without parameter, run and bounds."""
    found = []
    for row in rows:
        error, (low, high) = row["stderr"], row["interval95"]
        found.append(
            Estimate(
                name=row["name"],
                parameter="",
                run="",
                value=float(row["value"]),
                low=-np.inf if low is None else float(low),
                high=np.inf if high is None else float(high),
                text=number(row["value"], error),
                error=number(error, error, "inf"),
                interval=f"[{number(low, error, '-inf')}, {number(high, error, 'inf')}]",
                unit=row.get("unit", ""),
                note=row["note"],
            )
        )
    return found


def text_table(rows: Sequence[Mapping[str, Any]], scope: str = INTERVAL, taken: str = "") -> str:
    """Align a table of estimates, with caveats below."""
    unit = ["unit"] if any("unit" in row for row in rows) else []
    cells = [["parameter", "value", "stderr", scope, *unit, "note"]]
    for one in estimates_of(rows):
        cells.append([one.name, one.text, one.error, one.interval, *([one.unit] if unit else []), one.note])
    return "\n".join([aligned(cells), *filter(None, [caveat(scope)]), *_listed(taken)])


def sampled_table(found: Any, values: Any, notes: Sequence[str], below: Sequence[str]) -> str:
    """Table of replicas or draws, with verdict and doubts."""
    ambiguous = {name for other in found.missed for name in other}
    rows = [
        {
            "name": name,
            "value": float(values[j]),
            "stderr": float(found.stderr[j]),
            "interval95": found.interval95[j].tolist(),
            "note": ", ".join(filter(None, (notes[j], "may be elsewhere, too" if name in ambiguous else ""))),
        }
        for j, name in enumerate(found.names)
    ]
    head, taken = ([], "") if found.verdict is None else ([f"{found.verdict}\n"], found.verdict.taken)
    return "\n".join([*head, text_table(rows, found.scope, taken), *below, *found.doubts])


def aligned(cells: Sequence[Sequence[str]]) -> str:
    """Rows of cells as aligned text, a line under the first."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(width) if name in _LEFT else cell.rjust(width)
            for name, cell, width in zip(cells[0], line, widths, strict=True)
        ).rstrip()
        for line in cells
    ]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def _listed(taken: str) -> list[str]:
    head, _, things = taken.partition(": ")
    parts = things.split("; ") if things else []
    more = [f"  ({len(parts) - _SHOWN} more in the report and in result.json)"] if len(parts) > _SHOWN else []
    return [f"{head}:", *(f"  - {part}" for part in parts[:_SHOWN]), *more] if parts else [taken] * bool(taken)


def number(value: float | None, error: float | None, unknown: str = "") -> str:
    """Print a value with two digits of its standard error."""
    if value is None:
        return unknown
    if not error:
        return f"{value:.6g}"
    digits = 1 - int(np.floor(np.log10(error)))
    if 0 <= digits <= 9 and abs(value) < 1e9:
        return f"{value:.{digits}f}"
    # An error of nothing, as at a bound, deserves no more digits than a float has.
    significant = min(max(1, digits + int(np.floor(np.log10(max(abs(value), error)))) + 1), 12)
    return f"{value:.{significant}g}"
