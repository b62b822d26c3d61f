"""Ready-made systems."""

from diffcontact.systems.balls import balls

__all__ = ["balls"]
