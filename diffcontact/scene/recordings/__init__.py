"""Recognise files of cameras, trackers and telephones by their headers.

Each has `recognise(lines) -> Sheet | None`. A CSV with one header line is what none of them claims.
"""

from collections.abc import Sequence

from diffcontact.scene.recordings import deeplabcut, kinovea, long, phyphox, qualisys, tracker
from diffcontact.scene.recordings.sheet import Row, Sheet

WRITERS = (qualisys, deeplabcut, kinovea, tracker, phyphox, long)

__all__ = ["WRITERS", "Row", "Sheet", "recognised"]


def recognised(lines: Sequence[str]) -> Sheet | None:
    """Open a recording of a known writer; None: nothing known.

    Example:
        >>> lines = ["scorer,net,net", "bodyparts,ball,ball", "coords,x,y", "0,12.5,20.0"]
        >>> recognised(lines).names
        ('frame', 'ball x [px]', 'ball y [px]')
    """
    return next((sheet for writer in WRITERS if (sheet := writer.recognise(lines)) is not None), None)
