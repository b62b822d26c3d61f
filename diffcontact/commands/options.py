"""Options of several commands."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from diffcontact.host.messages import shown
from diffcontact.scene.units import read_values, whole

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
