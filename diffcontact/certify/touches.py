"""Contacts that are hardly touched or hardly missed, and contacts that touch without a load."""

from __future__ import annotations

import numpy as np

from diffcontact.certify.course import Course, End
from diffcontact.certify.singularity import Singularity
from diffcontact.simulate import simulate

# A suspicious piece is looked at again in so many steps.
_FINER = 16
# Suspicious is a pass that misses by what this part of the full speed would reach.
_SUSPICIOUS = 0.1
_SUSPECTS = 64

Found = tuple[Singularity, float, int]


def passes(course: Course, scheme, change: float) -> list[Found]:
    """Find bodies that pass each other and come near to touching.

    A gap with a minimum c and the acceleration a there behaves like one that is hit at the speed sqrt(2 a |c|) or
    missed by as much: a pass where that is below `change` times the speed of what moves, or c below `change`^2 of the
    way at that speed. So is an impact that finer steps find and the run has not.
    """
    found, duration = [], course.end.t[-1] - course.begin.t[0]
    for piece, contact in _suspects(course):
        begin, end = (_pick(x, slice(piece, piece + 1), contact) for x in (course.begin, course.end))
        if not _parabola(begin, end):
            begin, end, missed = _finer(course, scheme, piece, contact)
            if np.isfinite(missed):
                found.append((Singularity.GRAZING, missed, contact))
                continue
        time, clearance, bend = _lowest(begin, end, course.rounding[0])
        k = int(np.argmin(np.where(np.isfinite(clearance), np.abs(clearance), np.inf)[:, 0]))
        if not np.isfinite(clearance[k, 0]):
            continue
        short = max(abs(float(clearance[k, 0])) - course.error, 0.0)
        speed = course.speed(begin.t[k], begin.q[k], contact)
        if 2 * float(bend[k, 0]) * short <= (change * speed) ** 2 and short <= change**2 * speed * duration:
            found.append((Singularity.GRAZING, float(time[k, 0]), contact))
    return found


def _suspects(course: Course) -> list[tuple[int, int]]:
    """Pieces and contacts with a minimum near zero, the nearest first."""
    begin, end = course.begin, course.end
    _, clearance, bend = _lowest(begin, end, course.rounding[0])
    most = np.maximum(np.max(np.abs(begin.rate)), np.max(course.fastest, initial=0.0))
    near = 2 * bend * np.abs(clearance) <= (_SUSPICIOUS * most) ** 2
    near &= np.abs(clearance) <= _SUSPICIOUS**2 * (course.end.t[-1] - course.begin.t[0]) * most
    pieces, numbers = np.nonzero(near & np.isfinite(clearance))
    nearest = np.argsort(np.abs(clearance[pieces, numbers]))[:_SUSPECTS]
    return [(int(pieces[k]), int(numbers[k])) for k in nearest]


def _parabola(begin: End, end: End) -> bool:
    """Tell whether gaps change as under a constant acceleration: finer steps then show nothing."""
    length = (end.t - begin.t)[:, None]
    third = np.abs(2 * (begin.gap - end.gap) + length * (begin.rate + end.rate))
    size = np.abs(begin.gap) + np.abs(end.gap) + length * (np.abs(begin.rate) + np.abs(end.rate))
    return bool(np.all(third <= np.finfo(third.dtype).eps ** 0.75 * size))


def _finer(course: Course, scheme, piece: int, contact: int) -> tuple[End, End, float]:
    """Cut a piece into finer ones, of this contact alone; and tell when they find an impact that the run has not.

    That is nan where they do not. Where finer steps cannot be had the piece stays whole.
    """
    begin, end = course.begin, course.end
    times = np.linspace(begin.t[piece], end.t[piece], _FINER + 1, dtype=begin.t.dtype)
    one = slice(piece, piece + 1)
    whole = _pick(begin, one, contact), _pick(end, one, contact), np.nan
    if not np.all(np.diff(times) > 0):
        return whole
    run = simulate(course.system, course.params, begin.q[piece], begin.u[piece], times, scheme=scheme, percussions=1)
    assert run.percussions is not None
    q, u = np.asarray(run.q), np.array(run.u)
    if not (np.all(np.isfinite(q)) and np.all(np.isfinite(u))):
        return whole
    # Up to the impact that ends the piece, or to the end.
    u[-1] = end.u[piece]
    nodes = course.states(times, q, u)
    contacts, impact_times = (np.asarray(x) for x in (run.percussions.contact, run.percussions.time))
    struck, when = contacts[0] >= 0, float(impact_times[0])
    missed = when if struck and when < times[-2] else np.nan
    return _pick(nodes, slice(None, -1), contact), _pick(nodes, slice(1, None), contact), missed


def _pick(ends: End, rows, contact: int) -> End:
    one = slice(contact, contact + 1)
    return End(ends.t[rows], ends.q[rows], ends.u[rows], ends.gap[rows, one], ends.rate[rows, one])


def _lowest(begin: End, end: End, closed: float):
    """Find time, value and second derivative (m, c) of the minimum of each gap within each piece; nan without one.

    Along a piece a gap is the cubic with its values and velocities at both ends. What was closed at the beginning has
    to rise first.
    """
    length = (end.t - begin.t)[:, None]
    g0, g1 = (np.where(np.isfinite(x), x, 0.0) for x in (begin.gap, end.gap))
    c1 = length * begin.rate
    c2 = 3 * (g1 - g0) - length * (2 * begin.rate + end.rate)
    c3 = 2 * (g0 - g1) + length * (begin.rate + end.rate)
    # Of the two extrema the minimum is that with the positive second derivative, 2 sqrt(c2^2 - 3 c1 c3).
    inside = np.maximum(c2**2 - 3 * c1 * c3, 0.0)
    root = np.sqrt(inside)
    with np.errstate(divide="ignore", invalid="ignore"):
        sigma = np.where(c2 >= 0, -c1 / (c2 + root), (root - c2) / (3 * c3))
        # Rounding may put a minimum at an end just behind it.
        rounding = np.sqrt(np.finfo(length.dtype).eps)
        there = (sigma > 0) & (sigma <= 1 + rounding) & (root > 0) & np.isfinite(begin.gap)
        value, halfway = (g0 + x * (c1 + x * (c2 + x * c3)) for x in (sigma, sigma / 2))
        there &= (g0 > closed) | (halfway > 10 * np.abs(value) + closed)
    nothing = np.full_like(value, np.nan)
    return tuple(np.where(there, x, nothing) for x in (begin.t[:, None] + sigma * length, value, 2 * root / length**2))


def unloaded(course: Course) -> list[Found]:
    """Find contacts that are closed and at rest, and neither pressed nor pulled apart.

    A small velocity opens or strikes them. Those that an impact has brought to rest stay together.
    """
    begin, end = course.begin, course.end
    closed, slow = course.rounding
    rests = (begin.gap <= closed) & (np.abs(begin.rate) <= slow)
    rests &= (end.gap <= closed) & (np.abs(end.rate) <= slow)
    pieces = np.flatnonzero(np.any(rests & ~_stuck(course, begin.t), axis=1))
    if not pieces.size:
        return []
    # What is looked at is a sample where there is much; its size is fixed, so that it compiles once.
    pieces = pieces[np.linspace(0, pieces.size - 1, _SUSPECTS).astype(int)]
    reactions, openings, *_ = course.support(begin.t[pieces], begin.q[pieces], begin.u[pieces], rests[pieces])
    still = np.finfo(reactions.dtype).eps ** 0.5
    size = np.max(np.abs(openings), initial=0.0) + np.max(np.abs(begin.rate)) / np.max(end.t - begin.t)
    idle = rests[pieces] & ~_stuck(course, begin.t[pieces])
    loaded = reactions > course.least_reaction(reactions)
    idle &= ~loaded & (np.abs(openings) <= still * size)
    found = []
    for contact in np.flatnonzero(np.any(idle, axis=0)):
        row = int(np.argmax(idle[:, contact]))
        if not _redundant(course, pieces[row], int(contact), loaded[row]):
            found.append((Singularity.UNLOADED, float(begin.t[pieces[row]]), int(contact)))
    return found


def stayed(course: Course) -> list[Found]:
    """Find contacts that met with e = 0, touch without a load and take part in an impact.

    If e grew from zero they would have opened by as little, and be struck one after the other.
    """
    impacts, (closed, slow) = course.impacts, course.rounding
    dead = course.law(impacts.before).e == 0
    found = []
    for k in range(course.count if np.any(dead) else 0):
        rests = (course.gaps[k] <= closed) & (np.abs(impacts.before[k]) <= slow)
        again = rests & (impacts.impulse[k] > 0) & _stuck(course, _before(impacts.time[k]), dead)[0]
        if np.any(again):
            again &= ~_loaded(course, k, impacts.u[k], rests)
        found += [(Singularity.STAYED, float(impacts.time[k]), int(contact)) for contact in np.flatnonzero(again)]
    return found


def _stuck(course: Course, times, those=True) -> np.ndarray:
    """(m, c) whether the last impact of a contact up to a time brought it to rest, and was one of `those` (k, c)."""
    impacts, (_, slow) = course.impacts, course.rounding
    stuck = np.zeros((len(times), course.begin.gap.shape[1]), bool)
    rested = (np.abs(impacts.after) <= slow) & those
    for k in range(course.count):
        struck = impacts.impulse[k] > 0
        stuck[np.ix_(times >= impacts.time[k], struck)] = rested[k, struck]
    return stuck


def _before(time) -> np.ndarray:
    return np.nextafter(time, -np.inf)[None]


def held(course: Course, k: int) -> np.ndarray:
    """(c,) contacts that nothing small opens at impact k: they stuck in one before, or rest under a load."""
    impacts, (closed, slow) = course.impacts, course.rounding
    time = impacts.time[k]
    rests = (course.gaps[k] <= closed) & (np.abs(impacts.before[k]) <= slow)
    if time <= course.begin.t[0] or not np.any(rests):
        return rests & False
    stuck = _stuck(course, _before(time))[0]
    return rests & (stuck | _loaded(course, k, impacts.u[k], rests))


def settled(course: Course, k: int) -> np.ndarray:
    """(c,) contacts that rest under a load after impact k."""
    impacts, (closed, slow) = course.impacts, course.rounding
    rests = (course.gaps[k] <= closed) & (np.abs(impacts.after[k]) <= slow)
    return rests & _loaded(course, k, impacts.u[k] + impacts.jump[k], rests)


def _loaded(course: Course, k: int, u, rests) -> np.ndarray:
    if not np.any(rests):
        return rests
    at = course.impacts.time[k], course.impacts.q[k], u, rests
    reactions = course.support(*(x[None] for x in at)).load[0]
    return reactions > course.least_reaction(reactions)


def _redundant(course: Course, piece: int, contact: int, loaded) -> bool:
    """Whether other contacts that carry load hold this one, too: the fourth leg of a table."""
    normals = course.place(course.begin.t[piece], course.begin.q[piece]).rows[:, 0]
    rows = normals[loaded].T
    if not rows.size:
        return False
    rest = normals[contact] - rows @ np.linalg.lstsq(rows, normals[contact], rcond=None)[0]
    return bool(np.linalg.norm(rest) <= 1e-6 * np.linalg.norm(normals[contact]))
