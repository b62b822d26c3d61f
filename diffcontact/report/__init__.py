"""What a fit leaves behind for people: one HTML page with its pictures inside."""

from diffcontact.report.page import page

__all__ = ["page"]
