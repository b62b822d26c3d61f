r"""The course of a motion between the times of its grid.

Between two nodes, grid times or percussions, the course is the cubic with the places and velocities of both (Hermite)::

    q(s) = (1 + 2s)(1-s)^2 q_0 + s^2 (3 - 2s) q_1 + h s (1-s)^2 v_0 - h s^2 (1-s) v_1,      s = (t - t_0) / h

v_0 is the velocity behind the first node, v_1 the one before the second. At a percussion they differ: there the course
has its kink.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rates = Callable[[NDArray, NDArray], NDArray]
Gap = Callable[[float, NDArray], float]

# An arc is cut so often that its chords leave it by this part of the whole way at most.
CHORD, _MOST_CHORDS = 5e-5, 48
# Arcs that are to meet at an unlisted impact may miss each other by this part of what they are bent by.
_MEETING = 0.05
# Parts below it are rounding: of an interval by which a meeting is outside it, of its bound by which friction is below.
ROUNDED = 1e-6


@dataclass(frozen=True, eq=False)
class Course:
    """Dense rows of a motion, two at one time at a jump."""

    t: NDArray  # (m,) times
    q: NDArray  # (m, d) places
    u: NDArray  # (m, e) velocities
    impacts: NDArray  # (p,) times of impacts
    # (p,) the contact that closed, -1 where several did or nobody knows; -2 where no more is known than that there was
    # an impact in an interval of the grid, about the middle of which it is listed
    contacts: NDArray

    @property
    def vague(self) -> bool:
        """Whether nobody knows when some impact happened."""
        return bool(np.any(self.contacts == -2))

    def kept(self, rows: NDArray) -> Course:
        """Some of the rows."""
        return Course(self.t[rows], self.q[rows], self.u[rows], self.impacts, self.contacts)


def course(
    trajectory: Any, rates: Rates | None = None, jumps: Sequence[float] | None = None, gap: Gap | None = None
) -> Course:
    """The course of a trajectory, with the percussions that it lists.

    An impact that is not listed is put where the arcs from before and from behind meet, if no body is in another there.
    Where they do not, as with several impacts in one interval, the course is straight from one time to the next.
    `rates` maps rows of q and u to rows of q'; `jumps` are times at which velocities jump, as by friction; `gap` maps
    (t, q) to the smallest gap.
    """
    t, q, u = (np.asarray(part, float) for part in (trajectory.t, trajectory.q, trajectory.u))
    good = np.isfinite(t) & np.all(np.isfinite(q), axis=1) & np.all(np.isfinite(u), axis=1)
    length = int(np.argmin(good)) if not good.all() else good.size
    t, q, u = t[:length], q[:length], u[:length]
    if length < 2:
        return Course(t, q, u, np.zeros(0), np.zeros(0, int))
    impacts, unknown = _listed(trajectory, t), []
    if jumps is None:
        # Where a contact pushes in an interval that had not in the one before.
        impulse = np.nan_to_num(np.asarray(trajectory.impulse, float)[: length - 1])
        pushes = impulse.reshape(len(impulse), -1) > 0
        began = pushes & ~np.vstack([np.zeros((1, pushes.shape[1]), bool), pushes[:-1]])
    else:
        began = ((np.asarray(jumps)[:, None] > t[:-1]) & (np.asarray(jumps)[:, None] <= t[1:])).T
    struck: NDArray = np.any(began, axis=1)
    straight = rates is None and q.shape != u.shape
    known = np.array([row[0] for row in impacts])
    for i in map(int, np.flatnonzero(struck)):
        if np.any((known >= t[i]) & (known <= t[i + 1])) or straight:
            continue
        found = _meeting(t, q, u, struck, i) if q.shape == u.shape else None
        if found is not None and gap is not None and gap(found[0], found[1]) < -_MEETING * np.ptp(q, axis=0).max():
            found = None
        if found is None:
            unknown.append(i)
        else:
            (contacts,) = np.nonzero(began[i])
            impacts.append((*found, int(contacts[0]) if jumps is None and contacts.size == 1 else -1))
    return _through(t, q, u, impacts, np.array(unknown, int), rates, straight)


def _through(
    t: NDArray, q: NDArray, u: NDArray, impacts: list[tuple], unknown: NDArray, rates: Rates | None, straight: bool
) -> Course:
    """Join grid times and impacts to a course."""
    before, after, impact, count = u, u, np.full(t.size, -2), t.size
    middles = (t[unknown] + t[unknown + 1]) / 2
    where = np.array([_place(t, u, time, behind) for time, _, _, behind, _ in impacts], float)
    order = np.argsort(np.concatenate([np.arange(count), where]), kind="stable")
    if impacts:
        columns = [np.stack(column) for column in zip(*impacts, strict=True)]
        t, q, before, after, impact = (
            np.concatenate(pair)[order] for pair in zip((t, q, before, after, impact), columns, strict=True)
        )
    # The interval of the grid in which each arc lies.
    interval = np.floor(np.concatenate([np.arange(count), where])[order][:-1]).astype(int)
    chord = np.isin(interval, unknown) | straight
    v0, v1 = (v if rates is None else np.asarray(rates(q, v), float) for v in (after, before))
    if straight:
        v0 = v1 = np.zeros_like(q)
    rows, known = _sampled(t, q, before, after, v0, v1, chord), impact >= -1
    times = np.concatenate([t[known], middles])
    contacts = np.concatenate([impact[known].astype(int), np.full(unknown.size, -2)])
    order = np.argsort(times, kind="stable")
    return Course(*rows, times[order], contacts[order])


def _place(t: NDArray, u: NDArray, time: float, behind: NDArray) -> float:
    """Position of an impact among the grid times, as a number.

    One at a grid time, up to rounding, is before it where the velocity there is the one behind the impact.
    """
    i = int(np.clip(np.searchsorted(t, time, side="right") - 1, 0, t.size - 1))
    part = 0.5 if i + 1 >= t.size else float((time - t[i]) / (t[i + 1] - t[i]))
    for j, near in ((i, part < 1e-6), (i + 1, part > 1 - 1e-6 and i + 1 < t.size)):
        if near:
            off = np.abs(u[j] - behind).max()
            return j - 1e-9 if j > 0 and off <= 1e-6 * max(np.abs(behind).max(), 1e-300) else j + 1e-9
    return i + float(np.clip(part, 1e-6, 1 - 1e-6))


def _sampled(t, q, before, after, v0, v1, chord) -> tuple[NDArray, NDArray, NDArray]:
    """Sample all arcs, each from behind a node to the next."""
    h = np.diff(t)
    q0, q1, v0, v1 = q[:-1], q[1:], v0[:-1], v1[1:]
    bend = h[:, None] * np.maximum(
        np.abs(v0 - v1) / 8, np.abs((v0 + v1) / 2 - (q1 - q0) / np.where(h > 0, h, 1)[:, None])
    )
    way = np.ptp(q, axis=0)
    way = np.where(way > 1e-9 * max(way.max(initial=0.0), 1e-300), way, np.inf)
    count = np.ceil(np.sqrt(np.max(bend / way, axis=1, initial=0.0) / CHORD))
    count = np.where(chord | (h <= 0), 1, np.clip(count, 1, _MOST_CHORDS)).astype(int)
    arc = np.repeat(np.arange(h.size), count + 1)
    s = (np.arange(arc.size) - np.repeat(np.cumsum(count + 1) - count - 1, count + 1)) / count[arc]
    s, step = s[:, None], h[arc][:, None]
    bent = (
        (1 + 2 * s) * (1 - s) ** 2 * q0[arc]
        + s**2 * (3 - 2 * s) * q1[arc]
        + step * (s * (1 - s) ** 2 * v0[arc] - s**2 * (1 - s) * v1[arc])
    )
    places = np.where(chord[arc][:, None], (1 - s) * q0[arc] + s * q1[arc], bent)
    velocities = (1 - s) * after[:-1][arc] + s * before[1:][arc]
    times = t[arc] + s[:, 0] * h[arc]
    # Where nothing jumps the end of an arc is the beginning of the next.
    smooth = np.all(before == after, axis=1)
    keep = (s[:, 0] < 1) | ~smooth[arc + 1]
    keep[-1] = True
    return times[keep], places[keep], velocities[keep]


def thinned(t: NDArray, values: NDArray, tolerance: float) -> NDArray:
    """Select rows so that lines keep within `tolerance` of each range.

    Rows at a jump stay (Douglas and Peucker's algorithm, with the distance at the same time).
    """
    way = np.ptp(values, axis=0) if values.size else np.zeros(values.shape[1])
    scaled = values[:, way > 0] / way[way > 0]
    jumps = np.flatnonzero(np.diff(t) <= 0)
    keep = np.zeros(t.size, bool)
    keep[[0, -1, *jumps, *(jumps + 1)]] = True
    edges = np.flatnonzero(keep)
    stack = [(a, b) for a, b in pairwise(edges) if b > a + 1]
    while stack:
        a, b = stack.pop()
        part = ((t[a + 1 : b] - t[a]) / (t[b] - t[a]))[:, None]
        off = np.abs(scaled[a + 1 : b] - (1 - part) * scaled[a] - part * scaled[b]).max(axis=1, initial=0.0)
        worst = int(np.argmax(off))
        if off[worst] > tolerance:
            middle = a + 1 + worst
            keep[middle] = True
            stack += [(x, y) for x, y in ((a, middle), (middle, b)) if y > x + 1]
    return np.flatnonzero(keep)


def _listed(trajectory: Any, t: NDArray) -> list[tuple]:
    """Time, place, velocities and contact of the listed percussions."""
    found = trajectory.percussions
    if found is None:
        return []
    time, contact, q, u, jump = (
        np.asarray(part, float) for part in (found.time, found.contact, found.q, found.u, found.jump)
    )
    there = np.flatnonzero((contact >= 0) & (time >= t[0]) & (time <= t[-1]))
    return [(time[i], q[i], u[i], u[i] + jump[i], int(contact[i])) for i in there]


def _meeting(
    t: NDArray, q: NDArray, u: NDArray, struck: NDArray, i: int
) -> tuple[float, NDArray, NDArray, NDArray] | None:
    """Locate an impact where parabolas from both sides meet."""
    h = t[i + 1] - t[i]

    def bent(j):
        return (u[j + 1] - u[j]) / (t[j + 1] - t[j]) if 0 <= j < struck.size and not struck[j] else None

    earlier, later = bent(i - 1), bent(i + 1)
    earlier = later if earlier is None else earlier
    later = earlier if later is None else later
    if earlier is None or later is None:
        earlier = later = np.zeros_like(u[i])
    jump = u[i + 1] - u[i] - h * (earlier + later) / 2
    size = float(np.linalg.norm(jump))
    if not size > 0:
        return None

    # The distance of the two arcs is a + b s + c s^2; along the jump of the velocity it has to vanish.
    a = q[i] - q[i + 1] + h * u[i + 1] - h**2 * later / 2
    b = u[i] - u[i + 1] + h * later
    c = (earlier - later) / 2
    roots = np.roots([c @ jump, b @ jump, a @ jump])
    at = np.clip(roots.real, 0.0, h)
    at = at[np.abs(roots - at) <= ROUNDED * h]
    if at.size == 0:
        return None
    off = np.linalg.norm(a + np.multiply.outer(at, b) + np.multiply.outer(at**2, c), axis=1)
    at, off = float(at[np.argmin(off)]), off.min()
    if off > _MEETING * h * size:
        return None
    place = q[i] + at * u[i] + at**2 * earlier / 2
    return t[i] + at, place, u[i] + at * earlier, u[i + 1] - (h - at) * later
