"""One file per step map; all are pure functions of the same signature (`scheme.Scheme`)."""

from diffcontact.schemes.event_timed import EventTimed

__all__ = ["EventTimed"]
