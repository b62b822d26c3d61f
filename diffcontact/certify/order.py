"""Whether the outcome of a percussion depends on the order in which its contacts are struck."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from diffcontact.numerics.least_squares import nonnegative

# More impacts than that between contacts that are all but closed do not come to an end.
_MOST = 200
_ROUNDING = 1e-9
# Outcomes that differ by less are the same.
_SAME = 1e-6


@dataclass(frozen=True)
class Meeting:
    """Contacts that are closed, or all but closed, at one moment.

    Attributes:
        normals: (m, d) gradients of the gaps; drift: (m,) their explicit time derivatives [m/s]; mass: (d, d) [kg].
        restitution: gap velocities (m,) before an impact -> (m,); 0 where a contact was not left to bounce.
        held: (m,) contacts that nothing small opens: they rest under a load, or stuck where they were struck.
        settles: (m,) contacts that are at rest under a load afterwards: they take up what is left of a displacement.
        before: (d,) velocity [m/s].
        struck: the contacts that were struck, in the order of the run; jumps: (len(struck), d) what that did [m/s].
    """

    normals: np.ndarray
    drift: np.ndarray
    mass: np.ndarray
    restitution: Callable[[np.ndarray], np.ndarray]
    held: np.ndarray
    settles: np.ndarray
    before: np.ndarray
    struck: list[int]
    jumps: np.ndarray

    def velocity(self, u: np.ndarray) -> np.ndarray:
        """(m,) gap velocities [m/s]."""
        return self.normals @ u + self.drift


def order_matters(meeting: Meeting, samples: int = 12) -> bool:
    """Whether neighbouring motions come out otherwise than the run and its derivative say.

    A neighbouring motion is displaced by some small dq, so that the contacts close one after the other, in an order and
    at times that depend on dq, at constant velocities in between. It leaves behind a velocity and a displacement. The
    run's own sequence leaves behind

        dq_j = dq_{j-1} + (u_{j-1} - u_j) tau_j,        tau_j = -G_k dq_{j-1} / v_k(u_{j-1})

    (its saltation matrices). Where both agree for displacements of all kinds, one for each contact and so many random
    `samples`, the derivative exists and is the computed one: independent contacts, orthogonal walls, a ball on a body
    that lies under its own weight. Where they do not, as in a row of touching balls, it depends on the order.
    """
    if np.sum(~meeting.held) < 2:
        return False
    root = np.linalg.cholesky(meeting.mass)
    after = meeting.before + np.sum(meeting.jumps, axis=0)
    speed = np.max(np.abs(root.T @ np.concatenate([meeting.jumps, meeting.before[None]]).T))
    for displaced in _displacements(meeting, root, samples):
        end = _neighbour(meeting, displaced)
        if end is None or np.max(np.abs(root.T @ (end[1] - after))) > _SAME * speed:
            return True
        computed = _computed(meeting, displaced)
        apart = _without(root.T @ (end[0] - computed), np.linalg.solve(root, meeting.normals[meeting.settles].T))
        size = max(np.linalg.norm(root.T @ x) for x in (displaced, end[0], computed))
        if np.linalg.norm(apart) > _SAME * size:
            return True
    return False


def _displacements(meeting: Meeting, root, samples: int) -> list[np.ndarray]:
    """Small displacements (d,) that open or close the gaps in all manners that are admissible."""
    rows = np.linalg.solve(root, meeting.normals.T).T
    rests = np.abs(meeting.velocity(meeting.before)) <= _ROUNDING * np.max(np.abs(meeting.velocity(meeting.before)))
    free = rests & ~meeting.held
    count, random = len(rows), np.random.default_rng(0)
    wanted = np.concatenate([np.eye(count), -np.eye(count), random.normal(size=(samples, count))])
    wanted[:, free] = np.abs(wanted[:, free])
    wanted[:, meeting.held] = 0.0
    moves = np.linalg.lstsq(rows, wanted.T, rcond=1e-10)[0].T
    moves = [_without(move, rows[meeting.held].T) for move in moves]
    sizes = [np.linalg.norm(move) for move in moves]
    kept = [move / size for move, size in zip(moves, sizes, strict=True) if size > _SAME]
    return [np.linalg.solve(root.T, move) for move in kept if np.all(rows[free] @ move >= -_ROUNDING)]


def _without(vector, columns):
    """What is left of a vector (d,) without its part in the span of the columns (d, k)."""
    if not columns.size:
        return vector
    return vector - columns @ np.linalg.lstsq(columns, vector, rcond=1e-10)[0]


def _computed(meeting: Meeting, displaced):
    """(d,) the displacement after the run's own sequence, as its saltation matrices have it."""
    u, moved = meeting.before, displaced
    for contact, jump in zip(meeting.struck, meeting.jumps, strict=True):
        late = -(meeting.normals[contact] @ moved) / meeting.velocity(u)[contact]
        u, moved = u + jump, moved - jump * late
    return moved


def _neighbour(meeting: Meeting, displaced):
    """Displacement (d,) and velocity (d,) left behind by a displaced motion; None where it does not come to an end."""
    u, coupling = meeting.before, coupled(meeting.normals, meeting.mass)
    speeds = meeting.velocity(u)
    slow = _ROUNDING * np.max(np.abs(speeds))
    begin = -2 * np.max(np.abs(meeting.normals @ displaced)) / np.min(-speeds[speeds < -slow])
    s, place = begin, displaced + begin * u
    for _ in range(_MOST):
        gaps, speeds = meeting.normals @ place + meeting.drift * s, meeting.velocity(u)
        closing = speeds < -slow
        if not np.any(closing):
            return place - s * u, u
        wait = np.where(closing, np.maximum(gaps, 0.0) / np.where(closing, -speeds, 1.0), np.inf)
        contact = int(np.argmin(wait))
        s, place, gaps = s + wait[contact], place + wait[contact] * u, gaps + wait[contact] * speeds
        closed = gaps <= _ROUNDING * np.max(np.abs(meeting.normals @ displaced))
        closed[contact] = True
        u = _impact(meeting, u, reached(coupling & closed[None, :] & closed[:, None], contact))
    return None


def _impact(meeting: Meeting, u, taking_part):
    """(d,) velocity after an impact of these contacts by Newton's law.

    The record of a run knows the impacts that happened; these are those of neighbours, thousands of them.
    """
    normals, speeds = meeting.normals[taking_part], meeting.velocity(u)
    e, before = meeting.restitution(speeds)[taking_part], speeds[taking_part]
    inverse = np.linalg.solve(meeting.mass, normals.T)
    delassus = normals @ inverse

    def strike(e):
        impulse = nonnegative(delassus, (1 + e) * before)
        return impulse, impulse @ (before + before + delassus @ impulse) / 2

    impulse, gain = strike(e)
    if gain > 0 and np.ptp(e) > 0:
        least, loss = strike(np.full_like(e, np.min(e)))
        impulse = impulse + gain / (gain - loss) * (least - impulse) if gain > loss else least
    return u + inverse @ impulse


def coupled(rows, mass) -> np.ndarray:
    """(m, m) bool: which contacts, with rows (m, d) or several each (m, r, d), feel each other's impulses."""
    count, flat = len(rows), rows.reshape(-1, rows.shape[-1])
    delassus = flat @ np.linalg.solve(mass, flat.T)
    size = np.sqrt(np.maximum(np.diagonal(delassus), 0.0))
    acts = np.abs(delassus) > _ROUNDING * size[:, None] * size[None, :]
    return np.any(acts.reshape(count, -1, count, flat.shape[0] // count), axis=(1, 3))


def reached(coupling, start: int) -> np.ndarray:
    """(m,) bool: which contacts are coupled to this one, directly or through others."""
    found = np.arange(len(coupling)) == start
    while np.any(more := (coupling @ found) & ~found):
        found = found | more
    return found
