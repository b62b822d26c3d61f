"""Qualisys Track Manager: 3D positions as TSV.

    (FILE_VERSION <tab> 2.0.0)                                             from version 2 on
    NO_OF_FRAMES <tab> 720
    NO_OF_MARKERS <tab> 2
    FREQUENCY <tab> 120
    ...
    MARKER_NAMES <tab> left <tab> right
    (Frame <tab> Time <tab> left X <tab> left Y <tab> left Z ...)          where the export includes them
    1 <tab> 0.00000 <tab> 786.7 <tab> -34.0 <tab> 1064.4 ...

Positions are in mm. A marker that is lost has 0 0 0, or three empty fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from diffcontact.host.messages import shown
from diffcontact.scene.recordings.sheet import Row, Sheet, decimal_of, listed, rows_of
from diffcontact.scene.units import is_number

_KEYS = ("NO_OF_FRAMES", "NO_OF_MARKERS", "FREQUENCY")
TIME = "time [s]"


def recognise(lines: Sequence[str]) -> Sheet | None:
    """The sheet of a file whose lines begin as above, or None."""
    first = (line.split("\t")[0].strip() for line in lines)
    end = next((i for i, name in enumerate(first) if not (name[:1].isalpha() and name.upper() == name)), len(lines))
    header = {name.strip(): [part.strip() for part in rest] for name, *rest in (row.split("\t") for row in lines[:end])}
    # Which key comes first depends on the version.
    if not any(name.startswith("NO_OF_") for name in header):
        return None
    for key in _KEYS:
        stated = header[key][0].replace(",", ".") if header.get(key) else ""
        if not is_number(stated) or not float(stated) > 0:
            raise ValueError(f"key {key}: {shown(header.get(key, 'missing'))}, expected a number above 0")
    rate, markers = float(header["FREQUENCY"][0].replace(",", ".")), int(float(header["NO_OF_MARKERS"][0]))
    names = [name for name in header.get("MARKER_NAMES", []) if name]
    if len(names) != markers:
        raise ValueError(f"key MARKER_NAMES: {len(names)} names, expected {markers} as NO_OF_MARKERS says")
    columns = tuple(f"{name} {axis} [mm]" for name in names for axis in "xyz")
    heading: list[str] = []
    if end < len(lines) and lines[end].lower().startswith(("frame", "time")):
        heading = lines[end].lower().rstrip().split("\t")
        end += 1
    decimal = decimal_of(lines[end : end + 20])
    lost = tuple(columns[i : i + 3] for i in range(0, len(columns), 3))
    return Sheet(
        names=(TIME, *columns),
        rows=_rows(lines, end, len(columns), heading, rate, decimal),
        header=end,
        time=TIME,
        decimal=decimal,
        lost_together=lost,
        understood=f"a Qualisys export, {markers} markers ({listed(names)}), {rate:g} frames a second, in mm; "
        "0 0 0 is a lost marker",
    )


def _rows(
    lines: Sequence[str], skip: int, width: int, heading: Sequence[str], rate: float, decimal: str
) -> Iterator[Row]:
    """Rows of a time and positions; frame numbers may stand before."""
    before, count = _before(heading, width, skip) if heading else None, 0
    for first, last, fields in rows_of(lines, "\t", skip):
        empty = not any(map(str.strip, fields))
        # Without anything before the positions it is a frame in which all markers are lost.
        if empty and (before != 0 or len(fields) < width):
            continue
        if before is None:
            before = _before(fields, width, first)
        if len(fields) < before + width or any(map(str.strip, fields[before + width :])):
            behind = f", behind {before}" if before else ""
            raise ValueError(
                f"row {first} has {len(fields)} fields, expected {before + width}, three for each marker{behind}"
            )
        timed = before == 2 or heading[:before] == ["time"]
        time = fields[before - 1] if timed else repr(count / rate).replace(".", decimal)
        yield Row(first, last, [time, *fields[before : before + width]])
        count += 1


def _before(fields: Sequence[str], width: int, row: int) -> int:
    """Count the fields before the positions; a lost marker, and the end, may have empty ones."""
    known = [n for n in range(3) if len(fields) >= n + width and not any(map(str.strip, fields[n + width :]))]
    if not known:
        raise ValueError(f"row {row} has {len(fields)} fields, expected {width}, three for each marker")
    there = [bool(field.strip()) for field in fields]
    broken = [sum(len(set(there[i : i + 3])) > 1 for i in range(n, n + width, 3)) for n in known]
    return min(zip(broken, [-n for n in known], known, strict=True))[-1]
