"""What cameras, trackers and telephones write: a module for each writer, which recognises its files by their header.

Each has `recognise(lines) -> Sheet | None`. A CSV with one header line is what none of them claims.
"""

from collections.abc import Sequence

from diffcontact.scene.recordings import deeplabcut, kinovea, long, phyphox, qualisys, tracker
from diffcontact.scene.recordings.sheet import Row, Sheet

WRITERS = (qualisys, deeplabcut, kinovea, tracker, phyphox, long)

__all__ = ["WRITERS", "Row", "Sheet", "recognised"]


def recognised(lines: Sequence[str]) -> Sheet | None:
    """The sheet of a recording whose writer is known by its header; None: a CSV, or nothing known.

    Example:
        >>> lines = ["scorer,net,net", "bodyparts,ball,ball", "coords,x,y", "0,12.5,20.0"]
        >>> recognised(lines).names
        ('frame', 'ball x [px]', 'ball y [px]')
    """
    return next((sheet for writer in WRITERS if (sheet := writer.recognise(lines)) is not None), None)
