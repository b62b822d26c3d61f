"""One contact's impact as a flow: its velocity over the normal impulse that accumulates."""
