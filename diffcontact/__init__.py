"""Differentiable simulation and identification of mechanical systems with contact, impacts and dry friction."""

from diffcontact import qp, systems
from diffcontact.schemes import CatchingUp, ElasticProjection, EventTimed, PercussionFriction, VelocityProjection
from diffcontact.simulate import Trajectory, simulate
from diffcontact.status import Status
from diffcontact.system import ParticleLine, System

__all__ = [
    "CatchingUp",
    "ElasticProjection",
    "EventTimed",
    "ParticleLine",
    "PercussionFriction",
    "Status",
    "System",
    "Trajectory",
    "VelocityProjection",
    "qp",
    "simulate",
    "systems",
]
