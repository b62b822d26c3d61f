"""Provide ready-made systems."""

from diffcontact.systems import laws, poses

# Registers what is refused of balls and bodies.
from diffcontact.systems import required as required
from diffcontact.systems.balls import balls
from diffcontact.systems.bodies import bodies
from diffcontact.systems.constrained import constrained
from diffcontact.systems.mechanism import Mechanism, mechanism
from diffcontact.systems.textbook import bouncing_ball, carts, particle_line, pendulum, single_impact

__all__ = [
    "Mechanism",
    "balls",
    "bodies",
    "bouncing_ball",
    "carts",
    "constrained",
    "laws",
    "mechanism",
    "particle_line",
    "pendulum",
    "poses",
    "single_impact",
]
