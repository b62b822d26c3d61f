"""`python -m diffcontact simulate`: play a scene at its values."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

from diffcontact.arguments import placed
from diffcontact.commands.options import add_scene, parse_times, path
from diffcontact.commands.outcome import ExitCode, about, file_of, require_own, results_folder, written_all_the_same
from diffcontact.host.files import require_writable
from diffcontact.host.messages import say
from diffcontact.host.progress import stage
from diffcontact.report import is_page, page
from diffcontact.report.simulated import LISTED, trajectory_report
from diffcontact.scene.document import Scene, read_scene
from diffcontact.scene.study import accuracy, setting
from diffcontact.scene.units import RANGE
from diffcontact.simulate import simulate
from diffcontact.status import Status
from diffcontact.system import System
from diffcontact.trajectory import Trajectory

HELP = "play a scene at its parameters' values, with data or without"
EXAMPLE = "simulate out/demo/carts.toml --out out/motion.html"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """SCENE [--data FILE ...] [--times LOW:HIGH:COUNT] [--out PLACE]"""
    add_scene(parser)
    parser.add_argument("--times", metavar=RANGE, help="when; default: at the times of the first run")
    parser.add_argument(
        "--out", type=path, metavar="PLACE", help="folder for motion.html, or an .html file; default: as the scene says"
    )


def run(options: argparse.Namespace) -> ExitCode:
    """Simulate the scene and write the page."""
    times = parse_times(options.times)
    document = read_scene(options.scene)
    out = file_of(options.out or results_folder(None, document), "motion.html")
    require_writable(out.parent)
    require_own(out, is_page, "--out PLACE")
    params, grid, draw = setting(document, options.scene, options.data, times)
    ready = document.ready
    with about(document.file), stage("simulation"):
        motion = _motion(document, params, grid)
    shown = trajectory_report(motion, ready.system, params, draw, title=document.title)
    channels = [replace(one, unit=ready.length) if one.unit == "m" else one for one in shown.channels]
    status = Status(int(motion.status))
    with written_all_the_same(out.parent, {out.name: lambda: page(replace(shown, channels=channels, time=ready.time))}):
        say(f"{document.title}: {grid.size} times from {grid[0]:g} to {grid[-1]:g} {ready.time}")
        say("status 0: right" if status == Status.OK else f"status {int(status)}: {status.message}")
    return ExitCode.DONE if status == Status.OK else ExitCode.NOT_CONVERGED


def _motion(document: Scene, params: dict, grid) -> Trajectory:
    """Simulate with steps whose error hides in the noise."""
    system, params = document.ready.system, {name: placed(value) for name, value in params.items()}
    strikes, rubs = isinstance(system, System), isinstance(system, System) and system.rubs
    listed: dict[str, Any] = {"percussions": LISTED if strikes else 0, "changes": LISTED if rubs else 0}
    q0, u0 = document.ready.initial(params)
    return simulate(system, params, q0, u0, grid, **accuracy(document), **listed)
