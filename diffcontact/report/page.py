"""A report as one HTML file that needs no network.

Verdict, estimates and tables are plain HTML, by the template `assets/page.html`. `assets/*.js` draw the motion and the
charts (uPlot) from the data in the page. Without JavaScript one line stands in their place.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffcontact.report.content import (
    Channel,
    Estimate,
    Mark,
    Numbers,
    Report,
    Restitution,
    RunView,
    sharing_axes,
    short,
)
from diffcontact.report.motion import Motion

_SCRIPTS = ("tracks.js", "camera.js", "shapes.js", "motion.js", "charts.js", "player.js", "statistics.js", "page.js")
# Numbers at an axis: of a single interval, of a picture.
_FEW_TICKS, _TICKS = 3, 6
# Colours of `page.css`.
_COLOURS = 6
_DOCTYPE = '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
_HEAD = """<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">"""


def page(report: Report) -> str:
    """The whole HTML document."""
    found = report.numbers
    return _template().render(
        report=report,
        found=found,
        said=found is not None and any(found.message in reason for reason in found.reasons),
        runs=_runs(report),
        terms={**report.method, **(found.facts if found else {})},
        doctype=_DOCTYPE,
        head=_HEAD,
        styles=[_asset(name) for name in ("uPlot.min.css", "page.css")],
        data=script_json(_data(report, _groups(report.channels))),
        charts=_asset("uPlot.iife.min.js"),
        licence=_asset("uPlot-LICENSE.txt"),
        code="\n".join(_asset(name) for name in _SCRIPTS),
    )


@cache
def _template() -> Any:
    # Here, since the library is imported without it.
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("diffcontact.report", "assets"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
    )
    made.globals |= {"isfinite": np.isfinite, "placed": _placed, "scale": _scale, "short": short, "span": _span}
    made.globals |= {"strongest": _strongest, "ticks": ticks, "restitution_picture": restitution_picture}
    made.filters |= {"by_parameter": _by_parameter, "element": _element}
    return made.get_template("page.html")


def is_page(content: bytes) -> bool:
    """Whether a file is one that `page` made."""
    return content.startswith(_DOCTYPE.encode()) and _HEAD.encode() in content


def framed(document: str) -> str:
    """Embed a page as an element of another, such as a notebook."""
    return (
        f'<iframe srcdoc="{escape(document)}" style="width:100%;height:720px;border:0" '
        'title="report" loading="lazy"></iframe>'
    )


@cache
def _asset(name: str) -> str:
    return files("diffcontact.report").joinpath("assets", name).read_text(encoding="utf-8")


def _groups(channels: Sequence[Channel]) -> list[dict[str, Any]]:
    """Channels that share a chart: those in one unit and one direction."""
    kinds = {"rad": "angle", "deg": "angle"}
    return [
        {
            "title": (channels[of[0]].name if len(of) == 1 else kinds.get(unit, "position" if unit else "value"))
            + (f" [{unit}]" if unit else ""),
            "unit": unit,
            "down": down,
            "channels": of,
        }
        for (unit, down), of in sharing_axes(channels).items()
    ]


def _runs(report: Report) -> list[tuple[str, str]]:
    """Notes and residuals of the runs, in words."""
    lines = []
    for run in report.runs:
        notes = "; ".join(f"{name} {text}" for name, text in run.notes.items())
        sizes = ", ".join(residual_sizes(run, report.channels))
        rms = f"root mean square of the residuals: {sizes}" if sizes else ""
        if told := ". ".join(text for text in (notes, rms) if text):
            lines.append((run.label, told))
    return lines


def residual_sizes(run: RunView, channels: Sequence[Channel]) -> list[str]:
    """Root mean squares of a run's residuals, one per unit."""
    sizes = []
    for group in _groups(channels) if run.residual.size else []:
        off = np.stack([channels[k].factor * run.residual[:, k] for k in group["channels"]])
        if np.isfinite(off).any():
            sizes.append(f"{np.sqrt(np.nanmean(off**2)):.3g} {group['unit']}".strip())
    return sizes


def _by_parameter(rows: Iterable[Estimate]) -> dict[str, list[Estimate]]:
    listed = list(rows)
    names = dict.fromkeys(one.parameter for one in listed)
    return {name: [one for one in listed if one.parameter == name] for name in names}


def _strongest(found: Numbers) -> str:
    names, matrix = found.correlated, found.correlation
    upper = [(abs(matrix[i, j]), i, j) for i in range(len(names)) for j in range(i)]
    strong = [(i, j) for size, i, j in sorted(upper, reverse=True) if 0.9 <= size <= 1 + 1e-9][:5]
    return "; ".join(f"{names[j]} and {names[i]} ({matrix[i, j]:+.2f})" for i, j in strong)


def _element(row: Estimate) -> str:
    """Which element of a run's own array: "1" of `q0[3,1]`."""
    return ",".join(row.name.removeprefix(row.parameter).strip("[]").split(",")[1:])


def _scale(row: Estimate) -> tuple[float, float]:
    """Ends of an axis that an interval nearly fills; an open interval goes on by its finite part, or to the bound."""
    low, high = np.isfinite(row.low), np.isfinite(row.high)
    reach = (row.value - row.low if low else row.high - row.value if high else abs(row.value)) or 1.0
    ends = row.low if low else max(row.value - reach, row.least), row.high if high else min(row.value + reach, row.most)
    return _span([replace(row, low=ends[0], high=ends[1])])


def ticks(low: float, high: float, most: int = _FEW_TICKS) -> list[tuple[float, str]]:
    """Round numbers between two ends, as many as fit: where they are in per cent of the way, and as texts."""
    if not 0 < high - low < np.inf:
        return []
    powers = 10.0 ** (np.floor(np.log10(high - low)) + np.arange(-2, 2))
    for step in np.outer(powers, [1.0, 2.0, 2.5, 5.0]).ravel():
        values = step * np.arange(np.ceil(low / step - 1e-9), np.floor(high / step + 1e-9) + 1) + 0.0
        # A single number is no scale: rather one more than fits well.
        enough = values.size <= most or np.floor(high / (2 * step)) - np.ceil(low / (2 * step)) < 1
        if values.size > most + 1 or not enough:
            continue
        decimals = next(d for d in range(20) if abs(step * 10**d - round(step * 10**d)) < 1e-6 * step * 10**d)
        forms = [f"{x:.{decimals}f}" for x in values], [f"{x:.9g}" for x in values]
        texts = min(forms, key=lambda found: max(map(len, found)))
        return [(100 * float((x - low) / (high - low)), text) for x, text in zip(values, texts, strict=True)]
    return []


def _span(rows: Sequence[Estimate]) -> tuple[float, float]:
    """Common range of the finite intervals, with a margin."""
    ends = np.array([[row.low, row.value, row.high] for row in rows], float)
    ends = ends[np.isfinite(ends)]
    if not ends.size:
        return 0.0, 1.0
    low, high = float(ends.min()), float(ends.max())
    margin = 0.08 * (high - low) or max(abs(high), 1.0) * 1e-3
    return low - margin, high + margin


def _placed(row: Estimate, low: float, high: float) -> dict[str, Any]:
    """Bar of an interval and dot of its estimate, in per cent."""

    def part(x: float) -> float:
        return 100 * float(np.clip((x - low) / (high - low), 0, 1)) if not np.isnan(x) else 50.0

    left, dot = part(row.low), part(row.value) if np.isfinite(row.value) else None
    ends = {"open_low": np.isinf(row.low), "open_high": np.isinf(row.high)}
    return {"left": left, "width": part(row.high) - left, "dot": dot, **ends}


def restitution_picture(found: Restitution) -> dict[str, Any]:
    """Curves, points and axes of restitution against speed, in per cent of the picture."""
    left, right = float(found.speeds[0]), float(found.speeds[-1])
    values = np.concatenate([*(curve.values for curve in found.curves), [one.value for one in found.impacts]])
    ends = np.array([[one.low, one.high] for one in found.impacts])
    # An interval that says nothing is cut: it would flatten all others.
    room = max(float(np.ptp(values)), 0.05)
    low, high = max(ends.min(initial=np.inf), values.min() - room), min(ends.max(initial=-np.inf), values.max() + room)
    low, high = min(low, values.min()) - 0.05 * room, max(high, values.max()) + 0.05 * room

    def x(speed: Any) -> NDArray:
        return 100 * (np.asarray(speed, float) - left) / (right - left)

    def y(e: Any) -> NDArray:
        return 100 * np.clip((high - np.asarray(e, float)) / (high - low), 0.0, 1.0)

    def line(e: NDArray) -> list[str]:
        return [f"{a:.2f},{b:.2f}" for a, b in zip(x(found.speeds), y(e), strict=True) if np.isfinite(b)]

    runs = list(dict.fromkeys(one.run for one in found.impacts))
    several = len(runs) <= _COLOURS
    return {
        "x": ticks(left, right, _TICKS),
        "y": [(100 - at, text) for at, text in ticks(low, high, _TICKS)],
        "curves": [
            {
                "name": curve.name,
                "line": " ".join(line(curve.values)),
                "band": " ".join(line(curve.ends[0]) + line(curve.ends[1])[::-1]),
            }
            for curve in found.curves
        ],
        "points": [
            {
                "x": float(x(one.speed)),
                "y": float(y(one.value)),
                "low": float(y(one.low)),
                "high": float(y(one.high)),
                "colour": runs.index(one.run) if several else 0,
            }
            for one in found.impacts
        ],
        "runs": short(runs) if several else [],
    }


def _data(report: Report, groups: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Data of the scripts: channels in the page's units, motions in SI."""
    factors = np.array([channel.factor for channel in report.channels])
    scale = next((one for one in report.channels if one.unit not in ("", "deg", "rad")), Channel(""))
    data: dict[str, Any] = {
        "title": report.title,
        "time": report.time,
        "fitted": report.numbers is not None,
        "length": {"unit": scale.unit, "factor": abs(scale.factor)},
        "channels": [{"name": c.name, "unit": c.unit, "down": c.down} for c in report.channels],
        "groups": list(groups),
        # A motion that is finite nowhere cannot be played.
        "runs": [
            {**_run(run, factors), "label": name}
            for run, name in zip(report.runs, short([run.label for run in report.runs]), strict=True)
            if run.times.size > 1
        ],
    }
    if report.numbers is not None:
        found = report.numbers
        data["starts"] = [x for x in found.starts if np.isfinite(x)] if len(found.starts) > 1 else []
        data["profiles"] = [
            {"name": p.name, "values": packed(p.values), "rise": packed(p.rise), "level": p.level}
            for p in found.profiles
        ]
    return data


def _run(run: RunView, factors: NDArray) -> dict[str, Any]:
    data: dict[str, Any] = {
        "times": packed(run.times, double=True),
        "curve": packed(run.curve * factors),
        "events": [[event.time, event.text, event.kind] for event in run.events],
        "motion": None if run.motion is None else _motion(run.motion, run.residual, factors),
    }
    if run.samples.size:
        data["samples"] = packed(run.samples, double=True)
        data["measured"] = packed(run.measured * factors)
        data["residual"] = packed(run.residual * factors)
        if run.noise.size:
            data["noise"] = packed(run.noise * np.abs(factors))
        data["marks"] = [_mark(mark) for mark in run.marks]
    if run.bands.size:
        data["bands"] = [packed(band * factors) for band in run.bands]
    return data


def _mark(mark: Mark) -> dict[str, Any]:
    """The complaint, and of each channel its first and last samples in a row."""
    edges = np.diff(np.pad(mark.rows.astype(int), ((1, 1), (0, 0))), axis=0)
    places = [
        np.stack([np.flatnonzero(channel > 0), np.flatnonzero(channel < 0) - 1], axis=1).tolist() for channel in edges.T
    ]
    return {"text": mark.text, "stretch": mark.stretch, "places": places}


def _motion(motion: Motion, residual: NDArray, factors: NDArray) -> dict[str, Any]:
    return {
        "dimension": motion.dimension,
        "up": None if motion.up is None else motion.up.tolist(),
        "shapes": [
            {
                "kind": shape.kind,
                **shape.static,
                "fields": {name: packed(rows) for name, rows in shape.fields.items()},
                "offsets": {name: _offsets(rows, residual, factors) for name, rows in shape.offsets.items()},
            }
            for shape in motion.shapes
        ],
    }


def _offsets(rows: NDArray, residual: NDArray, factors: NDArray) -> list[dict[str, Any]]:
    """Displaced columns, as residuals on the page or as tracks."""
    found = []
    for number, column in enumerate(rows.T):
        if not np.any(column != 0):
            continue
        for k, off in enumerate(residual.T):
            ratio = _ratio(column, off)
            if ratio is not None:
                found.append({"column": number, "channel": k, "factor": ratio / factors[k]})
                break
        else:
            found.append({"column": number, "track": packed(column)})
    return found


def _ratio(a: NDArray, b: NDArray) -> float | None:
    if not np.array_equal(np.isnan(a), np.isnan(b)) or np.all(np.isnan(a)):
        return None
    a, b = np.nan_to_num(a), np.nan_to_num(b)
    ratio = float(a @ b / (b @ b)) if np.any(b != 0) else 0.0
    return ratio if ratio != 0 and np.abs(a - ratio * b).max() <= 1e-6 * np.abs(a).max() else None


def packed(rows: NDArray, double: bool = False) -> dict[str, Any]:
    """Pack rows (n, w) or (n,) as base64, `double` for times that count from long ago; single rows as lists."""
    rows = np.asarray(rows, float)
    width = 1 if rows.ndim == 1 else rows.shape[1]
    if rows.ndim == 2 and len(rows) == 1:
        return {"width": width, "values": [_number(x) for x in rows[0]]}
    text = base64.b64encode(np.ascontiguousarray(rows, "<f8" if double else "<f4").tobytes()).decode("ascii")
    return {"width": width, "base64": text, **({"double": True} if double else {})}


def script_json(document: Any) -> str:
    """Write JSON that is safe within a <script>."""
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _number(x: float) -> float | str | None:
    """Infinities are written as texts that JavaScript's Number() reads; NaN is null."""
    if np.isnan(x):
        return None
    return float(f"{x:.9g}") if np.isfinite(x) else ("Infinity" if x > 0 else "-Infinity")
