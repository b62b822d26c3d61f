"""What was measured, as text."""

from __future__ import annotations

from . import peers, scene
from .measure import Row


def line(row: Row) -> str:
    """One row, while it is measured."""
    if row.note:
        return f"{row.problem:15} {row.peer:20} {row.note}"
    (broken, of), (wrong, all_of) = row.zeros, row.signs
    told = f"  {row.status}" if row.status else ""
    first = "" if row.first is None else f" after {row.first:.2g} s"
    return (
        f"{row.problem:15} {row.peer:20} h = {row.h:<7g} {row.way:11} state {size(row.state)}  Jacobian "
        f"{size(row.jacobian)}  zeros {broken}/{of}  signs {wrong}/{all_of}  {row.seconds:.2g} s{first}{told}"
    )


def size(x: float | None) -> str:
    return "nan" if x is None else f"{x:.0e}"


def best(rows: list[dict], problem: str) -> dict | None:
    """Of a problem, the row with the best state at the finest step; of two ways of its derivative the better one."""
    found = [row for row in rows if row["problem"] == problem and row["state"] is not None]
    if not found:
        return None
    finest = min(row["h"] for row in found)
    big = float("inf")
    return min(
        (row for row in found if row["h"] == finest),
        key=lambda row: big if row["jacobian"] is None else row["jacobian"],
    )


def seconds(row: dict) -> str:
    """To the first gradient, if the engine has one of its own, and to each further one."""
    first = row.get("first")
    return f"{'-' if first is None else f'{first:.2g}'} | {row['seconds']:.1g}"


def absent(measured: list[dict]) -> str:
    """The engines that were not measured, and why that is; nothing if there are none."""
    names = ", ".join(name for name in peers.ALL if name not in {document["peer"] for document in measured})
    return f"Not measured, since not installed or stopped before they had finished a motion: {names}." if names else ""


def text(measured: list[dict]) -> str:
    """A line for every problem, at the finest step: errors of state | Jacobian of each engine; then seconds."""

    def errors(row: dict) -> str:
        return f"{size(row['state'])} | {size(row['jacobian'])}"

    engines = [document["peer"] for document in measured]
    lines = []
    for title, cell in (("error", errors), ("seconds", seconds)):
        lines.append(f"{title:15}" + " ".join(f"{name[:13]:>13}" for name in engines))
        for name in scene.names():
            rows = [best(document["rows"], name) for document in measured]
            cells = ["-" if row is None else cell(row) for row in rows]
            lines.append(f"{name:15}" + " ".join(f"{cell:>13}" for cell in cells))
    return "\n".join([*lines, absent(measured)]).rstrip()
