"""What was measured, as one HTML file that needs nothing else; its charts are uPlot's, which the report ships."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup, escape

from . import scene
from .table import absent, best, seconds, size

HERE = Path(__file__).parent


def page(measured: list[dict]) -> str:
    """The whole document."""
    problems = [scene.read(name) for name in scene.names()]
    data = {
        "engines": [document["peer"] for document in measured],
        "problems": [{"name": p.name, "title": p.document["title"], "about": _about(p)} for p in problems],
        "rows": [row for document in measured for row in document["rows"] if row["state"] is not None],
    }
    template = Environment(loader=FileSystemLoader(HERE), trim_blocks=True, autoescape=True).get_template("page.html")
    return template.render(
        measured=measured,
        problems=problems,
        absent=absent(measured),
        # A script ends at the first "</", wherever it stands.
        data=Markup(json.dumps(data).replace("<", "\\u003c")),
        # Names of classes may break where a word begins.
        broken=lambda name: Markup(re.sub("(?<=[a-z])(?=[A-Z])", "<wbr>", escape(name))),
        asset=lambda name: _text(files("diffcontact.report") / "assets" / name),
        own=lambda name: _text(HERE / name),
        **{made.__name__.strip("_"): made for made in (best, seconds, size, _reason)},
    )


def _text(file) -> Markup:
    return Markup(file.read_text(encoding="utf-8"))


def _about(problem: scene.Problem) -> str:
    document = problem.document
    events = problem.exact[-1]["events"]
    happens = f" Events: {'; '.join(events)} (seconds)." if events else ""
    times = ", ".join(f"{time:g}" for time in problem.times)
    by = ", ".join(problem.parameters)
    return f"{document['about']} Looked at after {times} s; by {by}. {document['kinks']}{happens}"


def _reason(document: dict, name: str) -> str:
    return next((row["note"] for row in document["rows"] if row["problem"] == name and row["note"]), "not measured")
