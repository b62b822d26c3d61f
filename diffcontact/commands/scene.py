"""`python -m diffcontact scene`: every key that a scene may hold."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from textwrap import wrap
from typing import Any

from diffcontact.commands.outcome import ExitCode
from diffcontact.host.messages import say
from diffcontact.scene import document, keys, parameters
from diffcontact.scene.keys import Table
from diffcontact.scene.kinds import BODY, DRIVE, KINDS, Quantity
from diffcontact.scene.preparation import PREPARATIONS
from diffcontact.systems.laws import LAWS

HELP = "print every key that a scene may hold, and every parameter of the ready-made systems"
EXAMPLE = "scene"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Nothing besides the command."""


def run(options: argparse.Namespace) -> ExitCode:
    """Print the reference of scenes."""
    del options
    say(*reference().splitlines())
    return ExitCode.DONE


_WIDTH, _INDENT = 118, 4

# Options with which a system has every parameter that it can have; shapes are those of two balls, two bounces.
FULL: Mapping[str, Mapping[str, Any]] = {
    "balls": {"count": 2, "dimension": 2, "box": [0, 1], "planes": [[0, 1]], "fixed": 1, "spin": True, "air": True},
    "bodies": {"dimension": 2, "planes": [[0, 1]], "bodies": {"NAME": {"shape": "box", "sides": [0.1, 0.1]}}},
    "bouncing ball": {"bounces": 2},
    "mechanism": {
        "model": '<mujoco><worldbody><geom name="floor" type="plane" size="1 1 1"/>'
        '<body name="thigh" pos="0 0 1"><joint name="hip" range="0 1" frictionloss="1"/><geom name="knee" size=".1"/>'
        '<body name="shin"><joint name="shaft" type="slide"/><geom name="foot" size=".1"/></body></body></worldbody>'
        '<actuator><motor joint="hip"/></actuator></mujoco>'
    },
}


@dataclass(frozen=True)
class Section:
    """A table of a scene."""

    path: tuple[str, ...]  # the tables that lead to it
    keys: Mapping[str, str]  # key -> what it says
    kind: str = ""  # for which `kind` it has these keys; "" for all
    quantities: Mapping[str, Quantity] = field(default_factory=dict)  # the parameters of a system of that kind


def sections() -> tuple[Section, ...]:
    """All tables of a scene, in the usual order."""
    systems = []
    for kind, known in KINDS.items():
        example = Table({"kind": kind, **FULL.get(kind, {})}, "reference", ("system",))
        missing = kind == "mechanism" and find_spec("mujoco") is None
        systems.append(Section(("system",), known.keys, kind, {} if missing else known(example).quantities))
    prepared = [Section(("preparation",), known.keys, kind) for kind, known in sorted(PREPARATIONS.items())]
    return (
        Section((), document.KEYS),
        *systems,
        Section(("system", "drive"), DRIVE),
        Section(("system", "bodies", "NAME"), BODY),
        Section(("data",), document.DATA_KEYS),
        Section(("data", "scale"), parameters.SCALE_KEYS),
        *prepared,
        Section(("parameters", "NAME"), parameters.KEYS),
        Section(("parameters", "NAME", "prior"), parameters.PRIOR_KEYS),
        Section(("ties",), {'"mass[1]"': 'what it follows from: "radius[0]", or a multiple, "1.06 * mass[0]"'}),
        Section(("fit",), document.FIT_KEYS),
        Section(("output",), document.OUTPUT_KEYS),
    )


def reference() -> str:
    """The text that `python -m diffcontact scene` prints."""
    blocks = ["A scene is a TOML document. What it may hold, table by table:"]
    blocks += ["\n".join(_lines(section)) for section in sections()]
    blocks.append("\n".join(["wherever { value, unit } stands", *_table(list(keys.QUANTITY_KEYS.items()), _INDENT)]))
    laws = [
        (one.name, f"of {law.name!r}: {law.formula}, e the restitution{'; may be left out' if one.choice else ''}")
        for law in LAWS.values()
        for one in law.coefficients
    ]
    blocks.append("\n".join(["parameters of laws of restitution, besides restitution", *_table(laws, _INDENT)]))
    return "\n\n".join(blocks)


def _lines(section: Section) -> Iterator[str]:
    head = f"[{'.'.join(section.path)}]" if section.path else "at the top"
    yield head + (f' with kind = "{section.kind}"' if section.kind else "")
    yield from _table(list(section.keys.items()), _INDENT)
    if section.quantities:
        full = {key: "..." if key == "model" else value for key, value in FULL.get(section.kind, {}).items()}
        options = ", ".join(f"{key} = {json.dumps(value)}" for key, value in full.items())
        yield f"{'':{_INDENT}}[parameters]{f' with {options}' if options else ''}"
        yield from _table([(name, _told(quantity)) for name, quantity in section.quantities.items()], 2 * _INDENT)


def _told(quantity: Quantity) -> str:
    """What a parameter is, in which unit, and what is possible."""
    elements = " x ".join(map(str, quantity.shape))
    several = "" if quantity.shape in ((), (1,)) else "s"
    parts = [
        quantity.what,
        "" if quantity.unit == "1" else f"in {quantity.unit}",
        "" if quantity.range == "finite" else quantity.range,
        f"{elements} element{several}" if elements else "",
        "may be left out" if quantity.optional else "",
    ]
    return "; ".join(filter(None, parts))


def _table(rows: list[tuple[str, str]], indent: int) -> Iterator[str]:
    column = indent + max((len(name) for name, _ in rows), default=0) + 2
    for name, text in rows:
        first, *others = wrap(text, _WIDTH - column) or [""]
        yield f"{'':{indent}}{name}".ljust(column) + first
        yield from (" " * column + line for line in others)
