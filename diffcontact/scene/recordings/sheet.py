"""A recording as its writer laid it out: names, rows, header.

Tracks with times of their own become rows that they share (`joined`).
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class Row(NamedTuple):
    """Fields of one row; `first` and `last` are its lines, from 1."""

    first: int
    last: int
    fields: Sequence[str]


@dataclass(frozen=True, eq=False)
class Sheet:
    """The table of a recording, as text."""

    names: tuple[str, ...]  # of the columns; a unit that the header states stands behind them, as in "ball x [mm]"
    rows: Iterable[Row]  # of as many fields each, in the order of the file; read once
    header: int = 1  # the line that names the columns
    time: str = ""  # column of the times, "" where the recording has none
    decimal: str = "."  # "." or ",".
    # groups of columns, those of a marker, that hold 0 in all of them where it is lost
    lost_together: tuple[tuple[str, ...], ...] = ()
    # column -> the one that says how sure the tracker was of it
    likelihood: Mapping[str, str] = field(default_factory=dict)
    understood: str = ""  # what the header says, in words; "" for a CSV, which says nothing


def rows_of(lines: Sequence[str], delimiter: str, skip: int = 0) -> Iterator[Row]:
    """Rows behind the first `skip` lines; " " divides at any blanks."""
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
    """Names for a message, the first eight of them."""
    names = list(names)
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return ", ".join(names[:8]) + more


def decimal_of(fields: Iterable[str]) -> str:
    """The decimal mark that numbers between tabs or semicolons were written with."""
    text = "".join(fields)
    return "," if "," in text and "." not in text else "."


class Sample(NamedTuple):
    """A track at a time [s]: line, and fields by column."""

    line: int
    time: float
    fields: Mapping[int, str]


def joined(tracks: Sequence[Sequence[Sample]], width: int, decimal: str) -> list[Row]:
    """Join tracks to rows of a time and `width` columns.

    Tracks with the same times share row for row, so that times that were rounded, and are there twice, stay two rows.
    Of other tracks a time tells which samples belong together.
    """
    clocks = [[sample.time for sample in track] for track in tracks]
    alike = all(clock == clocks[0] for clock in clocks)
    shared = zip(*tracks, strict=True) if alike else _of_one_time(tracks)
    return [_row(samples, width, decimal) for samples in shared]


def _of_one_time(tracks: Sequence[Sequence[Sample]]) -> list[list[Sample]]:
    found: dict[float, list[Sample]] = {}
    for track in tracks:
        seen: dict[float, int] = {}
        for sample in track:
            if sample.time in seen:
                raise ValueError(
                    f"row {sample.line}: the time {sample.time:g} is there twice, in row {seen[sample.time]} too, and "
                    "other tracks have other times; expected every time once, or the same times in all tracks"
                )
            seen[sample.time] = sample.line
            found.setdefault(sample.time, []).append(sample)
    return [found[time] for time in sorted(found)]


def _row(samples: Sequence[Sample], width: int, decimal: str) -> Row:
    line, time, _ = samples[0]
    fields = [repr(time).replace(".", decimal), *[""] * width]
    for sample in samples:
        for position, text in sample.fields.items():
            fields[position] = text
    return Row(line, line, fields)
