"""Options that several commands have, and how their texts are read."""

from __future__ import annotations

import argparse
from pathlib import Path

from diffcontact.scene.units import whole


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
    """The name of a file or folder.

    Example:
        >>> path(" ")
        Traceback (most recent call last):
        argparse.ArgumentTypeError: ' ', expected the name of a file or folder
    """
    if not text.strip() or "\0" in text:
        raise argparse.ArgumentTypeError(f"{text!r}, expected the name of a file or folder")
    return Path(text)


def count(text: str) -> int:
    """A whole number.

    Example:
        >>> count("1_0")
        Traceback (most recent call last):
        argparse.ArgumentTypeError: '1_0' is not a whole number
    """
    try:
        return whole(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
