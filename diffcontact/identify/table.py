"""A table of estimates: as many digits as each error deserves, in aligned columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

_COLUMNS = ("parameter", "value", "stderr", "95 % interval", "unit", "note")
_NUMERIC = _COLUMNS[1:4]


def table_cells(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """The cells of a table of estimates, its head first; the unit's column is there if the rows have units.

    Args:
        rows: one per parameter, with name, value, stderr and interval95 (None: infinite), note, and perhaps unit.

    Example:
        >>> row = {"name": "drag", "value": 0.0213, "stderr": 0.0034, "interval95": [0.0123, None], "note": ""}
        >>> table_cells([row])
        [('parameter', 'value', 'stderr', '95 % interval', 'note'), ('drag', '0.0213', '0.0034', '[0.0123, inf]', '')]
    """
    head = tuple(column for column in _COLUMNS if column != "unit" or any("unit" in row for row in rows))
    cells = [head]
    for row in rows:
        error = row["stderr"]
        low, high = (number(b, error, unknown) for b, unknown in zip(row["interval95"], ("-inf", "inf"), strict=True))
        cell = {
            "parameter": row["name"],
            "value": number(row["value"], error),
            "stderr": number(error, error, "inf"),
            "95 % interval": f"[{low}, {high}]",
            "unit": row.get("unit", ""),
            "note": row["note"],
        }
        cells.append(tuple(cell[column] for column in head))
    return cells


def text_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """A table of estimates as aligned text, a line under its head."""
    cells = table_cells(rows)
    head = cells[0]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(
            cell.rjust(width) if name in _NUMERIC else cell.ljust(width)
            for name, cell, width in zip(head, line, widths, strict=True)
        ).rstrip()
        for line in cells
    ]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def number(value: float | None, error: float | None, unknown: str = "") -> str:
    """A value with as many digits as its standard error deserves: two of the error's own.

    Example:
        >>> number(0.99563, 0.0062), number(9.81, 0.0), number(1.25e12, 2e10), number(None, None, "inf")
        ('0.9956', '9.81', '1.25e+12', 'inf')
    """
    if value is None:
        return unknown
    if not error:
        return f"{value:.6g}"
    digits = 1 - int(np.floor(np.log10(error)))
    if 0 <= digits <= 9 and abs(value) < 1e9:
        return f"{value:.{digits}f}"
    significant = max(1, digits + int(np.floor(np.log10(max(abs(value), error)))) + 1)
    return f"{value:.{significant}g}"
