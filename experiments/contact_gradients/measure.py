"""How far engines are from the exact motion and its derivative, with every step, at the setting whose state is best."""

from __future__ import annotations

import json
import math
import platform
import time
import traceback
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from .peers import Peer
from .peers.springs import relative
from .scene import Problem

# Half the widths of central differences, relative to a parameter (absolute where it is zero): the best one counts.
WIDTHS = (1e-1, 1e-2, 1e-3, 1e-5)
# An entry that must be zero is broken, and one that is not has the wrong sign, from so much of the largest one on.
ZERO, SIGN = 1e-6, 1e-2


@dataclass(frozen=True)
class Row:
    """One problem by one engine with one step."""

    problem: str  # problem, peer: names
    peer: str
    h: float = 0.0  # step [s], 0 where there is none
    way: str = ""  # how the derivative came: "own", or "differences"
    setting: Any = None  # the one whose state is best
    first: float | None = None  # seconds of processor time to the first state with its Jacobian, compilation included
    seconds: float | None = None  # the same for each further one
    state: float | None = None  # largest error over all times, relative to the largest entry at that time
    jacobian: float | None = None  # likewise
    zeros: tuple[int, int] = (0, 0)  # how many of the entries that must be zero are not, and how many must be
    signs: tuple[int, int] = (0, 0)  # how many entries of some size have the wrong sign, and how many are of some size
    status: str = ""  # what the engine itself says
    note: str = ""  # why there are no numbers


def rows(peer: Peer, problem: Problem, smoke: bool = False) -> Iterator[Row]:
    """With every step, by the engine's own derivative if it has one, and by differences of its states."""
    why = peer.cannot(problem)
    if why:
        yield Row(problem.name, peer.name, note=why)
        return
    compiled = 0.0
    for h in peer.steps[:1] if smoke else peer.steps:
        try:
            for row in _with_step(peer, problem, h, smoke):
                # A program that serves all steps is compiled with the first of them.
                again = row.first is not None and row.first < 2 * row.seconds
                compiled = row.first - row.seconds if row.first is not None and not again else compiled
                yield replace(row, first=row.first + compiled) if again else row
        except Exception as error:
            # A benchmark goes on; what an engine raises is a result.
            if smoke:
                raise
            traceback.print_exc()
            yield Row(problem.name, peer.name, h, note=f"{type(error).__name__}: {error}".splitlines()[0][:200])


def _with_step(peer: Peer, problem: Problem, h: float, smoke: bool) -> Iterator[Row]:
    theta = np.array(problem.theta, float)
    exact, slopes, zero = (np.array([at[name] for at in problem.exact]) for name in ("state", "jacobian", "zero"))

    def off(setting):
        found = relative(peer.states(problem, theta[None], h, setting)[0], exact)
        return found if math.isfinite(found) else math.inf

    def nearest(settings):
        # Where there is no choice nothing is simulated: the first gradient is to be timed with its compilation.
        return settings[0] if len(settings) == 1 else min(settings, key=off)

    settings = list(peer.settings(problem, h))
    setting = nearest(settings[:1] if smoke else settings)
    for turn in range(0 if smoke else 3):
        setting = nearest([setting, *peer.finer(problem, setting, turn)])
    common = {"problem": problem.name, "peer": peer.name, "h": h, "setting": setting}
    if peer.jacobian is not None:
        begin = time.process_time()
        state, own = peer.jacobian(problem, theta, h, setting)
        first = time.process_time() - begin
        peer.jacobian(problem, theta, h, setting)
        taken = {"first": first, "seconds": time.process_time() - begin - first}
        told = peer.status(problem, h, setting)
        yield Row(**common, way="own", status=told, **taken, **_errors(state, own, exact, slopes, zero))
    if peer.differences:
        begin = time.process_time()
        state, found = differences(peer, problem, h, setting, WIDTHS[1:2] if smoke else WIDTHS)
        seconds = (time.process_time() - begin) / len(found)
        best = min(found, key=lambda J: np.nan_to_num(relative(J, slopes), nan=np.inf))
        yield Row(**common, way="differences", seconds=seconds, **_errors(state, best, exact, slopes, zero))


def differences(peer: Peer, problem: Problem, h: float, setting: Any, widths) -> tuple[np.ndarray, list[np.ndarray]]:
    """State (times, outputs) and for each width the Jacobian (times, outputs, p); one call for all."""
    theta = np.array(problem.theta, float)
    steps = [width * np.diag(np.where(theta == 0, 1.0, np.abs(theta))) for width in widths]
    moved = np.concatenate([theta[None], *(theta + sign * step for step in steps for sign in (1, -1))])
    states = peer.states(problem, moved, h, setting)
    p, found = len(theta), []
    for k, step in enumerate(steps):
        above, below = (states[1 + (2 * k + side) * p :][:p] for side in (0, 1))
        found.append(np.moveaxis((above - below) / (2 * np.diag(step))[:, None, None], 0, -1))
    return states[0], found


def _errors(state, jacobian, exact, slopes, zero) -> dict[str, Any]:
    largest = np.abs(slopes).max(axis=(1, 2), keepdims=True)
    # What is not finite is neither zero nor of the right sign.
    jacobian = np.asarray(jacobian, float)
    broken = (zero == 1) & ~(np.abs(jacobian) <= ZERO * largest)
    counts = np.abs(slopes) >= SIGN * largest
    wrong = counts & ~(np.sign(jacobian) == np.sign(slopes))
    return {
        "state": _finite(relative(state, exact)),
        "jacobian": _finite(relative(jacobian, slopes)),
        "zeros": (int(broken.sum()), int(zero.sum())),
        "signs": (int(wrong.sum()), int(counts.sum())),
    }


def _finite(x: float) -> float | None:
    return x if math.isfinite(x) else None


def save(found: list[Row], peer: Peer, file: Path) -> None:
    """One file for each engine, so that environments can be put together."""
    file.parent.mkdir(parents=True, exist_ok=True)
    document = {"peer": peer.name, "told": peer.told, "version": peer.version, "python": platform.python_version()}
    lines = ",\n".join(json.dumps(asdict(row)) for row in found)
    file.write_text(json.dumps(document)[:-1] + f', "rows": [\n{lines}\n]}}\n')


def load(folder: Path, order: list[str]) -> list[dict]:
    """All that was measured, engines in this order."""
    found = [json.loads(path.read_text()) for path in folder.glob("*.json")]
    return sorted(found, key=lambda document: order.index(document["peer"]))
