"""A run piece by piece: the smooth motions between its impacts and its grid times, with all gaps at their ends."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from diffcontact.numerics.batching import AT_ONCE
from diffcontact.numerics.compilation import jit_fast_compile
from diffcontact.numerics.least_squares import nonnegative
from diffcontact.numerics.linear import solve_mass
from diffcontact.schemes.event_timed.contacts import Law, Place, bends, free_acceleration
from diffcontact.system import System, gap_motion
from diffcontact.systems.cell_list_balls import CellListBalls
from diffcontact.systems.surfaces import Balls
from diffcontact.trajectory import Trajectory

# Relative size of what counts as nothing among loads and rows.
_DEPENDENT = 1e-6


@dataclass(frozen=True)
class End:
    """One end of every piece: times (m,), positions and velocities (m, d), gaps and gap velocities (m, c)."""

    t: np.ndarray
    q: np.ndarray
    u: np.ndarray
    gap: np.ndarray
    rate: np.ndarray


@dataclass(frozen=True)
class Course:
    """A run piece by piece.

    Attributes:
        impacts: its k percussions, a `Percussion` with entries (k, c) for all contacts; gaps: (k, c) at these [m].
        begin, end: of the pieces, which begin after an impact and end before one.
        fastest: (d,) the largest |u| of each coordinate [m/s].
        length: () the longest way of any coordinate, and no longer than that of a gap [m].
        error: () of positions [m], 0 where nothing is known of it.
        names: of the contacts, "" where there are none.
    """

    system: System
    params: Any
    impacts: Any
    gaps: np.ndarray
    begin: End
    end: End
    fastest: np.ndarray
    length: float
    error: float
    names: list[str]

    @property
    def count(self) -> int:
        """How many percussions there are."""
        return self.impacts.time.size

    @property
    def rounding(self) -> tuple[float, float]:
        """Gaps [m] and gap velocities [m/s] below these are zero."""
        eps = np.finfo(self.begin.q.dtype).eps
        size = np.max(np.abs(self.begin.q)) + self.length
        speed = np.max(self.fastest, initial=0.0)
        step = np.min(self.end.t - self.begin.t)
        return 10 * eps**0.75 * size, max(10 * eps**0.75 * speed, eps * size / step)

    def speed(self, t, q, contact: int) -> float:
        """How fast this gap would change if all that moves did so at its fastest and along it, or did at most [m/s]."""
        here, most = self.place(t, q), np.max(np.abs(self.begin.rate[:, contact]))
        return float(max(np.abs(here.rows[contact, 0]) @ self.fastest + np.abs(here.drift[contact, 0]), most))

    def states(self, t, q, u) -> End:
        """These states with their gaps."""
        return _end(self.system, self.params, t, q, u)

    def place(self, t, q) -> Any:
        """The contacts at one place, a `Place` with the mass as a matrix."""
        found = _place(self.system, self.params, np.asarray(t, q.dtype), q, self.fastest.size)
        found = jax.tree.map(np.asarray, found)
        return found._replace(mass=np.diag(found.mass)) if found.mass.ndim == 1 else found

    def law(self, before: np.ndarray) -> Any:
        """The `Law` (..., c) of an impact before which the gap velocities are these (..., c) [m/s]."""
        rows = np.concatenate([before.reshape(-1, before.shape[-1]), np.zeros_like(self.begin.gap[:1])])
        found = of_states(_laws, self.system, self.params, rows)
        return jax.tree.map(lambda x: x[:-1].reshape(before.shape), found)

    @cached_property
    def lasting(self) -> Any:
        """The `Law` (c,) of contacts that last."""
        return self.law(np.zeros_like(self.begin.gap[0]))

    def least_reaction(self, reactions) -> float:
        """Reactions below this are zero: against the largest, and against what stops the fastest within the run [N]."""
        mass = self.place(self.begin.t[0], self.begin.q[0]).mass
        stopping = np.max(mass @ self.fastest) / (self.end.t[-1] - self.begin.t[0])
        return np.finfo(self.begin.q.dtype).eps ** 0.5 * max(np.max(reactions, initial=0.0), stopping)

    def support(self, t, q, u, closed) -> Support:
        """What holds closed contacts (m, c) in states (m, ...); those slip that are faster than rounding."""
        return support(self.system, self.params, t, q, u, closed, self.rounding[1])

    def resting(self, at: End) -> Support:
        """What holds the contacts that rest at one end of every piece."""
        closed, slow = self.rounding
        return self.support(at.t, at.q, at.u, (at.gap <= closed) & (np.abs(at.rate) <= slow))


def course(system, params, run: Trajectory) -> Course:
    """The pieces of a run whose grid times are its steps and whose percussions are listed."""
    t, q, u = (np.asarray(x) for x in (run.t, run.q, run.u))
    numbers, names = _numbers(system, params, t[0], q[0])
    impacts, closeness = _impacts(system, params, run, numbers)
    # Grid times and impacts in order; what happens at one time is one break between two pieces.
    times = np.concatenate([impacts.time, t])
    order = np.argsort(times, kind="stable")
    same = 16 * np.finfo(t.dtype).eps * np.max(np.abs(t))
    groups = np.split(order, 1 + np.flatnonzero(np.diff(times[order]) > same))
    arrive, leave = zip(*(_ends(group, impacts, q, u) for group in groups), strict=True)
    at = np.array([times[group[0]] for group in groups], t.dtype)
    begin = _end(system, params, at[:-1], *(np.array([x[i] for x in leave[:-1]]) for i in (0, 1)))
    end = _end(system, params, at[1:], *(np.array([x[i] for x in arrive[1:]]) for i in (0, 1)))
    fastest = np.max(np.abs(np.concatenate([u, begin.u, end.u])), axis=0)
    gaps = np.concatenate([begin.gap, end.gap])
    length = min(float(np.max(np.ptp(x, axis=0), initial=0.0)) for x in (q, gaps[:, np.all(np.isfinite(gaps), axis=0)]))
    error = 0.0 if run.error is None or not np.isfinite(run.error) else float(run.error)
    return Course(system, params, impacts, closeness, begin, end, fastest, length, error, names)


def _ends(group, impacts, q, u):
    """(q, u) at the end of the piece before, and at the beginning of the one after a break."""
    count = impacts.time.size
    struck = [k for k in group if k < count]
    if not struck:
        node = group[0] - count
        return (q[node], u[node]), (q[node], u[node])
    first, last = struck[0], struck[-1]
    return (impacts.q[first], impacts.u[first]), (impacts.q[last], impacts.u[last] + impacts.jump[last])


def _end(system, params, t, q, u) -> End:
    gap, rate = of_states(_motions, system, params, t, q, u)
    # The open side of a box is at infinity, and stays there.
    return End(t, q, u, gap, np.where(np.isfinite(gap), rate, 0.0))


def _impacts(system, params, run: Trajectory, numbers) -> tuple[Any, np.ndarray]:
    """The percussions with entries for all contacts, whichever were listed, and all gaps then."""
    assert run.percussions is not None
    count = int(np.sum(np.asarray(run.percussions.contact) >= 0))
    listed: Any = jax.tree.map(lambda x: np.asarray(x)[:count], run.percussions)
    # With the state at the end, for a run without percussions.
    states = (listed.time, run.t), (listed.q, run.q), (listed.u, run.u)
    gaps = of_states(_motions, system, params, *(np.concatenate([x, np.asarray(y)[-1:]]) for x, y in states))[0][:count]
    order = np.argsort(numbers)
    place = np.minimum(np.searchsorted(numbers, listed.numbers, sorter=order), numbers.size - 1)
    known, rows = numbers[order[place]] == listed.numbers, np.broadcast_to(np.arange(count)[:, None], place.shape)

    def spread(values):
        wide = np.zeros((count, numbers.size, *values.shape[2:]), values.dtype)
        wide[rows[known], order[place][known]] = values[known]
        return wide

    contact = order[np.searchsorted(numbers, listed.contact, sorter=order)] if count else listed.contact
    names = ["impulse", "before", "after", "slow", "soft", *([] if listed.friction is None else ["friction"])]
    return replace(listed, contact=contact, **{name: spread(getattr(listed, name)) for name in names}), gaps


def _numbers(system, params, t, q) -> tuple[np.ndarray, list[str]]:
    """(c,) how percussions number the contacts, and their names."""
    count = jax.eval_shape(lambda q: system.gap(t, q, params), q).size
    if not (isinstance(system, Balls) and system.measures):
        return np.arange(count), [""] * count
    surfaces = system.surfaces
    pairs = surfaces.count * (2 * surfaces.spheres - surfaces.count - 1) // 2
    walls = (count - pairs) // surfaces.count
    first, second = surfaces.pairs(walls - (0 if surfaces.box is None else 2 * surfaces.dimension))
    names = [f"{surfaces.name(int(i))} and {surfaces.name(int(j))}" for i, j in zip(first, second, strict=True)]
    listed = isinstance(system, CellListBalls)
    return (first * (surfaces.spheres + walls) + second if listed else np.arange(count)), names


@partial(jit_fast_compile, static=("system",))
def _motions(system, params, t, q, u):
    return lax.map(lambda at: gap_motion(system, params, *at), (t, q, u), batch_size=AT_ONCE)


@partial(jit_fast_compile, static=("system",))
def _laws(system, params, before):
    return jax.vmap(lambda before: Law.of(system, params, before))(before)


@partial(jit_fast_compile, static=("system", "size"))
def _place(system, params, t, q, size):
    return Place.at(system, params, t, q, size)


class Support(NamedTuple):
    """States (m,) of a system, with what holds their closed contacts.

    Attributes:
        load: (m, c) normal reactions [N], zero where a contact is open; opening: (m, c) accelerations of gaps [m/s^2].
        slip: (m, c, k) slip velocities [m/s]; turning: (m, c, k) their rates [m/s^2].
        shared: (m,) whether what is held tells the sum of what loaded contacts do only, not the share of each;
            matters: (m,) whether the acceleration depends on these shares.
    """

    load: np.ndarray
    opening: np.ndarray
    slip: np.ndarray
    turning: np.ndarray
    shared: np.ndarray
    matters: np.ndarray


def support(system, params, t, q, u, closed, still: float) -> Support:
    """Find loads and friction of closed contacts (m, c), of which those slip that are faster than `still` [m/s].

    The record of a run has modes and no loads, and loads are asked of states beside it, too. Without friction that is
    Gauss' principle. With it, A the rows of what is held (N of the closed contacts, S of those that stick) and R those
    of the reactions (N - mu d . S where a contact slips along d), A (a + M^-1 R^T x) + b = 0 in the sense of least
    squares; contacts that would pull are left out. Those that stick are not asked whether friction suffices.
    """
    states = of_states(_states, system, params, t, q, u)
    found = [_held(*(x[k] for x in (*states, closed)), still=still) for k in range(len(t))]
    return Support(*(np.array(x) for x in zip(*found, strict=True)))


def of_states(function, system, params, *states):
    """Call a compiled function for states (m, ...), m > 0, padded with the last to a power of two: few are compiled."""
    count = len(states[0])
    size = AT_ONCE * 2 ** int(np.ceil(np.log2(max(1.0, count / AT_ONCE))))
    filled = (np.concatenate([x, np.repeat(x[-1:], size - count, axis=0)]) for x in states)
    return jax.tree.map(lambda x: np.asarray(x)[:count], function(system, params, *filled))


@partial(jit_fast_compile, static=("system",))
def _states(system, params, t, q, u):
    """Rows (m, c, 1 + k, d), these times M^-1, velocities and accelerations without reactions (m, c, 1 + k), mu."""

    def one(at):
        t, q, u = at
        place = Place.at(system, params, t, q, u.size)
        pushed = solve_mass(place.mass, place.rows.reshape(-1, u.size).T).T.reshape(place.rows.shape)
        free = place.rows @ free_acceleration(system, params, t, q, u, place.mass) + bends(system, params, t, q, u)
        return place.rows, pushed, place.velocity(u), free, Law.of(system, params, jnp.zeros_like(place.gap)).mu

    return lax.map(one, (t, q, u), batch_size=AT_ONCE)


def _held(rows, pushed, speeds, free, mu, closed, still: float):
    """The entries of a `Support` of one state."""
    size, slip = rows.shape[2], speeds[:, 1:]
    fast = np.linalg.norm(slip, axis=1)
    along = slip / np.where(fast > 0, fast, 1.0)[:, None]
    while True:
        slides = closed & (fast > still)
        sticks = closed & ~slides & (mu > 0)
        drag = np.where(slides, mu, 0.0)[:, None] * along
        held = np.concatenate([rows[closed, 0], rows[sticks, 1:].reshape(-1, size)])
        wanted = np.concatenate([free[closed, 0], free[sticks, 1:].ravel()])
        normal = pushed[:, 0] - np.einsum("ck,ckd->cd", drag, pushed[:, 1:])
        reactions = np.concatenate([normal[closed], pushed[sticks, 1:].reshape(-1, size)])
        matrix = held @ reactions.T
        if np.any(mu[closed] > 0):
            found = np.linalg.lstsq(matrix, -wanted, rcond=_DEPENDENT)[0]
        else:
            found = nonnegative(matrix, wanted)
        load = np.zeros(len(closed), free.dtype)
        load[closed] = found[: np.sum(closed)]
        pulls = load < -_DEPENDENT * np.max(np.abs(load), initial=0.0)
        if not np.any(pulls):
            break
        closed = closed & ~pulls
    moved = found @ reactions if len(found) else np.zeros(size)
    loaded = load > _DEPENDENT * np.max(load, initial=0.0)
    counts = np.concatenate([loaded[closed], np.repeat(loaded[sticks], slip.shape[1])])
    rank = _rank(held[counts] @ reactions[counts].T)
    shared = bool(np.any(loaded & (mu > 0))) and rank < np.sum(counts)
    matters = shared and rank < _rank(reactions[counts])
    reached = free + rows @ moved
    return load, reached[:, 0], slip, reached[:, 1:], shared, matters


def _rank(rows) -> int:
    """The number of independent rows, each of length one."""
    sizes = np.linalg.norm(rows, axis=1, keepdims=True)
    return int(np.linalg.matrix_rank(rows / np.where(sizes > 0, sizes, 1.0), tol=_DEPENDENT)) if rows.size else 0
