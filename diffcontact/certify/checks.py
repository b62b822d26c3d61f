"""What speaks against the derivative of a run: passes that nearly touch, contacts without a load, strikes, friction."""

from __future__ import annotations

import numpy as np

from diffcontact.certify.course import Course, End, Support
from diffcontact.certify.order import Meeting, coupled, order_matters, reached
from diffcontact.certify.singularity import Found, Singularity
from diffcontact.numerics.batching import AT_ONCE
from diffcontact.simulate import simulate

# A suspicious piece is looked at again in so many steps.
_FINER = 16
# Suspicious is a pass that misses by what this part of the full speed would reach.
_SUSPICIOUS = 0.1


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
    nearest = np.argsort(np.abs(clearance[pieces, numbers]))[:AT_ONCE]
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
    pieces = pieces[np.linspace(0, pieces.size - 1, AT_ONCE).astype(int)]
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
