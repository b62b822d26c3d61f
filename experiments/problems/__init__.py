"""Problems with known answers, for studies and tests: closed forms, event-exact references, landing and lift-off."""
