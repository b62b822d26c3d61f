"""Pages that show and play a motion or a fit."""

from diffcontact.report.content import Channel, Estimate, Event, Numbers, ProfileView, Report, RunView
from diffcontact.report.page import framed, is_page, page

__all__ = ["Channel", "Estimate", "Event", "Numbers", "ProfileView", "Report", "RunView", "framed", "is_page", "page"]
