"""What a fit leaves behind for people: one HTML page with its pictures inside."""

from diffcontact.report.page import FittedRun, Report, page

__all__ = ["FittedRun", "Report", "page"]
