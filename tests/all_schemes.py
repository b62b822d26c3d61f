"""Every scheme for systems of bodies, by name."""

import diffcontact as dc

SCHEMES = {
    "EventTimed": dc.EventTimed(),
    "EventTimed 4": dc.EventTimed(order=4),
    "VelocityProjection": dc.VelocityProjection(),
    "ElasticProjection": dc.ElasticProjection(),
    "CatchingUp": dc.CatchingUp(),
}
