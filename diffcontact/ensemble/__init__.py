"""One run over a batch of parameters: in chunks, on all devices, processes and machines, streamed to a file."""

from diffcontact.ensemble.run import ensemble

__all__ = ["ensemble"]
