"""Qualisys Track Manager: 3D positions as TSV.

    NO_OF_FRAMES <tab> 720
    NO_OF_MARKERS <tab> 2
    FREQUENCY <tab> 120
    ...
    MARKER_NAMES <tab> left <tab> right
    (Frame <tab> Time <tab> left X <tab> left Y <tab> left Z ...)          where the export includes them
    1 <tab> 0.00000 <tab> 786.7 <tab> -34.0 <tab> 1064.4 ...

Positions are in mm. A marker that is lost has 0 0 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from diffcontact.messages import shown
from diffcontact.scene.recordings.sheet import Row, Sheet, decimal_of, listed, rows_of

_KEYS = ("NO_OF_FRAMES", "NO_OF_MARKERS", "FREQUENCY")
TIME = "time [s]"


def recognise(lines: Sequence[str]) -> Sheet | None:
    """The sheet of a file whose lines begin as above, or None.

    Raises:
        ValueError: a header that lacks a rate or names of markers, or rows that do not fit to it; names line or key.
    """
    if not lines or not lines[0].startswith("NO_OF_"):
        return None
    end = next((i for i, line in enumerate(lines) if not _is_header(line)), len(lines))
    header = {line.split("\t")[0]: [part.strip() for part in line.split("\t")[1:]] for line in lines[:end]}
    for key in _KEYS:
        if not header.get(key) or not _positive(header[key][0]):
            raise ValueError(f"key {key}: {shown(header.get(key, 'missing'))}, expected a number above 0")
    rate, markers = float(header["FREQUENCY"][0].replace(",", ".")), int(float(header["NO_OF_MARKERS"][0]))
    names = [name for name in header.get("MARKER_NAMES", []) if name]
    if len(names) != markers:
        raise ValueError(f"key MARKER_NAMES: {len(names)} names, expected {markers} as NO_OF_MARKERS says")
    if end < len(lines) and lines[end].lower().startswith(("frame", "time")):
        end += 1
    columns = tuple(f"{name} {axis} [mm]" for name in names for axis in "xyz")
    decimal = decimal_of(lines[end : end + 20])
    lost = tuple(columns[i : i + 3] for i in range(0, len(columns), 3))
    return Sheet(
        names=(TIME, *columns),
        rows=_rows(lines, end, len(columns), rate, decimal),
        header=end,
        time=TIME,
        rate=rate,
        decimal=decimal,
        lost_together=lost,
        understood=f"a Qualisys export, {markers} markers ({listed(names)}), {rate:g} frames a second, in mm; "
        "0 0 0 is a lost marker",
    )


def _is_header(line: str) -> bool:
    name = line.split("\t")[0].strip()
    return bool(name) and name[0].isalpha() and name.upper() == name and not name.isdigit()


def _positive(text: str) -> bool:
    try:
        return float(text.replace(",", ".")) > 0
    except ValueError:
        return False


def _rows(lines: Sequence[str], skip: int, width: int, rate: float, decimal: str) -> Iterator[Row]:
    """Rows of a time and the positions; what may stand before them are a frame number and a time."""
    for i, (first, last, fields) in enumerate(rows_of(lines, "\t", skip)):
        fields = list(fields)
        while fields and not fields[-1].strip():
            fields.pop()
        if not fields:
            continue
        before = len(fields) - width
        if before not in (0, 1, 2):
            raise ValueError(f"row {first} has {len(fields)} fields, expected {width}, three for each marker")
        time = fields[1] if before == 2 else repr(i / rate).replace(".", decimal)
        yield Row(first, last, [time, *fields[before:]])
