"""Every scheme for systems of bodies, by name."""

import diffcontact as dc

SCHEMES = {
    "EventTimed": dc.EventTimed(),
    "EventTimed 2": dc.EventTimed(order=2),
    "VelocityProjection": dc.VelocityProjection(),
    "ElasticProjection": dc.ElasticProjection(),
    "CatchingUp": dc.CatchingUp(),
}
