"""Scenes in MuJoCo's format, and their states; MuJoCo, MJX and Brax read them."""

from __future__ import annotations

from collections.abc import Sequence
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
    friction = "friction" in problem.needs()
    own = f'solreffriction="{2 * h} 1"' if hard else ""
    contact = (
        f'condim="{3 if friction else 1}" friction="{scene["friction"]} {scene["friction"]} 0 0 0" '
        f'solref="{-stiffness} {-damping}" {own} solimp="0.9999 0.9999 0.001 0.5 2"'
    )
    planes = [f"plane{k}" for k in range(len(scene["planes"]))]
    bodies = [f"body{k}" for k in range(len(scene["bodies"]))]
    pairs = [(plane, body) for plane in planes for body in bodies]
    if "rods" not in scene:
        pairs += [(a, b) for k, a in enumerate(bodies) for b in bodies[k + 1 :]]
    rubbed = "".join(f'<pair geom1="{a}" geom2="{b}" {contact}/>' for a, b in pairs)
    world = (
        [_chain(scene)]
        if "rods" in scene
        else [_body(k, body, joints(problem, body, free)) for k, body in enumerate(scene["bodies"])]
    )
    world += [_plane(k, plane, moves(problem, plane)) for k, plane in enumerate(scene["planes"])]
    return (
        f'<mujoco><compiler angle="radian" boundmass="0" boundinertia="0"/>'
        f'<option timestep="{h}" gravity="{_text(scene["gravity"])}" {options}/>'
        f'<default><geom contype="0" conaffinity="0"/></default>'
        f"<worldbody>{''.join(world)}</worldbody><contact>{rubbed}</contact></mujoco>"
    )


def _body(k: int, body: dict, kind: str) -> str:
    slides = [f'<joint type="slide" axis="{_text(axis)}"/>' for axis in np.eye(3)]
    hinge = '<joint type="hinge" axis="0 0 1"/>'
    moves = {"slides": "".join(slides), "plane": "".join(slides[:2]) + hinge, "free": "<freejoint/>"}[kind]
    if "half" in body:
        # A plate without thickness gets one: its corners come in pairs, which share what was one's.
        half = [size or 0.05 for size in body["half"]]
        shape = f'type="box" size="{_text(half)}"'
    else:
        shape = f'type="sphere" size="{body["radius"]}"'
    return f'<body>{moves}{_inertial(body, (0, 0, 0), kind)}<geom name="body{k}" {shape}/></body>'


def _chain(scene: dict) -> str:
    """Bodies in bodies."""
    inner = ""
    lengths = scene["rods"]["lengths"]
    for k in reversed(range(len(lengths))):
        body, place = scene["bodies"][k], (0, -lengths[k], 0)
        hangs = (0, -lengths[k - 1], 0) if k else (0, 0, 0)
        inner = (
            f'<body pos="{_text(hangs)}"><joint type="hinge" axis="0 0 1"/>{_inertial(body, place)}'
            f'<geom name="body{k}" type="sphere" size="{body["radius"]}" pos="{_text(place)}"/>{inner}</body>'
        )
    return inner


def _inertial(body: dict, place: Sequence[float], kind: str = "slides") -> str:
    # What cannot turn needs a number all the same: a small one on joints that do not let it, a large one on others.
    cannot = 1e6 if kind == "free" else 1e-9
    inertia = cannot if body["inertia"] is None else body["inertia"]
    return f'<inertial pos="{_text(place)}" mass="{body["mass"]}" diaginertia="{_text([inertia] * 3)}"/>'


def _plane(k: int, plane: dict, moves: bool) -> str:
    normal = np.array(plane["normal"], float)
    if not moves:
        place = plane["offset"] * normal
        return f'<geom name="plane{k}" type="plane" size="9 9 1" pos="{_text(place)}" zaxis="{_text(normal)}"/>'
    # Planes of MuJoCo cannot move: the top of a box that weighs so much that nothing stops it.
    place = (plane["offset"] - 1) * normal
    return (
        f'<body pos="{_text(place)}" gravcomp="1"><joint type="slide" axis="{_text(normal)}"/>'
        f'<geom name="plane{k}" type="box" size="9 1 9" mass="1e9"/></body>'
    )


def _text(vector) -> str:
    return " ".join(repr(float(x)) for x in vector)
