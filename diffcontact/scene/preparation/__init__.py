"""Prepare runs from columns: observed channels and starting values.

A scene names its preparation by `kind`; each is one function of a module here, registered by `PREPARATIONS.add`.
"""

from diffcontact.scene.preparation import bounces, common_line, coordinates, free_decay, impacts, rebound, slide
from diffcontact.scene.preparation.run import PREPARATIONS, Preparation, PreparedRun

__all__ = [
    "PREPARATIONS",
    "Preparation",
    "PreparedRun",
    "bounces",
    "common_line",
    "coordinates",
    "free_decay",
    "impacts",
    "rebound",
    "slide",
]
