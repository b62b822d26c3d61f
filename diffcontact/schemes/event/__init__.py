"""Find the events, then differentiate the equations of the pieces between them."""

from diffcontact.schemes.event.step import EventTimed as EventTimed
