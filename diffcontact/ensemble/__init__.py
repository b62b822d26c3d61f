"""Run a function over a batch of parameters: in chunks, on all devices and processes, streamed to a file."""

from diffcontact.ensemble.run import ensemble

__all__ = ["ensemble"]
