"""Scenes in MuJoCo's format, and their states; MuJoCo, MJX and Brax read them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np

from ..scene import Problem
from .springs import matrix, quaternion, spring, upright


def joints(problem: Problem, body: dict, free: bool = False) -> str:
    """What a body may do: "slides" in space, moves in a "plane", or is "free", as all are on request."""
    if free:
        return "free"
    if body["inertia"] is None:
        return "slides"
    return "plane" if problem.document["space"] == "plane" else "free"


def start(problem: Problem, scene: dict, free: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """qpos and qvel of the model."""
    if "rods" in scene:
        angles, rates = (np.array(scene["rods"][name], float) for name in ("angles", "rates"))
        return np.diff(angles, prepend=0), np.diff(rates, prepend=0)
    q, u = [], []
    for body in scene["bodies"]:
        x, v, w, turn = (
            np.array(body.get(key, (0, 0, 0)), float) for key in ("position", "velocity", "spin", "orientation")
        )
        kind = joints(problem, body, free)
        if kind == "slides":
            q, u = [*q, *x], [*u, *v]
        elif kind == "plane":
            q, u = [*q, *x[:2], turn[2]], [*u, *v[:2], w[2]]
        else:
            # Of a free joint the angular velocity is along the body's axes.
            turned = quaternion(turn)
            q, u = [*q, *x, *turned], [*u, *v, *(matrix(turned).T @ w)]
    for plane in scene["planes"]:
        if moves(problem, plane):
            q, u = [*q, 0.0], [*u, plane["speed"]]
    return np.array(q), np.array(u)


def moves(problem: Problem, plane: dict) -> bool:
    return "moving plane" in problem.needs()


def motion(problem: Problem, scene: dict, q: Any, u: Any, free: bool = False) -> dict[str, list]:
    """Of the bodies in space, from qpos and qvel."""
    found: dict[str, list] = {name: [] for name in ("position", "quaternion", "velocity", "spin")}
    if "rods" in scene:
        angles, rates, x, v = np.cumsum(q), np.cumsum(u), np.zeros(3), np.zeros(3)
        for length, angle, rate in zip(scene["rods"]["lengths"], angles, rates, strict=True):
            x = x + length * np.array([np.sin(angle), -np.cos(angle), 0])
            v = v + length * rate * np.array([np.cos(angle), np.sin(angle), 0])
            found["position"].append(x)
            found["velocity"].append(v)
        return found
    i = j = 0
    for body in scene["bodies"]:
        none, kind = np.zeros(3), joints(problem, body, free)
        if kind == "slides":
            parts, i, j = (q[i : i + 3], np.eye(1, 4)[0], u[j : j + 3], none), i + 3, j + 3
        elif kind == "plane":
            turned = np.array([np.cos(q[i + 2] / 2), 0, 0, np.sin(q[i + 2] / 2)])
            x, v = np.array([q[i], q[i + 1], 0]), np.array([u[j], u[j + 1], 0])
            parts, i, j = (x, turned, v, np.array([0, 0, u[j + 2]])), i + 3, j + 3
        else:
            turned = q[i + 3 : i + 7]
            spin = matrix(turned) @ u[j + 3 : j + 6]
            parts, i, j = (q[i : i + 3], upright(turned), u[j : j + 3], spin), i + 7, j + 6
        for name, part in zip(found, parts, strict=True):
            found[name].append(np.array(part))
    return found


def mjcf(problem: Problem, scene: dict, h: float, setting, options: str, free: bool = False) -> str:
    """The scene in MuJoCo's format, y upwards."""
    steps, extra, hard = setting
    stiffness, damping = spring(min(scene["restitution"] + extra, 0.999) if scene["restitution"] else 0.0, steps * h)
    planes, bodies = (
        [f"{what}{k}" for k in range(len(scene[of]))] for what, of in (("plane", "planes"), ("body", "bodies"))
    )
    return _template().render(
        scene=scene,
        h=h,
        options=options,
        solref=(-stiffness, -damping),
        hard=hard,
        friction="friction" in problem.needs(),
        moving="moving plane" in problem.needs(),
        bodies=[(body, joints(problem, body, free)) for body in scene["bodies"]],
        pairs=[*product(planes, bodies), *([] if "rods" in scene else combinations(bodies, 2))],
    )


@cache
def _template() -> Any:
    from jinja2 import Environment, FileSystemLoader

    made = Environment(loader=FileSystemLoader(Path(__file__).parent), trim_blocks=True)
    made.filters["text"] = _text
    return made.get_template("scene.xml")


def _text(vector: Iterable[float], factor: float = 1.0, least: float = 0.0) -> str:
    """Its numbers times a factor; `least` in place of 0."""
    return " ".join(repr(factor * float(x) or least) for x in vector)
