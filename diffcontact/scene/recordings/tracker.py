"""Tracker (physlets.org): tracks between tabs, commas or semicolons.

    <tab> mass A <tab><tab>                     one name per track, over its columns
    t <tab> x <tab> y <tab>
    0,000 <tab> -4,796 <tab> 13,51 <tab>        with the decimal mark of the country

Several tracks stand side by side, each with its columns. A track that was marked in other frames has a column of times.
A time is in seconds, a length in the unit of the calibration, which the file does not state. A row in which a track was
not marked has empty fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from diffcontact.host.messages import shown
from diffcontact.scene.recordings.sheet import Row, Sample, Sheet, decimal_of, joined, listed, rows_of
from diffcontact.scene.units import number

TIME = "time [s]"


def recognise(lines: Sequence[str]) -> Sheet | None:
    """Open a file with these two first lines, or None."""
    if len(lines) < 3:
        return None
    delimiter = next((mark for mark in "\t;," if mark in lines[1]), "")
    if not delimiter:
        return None
    above, below = ([part.strip().strip('"') for part in line.lstrip("#").split(delimiter)] for line in lines[:2])
    if (
        below[0] != "t"
        or "x" not in below
        or not any(above)
        or above[0].replace(",", "").replace(".", "").lstrip("-").isdigit()
        or "t" in above
    ):
        return None
    names, track = [TIME], next(name for name in above if name)
    tracks, clock = [track], 0
    columns: dict[int, list[int]] = {clock: []}
    for i, variable in enumerate(below[1:], 1):
        if i < len(above) and above[i] and above[i] != track:
            track = above[i]
            tracks.append(track)
        if variable == "t":
            clock = i
            columns[clock] = []
        # What follows the last column is empty.
        elif variable:
            names.append(f"{track} {variable}")
            columns[clock].append(i)
    decimal = "." if delimiter == "," else decimal_of(lines[2:22])
    return Sheet(
        names=tuple(names),
        rows=_rows(lines, delimiter, columns, len(below), decimal),
        header=2,
        time=TIME,
        decimal=decimal,
        understood=f"an export of Tracker, {'tracks' if len(tracks) > 1 else 'track'} {listed(tracks)}, time in s, "
        f"lengths in the unit of the calibration{', decimal commas' if decimal == ',' else ''}",
    )


def _rows(
    lines: Sequence[str], delimiter: str, columns: Mapping[int, Sequence[int]], width: int, decimal: str
) -> Iterator[Row]:
    """Rows of a time and all tracks; `columns` by column of times."""
    if len(columns) == 1 or all(len(_times(row, columns)) <= 1 for row in _whole(lines, delimiter, columns, width)):
        for row in _whole(lines, delimiter, columns, width):
            time = next(iter(_times(row, columns)), "")
            yield Row(row.first, row.last, [time, *(row.fields[i] for group in columns.values() for i in group)])
        return
    tracks, before = [], 1
    for clock, group in columns.items():
        track = []
        for row in _whole(lines, delimiter, columns, width):
            fields = {position: row.fields[i] for position, i in enumerate(group, before)}
            if any(map(str.strip, (row.fields[clock], *fields.values()))):
                track.append(Sample(row.last, _seconds(row, clock), fields))
        tracks.append(track)
        before += len(group)
    yield from joined(tracks, before - 1, decimal)


def _whole(lines: Sequence[str], delimiter: str, columns: Mapping[int, Sequence[int]], width: int) -> Iterator[Row]:
    """The rows that are not empty."""
    last = max(i for clock, group in columns.items() for i in (clock, *group))
    for row in rows_of(lines, delimiter, 2):
        if not any(map(str.strip, row.fields)):
            continue
        if not last < len(row.fields) or any(map(str.strip, row.fields[width:])):
            raise ValueError(f"row {row.first} has {len(row.fields)} fields, expected {width} as the header has")
        yield row


def _times(row: Row, columns: Mapping[int, Sequence[int]]) -> set[str]:
    return {row.fields[clock].strip() for clock in columns} - {""}


def _seconds(row: Row, clock: int) -> float:
    try:
        return number(row.fields[clock].replace(",", "."))
    except ValueError:
        text = shown(row.fields[clock].strip())
        raise ValueError(f"row {row.last}, field {clock + 1}: {text}, expected the time of the track") from None
