"""Problems as plain data: what is simulated, what it depends on, and the exact answer.

A problem is a JSON file in `problems`. Its `scene` is all in space, SI units; a motion in a plane is one with z = 0::

    gravity       (3,)
    restitution   of every contact, Newton's
    friction      of every contact, Coulomb's
    planes        each {normal (3,), offset, speed}: bodies stay where normal . x >= offset + speed t
    bodies        each {radius, or half (3,) of a box; mass; inertia, alike about all axes, or null: it cannot turn;
                        position, orientation (a rotation vector), velocity, spin: (3,) each}
    drive         optional {force (3,), frequency}: force sin(frequency t) acts on body 0
    rods          optional {lengths, angles, rates}: body k hangs on a massless rod from body k - 1, the first from the
                        origin, in the plane z = 0; angles are from the downward vertical, towards x

`parameters` name numbers of the scene by where they stand, `outputs` what is looked at: (what, body, component).
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "problems"
# What a body that moves is, and how many numbers each.
MOTION = {"position": 3, "quaternion": 4, "velocity": 3, "spin": 3}


@dataclass(frozen=True)
class Problem:
    """A scene, what is asked of it, and the answer."""

    name: str  # of its file
    document: dict  # all that the file says

    @property
    def scene(self) -> dict:
        return self.document["scene"]

    @property
    def times(self) -> list[float]:
        """When the state is looked at [s]; the motion starts at 0."""
        return self.document["times"]

    @property
    def parameters(self) -> list[str]:
        return [parameter["name"] for parameter in self.document["parameters"]]

    @property
    def theta(self) -> list[Any]:
        """The parameters' values."""
        return [_find(self.scene, parameter["at"][0]) for parameter in self.document["parameters"]]

    @property
    def exact(self) -> list[dict]:
        """For each time `state`, `jacobian` (rows: outputs, columns: parameters) and `zero`, where it must be 0."""
        return self.document["exact"]

    def at(self, theta: Sequence) -> dict:
        """The scene with other values of the parameters."""
        scene = copy.deepcopy(self.scene)
        for parameter, value in zip(self.document["parameters"], theta, strict=True):
            for place in parameter["at"]:
                _find(scene, place[:-1])[place[-1]] = value
        return scene

    def needs(self) -> set[str]:
        """What an engine has to have for it."""
        scene = self.scene
        found = {"restitution"} if scene["restitution"] else {"inelastic"}
        found |= {"friction"} if scene["friction"] else set()
        found |= {"moving plane"} if any(plane["speed"] for plane in scene["planes"]) else set()
        found |= {"pairs"} if len(scene["bodies"]) > 1 and "rods" not in scene else set()
        found |= {"boxes"} if any("half" in body for body in scene["bodies"]) else set()
        found |= {"no turning"} if any(body["inertia"] is None for body in scene["bodies"]) else set()
        return found | {name for name in ("drive", "rods") if name in scene}


def seen(problem: Problem, motion: dict) -> list:
    """The outputs of one moment: `motion` has for each of MOTION a row per body."""
    return [_output(motion, *output) for output in problem.document["outputs"]]


def _output(motion: dict, what: str, body: int, component: int):
    if what != "sine":
        return motion[what][body][component]
    # Of the angle about z: an angle itself would need an arc, which exact arithmetic has not.
    w, _, _, z = motion["quaternion"][body]
    return 2 * w * z


def _find(scene: Any, place: Sequence) -> Any:
    for key in place:
        scene = scene[key]
    return scene


def read(name: str, number=float) -> Problem:
    """A problem from its file; `number` makes the fractions that stand there."""
    return Problem(name, json.loads((FOLDER / f"{name}.json").read_text(), parse_float=number))


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def write(problem: Problem) -> None:
    """The file, a line for every row."""
    text = json.dumps(problem.document, indent=1)
    (FOLDER / f"{problem.name}.json").write_text(_rows(text) + "\n")


def _rows(text: str) -> str:
    """Innermost lists on one line."""

    def joined(found: re.Match) -> str:
        return f"[{' '.join(found.group(1).split())}]"

    return re.sub(r"\[([^\[\]{}]*)\]", joined, text)
