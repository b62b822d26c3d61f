"""What a search for the next experiment returns: a sentence, a table, a picture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from diffcontact.identify.estimate import finite_or_none
from diffcontact.identify.experiment.candidates import CHANNELS, DURATION, FRAME_RATE, RUNS, Candidate, Setting
from diffcontact.identify.table import aligned
from diffcontact.identify.verdict.texts import listed
from diffcontact.status import Status

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ROWS = 10
# Below it nobody would change a thing.
_BETTER = 1.1


@dataclass(frozen=True, eq=False)
class Design:
    """The next experiment, and those that it was chosen from.

    Attributes:
        best: what to do; None where no candidate tells anything about what is sought.
        default: the run as it was given, for comparison.
        candidates: all that were looked at, the best first; those with a status are last.
        sought: names of the elements that are sought.
        criterion: "D", "A" or "one".
        now: standard errors before any new run, by name; infinite where nothing is known.
        refused: how many candidates cost more than the budget, and were not looked at.
        unseen: why the default shows nothing of what is sought, in words; empty where it does.
        quantile: half width of a 95 % interval in standard errors.
        units: of controls and of what is sought, by name, where they are known.
    """

    best: Candidate | None
    default: Candidate
    candidates: tuple[Candidate, ...]
    sought: tuple[str, ...]
    criterion: str
    now: dict[str, float]
    refused: int = 0
    unseen: tuple[str, ...] = ()
    quantile: float = float(ndtri(0.975))
    units: Mapping[str, str] = field(default_factory=lambda: {FRAME_RATE: "samples/s", DURATION: "s"})

    @property
    def excluded(self) -> dict[Status, int]:
        """How many candidates have a status, and are not proposed for that."""
        return dict(Counter(one.status for one in self.candidates if one.status != Status.OK))

    @property
    def silent(self) -> int:
        """How many candidates tell nothing about what is sought, or do not in one of the draws."""
        return sum(one.status == Status.OK and not one.eligible for one in self.candidates)

    def gain(self, candidate: Candidate) -> float:
        """By how much smaller than with the default run the variance is (of several: its mean, by the criterion)."""
        if not np.isfinite(self.default.criterion):
            return np.inf if candidate.eligible else np.nan
        return float(np.exp(self.default.criterion - candidate.criterion))

    def interval(self, candidate: Candidate) -> dict[str, float]:
        """Half widths of the 95 % intervals that a candidate would give, by name."""
        return {name: self.quantile * error for name, error in candidate.stderr.items()}

    def in_units(self, units: Mapping[str, tuple[str, float]], time: str = "s") -> Design:
        """The same in other units.

        Args:
            units: name of a parameter -> its unit and what one of that is in the fit's own units.
            time: unit of times.
        """

        def factor(name):
            return units.get(name, units.get(name.partition("[")[0], ("", 1.0)))

        def part(name, value):
            return value if factor(name)[1] == 1.0 else np.asarray(value)[()] / factor(name)[1]

        def whole(one):
            setting = {name: part(name, value) for name, value in one.setting.items()}
            return replace(one, setting=setting, stderr={name: part(name, e) for name, e in one.stderr.items()})

        # The same object stays the best one.
        again = {id(one): whole(one) for one in (self.default, *self.candidates)}
        names = {*self.sought, *(name for one in self.candidates[:1] for name in one.setting)}
        known = {name: factor(name)[0] for name in names if factor(name)[0] not in ("", "1")}
        return replace(
            self,
            best=None if self.best is None else again[id(self.best)],
            default=again[id(self.default)],
            candidates=tuple(again[id(one)] for one in self.candidates),
            now={name: part(name, error) for name, error in self.now.items()},
            units={FRAME_RATE: f"samples/{time}", DURATION: time, **known},
        )

    @property
    def sentence(self) -> str:
        """What to do, and what it is good for."""
        if self.best is None:
            why = f": {'; '.join(self.unseen)}" if self.unseen else ""
            return f"no candidate shows {listed(self.sought)}{why}"
        before, gain = self.default.stderr, self.gain(self.best)
        if gain < _BETTER:
            return f"no candidate tells a tenth more of {listed(self.sought)} than the run as it was"
        errors = ", ".join(
            f"stderr of {name} {error:.2g}{self._unit(name)} instead of {before[name]:.2g}"
            if np.isfinite(before[name])
            else f"stderr of {name} {error:.2g}{self._unit(name)}, where the run as it was shows nothing of it"
            for name, error in self.best.stderr.items()
        )
        text = f"{self._said(self.best.setting)}: {errors}"
        return text + (f" (a variance {gain:.2g} times smaller)" if np.isfinite(gain) and gain > 1 else "")

    @property
    def table(self) -> str:
        """What the best ten candidates would give, and the default."""
        shown = [one for one in self.candidates if one.eligible][:_ROWS]
        names = list(shown[0].setting) if shown else []
        priced = any(one.cost for one in shown)
        head = [
            "",
            *names,
            *(f"stderr {name}" for name in self.sought),
            "gain",
            *(["cost"] if priced else []),
            "impacts",
        ]
        cells = [head]
        for label, one in [*((str(i + 1), one) for i, one in enumerate(shown)), ("as it was", self.default)]:
            gain = self.gain(one)
            cells.append(
                [
                    label,
                    *(_number(one.setting.get(name, "")) for name in names),
                    *(f"{one.stderr[name]:.3g}" for name in self.sought),
                    f"{gain:.3g}" if np.isfinite(gain) else "",
                    *([f"{one.cost:.4g}"] if priced else []),
                    str(len(one.order)),
                ]
            )
        return aligned(cells)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What was left out, and why."""
        told = [f"{len(self.candidates)} candidates"]
        told += [f"{count} not proposed, status {int(s)}: {s.message}" for s, count in self.excluded.items()]
        if self.silent:
            told.append(f"{self.silent} show nothing of {listed(self.sought)}")
        if self.refused:
            told.append(f"{self.refused} cost more than the budget")
        if self.default.status != Status.OK:
            told.append(f"the run as it was has status {int(self.default.status)}: {self.default.status.message}")
        return tuple(told)

    def __str__(self) -> str:
        return "\n".join([self.sentence, "", self.table, "", "; ".join(self.remarks)])

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for `json.dumps`; what is infinite is None."""

        def plain(one: Candidate | None) -> Any:
            if one is None:
                return None
            return {
                "setting": {name: np.asarray(part).tolist() for name, part in one.setting.items()},
                "stderr": {name: finite_or_none(error) for name, error in one.stderr.items()},
                "gain": finite_or_none(self.gain(one)),
                "cost": one.cost,
                "status": int(one.status),
                "impacts": len(one.order),
            }

        return {
            "sentence": self.sentence,
            "criterion": self.criterion,
            "now": {name: finite_or_none(error) for name, error in self.now.items()},
            "best": plain(self.best),
            "default": plain(self.default),
            "candidates": [plain(one) for one in self.candidates],
            "remarks": list(self.remarks),
        }

    def plot(self) -> Figure:
        """What each candidate would give over each control: one row for each element sought, a column per control.

        Returns:
            A figure of matplotlib of which pyplot knows nothing.

        Raises:
            ImportError: matplotlib is absent.
        """
        try:
            from matplotlib.figure import Figure
        except ImportError as missing:
            raise ImportError("Design.plot: matplotlib is absent; pip install 'diffcontact[report]'") from missing
        controls = list(self.candidates[0].setting)
        size = (3.6 * len(controls) + 0.6, 2.9 * len(self.sought) + 0.6)
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots(len(self.sought), len(controls), squeeze=False, sharey="row")
        for row, sought in zip(axes, self.sought, strict=True):
            for panel, control in zip(row, controls, strict=True):
                self._panel(panel, sought, control)
            row[0].set_ylabel(f"standard error of {sought}")
        for panel, control in zip(axes[-1], controls, strict=True):
            panel.set_xlabel(
                " ".join(filter(None, (control, f"[{self.units[control]}]" if control in self.units else "")))
            )
        handles, labels = axes[0, 0].get_legend_handles_labels()
        title = "colours: how many impacts are seen"
        figure.legend(handles, labels, title=title, loc="outside upper center", ncols=4, frameon=False)
        return figure

    def _panel(self, axes: Any, sought: str, control: str) -> None:
        good = [one for one in self.candidates if one.eligible]
        places = {repr(one.setting[control]): i for i, one in enumerate(self.candidates)}
        numbers = all(np.ndim(one.setting[control]) == 0 for one in self.candidates)

        def x(one: Candidate) -> float:
            return float(one.setting[control]) if numbers else list(places).index(repr(one.setting[control]))

        orders = {order: i for i, order in enumerate(sorted({len(one.order) for one in good}))}
        colours = [f"C{orders[len(one.order)] % 10}" for one in good]
        axes.scatter([x(one) for one in good], [one.stderr[sought] for one in good], s=12, c=colours, lw=0)
        out = [one for one in self.candidates if one.status != Status.OK]
        if out:
            bottom = axes.get_xaxis_transform()
            axes.plot([x(one) for one in out], [0.02] * len(out), "kx", ms=4, transform=bottom, label="status not 0")
        if np.isfinite(self.default.stderr[sought]):
            axes.axhline(self.default.stderr[sought], color="0.4", lw=1, ls="--", label="as it was")
        if self.best is not None:
            axes.plot(x(self.best), self.best.stderr[sought], "*", ms=14, mfc="none", mec="k", label="best")
        axes.set_yscale("log")
        if not numbers:
            axes.set_xticks(range(len(places)), list(places))

    def _unit(self, name: str) -> str:
        return f" {self.units[name]}" if name in self.units else ""

    def _said(self, setting: Setting) -> str:
        """A setting in words."""
        parts = []
        for name, value in setting.items():
            if name == RUNS:
                parts.append(f"{value} run{'s' if value > 1 else ''}")
            elif name == CHANNELS:
                parts.append(f"channel{'s' if len(value) > 1 else ''} {listed([str(k) for k in value])}")
            else:
                equals = " " if name in (FRAME_RATE, DURATION) else " = "
                parts.append(
                    f"{name.replace('_', ' ') if equals == ' ' else name}{equals}{_number(value)}{self._unit(name)}"
                )
        return ", ".join(parts)


def _number(value: Any) -> str:
    if isinstance(value, tuple | list | np.ndarray):
        return f"({', '.join(map(_number, value))})"
    return f"{value:.4g}" if isinstance(value, float | np.floating) else str(value)
