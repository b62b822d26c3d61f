"""The content of a page: runs, curves, motions, numbers, and these as tables with as many digits as errors deserve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffcontact.report.motion import Motion


@dataclass(frozen=True)
class Channel:
    """A curve's name and unit."""

    name: str  # in words
    unit: str = ""  # in which the page shows it; empty where it is not known
    factor: float = 1.0  # what is shown over what the runs hold; negative where it grows the other way
    down: bool = False  # whether it grows downwards, as the rows of a picture do


@dataclass(frozen=True)
class Event:
    """An event: `kind` is "impact" or "change" of a contact's mode."""

    time: float
    text: str
    kind: str = "impact"


@dataclass(frozen=True, eq=False)
class Mark:
    """A complaint of the verdict, and where in a run's residuals it is."""

    text: str  # in the verdict's words
    rows: NDArray  # (n, k) bool, of which samples
    stretch: bool = True  # whether samples in a row belong together; else each is meant by itself


@dataclass(frozen=True, eq=False)
class RunView:
    """One run: course, measurements and picture of the motion."""

    label: str  # its heading
    times: NDArray  # (m,) of the curve's rows, two at one time where something jumps
    curve: NDArray  # (m, k) the channels there
    samples: NDArray = field(default_factory=lambda: np.zeros(0))  # (n,) times of the measurements; empty without them
    measured: NDArray = field(default_factory=lambda: np.zeros((0, 0)))  # (n, k), NaN where one is missing
    residual: NDArray = field(default_factory=lambda: np.zeros((0, 0)))  # (n, k) measured - fitted
    events: Sequence[Event] = ()  # in order
    motion: Motion | None = None  # or None
    notes: Mapping[str, str] = field(default_factory=dict)  # what is worth knowing of it, by name
    # (b, m, k) curves between which lanes lie, outermost first and last; empty for one motion
    bands: NDArray = field(default_factory=lambda: np.zeros((0, 0, 0)))
    noise: NDArray = field(default_factory=lambda: np.zeros((0, 0)))  # (n, k) one standard deviation; empty: unknown
    marks: Sequence[Mark] = ()  # what the verdict complains of


@dataclass(frozen=True, eq=False)
class Curve:
    """Restitution e(v) under a law."""

    name: str  # of the law
    values: NDArray  # (m,) e at the speeds of the view
    ends: NDArray  # (2, m) of its 95 % interval there, NaN where none is known


@dataclass(frozen=True)
class Impact:
    """The restitution of one impact by itself."""

    run: str  # its label
    time: float
    speed: float  # of approach
    value: float
    low: float  # low, high: the 95 % interval
    high: float
    law: float  # e by the fitted law at this speed


@dataclass(frozen=True, eq=False)
class Restitution:
    """Restitution against the speed of approach: laws and single impacts."""

    unit: str  # of speeds
    speeds: NDArray  # (m,) at which curves are known, increasing
    curves: Sequence[Curve]  # the fitted one first
    impacts: Sequence[Impact]
    left_out: int = 0  # impacts that the samples do not tell from others, or too many to look at


@dataclass(frozen=True)
class Estimate:
    """One element of a parameter; values in the unit that is shown."""

    name: str  # as the fit calls it
    parameter: str  # the parameter it belongs to
    run: str  # the label of its run, or empty for what runs share
    value: float  # value, low, high: the estimate and its interval, which may be infinite
    low: float
    high: float
    text: str  # text, error, interval: the same as they are printed
    error: str
    interval: str
    unit: str = ""  # unit, note: in words
    note: str = ""
    least: float = -np.inf  # least, most: its bounds
    most: float = np.inf


@dataclass(frozen=True, eq=False)
class ProfileView:
    """A profile of the cost along one parameter."""

    name: str  # of the element, with its unit
    values: NDArray  # (m,) of it, in the unit that is shown
    rise: NDArray  # (m,) of the cost there, in squared standard errors
    level: float  # the rise up to which the 95 % interval reaches


@dataclass(frozen=True, eq=False)
class Numbers:
    """What a fit found."""

    explains: str  # "yes", "partly" or "no"
    headline: str  # headline, reasons: the verdict in words
    reasons: Sequence[str]
    converged: bool  # converged, message: how the fit ended
    message: str
    scope: str  # what the intervals are called
    estimates: Sequence[Estimate]  # in the order of the fit
    correlation: NDArray  # (P, P) of the estimates called `correlated`
    correlated: Sequence[str]  # their names
    starts: Sequence[float] = ()  # final costs, sorted
    profiles: Sequence[ProfileView] = ()  # those that were computed
    hints: Sequence[str] = ()  # what the data cannot see, and what would resolve it
    facts: Mapping[str, str] = field(default_factory=dict)  # further figures, name -> text
    caveat: str = ""  # what to know of the intervals
    gravest: int = 3  # how many of the reasons, the first ones, stand under the headline; the others unfold
    freed: Sequence[str] = ()  # which terms of the model were set free for the residuals, in words
    restitution: Restitution | None = None  # where it depends on the speed, or such laws were compared


@dataclass(frozen=True, eq=False)
class Report:
    """A page."""

    title: str  # its heading
    channels: Sequence[Channel]  # (k,) of all runs
    time: str  # the unit of times
    runs: Sequence[RunView]  # in the order in which they are shown
    numbers: Numbers | None = None  # of a fit, or None
    method: Mapping[str, str] = field(default_factory=dict)  # how it was computed, term -> explanation


def sharing_axes(channels: Sequence[Channel]) -> dict[tuple[str, bool], list[int]]:
    """Numbers of the channels in one unit and one direction: (unit, down) -> numbers."""
    groups: dict[tuple[str, bool], list[int]] = {}
    for k, channel in enumerate(channels):
        groups.setdefault((channel.unit, channel.down), []).append(k)
    return groups


def short(labels: Sequence[str]) -> list[str]:
    """Shorten labels of runs where they stay distinct."""
    names = [label.replace("\\", "/").rsplit("/", 1)[-1] for label in labels]
    heads, parts = {name.rpartition(", ")[0] for name in names}, [name.rpartition(", ")[2] for name in names]
    for found in (parts if len(heads) == 1 and len(names) > 1 else names, names):
        if len(set(found)) == len(set(labels)):
            return found
    return list(labels)


INTERVAL = "95 % interval"
# Of what is taken as right so many things are printed.
_SHOWN = 3


def within(runs: int) -> str:
    """What intervals are called that hold nothing of what differs between runs."""
    return "within this run" if runs == 1 else "within these runs"


def caveat(scope: str) -> str:
    """Warn of intervals that are not `INTERVAL`."""
    told = f"{scope}: another run may differ by more than these intervals hold; fit several together"
    return "" if scope == INTERVAL else told


def estimates_of(rows: Sequence[Mapping[str, Any]]) -> list[Estimate]:
    """Estimates as they are printed, without parameter, run and bounds."""
    found = []
    for row in rows:
        error, (low, high) = row["stderr"], row["interval95"]
        found.append(
            Estimate(
                name=row["name"],
                parameter="",
                run="",
                value=float(row["value"]),
                low=-np.inf if low is None else float(low),
                high=np.inf if high is None else float(high),
                text=number(row["value"], error),
                error=number(error, error, "inf"),
                interval=f"[{number(low, error, '-inf')}, {number(high, error, 'inf')}]",
                unit=row.get("unit", ""),
                note=row["note"],
            )
        )
    return found


def text_table(rows: Sequence[Mapping[str, Any]], scope: str = INTERVAL, taken: str = "") -> str:
    """Align a table of estimates, with caveats below."""
    unit = ["unit"] if any("unit" in row for row in rows) else []
    cells = [["parameter", "value", "stderr", scope, *unit, "note"]]
    for one in estimates_of(rows):
        cells.append([one.name, one.text, one.error, one.interval, *([one.unit] if unit else []), one.note])
    return "\n".join([aligned(cells), *filter(None, [caveat(scope)]), *_listed(taken)])


def sampled_table(found: Any, values: Any, notes: Sequence[str], below: Sequence[str]) -> str:
    """Table of replicas or draws, with verdict and doubts."""
    ambiguous = {name for other in found.missed for name in other}
    rows = [
        {
            "name": name,
            "value": float(values[j]),
            "stderr": float(found.stderr[j]),
            "interval95": found.interval95[j].tolist(),
            "note": ", ".join(filter(None, (notes[j], "may be elsewhere, too" if name in ambiguous else ""))),
        }
        for j, name in enumerate(found.names)
    ]
    head, taken = ([], "") if found.verdict is None else ([f"{found.verdict}\n"], found.verdict.taken)
    return "\n".join([*head, text_table(rows, found.scope, taken), *below, *found.doubts])


def aligned(cells: Sequence[Sequence[str]]) -> str:
    """Rows of cells as aligned text, a line under the first."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(width) if name in ("parameter", "unit", "note") else cell.rjust(width)
            for name, cell, width in zip(cells[0], line, widths, strict=True)
        ).rstrip()
        for line in cells
    ]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def _listed(taken: str) -> list[str]:
    head, _, things = taken.partition(": ")
    parts = things.split("; ") if things else []
    more = [f"  ({len(parts) - _SHOWN} more in the report and in result.json)"] if len(parts) > _SHOWN else []
    return [f"{head}:", *(f"  - {part}" for part in parts[:_SHOWN]), *more] if parts else [taken] * bool(taken)


def number(value: float | None, error: float | None, unknown: str = "") -> str:
    """Print a value with two digits of its standard error."""
    if value is None:
        return unknown
    if not error:
        return f"{value:.6g}"
    digits = 1 - int(np.floor(np.log10(error)))
    if 0 <= digits <= 9 and abs(value) < 1e9:
        return f"{value:.{digits}f}"
    # An error of nothing, as at a bound, deserves no more digits than a float has.
    significant = min(max(1, digits + int(np.floor(np.log10(max(abs(value), error)))) + 1), 12)
    return f"{value:.{significant}g}"
