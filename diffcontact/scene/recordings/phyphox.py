"""phyphox: when a microphone heard the impacts of a ball.

    "Bounce 0 (s)","Height 0 (m)","Bounce 1 (s)",...          the experiment (In)elastic collision
    "Start (s)","Stop 1 (s)","Stop 2 (s)",...                 the acoustic stopwatch, several events
    1.234000000E0,...                                         one row; 0 where nothing was heard

The times become one column.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from diffcontact.scene.recordings.sheet import Row, Sheet, decimal_of, rows_of

TIME = "impact [s]"
_EVENT = re.compile(r"(Bounce|Start|Stop)( \d+)? \(s\)")


def recognise(lines: Sequence[str]) -> Sheet | None:
    """The sheet of a file whose header has such columns, or None."""
    if not lines:
        return None
    delimiter = next((mark for mark in "\t;," if mark in lines[0]), "")
    if not delimiter:
        return None
    header, *rows = rows_of(lines[:3], delimiter)
    events = [i for i, name in enumerate(header.fields) if _EVENT.fullmatch(name.strip())]
    if len(events) < 3 or not rows:
        return None
    row = rows[0]
    decimal = decimal_of(row.fields) if delimiter != "," else "."
    heard = [row.fields[i] for i in events if i < len(row.fields) and row.fields[i].strip(" 0.,Ee+-")]
    if len(heard) < 3:
        raise ValueError(f"row {row.first} has {len(heard)} times of impacts, expected at least 3")
    return Sheet(
        names=(TIME,),
        rows=[Row(row.first, row.last, [time]) for time in heard],
        time=TIME,
        decimal=decimal,
        understood=f"an export of phyphox, {len(heard)} impacts that were heard",
    )
