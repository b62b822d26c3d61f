"""A recording as its writer laid it out: named columns, rows of fields, and what the header says about them."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class Row(NamedTuple):
    """Fields of one row of a file; `first` and `last` are its lines, as an editor counts them."""

    first: int
    last: int
    fields: Sequence[str]


@dataclass(frozen=True, eq=False)
class Sheet:
    """The table of a recording, as text.

    Attributes:
        names: of the columns; a unit that the header states stands behind them, as in "ball x [mm]".
        rows: of as many fields each, in the order of the file; read once.
        header: the line that names the columns.
        time: column of the times, "" where the recording has none.
        rate: rows per second that the header states, or None.
        decimal: "." or ",".
        lost_together: groups of columns, those of a marker, that hold 0 in all of them where it is lost.
        likelihood: column -> the one that says how sure the tracker was of it.
        understood: what the header says, in words; "" for a CSV, which says nothing.
        lines, delimiter: the rows as they stand in a CSV, behind as many lines as were `skipped`.
    """

    names: tuple[str, ...]
    rows: Iterable[Row]
    header: int = 1
    time: str = ""
    rate: float | None = None
    decimal: str = "."
    lost_together: tuple[tuple[str, ...], ...] = ()
    likelihood: Mapping[str, str] = field(default_factory=dict)
    understood: str = ""
    lines: Sequence[str] = ()
    delimiter: str = ""
    skipped: int = 0


def rows_of(lines: Sequence[str], delimiter: str, skip: int = 0) -> Iterator[Row]:
    """The rows behind the first `skip` lines; " " as delimiter is any run of blanks.

    Example:
        >>> [row.fields for row in rows_of(["a,b", '1,"2', '3"'], ",", 1)]
        [['1', '2\\n3']]
        >>> [row.fields for row in rows_of(["0.1  2 3"], " ")]
        [['0.1', '2', '3']]
    """
    if delimiter == " ":
        for i, line in enumerate(lines[skip:], skip + 1):
            yield Row(i, i, line.split())
        return
    # csv needs the ends of lines to keep those within quotes; it counts lines, so a row's number is the editor's.
    reader = csv.reader((f"{line}\n" for line in lines[skip:]), delimiter=delimiter)
    before = skip
    try:
        for fields in reader:
            yield Row(before + 1, skip + reader.line_num, fields)
            before = skip + reader.line_num
    except csv.Error as error:
        raise ValueError(f"row {skip + reader.line_num}: {error}, expected fields between {delimiter!r}") from None


def listed(names: Iterable[str]) -> str:
    """Names for a message, the first eight of them.

    Example:
        >>> listed("abcdefghijk")
        'a, b, c, d, e, f, g, h and 3 more'
    """
    names = list(names)
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return ", ".join(names[:8]) + more


def decimal_of(fields: Iterable[str]) -> str:
    """The decimal mark that numbers between tabs or semicolons were written with.

    Example:
        >>> decimal_of(["0,033", "-6,786"]), decimal_of(["0.033", "4"])
        (',', '.')
    """
    text = "".join(fields)
    return "," if "," in text and "." not in text else "."
