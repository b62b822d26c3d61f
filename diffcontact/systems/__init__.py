"""Ready-made systems."""

from diffcontact.systems.balls import balls
from diffcontact.systems.bouncing_ball import bouncing_ball
from diffcontact.systems.carts import carts
from diffcontact.systems.particle_line import particle_line

__all__ = ["balls", "bouncing_ball", "carts", "particle_line"]
