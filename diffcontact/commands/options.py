"""Options of several commands, and their values of a scene."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffcontact.drawing import Draw
from diffcontact.host.messages import shown
from diffcontact.scene.document import Scene
from diffcontact.scene.measurements import FROM_DATA
from diffcontact.scene.study import read_study, require_possible
from diffcontact.scene.ties import followed
from diffcontact.scene.units import number, whole

RANGE = "LOW:HIGH:COUNT"
# Of the motion, where the noise is not one of lengths.
_TOLERANCE = 1e-6
_PART_OF_NOISE = 0.1
# Above it there is no memory for the motion.
_MOST_TIMES = 10**6


def parse_times(text: str | None) -> NDArray | None:
    """Read LOW:HIGH:COUNT of --times in the scene's unit, or None."""
    if text is None:
        return None
    at = f"--times {shown(text)}"
    times = read_values(at, text, _MOST_TIMES)
    if not times[0] < times[-1]:
        raise ValueError(f"{at}: from {times[0]:g} to {times[-1]:g}, expected LOW below HIGH")
    if not np.all(np.diff(times) > 0):
        raise ValueError(f"{at}: between LOW and HIGH there are no {times.size} numbers that differ, expected fewer")
    return times


def read_values(at: str, text: str, most: int) -> NDArray:
    """Read LOW:HIGH:COUNT, at most `most`; errors begin with `at`."""
    try:
        low, high, count = text.split(":")
        low, high, count = number(low), number(high), whole(count)
    except ValueError:
        low, high, count = 0.0, 0.0, 0
    if count < 2:
        raise ValueError(f"{at}: {shown(text.strip())}, expected {RANGE}, two numbers and a count of at least 2")
    if count > most:
        raise ValueError(f"{at}: {count} values, expected at most {most}")
    return np.linspace(low, high, count)


def setting(
    document: Scene,
    scene: str | Path,
    files: Sequence[str | Path],
    times: NDArray | None,
    given: Collection[str] = (),
    others: str = "",
) -> tuple[dict[str, NDArray], NDArray, Draw | None]:
    """Parameters (SI), times and picture of a scene's first run; times (m,) are in the scene's unit."""
    grid = None if times is None else document.reading.time_factor * times
    if files or document.files:
        study = read_study(scene, files)
        first = study.runs[0]
        return study.params(0), first.times if grid is None else grid, first.draw
    if grid is None:
        raise ValueError(
            f"{document.file}: data.files: missing, and no --data was given; expected a CSV file, or --times {RANGE}"
        )
    params: dict[str, NDArray] = {}
    for name, shape in document.ready.given.items():
        # Without elements it needs no measurement: the turning points before the first of one bounce.
        if shape is None or 0 not in shape:
            raise ValueError(f"{document.file}: system: takes its {name} from measurements, expected --data")
        params[name] = np.zeros(shape)
    for name, parameter in document.parameters.items():
        if parameter.value is None and name not in given:
            raise ValueError(f"{parameter.at}.value: {FROM_DATA!r} without any, expected a number, {others}--data")
        params[name] = np.zeros(document.ready.quantities[name].shape) if parameter.value is None else parameter.value
    held = followed({name: value[None] for name, value in params.items()}, document.ties)
    params = {name: value[0] for name, value in held.items()}
    later = {*given, *(tie.name for tie in document.ties if tie.source in given)}
    for name, parameter in document.parameters.items():
        if name not in later:
            require_possible(parameter, document, params[name])
    return params, grid, None


def accuracy(document: Scene) -> dict[str, Any]:
    """Arguments of `simulate` for the steps of a scene."""
    if isinstance(document.substeps, str):
        return {"substeps": document.substeps, "tolerance": tolerance(document)}
    return {"substeps": document.substeps}


def tolerance(document: Scene) -> float:
    """Allowed change by shorter steps, in the system's units."""
    return _TOLERANCE if document.preparation.hears else _PART_OF_NOISE * document.noise


def add_scene(parser: argparse.ArgumentParser) -> None:
    """The scene and its measurements: `scene` and `data`."""
    parser.add_argument("scene", type=path, metavar="SCENE", help="TOML document")
    parser.add_argument(
        "--data",
        type=path,
        nargs="+",
        action="extend",
        default=[],
        metavar="FILE",
        help="one CSV file per run, taken jointly",
    )


def path(text: str) -> Path:
    """The name of a file or folder."""
    if not text.strip() or "\0" in text:
        raise argparse.ArgumentTypeError(f"{text!r}, expected the name of a file or folder")
    return Path(text)


def count(text: str) -> int:
    """A whole number."""
    try:
        return whole(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
