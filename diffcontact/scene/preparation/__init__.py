"""Prepare runs from columns: each `kind` is a function of a module here, registered by `PREPARATIONS.add`."""

from diffcontact.scene.preparation import bounces, coordinates, impacts, lines
from diffcontact.scene.preparation.coordinates import PREPARATIONS, Preparation, PreparedRun

__all__ = ["PREPARATIONS", "Preparation", "PreparedRun", "bounces", "coordinates", "impacts", "lines"]
