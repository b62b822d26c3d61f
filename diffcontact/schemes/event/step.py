"""EventTimed: every impact at its own time, so that the trajectory's derivative is the true one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.ad_checkpoint import checkpoint_name
from jax.typing import ArrayLike

from diffcontact.batching import where_wanted
from diffcontact.schemes.event.contacts import (
    Law,
    Limits,
    Place,
    bends,
    free_acceleration,
    length,
    unit,
    velocities,
)
from diffcontact.schemes.event.modes import OPEN, SLIP
from diffcontact.schemes.event.moment import Due, Moment, pass_by
from diffcontact.schemes.event.monitor import Estimated, estimated
from diffcontact.schemes.event.motion import TABLEAUS, Jump, Motion, Piece, move
from diffcontact.schemes.event.search import dips, first_event
from diffcontact.schemes.event.traced import traced
from diffcontact.schemes.event_timed.impacts import Percussion
from diffcontact.schemes.layers import Layers
from diffcontact.schemes.scheme import Info, Scheme, State
from diffcontact.status import Status, first
from diffcontact.system import System, acceleration, rate

RECORD = "events of a step"
# The kinds of events: a gap closes; a load vanishes; a slip comes to its end, or friction reaches its bound.
CLOSES, LETS_GO, CHANGES_GRIP = range(3)


class Watched(NamedTuple):
    """What changes its sign at an event, of gaps, loads and grips, one after the other, and how fast, where that is
    known `exact`ly.

    The gap of what is open; the load of what is held; of a contact that sticks what friction could still take, of one
    that slips its slip along its direction.
    """

    values: Array
    rates: Array
    exact: Array

    @classmethod
    def of(cls, gap, speeds, load, faster, modes, direction, mu) -> Watched:
        slips, zero, kinds = modes == SLIP, jnp.zeros_like(gap), 3 if direction.shape[1] else 2
        along, changes = (jnp.sum(x[:, 1:] * direction, axis=1) for x in (speeds, faster))
        grip = jnp.where(slips, along, mu * load[:, 0] - length(load[:, 1:]))
        values = gap, load[:, 0], grip
        rates, exact = (speeds[:, 0], zero, jnp.where(slips, changes, 0.0)), (zero == 0, zero != 0, slips)
        return cls(*(jnp.concatenate(x[:kinds]) for x in (values, rates, exact)))


class Equations(NamedTuple):
    """A step, and its equations in given modes."""

    system: System
    tableau: Any
    events: int

    def piece(self, params, state, piece: Piece):
        """One piece in its modes: t, left, q, u and the impulses (c, 1 + k) at its end.

        An event is where its number is zero: s - F(s) / F'(s), and the motion goes on so long. Of what is at a root the
        first of Newton's steps has the first derivative, another one the second.
        """
        (t, left, q, u), ends = state, piece.timed >= 0

        def newton(carry, number):
            def real():
                s, *_ = carry
                end = move(self.system, params, self.tableau, t, s, q, u, piece, ends)
                if not piece.modes.size:
                    return s, end.q, end.u, end.impulse
                seen = self.watched(params, t + s, end, piece)
                value, slope = seen.values[piece.timed], lax.stop_gradient(seen.rates[piece.timed])
                late = jnp.where(ends, value - lax.stop_gradient(value), 0.0) / jnp.where(slope != 0, slope, 1.0)
                way, a = lax.stop_gradient((rate(self.system, params, end.q, end.u), end.a))
                return s - late, end.q - late * way, end.u - late * a, end.impulse

            return where_wanted((number == 0) | ends, real, carry), None

        none = jnp.zeros((piece.modes.size, 1 + piece.direction.shape[1]), u.dtype)
        start = jnp.where(piece.last, left, piece.s), q, u, none
        (s, x, w, impulse), _ = lax.scan(newton, start, jnp.arange(2 if piece.modes.size else 1))
        return t + s, left - s, x, w, impulse

    def moved(self, params, states, pieces: Piece, tangents):
        """The tangents of the states at the ends of pieces, from those at the beginnings, and of the impulses.

        Args:
            states: t, left, q, u (m, ...) where the pieces begin.
            tangents: of params and of the first state.
        """
        dparams, start = tangents

        def one(carry, known):
            state, piece = known

            def real(dparams, carry):
                def after(params, state):
                    *end, z = self.piece(params, state, piece)
                    return tuple(end), z

                end, z = jax.jvp(after, (params, state), (dparams, carry[0]))[1]
                return end, carry[1] + z

            return where_wanted(piece.used, lambda: real(dparams, carry), carry), carry[0]

        none = jnp.zeros((pieces.modes.shape[1], 1 + pieces.direction.shape[2]), states[3].dtype)
        (end, z), begins = lax.scan(jax.checkpoint(one, prevent_cse=False), (start, none), (states, pieces))
        return begins, end, z

    def watched(self, params, t, end: Motion, piece: Piece) -> Watched:
        """What is watched at the end of a piece."""
        gap, speeds = velocities(self.system, params, t, end.q, end.u)
        mu = Law.of(self.system, params, jnp.zeros_like(gap)).mu
        return Watched.of(gap, speeds, end.load, end.faster, piece.modes, piece.direction, mu)

    def percussions(self, params, h, pieces: Piece, states) -> Percussion:
        """The percussions at the beginnings of pieces (m, ...); of no contact where a piece begins without one."""
        timed = jnp.concatenate([jnp.full(1, -1, jnp.int32), pieces.timed[:-1]])

        def one(piece: Piece, state, timed):
            t, _, q, u = state
            system, count = self.system, piece.modes.size
            strikes = piece.used & (timed >= 0) & (timed < count)
            alone = piece._replace(modes=jnp.zeros_like(piece.modes))
            size = u.size

            def struck():
                place = Place.at(system, params, t, q, size)
                end = move(system, params, self.tableau, t, jnp.zeros_like(t), q, u, alone, jnp.array(False))
                free = free_acceleration(system, params, t, q, u, place.mass)
                faster = place.rows @ free + bends(system, params, t, q, u)
                slow = Limits.at(place, place.gap, *lax.stop_gradient((u, free, faster)), h, t).slow
                velocity = [place.velocity(w)[:, 0] for w in (u, end.u)]
                return end.impulse, *velocity, lax.stop_gradient(slow), end.u - u

            none = jnp.zeros(count, u.dtype)
            nothing = jnp.zeros((count, 1 + piece.direction.shape[1]), u.dtype), none, none, none, jnp.zeros_like(u)
            z, before, after, slow, jump = where_wanted(strikes, struck, nothing)
            soft = strikes & (piece.jump.modes != OPEN) & ~piece.jump.bounce
            where = jnp.where(strikes, t, 0.0), jnp.where(strikes, timed, -1).astype(jnp.int32)
            at = jnp.where(strikes, q, 0.0), jnp.where(strikes, u, 0.0)
            friction = z[:, 1:] if self.system.slip is not None else None
            return Percussion(*where, z[:, 0], before, after, slow, soft, *at, jump, jnp.arange(count), friction)

        return lax.map(lambda x: one(*x), (pieces, states, timed))

    def find(self, params, t, h, q, u, record: bool):
        """Go from event to event: what is due, the modes, smooth motion to the next one.

        Returns:
            The state at the end (t, left, q, u), impulses (c, 1 + k), status; and, for the record, the `Piece`s
            (m, ...) and the states where they begin.
        """
        system, count = self.system, jax.eval_shape(lambda: self.system.gap(t, q, params)).shape[0]
        across = jax.eval_shape(lambda: velocities(system, params, t, q, u)[1]).shape[1] - 1
        no, number = jnp.array(False), jnp.zeros((), jnp.int32)
        jump, none = Jump.nothing(count, across, u.dtype), jnp.zeros((count, 1 + across), u.dtype)
        blank, start = Piece(jump, jump.modes, jump.direction, jnp.zeros_like(h), number - 1, no, no), (t, h, q, u)
        if not count:
            whole = blank._replace(s=h, last=~no, used=~no)
            end = move(system, params, self.tableau, t, h, q, u, whole, no, search=True)
            states = (t + h, jnp.zeros_like(h), end.q, end.u), none, number
            return (*states, *(jax.tree.map(lambda x: x[None], (whole, start)) if record else ()))
        many = self.events + 1
        kept = jax.tree.map(lambda x: jnp.zeros((many, *x.shape), x.dtype), (blank, start)) if record else None
        due, limits = Due.nothing(count, across, u.dtype), Limits.nothing(none[:, 0])

        def one(carry):
            number, at, due, limits, impulse, status, _, kept = carry
            after, due, limits, z, told, done, piece = self.next_event(params, h, at, due, limits, number, blank)
            kept = jax.tree.map(lambda all_, new: all_.at[number].set(new), kept, (piece, at) if record else None)
            return number + 1, after, due, limits, impulse + z, first(status, told), done, kept

        start = number, start, due, limits, none, number, no, kept
        _, end, _, _, impulse, status, done, kept = lax.while_loop(lambda c: ~c[6] & (c[0] < many), one, start)
        status = first(status, jnp.where(done, Status.OK, Status.TOO_MANY_EVENTS).astype(jnp.int32))
        return end, impulse, status, *(kept or ())

    def next_event(self, params, h, at, due: Due, limits, number, blank: Piece):
        """What is due, and the way to the next event or to the end of the step."""
        (t, left, q, u), system, count = at, self.system, due.released.size
        rounding, late = 8 * jnp.finfo(u.dtype).eps * (jnp.abs(t) + jnp.abs(left)), number >= self.events - 1
        now = pass_by(system, params, h, at, due, limits, late, late)
        mu = Law.of(system, params, jnp.zeros_like(now.here.gap)).mu
        piece = blank._replace(modes=now.modes, direction=now.direction)
        held = jnp.any(now.modes != OPEN)

        def advance(s):
            end = move(system, params, self.tableau, t, s, q, now.u, piece, held, search=True)
            return end, self.watched(params, t + s, end, piece)

        faster = now.here.rows @ now.a + now.bend
        begin = Watched.of(now.here.gap, now.speeds, now.load, faster, now.modes, now.direction, mu)
        watch, zero, slow = watching(now, mu, left > rounding)
        way = rate(system, params, q, now.u)

        def between(s, end):
            bend = end.q - q - s * way
            gaps = lambda f: system.gap(t + f * s, q + f * s * way + f**2 * bend, params)  # noqa: E731
            return dips(gaps, watch[:count], now.limits.gap)

        nowhere = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(advance, left))
        found = first_event(advance, begin, watch, zero, slow, left, rounding, between, nowhere)
        end, kind, contact = found.arrival, found.index // count, found.index % count
        this, slips = (jnp.arange(count) == contact) & found.found, now.modes == SLIP
        strike, lets_go, grip = found.found & (kind == CLOSES), this & (kind == LETS_GO), this & (kind == CHANGES_GRIP)
        ended, starts = grip & slips, grip & ~slips
        struck = due.strike & (now.jump.modes != OPEN)
        after = Due(
            strike=strike,
            contact=contact,
            ended=ended,
            modes=now.modes,
            direction=now.direction,
            released=(due.released & ~struck) | lets_go,
            sliding=(due.sliding & ~ended) | starts,
            way=jnp.where(starts[:, None], unit(-end.load[:, 1:], due.way), due.way),
        )
        timed = jnp.where(strike | jnp.any(ended), found.index, -1).astype(jnp.int32)
        piece = Piece(now.jump, now.modes, now.direction, found.s, timed, ~found.found, jnp.array(True))
        # The inequalities of the modes at the end of the piece: no gap, load or grip is negative by more than rounding.
        least = jnp.minimum(begin.values, 0.0) - zero * jnp.finfo(u.dtype).eps ** -0.25
        holds = ~jnp.any(watch & (found.seen.values < least))
        told = jnp.where(holds, Status.OK, Status.TOO_COARSE)
        told = jnp.where(now.found, told, Status.NO_FRICTION).astype(jnp.int32)
        moved = t + found.s, left - found.s, end.q, end.u
        return moved, after, now.limits, now.z + end.impulse, told, ~found.found, piece


def watching(now: Moment, mu, lasts) -> tuple[Array, ...]:
    """Which numbers (3 c,) are watched, and below what they and their rates are zero to rounding."""
    limits, slips, closed = now.limits, now.modes == SLIP, now.modes != OPEN
    zero, eps = jnp.zeros_like(mu), jnp.finfo(mu.dtype).eps ** 0.75
    lasting = closed & now.regular & lasts
    forces = jnp.full_like(mu, eps * jnp.max(now.load[:, 0], initial=0.0))
    parts = jnp.abs(now.free) + jnp.abs(now.a - now.free)
    sizes = jnp.max(jnp.abs(now.here.rows[:, 1:]) @ parts + jnp.abs(now.bend[:, 1:]), initial=0.0)
    values = zero + limits.gap, forces, jnp.where(slips, limits.slip, forces)
    rates = zero + limits.velocity, zero, jnp.where(slips, eps * sizes, 0.0)
    kinds = 3 if now.direction.shape[1] else 2
    watch = ~closed, lasting, lasting & (mu > 0)
    return tuple(jnp.concatenate(x[:kinds]) for x in (watch, values, rates))


def _stepped(equations: Equations, record: bool, *given):
    """The state at the end of a step, impulses (c, 1 + k) and status; for the record its pieces and where they begin.

    The derivative is that of the equations of the pieces.

    Args:
        given: params, t, h, q and u.
    """

    @jax.custom_jvp
    def stepped(*given):
        return equations.find(*given, record=False)

    @jax.custom_jvp
    def recorded(*given):
        return equations.find(*given, record=True)

    def rule(primals, tangents) -> Any:
        # That it calls itself makes second derivatives right, too.
        found = jax.tree.map(lambda x: checkpoint_name(x, RECORD), recorded(*primals))
        _, _, status, pieces, states = found
        (dparams, *start), params = tangents, primals[0]
        begins, dend, dz = equations.moved(params, states, pieces, (dparams, tuple(start)))
        return found, (dend, dz, *jax.tree.map(_no_tangent, (status, pieces)), begins)

    @recorded.defjvp
    def _(primals, tangents) -> Any:
        return rule(primals, tangents)

    @stepped.defjvp
    def _(primals, tangents) -> Any:
        return tuple(x[:3] for x in rule(primals, tangents))

    return (recorded if record else stepped)(*given)


def _no_tangent(x):
    floats = jnp.issubdtype(x.dtype, jnp.floating)
    return jnp.zeros_like(x) if floats else np.zeros(x.shape, jax.dtypes.float0)


@dataclass(frozen=True)
class EventTimed(Scheme):
    r"""Put each event at its own time inside the step.

    A step goes from event to event. In each piece between two of them the contacts are open, held, stick or slip::

        find   what is due here: an impact, a slip that has come to its end
               the modes in which the contacts go on, one complementarity problem for the accelerations
               the first number that passes zero on the way: a gap, a load, a slip, what friction can still take
        piece  the jump, and the motion in these modes (`motion.move`)

    `find` is never differentiated. The derivative of a step is that of its pieces in the modes that were found, with
    the time of each event from the equation of its number (implicit function theorem): in both modes, and to second
    order. The state at the end of a piece satisfies the inequalities of its modes, or the status is TOO_COARSE.

    Not yet here: what a step cannot see (forces and walls that change within it), bounces that are left out although
    they matter, `ParticleLine`, adhesion, `changes`; `schemes.event_timed` tells and has them.

    Args:
        events: how many events one step resolves, after which the rest of the step is left out, and the status is
            TOO_MANY_EVENTS.
        order: of the motion between events, 2, 4 or 6; the program is the same.
        errors: whether the run estimates its error on the way (`monitor`, `Trajectory.error`): four steps for one.
        tells: whether a step lists its percussions; `simulate` sets it.
    """

    systems: ClassVar[tuple[type, ...]] = (System,)
    rubs: ClassVar[bool] = True
    speed_dependent: ClassVar[bool] = True
    flows: ClassVar[bool] = True
    keeps: ClassVar[tuple[str, ...]] = (RECORD,)

    events: int = 8
    order: int = 4
    errors: bool = False
    tells: bool = field(default=False, repr=False)

    def __post_init__(self):
        if self.order not in TABLEAUS:
            raise ValueError(f"EventTimed(order={self.order!r}): expected 2, 4 or 6")
        if not (isinstance(self.events, int) and self.events >= 1):
            raise ValueError(f"EventTimed(events={self.events!r}): expected an integer of at least 1")

    def init(self, system: Any, params: Any, t: ArrayLike, h: ArrayLike, q: Array, u: Array) -> State | Estimated:
        """Position and velocity, which have no error yet."""
        return Estimated.begin(q, u) if self.errors else State(q, u)

    def truncated(self, system, params, t, h, before, after, impulse) -> None:
        return None

    def conclude(self, system: Any, params: Any, state: State | Estimated) -> Array:
        """TOO_COARSE where an estimated error was a large share of the way, if errors are estimated."""
        coarse = isinstance(state, Estimated) and state.coarse
        return jnp.where(coarse, Status.TOO_COARSE, Status.OK).astype(jnp.int32)

    def step(
        self, system: Any, params: Any, t: ArrayLike, h: ArrayLike, state: State | Estimated
    ) -> tuple[State | Estimated, Info]:
        """Smooth motion to the next event, what happens there, and so on to the end."""
        t, h = jnp.asarray(t, state.q.dtype), jnp.asarray(h, state.q.dtype)
        end, info = self._moved(system, params, t, h, state.q, state.u)
        if not isinstance(state, Estimated):
            return end, info

        def run(t, h, q, u):
            end, _ = self._moved(system, lax.stop_gradient(params), t, h, q, u)
            return end.q, end.u

        return state.after(end.q, end.u, estimated(run, self.order, t, h, state)), info

    def _moved(self, system, params, t, h, q, u) -> tuple[State, Info]:
        if system.rolling is not None:
            way = h * (jnp.abs(u) + h * jnp.abs(acceleration(system, params, t, q, u)))
            layers = Layers.under(system, params, t, q, u, way)
            end, info = self._moved(layers.system, layers.params, t, h, layers.lying(q), layers.lying(u))
            return State(layers.without(end.q), layers.without(end.u)), layers.reported(info)
        system, params = traced(system, jax.tree.map(jnp.asarray, params), t, q, u)
        equations = Equations(system, TABLEAUS[self.order], self.events)
        (_, _, q, u), z, status, *told = _stepped(equations, self.tells, params, t, h, q, u)
        struck = equations.percussions(params, h, *told) if self.tells else None
        friction = z[:, 1:] if system.slip is not None else None
        return State(q, u), Info(z[:, 0], status, struck, friction)
