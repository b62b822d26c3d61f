"""The page that shows a motion, or a fit: it plays, and can be read without playing."""

from diffcontact.report.content import Channel, Estimate, Event, Numbers, ProfileView, Report, RunView
from diffcontact.report.page import framed, is_page, page

__all__ = ["Channel", "Estimate", "Event", "Numbers", "ProfileView", "Report", "RunView", "framed", "is_page", "page"]
