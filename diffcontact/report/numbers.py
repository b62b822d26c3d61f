"""The numbers of a fit as HTML that needs no JavaScript: verdict, tables, intervals drawn as bars, correlations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from html import escape

import numpy as np

from diffcontact.report.content import Estimate, Numbers

# The part of a scale that is more than a dot.
_VISIBLE = 0.01
_MARKS = {"yes": "✓", "partly": "≈", "no": "✗"}


def verdict(numbers: Numbers) -> str:
    """Whether the model explains the data, why not, and how the fit ended."""
    shown, more = numbers.reasons[: numbers.gravest], numbers.reasons[numbers.gravest :]
    reasons, others = ("".join(f"<li>{escape(reason)}</li>" for reason in part) for part in (shown, more))
    hints = "".join(f"<li>{escape(hint)}</li>" for hint in numbers.hints)
    # What the reasons say already need not be said twice.
    told = any(numbers.message in reason for reason in numbers.reasons)
    message = "" if told else f"<p{'' if numbers.converged else ' class=bad'}>{escape(numbers.message)}</p>"
    return "\n".join(
        [
            f'<section class="verdict {escape(numbers.explains)}">',
            f"<p class=headline><span class=mark>{_MARKS.get(numbers.explains, '')}</span> "
            f"The model {escape(numbers.headline)}.</p>",
            f"<ul>{reasons}</ul>" if reasons else "",
            f"<details><summary>{len(more)} more</summary><ul>{others}</ul></details>" if others else "",
            f"<p>What the data do not determine, and what would help:</p><ul>{hints}</ul>" if hints else "",
            message,
            "</section>",
        ]
    )


def estimates(numbers: Numbers) -> str:
    """What runs share as a table with intervals; what each has to itself as one plot for each parameter."""
    shared = [one for one in numbers.estimates if not one.run]
    own: dict[str, list[Estimate]] = {}
    for one in numbers.estimates:
        if one.run:
            own.setdefault(one.parameter, []).append(one)
    parts = ["<h2>Estimates</h2>"]
    if shared:
        parts.append(_table(shared, numbers.scope))
    if numbers.caveat:
        parts.append(f"<p class=small>{escape(numbers.caveat)}</p>")
    if own:
        parts += [
            "<details open><summary>Run by run</summary>",
            "<p class=small>Each line is one run: the estimate and its interval.</p><div class=forests>",
            *(_forest(name, rows) for name, rows in own.items()),
            "</div></details>",
            "<details><summary>Run by run, as a table</summary>",
            _table([one for rows in own.values() for one in rows], numbers.scope, bars=False),
            "</details>",
        ]
    return "\n".join(parts)


def correlation(numbers: Numbers) -> str:
    """The correlations of the estimates, as a matrix; the strongest ones in words."""
    names, matrix = list(numbers.correlated), numbers.correlation
    if len(names) < 2:
        return ""
    head = "".join(f"<th scope=col><span>{escape(name)}</span></th>" for name in names)
    rows = []
    for i, name in enumerate(names):
        cells = "".join(_coefficient(matrix[i, j]) for j in range(len(names)))
        rows.append(f"<tr><th scope=row>{escape(name)}</th>{cells}</tr>")
    upper = [(abs(matrix[i, j]), i, j) for i in range(len(names)) for j in range(i)]
    strong = [(i, j) for size, i, j in sorted(upper, reverse=True) if 0.9 <= size <= 1 + 1e-9][:5]
    told = "; ".join(f"{escape(names[j])} and {escape(names[i])} ({matrix[i, j]:+.2f})" for i, j in strong)
    return "\n".join(
        [
            "<details><summary>Correlations of the estimates</summary>",
            f"<p>Hardly told apart by these data: {told}.</p>" if told else "",
            f"<div class=scroll><table class=correlation><tr><td></td>{head}</tr>{''.join(rows)}</table></div>",
            "</details>",
        ]
    )


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


def _table(rows: Sequence[Estimate], scope: str, bars: bool = True) -> str:
    units, notes = any(row.unit for row in rows), any(row.note for row in rows)
    runs = short([row.run for row in rows]) if any(row.run for row in rows) else []
    head = ["parameter", *(["run"] if runs else []), "value", "stderr", scope]
    head += [*(["unit"] if units else []), *(["note"] if notes else [])]
    lines = []
    for number, row in enumerate(rows):
        cells = [row.name, *runs[number : number + 1], row.text, row.error, row.interval]
        cells += ([row.unit] if units else []) + ([row.note] if notes else [])
        drawn = f"<td class=bar>{_bar(row, *_scale(row))}</td>" if bars else ""
        lines.append("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + drawn + "</tr>")
    titles = "".join(f"<th scope=col>{escape(name)}</th>" for name in head) + ("<th></th>" if bars else "")
    return f"<div class=scroll><table class=estimates><tr>{titles}</tr>\n" + "\n".join(lines) + "\n</table></div>"


def _forest(name: str, rows: Sequence[Estimate]) -> str:
    low, high = _span(rows)
    unit = rows[0].unit if rows[0].unit not in ("", "1") else ""
    several = len({_element(row) for row in rows}) > 1
    lines = []
    for row, run in zip(rows, short([row.run for row in rows]), strict=True):
        who = f"{run} [{_element(row)}]" if several else run
        lines.append(
            f"<li><span class=run title='{escape(row.run)}'>{escape(who)}</span>{_bar(row, low, high)}"
            f"<span class=value>{escape(row.text)}</span></li>"
        )
    return (
        f"<figure class=forest><figcaption>{escape(name)}{f' [{escape(unit)}]' if unit else ''}</figcaption>"
        f"<ul>{''.join(lines)}</ul><p class=axis><span>{low:.4g}</span><span>{high:.4g}</span></p></figure>"
    )


def _element(row: Estimate) -> str:
    """Which element of a run's own array: "1" of `q0[3,1]`."""
    return ",".join(row.name.removeprefix(row.parameter).strip("[]").split(",")[1:])


def _scale(row: Estimate) -> tuple[float, float]:
    """From bound to bound; where the interval would be a dot there, from zero: what does not reach it is clear."""
    width = row.most - row.least
    if np.isfinite(width) and row.high - row.low > _VISIBLE * width:
        return row.least, row.most
    return _span([row, replace(row, value=0.0)])


def _span(rows: Sequence[Estimate]) -> tuple[float, float]:
    """What the bars of these rows have in common: their intervals, as far as they are finite, and a margin."""
    ends = np.array([[row.low, row.value, row.high] for row in rows], float)
    ends = ends[np.isfinite(ends)]
    if not ends.size:
        return 0.0, 1.0
    low, high = float(ends.min()), float(ends.max())
    margin = 0.08 * (high - low) or max(abs(high), 1.0) * 1e-3
    return low - margin, high + margin


def _bar(row: Estimate, low: float, high: float) -> str:
    """The interval as a bar, the estimate as a dot on it; open where it has no end."""

    def part(x: float) -> float:
        return 100 * float(np.clip((x - low) / (high - low), 0, 1)) if not np.isnan(x) else 50.0

    a, b = part(row.low), part(row.high)
    ends = f"{' open-low' if np.isinf(row.low) else ''}{' open-high' if np.isinf(row.high) else ''}"
    dot = f'<i style="left:{part(row.value):.2f}%"></i>' if np.isfinite(row.value) else ""
    return f'<span class="interval"><b class="reach{ends}" style="left:{a:.2f}%;width:{b - a:.2f}%"></b>{dot}</span>'


def _coefficient(value: float) -> str:
    if not np.isfinite(value):
        return "<td class=none>–</td>"
    sign = "plus" if value >= 0 else "minus"
    return f'<td class={sign} style="--share:{min(abs(value), 1.0):.2f}">{value:+.2f}</td>'
