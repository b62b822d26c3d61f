"""What a page shows, as data: runs with their curves and motions, and the numbers beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from diffcontact.report.motion import Motion


@dataclass(frozen=True)
class Channel:
    """A curve's name and unit.

    Attributes:
        name: in words.
        unit: in which the page shows it; empty where it is not known.
        factor: what is shown over what the runs hold; negative where it grows the other way.
        down: whether it grows downwards, as the rows of a picture do.
    """

    name: str
    unit: str = ""
    factor: float = 1.0
    down: bool = False


@dataclass(frozen=True)
class Event:
    """Something that happens at one time: `kind` is "impact" or "change" (of a contact's mode)."""

    time: float
    text: str
    kind: str = "impact"


@dataclass(frozen=True, eq=False)
class RunView:
    """One run: the course of the motion, what was measured of it, and how it looks.

    Attributes:
        label: its heading.
        times: (m,) of the curve's rows, two at one time where something jumps.
        curve: (m, k) the channels there.
        samples: (n,) times of the measurements; empty without them.
        measured: (n, k), NaN where one is missing.
        residual: (n, k) measured - fitted.
        events: in order.
        motion: or None.
        notes: what is worth knowing of it, by name.
        bands: (b, m, k) curves between which lanes lie, outermost first and last; empty for one motion.
    """

    label: str
    times: NDArray
    curve: NDArray
    samples: NDArray = field(default_factory=lambda: np.zeros(0))
    measured: NDArray = field(default_factory=lambda: np.zeros((0, 0)))
    residual: NDArray = field(default_factory=lambda: np.zeros((0, 0)))
    events: Sequence[Event] = ()
    motion: Motion | None = None
    notes: Mapping[str, str] = field(default_factory=dict)
    bands: NDArray = field(default_factory=lambda: np.zeros((0, 0, 0)))


@dataclass(frozen=True)
class Estimate:
    """One element of a parameter; values in the unit that is shown.

    Attributes:
        name: as the fit calls it.
        parameter: the parameter it belongs to.
        run: the label of its run, or empty for what runs share.
        value, low, high: the estimate and its interval, which may be infinite.
        text, error, interval: the same as they are printed.
        unit, note: in words.
        least, most: its bounds.
    """

    name: str
    parameter: str
    run: str
    value: float
    low: float
    high: float
    text: str
    error: str
    interval: str
    unit: str = ""
    note: str = ""
    least: float = -np.inf
    most: float = np.inf


@dataclass(frozen=True, eq=False)
class ProfileView:
    """A profile of the cost along one parameter.

    Attributes:
        name: of the element, with its unit.
        values: (m,) of it, in the unit that is shown.
        rise: (m,) of the cost there, in squared standard errors.
        level: the rise up to which the 95 % interval reaches.
    """

    name: str
    values: NDArray
    rise: NDArray
    level: float


@dataclass(frozen=True, eq=False)
class Numbers:
    """What a fit found.

    Attributes:
        explains: "yes", "partly" or "no".
        headline, reasons: the verdict in words.
        gravest: how many of the reasons, the first ones, stand under the headline; the others unfold.
        freed: which terms of the model were set free for the residuals, in words.
        converged, message: how the fit ended.
        scope: what the intervals are called.
        estimates: in the order of the fit.
        correlation: (P, P) of the estimates called `correlated`.
        correlated: their names.
        starts: final costs, sorted.
        profiles: those that were computed.
        hints: what the data cannot see, and what would resolve it.
        facts: further figures, name -> text.
        caveat: what to know of the intervals.
    """

    explains: str
    headline: str
    reasons: Sequence[str]
    converged: bool
    message: str
    scope: str
    estimates: Sequence[Estimate]
    correlation: NDArray
    correlated: Sequence[str]
    starts: Sequence[float] = ()
    profiles: Sequence[ProfileView] = ()
    hints: Sequence[str] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    caveat: str = ""
    gravest: int = 3
    freed: Sequence[str] = ()


@dataclass(frozen=True, eq=False)
class Report:
    """A page.

    Attributes:
        title: its heading.
        channels: (k,) of all runs.
        time: the unit of times.
        runs: in the order in which they are shown.
        numbers: of a fit, or None.
        method: how it was computed, term -> explanation.
    """

    title: str
    channels: Sequence[Channel]
    time: str
    runs: Sequence[RunView]
    numbers: Numbers | None = None
    method: Mapping[str, str] = field(default_factory=dict)


def short(labels: Sequence[str]) -> list[str]:
    """Labels of runs without folders, or the file that all are parts of, unless two are alike then.

    Example:
        >>> short(["data/a.csv", "data/b.csv, stretch 1 of 2"])
        ['a.csv', 'b.csv, stretch 1 of 2']
        >>> short(["data/a.csv, stretch 1 of 2", "data/a.csv, stretch 2 of 2"])
        ['stretch 1 of 2', 'stretch 2 of 2']
    """
    names = [label.replace("\\", "/").rsplit("/", 1)[-1] for label in labels]
    heads, parts = {name.rpartition(", ")[0] for name in names}, [name.rpartition(", ")[2] for name in names]
    for found in (parts if len(heads) == 1 and len(names) > 1 else names, names):
        if len(set(found)) == len(set(labels)):
            return found
    return list(labels)
