"""The content of a page: runs, curves, motions, numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

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
    left_out: int = 0  # impacts that the samples do not tell from others


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


def short(labels: Sequence[str]) -> list[str]:
    """Shorten labels of runs where they stay distinct."""
    names = [label.replace("\\", "/").rsplit("/", 1)[-1] for label in labels]
    heads, parts = {name.rpartition(", ")[0] for name in names}, [name.rpartition(", ")[2] for name in names]
    for found in (parts if len(heads) == 1 and len(names) > 1 else names, names):
        if len(set(found)) == len(set(labels)):
            return found
    return list(labels)
