"""How an unknown text of numbers is laid out: what stands between its fields, where the numbers begin, what is lost."""

from __future__ import annotations

import codecs
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from diffcontact.messages import shown
from diffcontact.scene.draft.spelling import has_decimal_comma, is_meant, is_plain, require_word
from diffcontact.scene.recordings.sheet import Row, rows_of

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
        remarks: what was noticed, in words.
    """

    delimiter: str
    decimal: str
    skip: tuple[int, int]
    names: tuple[str, ...] | None
    columns: tuple[str, ...]
    missing: tuple[str, ...]
    remarks: tuple[str, ...] = ()


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
        ValueError: a text without columns of numbers, or a number among them that cannot be read as it is spelt.

    Example:
        >>> found = layout_of(["tracked by hand", "t;x", "s;mm", "0,0;1,5", "0,1;-", "0,2;2,5"])
        >>> found.delimiter, found.decimal, found.skip, found.columns, found.missing
        (';', ',', (1, 1), ('t', 'x'), ('-',))
    """
    found = {mark: table for mark in ",;\t " if (table := _table(lines, mark)) is not None}
    if not found:
        raise ValueError(f"no columns of numbers; it begins with {shown(lines[0] if lines else '')}")
    tabs, blanks = found.get("\t"), found.get(" ")
    # A blank between tabs is one within a field, as in 1 500.
    if tabs and blanks and len(tabs.data[0].fields) > 1 and tabs.part >= blanks.part:
        del found[" "]
    return _layout(_with_first(max(found.values(), key=lambda table: (table.numbers, table.part))))


@dataclass(frozen=True)
class _Table:
    """A text as one delimiter divides it.

    Attributes:
        delimiter: which one.
        before: rows of as many fields as the data have, before them.
        data: rows of numbers.
        columns: positions of those that are numbers.
        numbers: how many it makes; twice, where there are several columns.
        part: of the fields that are numbers.
    """

    delimiter: str
    before: tuple[Row, ...]
    data: tuple[Row, ...]
    columns: tuple[int, ...]
    numbers: int
    part: float


def _table(lines: Sequence[str], delimiter: str) -> _Table | None:
    rows = [row for row in rows_of(lines, delimiter) if any(map(str.strip, row.fields))]
    width = Counter(len(row.fields) for row in rows[-50:]).most_common(1)[0][0] if rows else 0
    numbers = [_meant(row.fields, delimiter) for row in rows]
    begin = next((i for i, row in enumerate(rows[:_HEAD]) if len(row.fields) == width and 2 * numbers[i] > width), None)
    if width < 1 or begin is None:
        return None
    before, data = (tuple(row for row in part if len(row.fields) == width) for part in (rows[:begin], rows[begin:]))
    made = sum(numbers[begin:])
    # "0,1;2,5" has two numbers between commas, too, but with "1;2" between them.
    part = made / max(width * len(rows[begin:]), sum(len(row.fields) for row in rows[begin:]))
    return _Table(delimiter, before, data, _columns(data, delimiter), made * min(width, 2), part)


def _columns(data: Sequence[Row], delimiter: str) -> tuple[int, ...]:
    """Positions of the columns that are numbers for the most part, where they are not empty."""
    table = enumerate(zip(*(row.fields for row in data), strict=True))
    return tuple(i for i, fields in table if 2 * _meant(fields, delimiter) > sum(map(bool, map(str.strip, fields))))


def _meant(fields: Sequence[str], delimiter: str) -> int:
    """How many fields are numbers for whoever wrote them."""
    return sum(is_meant(field, delimiter) for field in fields)


def _with_first(table: _Table) -> _Table:
    """The table with those first rows in which most samples are lost: there are numbers, and otherwise words for it."""
    before, data = list(table.before), list(table.data)
    lost = {
        row.fields[i].strip() for row in data for i in table.columns if not is_meant(row.fields[i], table.delimiter)
    }
    while before:
        fields = [before[-1].fields[i] for i in table.columns]
        words = {field.strip() for field in fields if not is_meant(field, table.delimiter)}
        if not _meant(fields, table.delimiter) or not words <= lost | {""}:
            break
        data.insert(0, before.pop())
    return replace(table, before=tuple(before), data=tuple(data))


def _layout(table: _Table) -> Layout:
    (*before,), data, delimiter = table.before, table.data, table.delimiter
    header, width = (before[0] if before else None), len(data[0].fields)
    columns = tuple(field.strip() for field in header.fields) if header else ()
    named = header is not None and len(set(columns)) == len(columns)
    names = None if named else _USUAL.get(width, tuple(f"column {i + 1}" for i in range(width)))
    skip = (header.first - 1, data[0].first - 1 - header.last) if named and header else (data[0].first - 1, 0)
    comma = delimiter != "," and any(has_decimal_comma(field) for row in data for field in row.fields)
    every, numeric = names or columns, table.columns
    words = dict.fromkeys(word for i in numeric for word in _words(data, i, delimiter, every[i]))
    return Layout(
        delimiter=delimiter,
        decimal="," if comma else ".",
        skip=skip,
        names=names,
        columns=tuple(every[i] for i in numeric),
        missing=tuple(words),
        remarks=_passed([row for row in before[1:] if any(is_meant(row.fields[i], delimiter) for i in numeric)]),
    )


def _words(data: Sequence[Row], column: int, delimiter: str, name: str) -> list[str]:
    """Words of a column of numbers, which stand for lost samples; its name does where the header is repeated."""
    words = []
    for row in data:
        field = row.fields[column].strip()
        if not field or is_plain(field, delimiter):
            continue
        if field != name:
            try:
                require_word(field)
            except ValueError as error:
                raise ValueError(f"row {row.last}, column {shown(name)}: {error}") from None
        words.append(field)
    return words


def _passed(rows: Sequence[Row]) -> tuple[str, ...]:
    """A remark on rows with numbers that were taken for lines of the header."""
    if not rows:
        return ()
    among = f", and {len(rows) - 1} more do," if len(rows) > 1 else ""
    return (f"row {rows[0].first} has numbers{among} but is taken for a line behind the header, not for data",)
