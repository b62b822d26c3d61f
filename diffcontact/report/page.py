"""The report of a fit: one HTML file that needs nothing else to be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffcontact.identify.table import table_cells
from diffcontact.report.chart import Series, chart

_COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf")
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 900px; margin: 2em auto; padding: 0 1em; color: #222; }
table { border-collapse: collapse; } th, td { padding: 2px 12px; text-align: right; border-bottom: 1px solid #ddd; }
th:first-child, td:first-child { text-align: left; }
svg { max-width: 100%; height: auto; } svg text { font: 11px system-ui, sans-serif; } .grid { stroke: #ddd;
stroke-width: 0.7; } dt { font-weight: 600; } dd { margin: 0 0 0.6em 0; overflow-wrap: anywhere; } .bad { color: #b00; }
"""


@dataclass(frozen=True, eq=False)
class FittedRun:
    """One run: what was measured, and the motion at the estimate.

    Attributes:
        label: its heading.
        notes: what is worth knowing of its measurements, by name.
        times: (n,) in the report's unit of time.
        measured: (n, k) positions, NaN where one is missing.
        fitted: (n, k) the same positions at the estimate.
    """

    label: str
    notes: Mapping[str, str]
    times: NDArray
    measured: NDArray
    fitted: NDArray


@dataclass(frozen=True, eq=False)
class Report:
    """What the page of a fit shows.

    Attributes:
        title: its heading.
        converged: whether the fit did.
        message: how the fit ended.
        estimates: one row per parameter; see `diffcontact.identify.table.table_cells`.
        channels: (k,) what the measured positions are called.
        length: unit in which positions are shown.
        scale: positions in that unit over those of the runs.
        time: unit of the times.
        runs: in the order in which they are shown.
        method: how the estimates were computed, term -> explanation.
    """

    title: str
    converged: bool
    message: str
    estimates: Sequence[Mapping[str, Any]]
    channels: Sequence[str]
    length: str
    scale: float
    time: str
    runs: Sequence[FittedRun]
    method: Mapping[str, str]


def page(report: Report) -> str:
    """The whole HTML document, its pictures inside."""
    title = escape(report.title)
    parts = [
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>',
        f"<style>{_STYLE}</style></head><body>",
        f"<h1>{title}</h1>",
        f"<p{'' if report.converged else ' class=bad'}>{escape(report.message)}</p>",
        "<h2>Estimates</h2>",
        _table(report.estimates),
        "<h2>Measured and fitted</h2>",
    ]
    for run in report.runs:
        parts += _run(report, run)
    parts += ["<h2>How it was computed</h2>", _terms(report.method), "</body></html>\n"]
    return "\n".join(parts)


def _table(estimates: Sequence[Mapping[str, Any]]) -> str:
    head, *rows = table_cells(estimates)
    cells = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "\n".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{cells}</tr>\n{body}\n</table>"


def _run(report: Report, run: FittedRun) -> list[str]:
    unit, scale, time = report.length, report.scale, f"time [{report.time}]"
    residuals = run.measured - run.fitted
    positions_series, residual_series = [], []
    for k, channel in enumerate(report.channels):
        colour = _COLOURS[k % len(_COLOURS)]
        positions_series += [
            Series(f"{channel}, measured", run.times, scale * run.measured[:, k], colour, dots=True),
            Series(f"{channel}, fitted", run.times, scale * run.fitted[:, k], "#222"),
        ]
        residual_series.append(Series(channel, run.times, scale * residuals[:, k], colour))
    notes = "; ".join(f"{name} {text}" for name, text in run.notes.items())
    rms = scale * np.sqrt(np.nanmean(residuals**2))
    return [
        f"<h3>{escape(run.label)}</h3>",
        f"<p>{escape(notes)}{'. ' if notes else ''}Root mean square of the residuals: {rms:.3g} {escape(unit)}.</p>",
        chart(positions_series, time, f"position [{unit}]"),
        chart(residual_series, time, f"measured - fitted [{unit}]"),
    ]


def _terms(explained: Mapping[str, str]) -> str:
    return "<dl>" + "\n".join(f"<dt>{term}</dt><dd>{escape(text)}</dd>" for term, text in explained.items()) + "</dl>"
