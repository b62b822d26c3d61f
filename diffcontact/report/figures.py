"""What a report shows of its runs, as a figure of matplotlib."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from diffcontact.report.content import Channel, Report, RunView, sharing_axes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Size of a run's part of the figure [inch], and how many stand side by side.
_WIDTH, _HEIGHT, _BESIDE = 6.4, 4.2, 3


def figure(report: Report, caller: str) -> Figure:
    """Draw each run's curves, measurements, impacts and residuals.

    The figure is nobody's current one: pyplot does not know it.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as missing:
        raise ImportError(f"{caller}: matplotlib is absent; pip install 'diffcontact[report]'") from missing
    columns = min(len(report.runs), _BESIDE)
    rows = math.ceil(len(report.runs) / columns)
    whole = Figure(figsize=(_WIDTH * columns, _HEIGHT * rows), layout="constrained")
    parts = np.ravel(whole.subfigures(rows, columns, squeeze=False))
    for part, run in zip(parts, report.runs, strict=False):
        _run(part, report, run, title=len(report.runs) > 1)
    known: dict[str, Any] = {}
    for axes in whole.get_axes():
        known |= {str(handle.get_label()): handle for handle in axes.get_legend_handles_labels()[0]}
    whole.legend(list(known.values()), list(known), loc="outside lower center", ncols=4, frameon=False)
    return whole


def _run(part: Any, report: Report, run: RunView, title: bool) -> None:
    """Draw one run: curves and residuals for every unit."""
    units = sharing_axes(report.channels)
    seen = run.residual.size > 0 and bool(np.isfinite(run.residual).any())
    heights = [height for _ in units for height in ((3, 1) if seen else (3,))]
    axes = part.subplots(len(heights), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    if title:
        axes[0].set_title(run.label)
    step = 2 if seen else 1
    for place, ((unit, down), channels) in enumerate(units.items()):
        _curves(axes[step * place], report.channels, run, channels)
        _unit(axes[step * place], "", unit)
        if down:
            axes[step * place].invert_yaxis()
        if seen:
            below = axes[step * place + 1]
            below.axhline(0.0, color="0.6", lw=0.8)
            for k in channels:
                off = report.channels[k].factor * run.residual[:, k]
                below.plot(run.samples, off, ".", ms=3, color=f"C{k}")
            _unit(axes[step * place + 1], "off", unit)
    axes[-1].set_xlabel(f"time [{report.time}]")


def _curves(axes: Any, channels: Sequence[Channel], run: RunView, shown: list[int]) -> None:
    for k in shown:
        channel, colour = channels[k], f"C{k}"
        for low, high in zip(run.bands[: len(run.bands) // 2], run.bands[::-1], strict=False):
            edges = (channel.factor * edge[:, k] for edge in (low, high))
            axes.fill_between(run.times, *edges, color=colour, alpha=0.2, lw=0)
        seen = run.measured.size > 0
        if seen:
            # Larger than the line is wide, so that neither hides the other.
            look = {"ms": 3.5, "mew": 0, "alpha": 0.45, "color": colour}
            axes.plot(run.samples, channel.factor * run.measured[:, k], "o", label=f"{channel.name}, measured", **look)
        name = f"{channel.name}, fitted" if seen else channel.name
        axes.plot(run.times, channel.factor * run.curve[:, k], "-", lw=1, color=colour, label=name)
    for kind, mark in (("impact", "|"), ("change", "x")):
        times = [event.time for event in run.events if event.kind == kind]
        if times:
            bottom = axes.get_xaxis_transform()
            axes.plot(times, np.full(len(times), 0.02), mark, color="0.3", ms=6, transform=bottom, label=kind)


def _unit(axes: Any, what: str, unit: str) -> None:
    axes.set_ylabel(" ".join(filter(None, (what, f"[{unit}]" if unit else ""))))
