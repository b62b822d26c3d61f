"""One file per step map; all are pure functions of the same signature, which `scheme.Scheme` declares."""

from diffcontact.schemes.catching_up import CatchingUp
from diffcontact.schemes.elastic_projection import ElasticProjection
from diffcontact.schemes.event_timed import EventTimed
from diffcontact.schemes.percussion_friction import PercussionFriction
from diffcontact.schemes.scheme import Scheme
from diffcontact.schemes.velocity_projection import VelocityProjection

__all__ = ["CatchingUp", "ElasticProjection", "EventTimed", "PercussionFriction", "Scheme", "VelocityProjection"]
