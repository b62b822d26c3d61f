"""Tracker (physlets.org): data of the tracks as text between tabs, commas or semicolons.

    <tab> mass A <tab><tab>                     one name per track, over its columns
    t <tab> x <tab> y <tab>
    0,000 <tab> -4,796 <tab> 13,51 <tab>        with the decimal mark of the country

Where several tracks stand side by side each has its columns, the time perhaps among them. A time is in seconds, a
length in the unit of the calibration, which the file does not state. A row in which a track was not marked has empty
fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from diffcontact.scene.recordings.sheet import Row, Sheet, decimal_of, listed, rows_of

TIME = "time [s]"


def recognise(lines: Sequence[str]) -> Sheet | None:
    """The sheet of a file whose two first lines are those above, or None."""
    if len(lines) < 3:
        return None
    delimiter = next((mark for mark in "\t;," if mark in lines[1]), "")
    if not delimiter:
        return None
    above, below = ([part.strip().strip('"') for part in line.lstrip("#").split(delimiter)] for line in lines[:2])
    if below[0] != "t" or "x" not in below or not any(above) or _number(above[0]) or "t" in above:
        return None
    names, track = [TIME], next(name for name in above if name)
    tracks, wanted = [track], [0]
    for i, variable in enumerate(below[1:], 1):
        if i < len(above) and above[i] and above[i] != track:
            track = above[i]
            tracks.append(track)
        # The time is the same for all tracks; what follows the last column is empty.
        if variable and variable != "t":
            names.append(f"{track} {variable}")
            wanted.append(i)
    decimal = "." if delimiter == "," else decimal_of(lines[2:22])
    return Sheet(
        names=tuple(names),
        rows=_rows(lines, delimiter, wanted, len(below)),
        header=2,
        time=TIME,
        decimal=decimal,
        understood=f"an export of Tracker, {'tracks' if len(tracks) > 1 else 'track'} {listed(tracks)}, time in s, "
        f"lengths in the unit of the calibration{', decimal commas' if decimal == ',' else ''}",
    )


def _rows(lines: Sequence[str], delimiter: str, wanted: Sequence[int], width: int) -> Iterator[Row]:
    for first, last, fields in rows_of(lines, delimiter, 2):
        if not any(map(str.strip, fields)):
            continue
        if not max(wanted) < len(fields) <= width + 1:
            raise ValueError(f"row {first} has {len(fields)} fields, expected {width} as the header has")
        yield Row(first, last, [fields[i] for i in wanted])


def _number(text: str) -> bool:
    return text.replace(",", "").replace(".", "").lstrip("-").isdigit()
