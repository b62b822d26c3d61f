"""A run piece by piece: the smooth motions between its impacts and its grid times, with all gaps at their ends."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from diffcontact import qp
from diffcontact.certify.support import AT_ONCE, Support, of_states, support
from diffcontact.friction import Slip, friction_coefficients, slips, tangential_restitutions
from diffcontact.numerics.compilation import jit_fast_compile
from diffcontact.simulate import Trajectory
from diffcontact.system import System, acceleration, contacts, gap_acceleration, gap_motion
from diffcontact.systems.cell_list_balls import CellListBalls
from diffcontact.systems.surfaces import Balls


@dataclass(frozen=True)
class Impacts:
    """The percussions of a run, k of them, with an entry for each contact of the system, near or not.

    Attributes: as of `Percussion`, `friction` zero where contacts do not rub; `gaps` (k, c) are those of all contacts
        at that time [m].
    """

    time: np.ndarray
    contact: np.ndarray
    impulse: np.ndarray
    before: np.ndarray
    after: np.ndarray
    slow: np.ndarray
    soft: np.ndarray
    q: np.ndarray
    u: np.ndarray
    jump: np.ndarray
    friction: np.ndarray
    gaps: np.ndarray

    @property
    def count(self) -> int:
        return self.time.size


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
        system, params: what moved.
        impacts: its percussions.
        begin, end: of the pieces, which begin after an impact and end before one.
        fastest: (d,) the largest |u| of each coordinate [m/s].
        length: () the longest way of any coordinate, and no longer than that of a gap [m].
        error: () of positions [m], 0 where nothing is known of it.
        names: of the contacts, "" where there are none.
    """

    system: System
    params: Any
    impacts: Impacts
    begin: End
    end: End
    fastest: np.ndarray
    length: float
    error: float
    names: list[str]

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
        here, most = self.contacts(t, q), np.max(np.abs(self.begin.rate[:, contact]))
        return float(max(np.abs(here.normals[contact]) @ self.fastest + np.abs(here.drift[contact]), most))

    def states(self, t, q, u) -> End:
        """These states with their gaps."""
        return _end(self.system, self.params, t, q, u)

    def contacts(self, t, q):
        return jax.tree.map(np.asarray, _contacts(self.system, self.params, np.asarray(t, q.dtype), q))

    def slips(self, t, q) -> Slip:
        found = _slips(self.system, self.params, np.asarray(t, q.dtype), q, self.fastest.size)
        return jax.tree.map(np.asarray, found)

    def restitution(self, before: np.ndarray) -> np.ndarray:
        """(..., c) coefficients of restitution where the gap velocities before an impact are these (..., c) [m/s]."""
        if not self.system.speed_dependent:
            return np.broadcast_to(np.asarray(self.system.restitution(self.params)), before.shape)
        return _rows_of(_restitutions, self.system, self.params, before)

    def struck_friction(self, before: np.ndarray) -> np.ndarray:
        """(..., c) coefficients of friction in an impact before which the gap velocities are these (..., c) [m/s]."""
        return _rows_of(_frictions, self.system, self.params, before)

    @cached_property
    def friction(self) -> tuple[np.ndarray, np.ndarray]:
        """(c,) coefficients of friction of contacts that last, and of tangential restitution."""
        return jax.tree.map(np.asarray, _lasting(self.system, self.params, self.begin.gap[0]))

    def mass(self, q) -> np.ndarray:
        mass = np.asarray(_mass(self.system, self.params, q))
        return np.diag(mass) if mass.ndim == 1 else mass

    def least_reaction(self, reactions) -> float:
        """Reactions below this are zero: against the largest, and against what stops the fastest within the run [N]."""
        stopping = np.max(self.mass(self.begin.q[0]) @ self.fastest) / (self.end.t[-1] - self.begin.t[0])
        return np.finfo(self.begin.q.dtype).eps ** 0.5 * max(np.max(reactions, initial=0.0), stopping)

    @property
    def still(self) -> float:
        """Slips below this are zero [m/s]."""
        return self.rounding[1]

    def support(self, at: End) -> Support:
        """What holds the closed contacts at one end of every piece, where they rub."""
        closed, slow = self.rounding
        rests = (at.gap <= closed) & (np.abs(at.rate) <= slow)
        return support(self.system, self.params, at.t, at.q, at.u, rests, self.still)

    def reactions(self, t, q, u, closed) -> tuple[np.ndarray, np.ndarray]:
        """Reactions (..., c) [N] of closed contacts (..., c), and the accelerations of all gaps with them [m/s^2]."""
        if self.system.rubs:
            held = support(self.system, self.params, t, q, u, closed, self.still)
            return held.load, held.opening
        return of_states(_reactions, self.system, self.params, t, q, u, closed)


def course(system, params, run: Trajectory) -> Course:
    """The pieces of a run whose grid times are its steps and whose percussions are listed."""
    t, q, u = (np.asarray(x) for x in (run.t, run.q, run.u))
    numbers, names = _numbers(system, params, t[0], q[0])
    impacts = _impacts(system, params, run, numbers)
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
    return Course(system, params, impacts, begin, end, fastest, length, error, names)


def _ends(group, impacts: Impacts, q, u):
    """(q, u) at the end of the piece before, and at the beginning of the one after a break."""
    struck = [k for k in group if k < impacts.count]
    if not struck:
        node = group[0] - impacts.count
        return (q[node], u[node]), (q[node], u[node])
    first, last = struck[0], struck[-1]
    return (impacts.q[first], impacts.u[first]), (impacts.q[last], impacts.u[last] + impacts.jump[last])


def _end(system, params, t, q, u) -> End:
    gap, rate = of_states(_motions, system, params, t, q, u)
    # The open side of a box is at infinity, and stays there.
    return End(t, q, u, gap, np.where(np.isfinite(gap), rate, 0.0))


def _impacts(system, params, run: Trajectory, numbers) -> Impacts:
    """All contacts' entries, whichever were listed."""
    assert run.percussions is not None
    count = int(np.sum(np.asarray(run.percussions.contact) >= 0))
    listed = jax.tree.map(lambda x: np.asarray(x)[:count], run.percussions)
    # With the state at the end, for a run without percussions.
    states = (listed.time, run.t), (listed.q, run.q), (listed.u, run.u)
    ends = (np.concatenate([x, np.asarray(y)[-1:]]) for x, y in states)
    gaps = of_states(_motions, system, params, *ends)[0][:count]

    def spread(values):
        wide = np.zeros((count, numbers.size, *values.shape[2:]), values.dtype)
        order = np.argsort(numbers)
        place = np.minimum(np.searchsorted(numbers, listed.numbers, sorter=order), numbers.size - 1)
        known = numbers[order[place]] == listed.numbers
        rows = np.broadcast_to(np.arange(count)[:, None], place.shape)
        wide[rows[known], order[place][known]] = values[known]
        return wide

    where = np.argsort(numbers)
    contact = where[np.searchsorted(numbers, listed.contact, sorter=where)] if count else listed.contact
    return Impacts(
        time=listed.time,
        contact=contact,
        impulse=spread(listed.impulse),
        before=spread(listed.before),
        after=spread(listed.after),
        slow=spread(listed.slow),
        soft=spread(listed.soft),
        q=listed.q,
        u=listed.u,
        jump=listed.jump,
        friction=spread(np.zeros_like(listed.impulse)[..., None] if listed.friction is None else listed.friction),
        gaps=gaps,
    )


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


def _rows_of(function, system, params, before):
    """(..., c) coefficients at gap velocities before an impact (..., c)."""
    rows = before.reshape(-1, before.shape[-1])
    return of_states(function, system, params, rows).reshape(before.shape) if len(rows) else np.zeros_like(before)


@partial(jit_fast_compile, static=("system",))
def _restitutions(system, params, before):
    return jax.vmap(lambda before: jnp.broadcast_to(system.restitution_of(params, before), before.shape))(before)


@partial(jit_fast_compile, static=("system",))
def _frictions(system, params, before):
    return jax.vmap(lambda before: friction_coefficients(system, params, before.size, before.dtype, before))(before)


@partial(jit_fast_compile, static=("system",))
def _lasting(system, params, gap):
    """Coefficients of friction, and of tangential restitution, of contacts (c,) that last."""
    given = system, params, gap.size, gap.dtype
    return friction_coefficients(*given), tangential_restitutions(*given)


@partial(jit_fast_compile, static=("system",))
def _mass(system, params, q):
    return system.mass(q, params)


@partial(jit_fast_compile, static=("system",))
def _contacts(system, params, t, q):
    return contacts(system, params, t, q)


@partial(jit_fast_compile, static=("system", "size"))
def _slips(system, params, t, q, size):
    return slips(system, params, t, q, size)


@partial(jit_fast_compile, static=("system",))
def _reactions(system, params, t, q, u, closed):
    """Gauss' principle for contacts that are held: smooth_motion.start says more about it."""

    def one(at):
        t, q, u, closed = at
        near, free = contacts(system, params, t, q), acceleration(system, params, t, q, u)
        curving = gap_acceleration(system, params, t, q, u, free) - near.normals @ free
        found = qp.project(system.mass(q, params), near.normals, jnp.where(closed, curving, jnp.inf), free)
        return found.multipliers, near.normals @ found.u + curving

    return lax.map(one, (t, q, u, closed))
