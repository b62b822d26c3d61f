"""Differentiable simulation and identification of mechanical systems with contact, impacts and dry friction."""

from diffcontact import qp, systems
from diffcontact.schemes import EventTimed
from diffcontact.simulate import Trajectory, simulate
from diffcontact.status import Status
from diffcontact.system import ParticleLine, System

__all__ = ["EventTimed", "ParticleLine", "Status", "System", "Trajectory", "qp", "simulate", "systems"]
