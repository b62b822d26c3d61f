"""What friction says of the derivative of a run: impacts that grip, slips that all but end, loads that are shared."""

from __future__ import annotations

import numpy as np

from diffcontact.certify.course import Course, Support
from diffcontact.certify.singularity import Singularity
from diffcontact.certify.touches import Found


def grips(course: Course, change: float) -> list[Found]:
    """Impacts in the grip, and those at its edge.

    A contact that slips keeps the slip |w|, w = v_T+ + e_t v_T-; one that grips leaves mu P - |B| of its friction
    unused, which could stop a slip of (mu P - |B|) S M^-1 S^T. At the edge both are below `change` times the slip
    before, or what all its friction could stop.
    """
    impacts, system = course.impacts, course.system
    if not system.rubs:
        return []
    law, found = course.law(impacts.before), []
    for k in range(course.count):
        mu, place = law.mu[k], course.place(impacts.time[k], impacts.q[k])
        before, after = (place.velocity(u)[:, 1:] for u in (impacts.u[k], impacts.u[k] + impacts.jump[k]))
        turned = np.where(impacts.soft[k], 0.0, law.e_t[k])[:, None] * before
        slipped, kept, used = (np.linalg.norm(x, axis=1) for x in (before, after + turned, impacts.friction[k]))
        tangents = place.rows[:, 1:]
        # Of one contact's directions alike: those of a ball.
        mobility = np.max(np.sum(tangents * np.linalg.solve(place.mass, tangents.mT).mT, axis=2), axis=1)
        most = mu * impacts.impulse[k] * mobility
        unused = np.maximum(most - used * mobility, 0.0)
        took_part = impacts.impulse[k] > np.finfo(kept.dtype).eps ** 0.5 * np.max(impacts.impulse[k])
        edge = kept + unused <= change * np.maximum(slipped, most)
        for i in np.flatnonzero(took_part & (mu > 0)):
            if edge[i]:
                found.append((Singularity.CONE_EDGE, float(impacts.time[k]), int(i)))
            elif kept[i] < unused[i]:
                found.append((Singularity.GRIPPED, float(impacts.time[k]), int(i)))
    return found


def slides(course: Course, change: float) -> list[Found]:
    """Slips that come close to zero and do not end, or end with a vanishing rate; loads that are shared freely."""
    if not course.system.rubs:
        return []
    begin, end = course.resting(course.begin), course.resting(course.end)
    return [*_grazing_slips(course, begin, end, change), *_shared(course, begin, end)]


def _grazing_slips(course: Course, begin: Support, end: Support, change: float) -> list[Found]:
    lengths, still = course.end.t - course.begin.t, course.rounding[1]
    held = (begin.load > 0) & (end.load > 0) & (course.lasting.mu > 0)
    first, last = (np.linalg.norm(x.slip, axis=2) for x in (begin, end))
    fastest = np.max(np.where(held, np.maximum(first, last), 0.0), axis=0, initial=0.0)
    found = []
    for contact in np.flatnonzero(fastest > still).tolist():
        near, before = change * fastest[contact], -2
        for piece in np.flatnonzero(held[:, contact] & (first[:, contact] > still)).tolist():
            here, there = ((x.slip[piece, contact], x.turning[piece, contact]) for x in (begin, end))
            path = _path(here, there, lengths[piece])
            if last[piece, contact] <= still or (path.shape[1] == 1 and np.min(path * path[0]) < 0):
                # It ends. How fast its rate changes is seen in the piece before.
                follows = piece > 0 and held[piece - 1, contact] and not _struck(course, piece)
                lowest = _vertex(begin, piece, contact, lengths) if follows else np.inf
            else:
                passes = here[0] @ here[1] <= 0 <= there[0] @ there[1]
                lowest = _nearest(path) if passes else np.inf
            if lowest <= near:
                if piece > before + 1:
                    found.append((Singularity.SLIP_GRAZES, float(course.begin.t[piece]), int(contact)))
                before = piece
    return found


def _struck(course: Course, piece: int) -> bool:
    """Whether a piece begins with an impact."""
    return bool(np.any(course.begin.t[piece] == course.impacts.time))


def _vertex(begin: Support, piece: int, contact: int, lengths) -> float:
    """|v_T| at the vertex of the parabola in which a slip comes to zero; inf where it does not slow down."""
    v = begin.slip[piece, contact]
    along = v / np.linalg.norm(v)
    rate, earlier = begin.turning[piece, contact] @ along, begin.turning[piece - 1, contact] @ along
    bend = (rate - earlier) / lengths[piece - 1]
    return float(np.abs(v @ along - rate**2 / (2 * bend))) if bend > 0 > rate else np.inf


def _path(begin, end, length) -> np.ndarray:
    """(65, k) slips along the cubic with these values and rates (k,) at its ends."""
    (v0, a0), (v1, a1) = begin, end
    s = np.linspace(0.0, 1.0, 65)[:, None]
    path = v0 * (1 + 2 * s) * (1 - s) ** 2 + v1 * s**2 * (3 - 2 * s)
    return path + length * (a0 * s * (1 - s) ** 2 - a1 * s**2 * (1 - s))


def _nearest(path) -> float:
    """The smallest |v_T| on the polygon."""
    side = np.diff(path, axis=0)
    square = np.sum(side**2, axis=1)
    foot = np.clip(-np.sum(path[:-1] * side, axis=1) / np.where(square > 0, square, 1.0), 0.0, 1.0)
    return float(np.min(np.linalg.norm(path[:-1] + foot[:, None] * side, axis=1)))


def _shared(course: Course, begin: Support, end: Support) -> list[Found]:
    """Sets of contacts that share load and friction, each at its first time, named by its first contact."""
    seen, found = set(), []
    for piece in range(len(course.begin.t)):
        for at, times in ((begin, course.begin.t), (end, course.end.t)):
            if not at.shared[piece]:
                continue
            kind = Singularity.UNDETERMINED if at.matters[piece] else Singularity.NOT_UNIQUE
            contacts = tuple(np.flatnonzero(at.load[piece] > 0).tolist())
            if (kind, contacts) not in seen:
                seen.add((kind, contacts))
                found.append((kind, float(times[piece]), contacts[0]))
    return found
