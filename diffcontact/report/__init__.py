"""Pages that show and play a motion or a fit."""

from diffcontact.report.content import (
    Channel,
    Curve,
    Estimate,
    Event,
    Impact,
    Mark,
    Numbers,
    ProfileView,
    Report,
    Restitution,
    RunView,
)
from diffcontact.report.page import framed, is_page, page

__all__ = [
    "Channel",
    "Curve",
    "Estimate",
    "Event",
    "Impact",
    "Mark",
    "Numbers",
    "ProfileView",
    "Report",
    "Restitution",
    "RunView",
    "framed",
    "is_page",
    "page",
]
