"""EventTimed where contacts rub: each contact is open, sticks or slips, and changes its mode at a time of its own."""
