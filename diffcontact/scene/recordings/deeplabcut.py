"""DeepLabCut, and what writes like it: CSV with three header rows.

scorer,net,net,net
(individuals,...)                     with several animals
bodyparts,ball,ball,ball
coords,x,y,likelihood
0,245.3,189.2,0.98                    frame, pixels from the upper left corner, and how sure the net was
"""

from __future__ import annotations

from collections.abc import Sequence

from diffcontact.scene.recordings.sheet import Sheet, listed, rows_of

FRAME = "frame"


def recognise(lines: Sequence[str]) -> Sheet | None:
    """The sheet of a file that begins with these rows, or None."""
    if not lines or lines[0].split(",")[0].strip('" ') != "scorer":
        return None
    header = [row.fields for row in rows_of(lines[:4], ",")]
    count = next((i + 1 for i, row in enumerate(header) if row[:1] == ["coords"]), 0)
    if not count:
        return None
    levels = header[1:count]
    if len({len(row) for row in header[:count]}) > 1:
        raise ValueError(f"rows 1 to {count} have {[len(row) for row in header[:count]]} fields, expected as many each")
    points, names = [], [FRAME]
    for *point, coordinate in zip(*(row[1:] for row in levels), strict=True):
        name = " ".join(part.strip() for part in point)
        points.append(name)
        names.append(f"{name} {coordinate.strip()}" + ("" if coordinate.strip() == "likelihood" else " [px]"))
    sure = {
        f"{name} {axis} [px]": f"{name} likelihood"
        for name in dict.fromkeys(points)
        for axis in "xy"
        if f"{name} likelihood" in names and f"{name} {axis} [px]" in names
    }
    return Sheet(
        names=tuple(names),
        rows=rows_of(lines, ",", count),
        header=count,
        time=FRAME,
        likelihood=sure,
        understood=f"a DeepLabCut export, {listed(dict.fromkeys(points))} in px, y downwards, one row per frame"
        + ("; samples of small likelihood are lost" if sure else ""),
    )
