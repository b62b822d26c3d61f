"""Provide ready-made systems."""

from diffcontact.systems import laws, poses
from diffcontact.systems.balls import balls
from diffcontact.systems.bodies import bodies
from diffcontact.systems.bouncing_ball import bouncing_ball
from diffcontact.systems.carts import carts
from diffcontact.systems.constrained import constrained
from diffcontact.systems.mechanism import Mechanism, mechanism
from diffcontact.systems.particle_line import particle_line
from diffcontact.systems.pendulum import pendulum
from diffcontact.systems.single_impact import single_impact

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
