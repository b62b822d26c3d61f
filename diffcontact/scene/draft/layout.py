"""How an unknown text of numbers is laid out: what stands between its fields, where the numbers begin, what is lost."""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from diffcontact.messages import shown
from diffcontact.scene.recordings.sheet import Row, rows_of

_NUMBER = re.compile(r"\s*[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?\s*")
_COMMA = re.compile(r"\s*[+-]?\d*,\d+([eE][+-]?\d+)?\s*")
# Numbers begin in one of so many lines.
_HEAD = 200
# What columns without a header usually are, by how many there are.
_USUAL = {
    2: ("t", "x"),
    3: ("t", "x", "y"),
    4: ("t", "x", "y", "z"),
    5: ("t", "x1", "y1", "x2", "y2"),
    7: ("t", "x1", "y1", "z1", "x2", "y2", "z2"),
}
# What is not a number in a column of numbers, and is this short, stands for a lost sample.
_WORD = 12


@dataclass(frozen=True)
class Layout:
    """A CSV's layout, and how its columns are named.

    Attributes:
        delimiter: between the fields; " " is any run of blanks.
        decimal: "." or ",".
        skip: lines before the header and between it and the numbers.
        names: of the columns, where there is no header; else None.
        columns: those that hold numbers.
        missing: words that stand for lost samples.
    """

    delimiter: str
    decimal: str
    skip: tuple[int, int]
    names: tuple[str, ...] | None
    columns: tuple[str, ...]
    missing: tuple[str, ...]


def encoding_of(content: bytes) -> str:
    """The encoding of a text: UTF-8 where it is that, UTF-16 where it has its mark, else Latin-1.

    Example:
        >>> [encoding_of("Höhe".encode(name)) for name in ("utf-8", "utf-16", "latin-1")]
        ['UTF-8', 'UTF-16', 'Latin-1']
    """
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "UTF-16"
    try:
        content.decode()
    except UnicodeDecodeError:
        return "Latin-1"
    return "UTF-8"


def layout_of(lines: Sequence[str]) -> Layout:
    """The layout that makes most numbers of a text.

    Raises:
        ValueError: a text without columns of numbers.

    Example:
        >>> found = layout_of(["tracked by hand", "t;x", "s;mm", "0,0;1,5", "0,1;-", "0,2;2,5"])
        >>> found.delimiter, found.decimal, found.skip, found.columns, found.missing
        (';', ',', (1, 1), ('t', 'x'), ('-',))
    """
    found = [candidate for mark in ",;\t " if (candidate := _with(lines, mark)) is not None]
    if not found:
        raise ValueError(f"no columns of numbers; it begins with {shown(lines[0] if lines else '')}")
    return max(found, key=lambda candidate: candidate[0])[1]


def _with(lines: Sequence[str], delimiter: str) -> tuple[tuple[int, float], Layout] | None:
    """How many numbers a delimiter makes, of what part of the fields, and the layout; None: no table."""
    rows = [row for row in rows_of(lines, delimiter) if any(map(str.strip, row.fields))]
    # The numbers of a comma-separated text are its fields, not parts of decimals.
    width = Counter(len(row.fields) for row in rows[-50:]).most_common(1)[0][0] if rows else 0
    numbers = [sum(1 for field in row.fields if _is_number(field, delimiter)) for row in rows]
    begin = next((i for i, row in enumerate(rows[:_HEAD]) if len(row.fields) == width and 2 * numbers[i] > width), None)
    if width < 1 or begin is None:
        return None
    data = [row for row in rows[begin:] if len(row.fields) == width]
    before = [row for row in rows[:begin] if len(row.fields) == width]
    header = before[0] if before else None
    columns = tuple(field.strip() for field in header.fields) if header else ()
    named = header is not None and len(set(columns)) == len(columns)
    names = None if named else _USUAL.get(width, tuple(f"column {i + 1}" for i in range(width)))
    skip = (header.first - 1, rows[begin].first - 1 - header.last) if named and header else (rows[begin].first - 1, 0)
    comma = delimiter != "," and any(_COMMA.fullmatch(field) for row in data for field in row.fields)
    numeric, every = _numeric(data, delimiter), names or columns
    words = tuple(dict.fromkeys(word for others in numeric.values() for word in others if word))
    layout = Layout(delimiter, "," if comma else ".", skip, names, tuple(every[i] for i in numeric), words)
    # "0,1;2,5" has two numbers between commas, too, but with "1;2" between them.
    made, fields = sum(numbers[begin:]), sum(len(row.fields) for row in rows[begin:])
    return (made * min(width, 2), made / fields), layout


def _is_number(field: str, delimiter: str) -> bool:
    return bool(_NUMBER.fullmatch(field)) and not (delimiter == "," and "," in field)


def _numeric(data: Sequence[Row], delimiter: str) -> dict[int, list[str]]:
    """Columns that are numbers for the most part: position -> what else is in them."""
    found = {}
    for i, fields in enumerate(zip(*(row.fields for row in data), strict=True)):
        others = [field.strip() for field in fields if not _is_number(field, delimiter)]
        if 2 * len(others) < len(fields) and all(len(word) <= _WORD for word in others):
            found[i] = others
    return found
