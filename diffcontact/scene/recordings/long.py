"""Long tables, as of trackpy: a row for each point and picture.

frame,particle,x,y
0,0,12.5,20.0                         which picture, which point, and where it is
0,1,300.1,20.4
1,0,13.1,20.0
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from diffcontact.scene.recordings.sheet import Sample, Sheet, decimal_of, joined, listed, rows_of
from diffcontact.scene.units import is_number, number

_CLOCK = re.compile(r"(frame|time|t|slice|image|timestamp)\b.*", re.IGNORECASE)
_POINT = re.compile(r"(particle|track|point|marker|object|body|label|id)([\s_]?(id|nr|no|name|number))?", re.IGNORECASE)
# More points are no experiment on contact.
_MOST = 50


def recognise(lines: Sequence[str]) -> Sheet | None:
    """Open a file in which one time has several points, or None."""
    delimiter = next((mark for mark in "\t;," if lines and mark in lines[0]), "")
    if not delimiter:
        return None
    names = [name.strip() for name in next(rows_of(lines, delimiter)).fields]
    clocks, points = ([i for i, name in enumerate(names) if p.fullmatch(name)] for p in (_CLOCK, _POINT))
    if not clocks or len(points) != 1:
        return None
    _, *rows = rows_of(lines, delimiter)
    if any(len(row.fields) != len(names) for row in rows):
        return None
    clock, point = clocks[0], points[0]
    decimal = "." if delimiter == "," else decimal_of(field for row in rows[:20] for field in row.fields)
    texts = [(row, row.fields[clock].replace(decimal, ".")) for row in rows if row.fields[clock].strip()]
    labels = list(dict.fromkeys(row.fields[point].strip() for row, _ in texts))
    if not all(is_number(text) for _, text in texts) or not 2 <= len(labels) <= _MOST:
        return None
    if len({number(text) for _, text in texts}) == len(texts):
        return None
    # A column without a name counts the rows.
    places = [i for i, name in enumerate(names) if name and i not in (clock, point)]
    tracks: dict[str, list[Sample]] = {label: [] for label in labels}
    for row, text in texts:
        label = row.fields[point].strip()
        first = 1 + len(places) * labels.index(label)
        fields = {first + k: row.fields[i] for k, i in enumerate(places)}
        tracks[label].append(Sample(row.last, number(text), fields))
    called = [f"{names[point]} {label}" if is_number(label) else label for label in labels]
    return Sheet(
        names=(names[clock], *(f"{name} {names[i]}" for name in called for i in places)),
        rows=joined(list(tracks.values()), len(places) * len(labels), decimal),
        time=names[clock],
        decimal=decimal,
        understood=f"rows of {len(labels)} points, {listed(called)}, one below the other",
    )
