"""The report of a fit: one HTML file that needs nothing else to be read."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

import numpy as np

from diffcontact.identify import FitResult
from diffcontact.identify.table import table_cells
from diffcontact.report.chart import Series, chart
from diffcontact.scene.preparation import PreparedRun
from diffcontact.scene.study import Study, estimates
from diffcontact.scene.units import factor

_COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf")
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 900px; margin: 2em auto; padding: 0 1em; color: #222; }
table { border-collapse: collapse; } th, td { padding: 2px 12px; text-align: right; border-bottom: 1px solid #ddd; }
th:first-child, td:first-child { text-align: left; }
svg { max-width: 100%; height: auto; } svg text { font: 11px system-ui, sans-serif; } .grid { stroke: #ddd;
stroke-width: 0.7; } dt { font-weight: 600; } dd { margin: 0 0 0.6em 0; overflow-wrap: anywhere; } .bad { color: #b00; }
"""


def page(study: Study, result: FitResult, document: Mapping[str, Any]) -> str:
    """The whole HTML document.

    Args:
        study: what was fitted.
        result: what came out, with residuals and trajectories.
        document: the content of result.json.

    Returns:
        HTML text with its pictures inside.
    """
    title = escape(study.scene.title)
    parts = [
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>',
        f"<style>{_STYLE}</style></head><body>",
        f"<h1>{title}</h1>",
        f"<p{'' if result.converged else ' class=bad'}>{escape(result.message)}</p>",
        "<h2>Estimates</h2>",
        _table(document),
        "<h2>Measured and fitted</h2>",
    ]
    for i, run in enumerate(study.runs):
        parts += _run(study, result, i, run)
    parts += ["<h2>How it was computed</h2>", _method(study, result, document), "</body></html>\n"]
    return "\n".join(parts)


def _table(document: Mapping[str, Any]) -> str:
    head, *rows = table_cells(estimates(document))
    cells = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "\n".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{cells}</tr>\n{body}\n</table>"


def _run(study: Study, result: FitResult, i: int, run: PreparedRun) -> list[str]:
    unit = study.scene.length
    scale, time = 1.0 / factor(unit, study.scene.ready.length), f"time [{study.scene.ready.time}]"
    positions = np.asarray(result.trajectories[i].q)
    positions_series, residual_series = [], []
    for k, channel in enumerate(study.scene.preparation.channels):
        colour = _COLOURS[k % len(_COLOURS)]
        positions_series += [
            Series(f"{channel}, measured", run.times, scale * run.values[:, k], colour, dots=True),
            Series(f"{channel}, fitted", run.times, scale * positions[:, k], "#222"),
        ]
        residual_series.append(Series(channel, run.times, scale * (run.values - positions)[:, k], colour))
    notes = "; ".join(f"{name} {text}" for name, text in run.notes.items())
    rms = scale * np.sqrt(np.nanmean((run.values - positions) ** 2))
    return [
        f"<h3>{escape(run.label)}</h3>",
        f"<p>{escape(notes)}{'. ' if notes else ''}Root mean square of the residuals: {rms:.3g} {escape(unit)}.</p>",
        chart(positions_series, time, f"position [{unit}]"),
        chart(residual_series, time, f"measured - fitted [{unit}]"),
    ]


def _method(study: Study, result: FitResult, document: Mapping[str, Any]) -> str:
    scene = study.scene
    fixed = ", ".join(
        f"{name} = {np.asarray(study.start[name]).tolist()} (SI)"
        for name, parameter in scene.parameters.items()
        if parameter.domain is None
    )
    known = ", ".join(
        f"{name} = {parameter.prior.mean:g} +- {parameter.prior.sigma:g} (SI)"
        for name, parameter in scene.parameters.items()
        if parameter.prior is not None
    )
    options = "".join(f", {name} {value}" for name, value in scene.fit.items())
    entries = {
        "Model": f"{scene.kind}: {scene.ready.law} inside a step (EventTimed), derivatives of the whole simulation "
        "exact; see diffcontact.systems.",
        "Preparation": scene.preparation.description,
        "Fixed": fixed or "nothing",
        "Known besides the data": known or "nothing",
        "Every run its own": ", ".join(study.per_run) or "nothing",
        "Fit": f"bounded least squares (trust-region Levenberg-Marquardt{options}), {result.iterations} Jacobians, "
        f"cost {result.cost:.6g} with a noise of {scene.noise:g} {scene.ready.length}, {result.dof} "
        "degrees of freedom.",
        "Error bars": result.error_bars,
        "Versions": ", ".join(f"{name} {version}" for name, version in document["versions"].items()),
        "Data (SHA-256)": "; ".join(f"{path} {digest}" for path, digest in document["data_sha256"].items()),
    }
    return "<dl>" + "\n".join(f"<dt>{key}</dt><dd>{escape(text)}</dd>" for key, text in entries.items()) + "</dl>"
