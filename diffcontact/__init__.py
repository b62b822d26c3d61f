"""Differentiable simulation and identification of mechanical systems with contact, impacts and dry friction."""

from importlib import import_module
from typing import TYPE_CHECKING

from diffcontact.host import interruption

# isort: split
# All that takes long to import comes after what waits for Ctrl-C meanwhile.
from diffcontact import drawing, hypotheses, qp, shapes, systems
from diffcontact.certify.certificate import Certificate, certify
from diffcontact.ensemble import ensemble
from diffcontact.impact import impact
from diffcontact.numerics.compilation import clear_caches
from diffcontact.schemes import CatchingUp, ElasticProjection, EventTimed, PercussionFriction, VelocityProjection
from diffcontact.schemes.event_timed.events import Mode, ModeChange
from diffcontact.sensitivity import Sensitivity, sensitivity
from diffcontact.simulate import Trajectory, simulate
from diffcontact.status import Status
from diffcontact.system import ParticleLine, System

if TYPE_CHECKING:
    from diffcontact import identify
    from diffcontact.identify import FitResult, Interval, Observations, Positive, Problem, Real, fit

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

_OF_IDENTIFY = ("FitResult", "Interval", "Observations", "Positive", "Problem", "Real", "fit")


def __getattr__(name: str):
    """Import `identify` at its first use: with scipy's optimisers it takes as long as all the rest but jax."""
    if name != "identify" and name not in _OF_IDENTIFY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"{__name__}.identify")
    globals().update({one: getattr(module, one) for one in _OF_IDENTIFY})
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


interruption.over()
