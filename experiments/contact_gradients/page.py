"""What was measured, as one HTML file that needs nothing else; its charts are uPlot's, which the report ships."""

from __future__ import annotations

import json
import re
from functools import partial
from html import escape
from importlib.resources import files
from pathlib import Path

from . import scene
from .table import best, seconds, size

INTRODUCTION = (
    "Engines are usually tested against differences of their own steps: that says whether a derivative is that of the "
    "program. Here it is compared with the derivative of the <em>exact</em> motion: bodies that are rigid, impacts "
    "with Newton's restitution, Coulomb's friction. Every engine is tuned by its <em>state</em>: stiffness, "
    "detectors, how overlap is taken back, each step with the setting that puts the state best. Where an engine has no "
    "derivative through contact, central differences of its states are taken, of four widths the one that is nearest "
    "to the truth: better than anybody could know."
)


def page(measured: list[dict]) -> str:
    """The whole document."""
    problems = [scene.read(name) for name in scene.names()]
    data = {
        "engines": [document["peer"] for document in measured],
        "problems": [{"name": p.name, "title": p.document["title"], "about": _about(p)} for p in problems],
        "rows": [row for document in measured for row in document["rows"] if row["state"] is not None],
    }
    asset = partial(_text, files("diffcontact.report") / "assets")
    own = partial(_text, Path(__file__).parent)
    # A script ends at the first "</", wherever it stands.
    numbers = json.dumps(data).replace("<", "\\u003c")
    parts = [
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>Contact gradients</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">',
        f"<style>{asset('uPlot.min.css')}</style><style>{asset('page.css')}</style><style>{own('page.css')}</style>",
        f"</head><body><h1>Contact gradients beside the exact ones</h1><p>{INTRODUCTION}</p>",
        "<h2>Relative errors at the finest step: state | Jacobian</h2>",
        _table(measured, problems, _errors),
        "<h2>Zeros that are not zero, and wrong signs</h2>",
        '<p class="small">Of the entries that must be zero by structure those that are not, and of the entries of at '
        "least a hundredth of the largest one those with the wrong sign; at all times, at the finest step.</p>",
        _table(measured, problems, _counts),
        "<h2>Seconds to the first gradient | to each further one</h2>",
        '<p class="small">Of processor time, at the finest step. The first one includes compilation; engines without a '
        "derivative of their own have no such time.</p>",
        _table(measured, problems, _seconds),
        '<h2>One by one</h2><p><select id="problem" aria-label="problem"></select></p><p id="about"></p>',
        '<div class="small-charts pairs" id="charts"></div>',
        '<p class="small">Seconds of one processor for a state with its Jacobian, compiled; taken while the machine '
        "did other things, too: orders of magnitude.</p>",
        "<h2>How each was modelled, and what was not possible</h2>",
        *(_told(document) for document in measured),
        f'<script type="application/json" id="data">{numbers}</script>',
        f"<script>{asset('uPlot.iife.min.js')}\n/*\n{asset('uPlot-LICENSE.txt')}*/</script>",
        f"<script>{own('page.js')}</script></body></html>\n",
    ]
    return "\n".join(parts)


def _text(folder, name: str) -> str:
    return (folder / name).read_text(encoding="utf-8")


def _about(problem: scene.Problem) -> str:
    document = problem.document
    events = problem.exact[-1]["events"]
    happens = f" Events: {'; '.join(events)} (seconds)." if events else ""
    times = ", ".join(f"{time:g}" for time in problem.times)
    by = ", ".join(problem.parameters)
    return f"{document['about']} Looked at after {times} s; by {by}. {document['kinks']}{happens}"


def _table(measured: list[dict], problems: list[scene.Problem], cell) -> str:
    # Names of classes may break where a word begins.
    names = (re.sub("(?<=[a-z])(?=[A-Z])", "<wbr>", escape(document["peer"])) for document in measured)
    head = "".join(f"<th>{name}</th>" for name in names)
    rows = []
    for problem in problems:
        cells = "".join(cell(document, problem.name) for document in measured)
        rows.append(f'<tr data-problem="{problem.name}"><th scope="row">{problem.document["title"]}</th>{cells}</tr>')
    return f'<div class="scroll"><table class="engines"><tr><th></th>{head}</tr>{"".join(rows)}</table></div>'


def _errors(document: dict, name: str) -> str:
    row = best(document["rows"], name)
    if row is None:
        return f'<td class="none" title="{escape(_reason(document, name))}">–</td>'
    right = "none" if row["jacobian"] is None else "good" if row["jacobian"] < 1e-2 else "bad"
    told = f"h = {row['h']:g} s, {row['way']}"
    return f'<td title="{told}">{size(row["state"])} | <span class="{right}">{size(row["jacobian"])}</span></td>'


def _seconds(document: dict, name: str) -> str:
    row = best(document["rows"], name)
    return '<td class="none">–</td>' if row is None else f"<td>{seconds(row)}</td>"


def _counts(document: dict, name: str) -> str:
    row = best(document["rows"], name)
    if row is None:
        return '<td class="none">–</td>'
    told = [
        f'<span class="{"bad" if wrong else "good"}">{wrong}/{of}</span>' for wrong, of in (row["zeros"], row["signs"])
    ]
    return f"<td>{' | '.join(told)}</td>"


def _reason(document: dict, name: str) -> str:
    return next((row["note"] for row in document["rows"] if row["problem"] == name and row["note"]), "not measured")


def _told(document: dict) -> str:
    reasons: dict[str, list[str]] = {}
    for row in document["rows"]:
        if row["note"] and row["problem"] not in reasons.setdefault(row["note"], []):
            reasons[row["note"]].append(row["problem"])
    without = "".join(f"<li>{escape(why)}: {', '.join(of)}</li>" for why, of in reasons.items())
    listed = f"<p>Without numbers:</p><ul>{without}</ul>" if without else ""
    return (
        f"<section><h3>{escape(document['peer'])} ({escape(document['version'])})</h3>"
        f"<p>{escape(document['told'])}</p>{listed}</section>"
    )
