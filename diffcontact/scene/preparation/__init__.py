"""From raw columns to runs: the observed channels of a system, and starting values that the data suggest.

A scene names its preparation by `kind`; each is one class here, registered in `PREPARATIONS`.
"""

from collections.abc import Mapping
from typing import Any

from diffcontact.scene.preparation.bounces import Bounces
from diffcontact.scene.preparation.common_line import CommonLine
from diffcontact.scene.preparation.coordinates import Coordinates, Poses
from diffcontact.scene.preparation.free_decay import Oscillation, Track
from diffcontact.scene.preparation.impacts import Impacts
from diffcontact.scene.preparation.rebound import Rebound
from diffcontact.scene.preparation.run import Preparation as Preparation
from diffcontact.scene.preparation.run import PreparedRun as PreparedRun
from diffcontact.scene.preparation.slide import Slide
from diffcontact.scene.preparation.sound import Sound

PREPARATIONS: Mapping[str, Any] = {
    "bounces": Bounces,
    "common line": CommonLine,
    "coordinates": Coordinates,
    "impacts": Impacts,
    "oscillation": Oscillation,
    "poses": Poses,
    "rebound": Rebound,
    "slide": Slide,
    "sound": Sound,
    "track": Track,
}
