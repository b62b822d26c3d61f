"""What speaks against the percussions of a run."""

from __future__ import annotations

import numpy as np

from diffcontact.certify.course import Course
from diffcontact.certify.order import Meeting, coupled, order_matters, reached
from diffcontact.certify.singularity import Singularity
from diffcontact.certify.touches import Found, held, settled

# A flight that ends as fast as it began, up to this factor, belongs to the bounce before.
_RETURNS = 1.5


def slow_strikes(course: Course, change: float) -> list[Found]:
    """Grazing approaches, bounces that were left out, and those that would be if they were a little slower."""
    impacts = course.impacts
    closing = impacts.before < -course.rounding[1]
    struck = closing & (impacts.impulse > 0)
    restitution = course.law(impacts.before).e
    rebound = -restitution * impacts.before
    found = []
    for k in range(course.count):
        contact, time = int(impacts.contact[k]), float(impacts.time[k])
        for i in np.flatnonzero(struck[k] & impacts.soft[k]):
            singularity = Singularity.ZENO_END if _continues(course, k, int(i)) else Singularity.SLOW
            found.append((singularity, time, int(i)))
        close = np.abs(rebound[k] - impacts.slow[k]) <= change * impacts.slow[k]
        for i in np.flatnonzero(struck[k] & close & (restitution[k] > 0)):
            found.append((Singularity.THRESHOLD, time, int(i)))
        speed = -impacts.before[k, contact]
        # A cheap bound first.
        if speed <= change * course.speed(time, impacts.q[k], contact) and not _continues(course, k, contact):
            found.append((Singularity.GRAZING, time, contact))
    return found


# How far the restitution is from straight over a small change of the speed, per change: a kink of so much slope.
_STRAIGHT = 0.05


def kinks(course: Course, change: float) -> list[Found]:
    """Impacts at whose speed the law of restitution, or that of friction, jumps or has a kink."""
    impacts, system = course.impacts, course.system
    struck = (impacts.before < -course.rounding[1]) & (impacts.impulse > 0)

    if not (system.speed_dependent or system.friction_by_speed):
        return []
    below, at, above = (course.law(impacts.before * factor) for factor in (1 - change, 1.0, 1 + change))
    e, mu = (np.abs(getattr(below, x) - 2 * getattr(at, x) + getattr(above, x)) for x in ("e", "mu"))
    found = struck & ((~impacts.soft & (e > _STRAIGHT * change)) | (mu > _STRAIGHT * change))
    return [(Singularity.KINK, float(impacts.time[k]), int(i)) for k, i in np.argwhere(found)]


def _continues(course: Course, k: int, contact: int) -> bool:
    """Whether this impact ends a flight that began with a bounce of the same contact."""
    impacts = course.impacts
    earlier = np.flatnonzero((impacts.impulse[:k, contact] > 0) & (impacts.before[:k, contact] < 0))
    if not earlier.size:
        return False
    left = impacts.after[earlier[-1], contact]
    return bool(left > course.rounding[1] and -impacts.before[k, contact] <= _RETURNS * left)


def meetings(course: Course, change: float) -> list[Found]:
    """Impacts of coupled contacts at one time, or all but at one, whose order matters."""
    impacts = course.impacts
    near = change**2 * course.length
    found, k = [], 0
    while k < course.count:
        last = k + 1
        window = change**2 * (course.end.t[-1] - course.begin.t[0])
        while last < course.count and impacts.time[last] - impacts.time[last - 1] <= window:
            last += 1
        cluster = np.arange(k, last)
        closed = course.gaps[k] <= max(near, course.rounding[0])
        closed[impacts.contact[cluster]] = True
        if np.sum(closed) > 1:
            found += _meeting(course, cluster, np.flatnonzero(closed))
        k = last
    return found


def _meeting(course: Course, cluster, closed) -> list[Found]:
    """The singularities about the impacts of a cluster among the closed contacts."""
    impacts, first = course.impacts, int(cluster[0])
    here, rubs = course.place(impacts.time[first], impacts.q[first]), course.lasting.mu[closed] > 0
    rows, drift, mass = here.rows[closed], here.drift[closed, 0], here.mass
    coupling = coupled(np.concatenate([rows[:, :1], rows[:, 1:] * rubs[:, None, None]], axis=1), mass)
    stays, settles = held(course, first)[closed], settled(course, int(cluster[-1]))[closed]
    done, found = np.zeros(closed.size, bool), []
    soft = np.any(impacts.soft[cluster], axis=0)[closed]
    for k in cluster:
        place = int(np.flatnonzero(closed == impacts.contact[k])[0])
        if done[place]:
            continue
        group = reached(coupling, place)
        done |= group
        members = closed[group]
        mine = [j for j in cluster if impacts.contact[j] in members]
        meeting = Meeting(
            rows[group, 0],
            drift[group],
            mass,
            _restitution_among(course, members, soft[group]),
            stays[group],
            settles[group],
            impacts.u[first],
            [int(np.flatnonzero(members == impacts.contact[j])[0]) for j in mine],
            impacts.jump[mine],
        )
        # With friction all orders are taken to lead elsewhere.
        if np.sum(~stays[group]) > 1 if np.any(rubs[group]) else order_matters(meeting):
            found.append((Singularity.SIMULTANEOUS, float(impacts.time[k]), int(impacts.contact[k])))
    return found


def _restitution_among(course: Course, members, soft):
    """(m,) gap velocities of these contacts before an impact -> (m,) their restitution, 0 where they do not bounce."""

    def restitution(before: np.ndarray) -> np.ndarray:
        wide = np.zeros(course.begin.gap.shape[1], course.begin.q.dtype)
        wide[members] = before
        return np.where(soft, 0.0, course.law(wide).e[members])

    return restitution
