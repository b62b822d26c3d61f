"""Kinovea: trajectories as sections of text, or as CSV columns.

    #Kinovea Trajectory data export
    #T X Y

    # Trajectory 1
    0.033 866.00 320.00                   or 0:00:00:03 in older versions: hours, minutes, seconds, hundredths

    "Time","Trajectory 1/0/X","Trajectory 1/0/Y"         the object, its point and the axis
    "0.033","866.0","320.0"                              or "0,033";"866,0";"320,0" with decimal commas

Lengths are in the unit of the calibration, times of a CSV in that of the time code. The file states neither; y is
upwards.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from diffcontact.host.messages import shown
from diffcontact.scene.recordings.sheet import Sample, Sheet, decimal_of, joined, listed, rows_of
from diffcontact.scene.units import number

TIME = "time [s]"
_CLOCK = re.compile(r"(\d+):(\d\d):(\d\d)[:.](\d\d)")


def recognise(lines: Sequence[str]) -> Sheet | None:
    """Open trajectories with one row for every time, or None."""
    if not lines or not lines[0].startswith("#Kinovea"):
        return _side_by_side(lines)
    sections, decimal = _sections(lines), "."
    tracks = []
    for i, samples in enumerate(sections.values()):
        if any("," in text for sample in samples for text in sample[1:]):
            decimal = ","
        tracks.append([Sample(line, _seconds(t, line), {2 * i + 1: x, 2 * i + 2: y}) for line, t, x, y in samples])
    return Sheet(
        names=(TIME, *(f"{name} {axis}" for name in sections for axis in "xy")),
        rows=joined(tracks, 2 * len(tracks), decimal),
        header=2,
        time=TIME,
        decimal=decimal,
        understood=f"an export of Kinovea, {listed(sections)}, lengths in the unit of the calibration",
    )


def _side_by_side(lines: Sequence[str]) -> Sheet | None:
    """The sheet of a CSV, or None."""
    delimiter = next((mark for mark in ";," if lines and mark in lines[0]), "")
    if not delimiter:
        return None
    rows = rows_of(lines, delimiter)
    head, *columns = (field.strip() for field in next(rows).fields)
    parts = [column.rsplit("/", 2) for column in columns]
    pairs = list(zip(parts[::2], parts[1::2], strict=False))
    points = all(len(x) == 3 and x[2] == "X" and y == [*x[:2], "Y"] for x, y in pairs)
    if head != "Time" or len(parts) % 2 or not points:
        return None
    points = [name if point == "0" else f"{name} {point}" for name, point, _ in parts[::2]]
    decimal = decimal_of(field for row in rows_of(lines[1:21], delimiter) for field in row.fields)
    return Sheet(
        names=(head, *(f"{point} {axis}" for point in points for axis in "xy")),
        rows=rows,
        time=head,
        decimal=decimal,
        understood=f"an export of Kinovea, {listed(points)}, lengths in the unit of the calibration"
        f"{', decimal commas' if decimal == ',' else ''}",
    )


def _sections(lines: Sequence[str]) -> dict[str, list[tuple[int, str, str, str]]]:
    """Samples (line, time, x, y) by name; nameless sections are counted."""
    sections: dict[str, list[tuple[int, str, str, str]]] = {}
    name = ""
    for i, line in enumerate(lines[2:], 3):
        fields = line.split()
        if not fields or line.startswith("#"):
            name = line.lstrip("# ").strip()
            if name in sections:
                raise ValueError(f"row {i}: a second trajectory {shown(name)}, expected a name of its own")
            continue
        if len(fields) < 3:
            raise ValueError(f"row {i} has {len(fields)} fields, expected a time and two coordinates")
        name = name or f"trajectory {len(sections) + 1}"
        sections.setdefault(name, []).append((i, fields[0], fields[1], fields[2]))
    return sections


def _seconds(text: str, line: int) -> float:
    clock = _CLOCK.fullmatch(text)
    if clock:
        hours, minutes, seconds, hundredths = map(int, clock.groups())
        return 3600 * hours + 60 * minutes + seconds + hundredths / 100
    try:
        return number(text.replace(",", "."))
    except ValueError:
        raise ValueError(f"row {line}: {shown(text)}, expected a time in seconds") from None
