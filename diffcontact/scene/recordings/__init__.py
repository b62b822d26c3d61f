"""Recognise files of cameras, trackers and telephones by their headers; a CSV is what none claims."""

from collections.abc import Sequence

from diffcontact.scene.recordings import deeplabcut, kinovea, long, phyphox, qualisys, tracker
from diffcontact.scene.recordings.sheet import Row, Sheet

WRITERS = (qualisys, deeplabcut, kinovea, tracker, phyphox, long)

__all__ = ["WRITERS", "Row", "Sheet", "recognised"]


def recognised(lines: Sequence[str]) -> Sheet | None:
    """Open a recording of a known writer; None: nothing known."""
    return next((sheet for writer in WRITERS if (sheet := writer.recognise(lines)) is not None), None)
