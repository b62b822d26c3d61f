"""Engines behind one interface, each in a file of its own with how it is tuned, and why."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any

import numpy as np

from ..scene import Problem

# File and name; the packages that it needs are imported when it is built.
ALL = {
    "diffcontact": "ours",
    "diffcontact, order 2": "ours",
    "ElasticProjection": "ours",
    "VelocityProjection": "ours",
    "CatchingUp": "ours",
    "MuJoCo": "mujoco_c",
    "MJX": "mjx_jax",
    **dict.fromkeys(("Brax spring", "Brax positional", "Brax generalized"), "brax_pipelines"),
    "DART": "dart",
    "Newton XPBD": "newton_xpbd",
    "pooltool": "pool",
    "NOSNOC": "nosnoc_fesd",
}


@dataclass(frozen=True)
class Peer:
    """An engine."""

    name: str  # of it
    steps: tuple[float, ...]  # time steps that are tried [s]
    cannot: Callable[[Problem], str]  # problem -> why it cannot be simulated, or ""
    # states: (problem, thetas (n, p), h, setting) -> (n, times, outputs), all at once
    states: Callable[[Problem, np.ndarray, float, Any], np.ndarray]
    told: str  # how it was modelled, and what was not possible: a paragraph
    version: str  # of its package
    # settings: (problem, h) -> those to choose from; the one whose *state* is best counts, for nobody who tunes a
    # simulator knows the derivative
    settings: Callable[[Problem, float], Sequence[Any]] = lambda problem, h: [None]
    # finer: (problem, setting, turn) -> those beside the best one, tried in three turns
    finer: Callable[[Problem, Any, int], Sequence[Any]] = lambda problem, setting, turn: []
    # jacobian: None, or (problem, theta, h, setting) -> (state (times, outputs), Jacobian (times, outputs, p)) by the
    # engine's own derivative
    jacobian: Callable | None = None
    differences: bool = True  # whether central differences of its states are looked at, too
    # status: (problem, h, setting) -> what the engine itself says of its answer, "" for nothing
    status: Callable[[Problem, float, Any], str] = field(default=lambda problem, h, setting: "")


def peer(name: str) -> Peer:
    """One of ALL.

    Raises:
        ImportError: what it needs is not installed here.
    """
    return importlib.import_module(f".{ALL[name]}", __package__).build(name)


def one_by_one(run: Callable, *engine: Any) -> Callable:
    """`states` of an engine that runs one scene at a time: run(*engine, problem, scene, h, setting)."""

    def states(problem, thetas, h, setting):
        return np.stack([run(*engine, problem, problem.at(list(theta)), h, setting) for theta in thetas])

    return states


def lacks(problem: Problem, *names: str) -> str:
    """What of these the problem needs, as a reason."""
    missing = sorted(problem.needs() & set(names))
    return f"has no {', no '.join(missing)}" if missing else ""


def version(package: str) -> str:
    """Of an installed package."""
    try:
        return f"{package} {metadata.version(package)}"
    except metadata.PackageNotFoundError:
        return package
