"""Ready-made systems."""

from diffcontact.systems.balls import balls
from diffcontact.systems.carts import carts

__all__ = ["balls", "carts"]
