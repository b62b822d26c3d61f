"""A report as one HTML file that needs no network.

Verdict, estimates and tables are plain HTML. `assets/*.js` draw the motion and the charts (uPlot) from the data in the
page. Without JavaScript one line stands in their place.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffcontact.report import numbers as tables
from diffcontact.report.content import Channel, Report, RunView
from diffcontact.report.motion import Motion

_SCRIPTS = ("tracks.js", "camera.js", "shapes.js", "motion.js", "charts.js", "player.js", "statistics.js", "page.js")
_STYLES = ("uPlot.min.css", "page.css")
_DOCTYPE = '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
_HEAD = """<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">"""


def page(report: Report) -> str:
    """The whole HTML document."""
    title, found = escape(report.title), report.numbers
    groups = _groups(report.channels)
    parts = [
        f"{_DOCTYPE}<title>{title}</title>",
        _HEAD,
        *(f"<style>{_asset(name)}</style>" for name in _STYLES),
        "</head><body>",
        f"<h1>{title}</h1>",
        tables.verdict(found) if found else "",
        '<section id="watch" hidden></section>',
        "<noscript><p>The motion and the charts need JavaScript.</p></noscript>",
        _runs(report),
        tables.estimates(found) if found else "",
        '<section id="statistics"></section>' if found else "",
        tables.correlation(found) if found else "",
        _method(report),
        f'<script type="application/json" id="data">{script_json(_data(report, groups))}</script>',
        f"<script>{_asset('uPlot.iife.min.js')}\n/*\n{_asset('uPlot-LICENSE.txt')}*/</script>",
        f'<script>"use strict";\n(() => {{\n{_code()}}})();</script>',
        "</body></html>\n",
    ]
    return "\n".join(part for part in parts if part)


def is_page(content: bytes) -> bool:
    """Whether a file is one that `page` made.

    Example:
        >>> is_page(b"<!DOCTYPE html>\\n<html><head><title>mine</title>")
        False
    """
    return content.startswith(_DOCTYPE.encode()) and _HEAD.encode() in content


def framed(document: str, height: int = 720) -> str:
    """A page within another one, such as a notebook: an element that holds the whole document."""
    return (
        f'<iframe srcdoc="{escape(document)}" style="width:100%;height:{height}px;border:0" '
        'title="report" loading="lazy"></iframe>'
    )


@cache
def _asset(name: str) -> str:
    return files("diffcontact.report").joinpath("assets", name).read_text(encoding="utf-8")


def _code() -> str:
    return "\n".join(_asset(name) for name in _SCRIPTS)


def _groups(channels: Sequence[Channel]) -> list[dict[str, Any]]:
    """Channels that share a chart: those in one unit and one direction."""
    groups: dict[tuple[str, bool], list[int]] = {}
    for k, channel in enumerate(channels):
        groups.setdefault((channel.unit, channel.down), []).append(k)
    return [
        {
            "title": (channels[of[0]].name if len(of) == 1 else _kind(unit)) + (f" [{unit}]" if unit else ""),
            "unit": unit,
            "down": down,
            "channels": of,
        }
        for (unit, down), of in groups.items()
    ]


def _kind(unit: str) -> str:
    return "angle" if unit in ("rad", "deg") else "position" if unit else "value"


def _runs(report: Report) -> str:
    """The runs with what is worth knowing of them, and how far off they are."""
    lines = []
    for run in report.runs:
        notes = "; ".join(f"{name} {text}" for name, text in run.notes.items())
        sizes = ", ".join(residual_sizes(run, report.channels))
        rms = f"root mean square of the residuals: {sizes}" if sizes else ""
        told = ". ".join(text for text in (notes, rms) if text)
        if told:
            lines.append(f"<dt>{escape(run.label)}</dt><dd>{escape(told)}.</dd>")
    if not lines:
        return ""
    return f"<details{' open' if len(lines) == 1 else ''}><summary>Runs</summary><dl>{''.join(lines)}</dl></details>"


def residual_sizes(run: RunView, channels: Sequence[Channel]) -> list[str]:
    """Root mean squares of a run's residuals, one for each unit, as they are shown."""
    sizes = []
    for group in _groups(channels) if run.residual.size else []:
        off = np.stack([channels[k].factor * run.residual[:, k] for k in group["channels"]])
        if np.isfinite(off).any():
            sizes.append(f"{np.sqrt(np.nanmean(off**2)):.3g} {group['unit']}".strip())
    return sizes


def _method(report: Report) -> str:
    terms = dict(report.method)
    if report.numbers:
        terms |= report.numbers.facts
    if not terms:
        return ""
    told = "\n".join(f"<dt>{escape(term)}</dt><dd>{escape(text)}</dd>" for term, text in terms.items())
    return f"<details open><summary>How it was computed</summary><dl>{told}</dl></details>"


def _data(report: Report, groups: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the scripts read; lengths in the page's units, but those of motions, which have a scale of their own."""
    factors = np.array([channel.factor for channel in report.channels])
    data: dict[str, Any] = {
        "title": report.title,
        "time": report.time,
        "fitted": report.numbers is not None,
        "length": _length(report.channels),
        "channels": [{"name": c.name, "unit": c.unit, "down": c.down} for c in report.channels],
        "groups": list(groups),
        # A motion that is finite nowhere cannot be played.
        "runs": [
            {**_run(run, factors), "label": name}
            for run, name in zip(report.runs, tables.short([run.label for run in report.runs]), strict=True)
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


def _length(channels: Sequence[Channel]) -> dict[str, Any]:
    """In which unit places are shown."""
    for channel in channels:
        if channel.unit not in ("", "deg", "rad"):
            return {"unit": channel.unit, "factor": abs(channel.factor)}
    return {"unit": "", "factor": 1.0}


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
    if run.bands.size:
        data["bands"] = [packed(band * factors) for band in run.bands]
    return data


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
    """The columns that are displaced: residuals of one channel, which are on the page already, or tracks."""
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
    """The number by which b is to be multiplied to be a, up to rounding; None: there is none."""
    if not np.array_equal(np.isnan(a), np.isnan(b)) or np.all(np.isnan(a)):
        return None
    a, b = np.nan_to_num(a), np.nan_to_num(b)
    ratio = float(a @ b / (b @ b)) if np.any(b != 0) else 0.0
    return ratio if ratio != 0 and np.abs(a - ratio * b).max() <= 1e-6 * np.abs(a).max() else None


def packed(rows: NDArray, double: bool = False) -> dict[str, Any]:
    """Rows (n, w) or (n,) as base64 of little-endian single precision, NaN included; what lies on one row is a list.

    Args:
        rows: numbers.
        double: whether double precision is needed, as for times that count from long ago.

    Example:
        >>> packed(np.array([1.0, 2.0]))
        {'width': 1, 'base64': 'AACAPwAAAEA='}
        >>> packed(np.array([[1.0, 2.5]]))
        {'width': 2, 'values': [1.0, 2.5]}
    """
    rows = np.asarray(rows, float)
    width = 1 if rows.ndim == 1 else rows.shape[1]
    if rows.ndim == 2 and len(rows) == 1:
        return {"width": width, "values": [_number(x) for x in rows[0]]}
    text = base64.b64encode(np.ascontiguousarray(rows, "<f8" if double else "<f4").tobytes()).decode("ascii")
    return {"width": width, "base64": text, **({"double": True} if double else {})}


def unpacked(field: dict[str, Any]) -> NDArray:
    """(n, w) what `packed` was given, in its precision."""
    if "values" in field:
        return np.array([[np.nan if x is None else float(x) for x in field["values"]]], np.float32)
    numbers = np.frombuffer(base64.b64decode(field["base64"]), "<f8" if field.get("double") else "<f4")
    return numbers.reshape(-1, field["width"])


def script_json(document: Any) -> str:
    """JSON that can stand in a <script>, whatever its texts are: nothing in it ends the element or begins a comment.

    Example:
        >>> script_json({"title": "</script><!--"})
        '{"title":"\\\\u003c/script\\\\u003e\\\\u003c!--"}'
    """
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _number(x: float) -> float | str | None:
    """Infinities are written as texts that JavaScript's Number() reads; NaN is null."""
    if np.isnan(x):
        return None
    return float(f"{x:.9g}") if np.isfinite(x) else ("Infinity" if x > 0 else "-Infinity")
