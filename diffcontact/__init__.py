"""Differentiable simulation and identification of mechanical systems with contact, impacts and dry friction."""

from diffcontact.host import interruption

# isort: split
# All that takes long to import comes after what waits for Ctrl-C meanwhile.
from diffcontact import drawing, hypotheses, identify, qp, shapes, systems
from diffcontact.certify.certificate import Certificate, certify
from diffcontact.ensemble import ensemble
from diffcontact.identify import FitResult, Interval, Observations, Positive, Problem, Real, fit
from diffcontact.impact import impact
from diffcontact.numerics.compilation import clear_caches
from diffcontact.particle_line import ParticleLine
from diffcontact.schemes import CatchingUp, ElasticProjection, EventTimed, PercussionFriction, VelocityProjection
from diffcontact.schemes.event_timed.changes import Mode, ModeChange
from diffcontact.sensitivity import Sensitivity, sensitivity
from diffcontact.simulate import Trajectory, simulate
from diffcontact.status import Status
from diffcontact.system import System

__all__ = [
    "CatchingUp",
    "Certificate",
    "ElasticProjection",
    "EventTimed",
    "FitResult",
    "Interval",
    "Mode",
    "ModeChange",
    "Observations",
    "ParticleLine",
    "PercussionFriction",
    "Positive",
    "Problem",
    "Real",
    "Sensitivity",
    "Status",
    "System",
    "Trajectory",
    "VelocityProjection",
    "certify",
    "clear_caches",
    "drawing",
    "ensemble",
    "fit",
    "hypotheses",
    "identify",
    "impact",
    "qp",
    "sensitivity",
    "shapes",
    "simulate",
    "systems",
]

interruption.over()
