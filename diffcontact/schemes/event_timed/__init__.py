"""EventTimed: smooth motion, where its events are, what an impact does; and the same for a line with friction."""

from diffcontact.schemes.event_timed.step import EventTimed

__all__ = ["EventTimed"]
