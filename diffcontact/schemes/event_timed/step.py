"""EventTimed: every impact at its own time, so that the trajectory's derivative is the true one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.ad_checkpoint import checkpoint_name
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun
from jax.typing import ArrayLike

from diffcontact.numerics.batching import computed_again, entangled, full_precision_matmul, where_wanted
from diffcontact.numerics.one_kernel import in_one_kernel
from diffcontact.schemes.event_timed.contacts import (
    Law,
    Limits,
    Place,
    bends,
    free_acceleration,
    length,
    reach,
    unit,
    velocities,
)
from diffcontact.schemes.event_timed.events import Beginning, Percussion
from diffcontact.schemes.event_timed.modes import OPEN, SLIP
from diffcontact.schemes.event_timed.moment import Due, Moment, pass_by
from diffcontact.schemes.event_timed.monitor import Estimate, Monitor, estimated
from diffcontact.schemes.event_timed.motion import TABLEAUS, Jump, Motion, Piece, Record, move
from diffcontact.schemes.event_timed.search import Watched, first_event, meeting
from diffcontact.schemes.layers import Layers
from diffcontact.schemes.line import LineState, Within, advance, begin
from diffcontact.schemes.monitor import Truncation
from diffcontact.schemes.scheme import Info, Scheme
from diffcontact.status import Status, first
from diffcontact.system import ParticleLine, System, acceleration, law_status, rate

RECORD = "events of a step"
# The kinds of events: a gap closes; a load vanishes; a slip comes to its end, or friction reaches its bound.
CLOSES, LETS_GO, CHANGES_GRIP = range(3)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class TimedState:
    """Position q (n,), velocity u (d,), what is known of the motion, and, where it is asked for, its error."""

    q: Array
    u: Array
    monitor: Monitor
    estimate: Estimate | None

    @property
    def error(self) -> Array | None:
        """(n + d,) the estimated errors of q and u, or None."""
        return None if self.estimate is None else self.estimate.error


def numbers(gap, speeds, load, faster, modes, direction, mu) -> Watched:
    """What changes its sign at an event, of gaps, loads and grips, one after the other.

    The gap of what is open; the load of what is held; of a contact that sticks what friction could still take, of one
    that slips its slip along its direction.
    """
    slips, zero = modes == SLIP, jnp.zeros_like(gap)
    values, rates, exact = [gap, load[:, 0]], [speeds[:, 0], zero], [zero == 0, zero != 0]
    if direction.shape[1]:
        along, changes = (jnp.sum(x[:, 1:] * direction, axis=1) for x in (speeds, faster))
        values.append(jnp.where(slips, along, mu * load[:, 0] - length(load[:, 1:])))
        rates.append(jnp.where(slips, changes, 0.0))
        exact.append(slips)
    return Watched(*(jnp.concatenate(x) for x in (values, rates, exact)))


class Equations(NamedTuple):
    """A step, and its equations in given modes."""

    system: System
    tableau: Any
    order: int
    events: int

    def moved(self, params, start, known: Record, tangents):
        """The tangents of what is recorded (m, ...), of the state at the end, and of the impulses.

        An event is where its number F is zero: its time changes by -dF / F', and what is found there by as much of its
        rate. With the rates of the motion that leaves an error of the method's order, which another pass squares.

        Args:
            start: t, left, q, u where the step begins.
            tangents: of params and of these.
        """
        (dparams, begin), (_, _, q, u) = tangents, start
        sizes, count = (q.size, u.size), known.codes.shape[1]

        def real(begin, number):
            record = jax.tree.map(lambda x: x[number], known)
            piece, (t, left, q, u) = record.read(*sizes)
            ends, s = piece.timed, jnp.where(piece.last, left, piece.s)

            def after(params, t, s, q, u):
                end = move(self.system, params, self.tableau, t, s, q, u, piece, ends)
                if not piece.modes.size:
                    return (end.q, end.u, end.impulse, s), (end.way, end.a, end.load, s)
                seen = self.watched(params, t + s, end, piece)
                rates = end.way, end.a, end.load, seen.rates[piece.event]
                return (end.q, end.u, end.impulse, seen.values[piece.event]), rates

            def passed(carry, again):
                def newton():
                    dt, dleft, dq, du, dz = begin
                    given = (params, t, s, q, u), (dparams, dt, carry[0], dq, du)
                    _, (*moved, value), (*rates, slope) = jax.jvp(after, *given, has_aux=True)
                    late = jnp.where(ends, -value, 0.0) / jnp.where(slope != 0, slope, 1.0)
                    x, w, z = (dx + late * x for dx, x in zip(moved, rates, strict=True))
                    ds = carry[0] + late
                    return ds, (dt + ds, dleft - ds, x, w, dz + z)

                return where_wanted(ends | ~again, newton, carry), None

            start = entangled((jnp.where(piece.last, begin[1], 0.0), begin), dparams)
            longer, end = lax.scan(computed_again(passed), start, jnp.arange(2) > 0)[0]
            return end, Record.moved(longer, begin[:-1], record).numbers

        def one(begin, at):
            number, used = at
            return where_wanted(used, lambda: real(begin, number), (begin, still))

        none = jnp.zeros((count, self.directions(params, start)), u.dtype)
        begin, still = entangled((*begin, none), dparams), jnp.zeros_like(known.numbers[0])
        used = jax.vmap(lambda x: x.read(*sizes)[0].used)(known)
        (*end, z), numbers = lax.scan(computed_again(one), begin, (jnp.arange(used.size), used))
        return Record(numbers, _no_tangent(known.codes)), tuple(end), z

    def shortest(self, h, left) -> Array:
        """() the shortest flight that is resolved, with so many seconds left of the step [s].

        Bounces that are left out are over before the step ends, up to e = 1 - 1 / events: its end may be a time that is
        asked. Rounding is no flight.
        """
        return lax.stop_gradient(jnp.maximum(left, jnp.finfo(left.dtype).eps ** 0.5 * h) / self.events)

    def directions(self, params, at) -> int:
        """1 + k."""
        t, _, q, u = at
        return jax.eval_shape(lambda: velocities(self.system, params, t, q, u)[1]).shape[1]

    def watched(self, params, t, end: Motion, piece: Piece) -> Watched:
        """What is watched at the end of a piece."""
        place, along = (t, end.q, end.u), (jnp.ones_like(t), end.way, end.a)
        speed = lambda *place: velocities(self.system, params, *place)  # noqa: E731
        if piece.direction.shape[1]:
            (gap, speeds), (_, faster) = jax.jvp(speed, place, along)
        else:
            (gap, speeds), faster = speed(*place), None
        mu = Law.of(self.system, params, jnp.zeros_like(gap)).mu
        return numbers(gap, speeds, end.load, faster, piece.modes, piece.direction, mu)

    def percussions(self, params, h, pieces: Piece, states) -> Percussion:
        """The percussions at the beginnings of pieces (m, ...); of no contact where a piece begins without one."""

        def one(piece: Piece, state, event):
            t, left, q, u = state
            system, count = self.system, piece.modes.size
            strikes = piece.used & (event >= 0) & (event < count)
            alone = piece._replace(modes=jnp.zeros_like(piece.modes))
            size = u.size

            def struck():
                place = Place.at(system, params, t, q, size)
                end = move(system, params, self.tableau, t, jnp.zeros_like(t), q, u, alone, jnp.array(False))
                free = free_acceleration(system, params, t, q, u, place.mass)
                faster = place.rows @ free + bends(system, params, t, q, u)
                far = reach(system, params, t, place, q)
                flight = self.shortest(h, left)
                limits = Limits.at(place, *lax.stop_gradient((far, u, free, faster)), h, flight, t)
                before, after = (place.velocity(w)[:, 0] for w in (u, end.u))
                bounces = -Law.of(system, params, before).e * before > limits.velocity
                return end.impulse, before, after, lax.stop_gradient(limits.slow), end.u - u, bounces

            none = jnp.zeros(count, u.dtype)
            still = jnp.zeros((count, 1 + piece.direction.shape[1]), u.dtype)
            nothing = still, none, none, none, jnp.zeros_like(u), none > 0
            z, before, after, slow, jump, bounces = where_wanted(strikes, struck, nothing)
            soft = strikes & (piece.jump.modes != OPEN) & ~piece.jump.bounce & bounces
            where = jnp.where(strikes, t, 0.0), jnp.where(strikes, event, -1).astype(jnp.int32)
            at = jnp.where(strikes, q, 0.0), jnp.where(strikes, u, 0.0)
            friction = z[:, 1:] if self.system.slip is not None else None
            return Percussion(*where, z[:, 0], before, after, slow, soft, *at, jump, jnp.arange(count), friction)

        return lax.map(lambda x: one(*x), (pieces, states, _before(pieces.event)))

    def beginnings(self, params, pieces: Piece, states) -> Beginning:
        """The times and modes in which pieces (m, ...) begin; times of all events have their derivative."""
        count = pieces.modes.shape[1]

        def delay(x):
            """() zero, with the derivative of the time of an event on which the motion does not depend."""
            piece, (t, _, q, u) = x

            def number(s, params, t, q, u):
                end = move(self.system, params, self.tableau, t, s, q, u, piece, jnp.array(True))
                return self.watched(params, t + s, end, piece).values[piece.event]

            def late():
                value = number(piece.s, params, t, q, u)
                still = lax.stop_gradient((params, t, q, u))
                _, rate = jax.jvp(lambda s: number(s, *still), (piece.s,), (jnp.ones_like(t),))
                return (lax.stop_gradient(value) - value) / jnp.where(rate != 0, lax.stop_gradient(rate), 1.0)

            return where_wanted(piece.used & (piece.event >= 0) & ~piece.timed, late, jnp.zeros_like(t))

        late = jnp.concatenate([jnp.zeros(1, states[0].dtype), lax.map(delay, (pieces, states))[:-1]])
        mode = jnp.where(pieces.used[:, None], pieces.modes, -1).astype(jnp.int32)
        event, slips = _before(pieces.event), jnp.roll(pieces.modes, 1, axis=0) == SLIP
        this = (event >= 0)[:, None] & (event[:, None] == 2 * count + jnp.arange(count)[None, :])
        return Beginning(states[0] + late, mode, this & slips)

    def find(self, params, t, h, q, u, monitor: Monitor):
        """Go from event to event: what is due, the modes, smooth motion to the next one.

        Returns:
            The state at the end (t, left, q, u), impulses (c, 1 + k), the `Monitor`, status, and `Record`s (m, ...).
        """
        system, count = self.system, jax.eval_shape(lambda: self.system.gap(t, q, params)).shape[0]
        across = self.directions(params, (t, h, q, u)) - 1
        no, number = jnp.array(False), jnp.zeros((), jnp.int32)
        jump, none = Jump.nothing(count, across, u.dtype), jnp.zeros((count, 1 + across), u.dtype)
        blank, start = Piece(jump, jump.modes, jump.direction, jnp.zeros_like(h), number - 1, no, no), (t, h, q, u)
        if not count:
            whole = blank._replace(s=h, last=~no, used=~no)
            end = move(system, params, self.tableau, t, h, q, u, whole, no, search=True)
            a = free_acceleration(system, params, t, q, u, system.mass(q, params))
            monitor, winds = monitor.fly(system, params, self.order, t, h, q, u, a, end)
            told = jnp.where(winds, Status.TOO_COARSE, Status.OK).astype(jnp.int32)
            states = (t + h, jnp.zeros_like(h), end.q, end.u), none, monitor, told
            return *states, jax.tree.map(lambda x: x[None], Record.of(whole, start))
        # As many as are resolved, half as many that are taken as inelastic, and the piece before all of them.
        many = self.events + (self.events + 1) // 2 + 1
        kept = jax.tree.map(lambda x: jnp.zeros((many, *x.shape), x.dtype), Record.of(blank, start))
        due, limits = Due.nothing(count, across, u.dtype), Limits.nothing(none[:, 0])

        def one(carry):
            number, at, due, limits, impulse, monitor, status, _, kept = carry
            moved = self.next_event(params, h, at, due, limits, monitor, number, blank)
            after, due, limits, monitor, z, told, done, piece = moved
            kept = jax.tree.map(lambda all_, new: all_.at[number].set(new), kept, Record.of(piece, at))
            return number + 1, after, due, limits, impulse + z, monitor, first(status, told), done, kept

        start = number, start, due, limits, none, monitor, number, no, kept
        _, end, due, limits, impulse, monitor, status, done, kept = lax.while_loop(
            lambda c: ~c[7] & (c[0] < many), one, start
        )
        # With more events than that the rest of the step is left out: at a feasible place, and no energy is made.
        status = first(status, jnp.where(done, Status.OK, Status.TOO_MANY_EVENTS).astype(jnp.int32))
        return end, impulse, monitor, status, kept

    def next_event(self, params, h, at, due: Due, limits, monitor: Monitor, number, blank: Piece):
        """What is due, and the way to the next event or to the end of the step."""
        (t, left, q, u), system, count = at, self.system, due.released.size
        rounding, late = 8 * jnp.finfo(u.dtype).eps * (jnp.abs(t) + jnp.abs(left)), number > self.events
        flight = self.shortest(h, left)
        now = pass_by(system, params, h, flight, at, due, limits, late, late)
        monitor, left_out = monitor.impact(system, params, t, flight, now, due)
        piece = blank._replace(modes=now.modes, direction=now.direction)
        held = jnp.any(now.modes != OPEN)

        def advance(s):
            end = move(system, params, self.tableau, t, s, q, now.u, piece, held, search=True)
            return end, self.watched(params, t + s, end, piece)

        faster = now.here.rows @ now.a + now.bend
        begin = numbers(now.here.gap, now.speeds, now.load, faster, now.modes, now.direction, now.lasting.mu)
        watch, rises, zero, slow = watching(now, left > rounding)
        # Of contacts whose rows depend on each other another reaction is within the cones where this one is not: no
        # event, and the next step asks again.
        watch = watch & ((begin.values >= -zero) | (jnp.arange(watch.size) < count))
        way = rate(system, params, q, now.u)

        def between(s, end, seen):
            # Along the parabola that the smooth motion is to second order.
            bend, zero = end.q - q - s * way, jnp.minimum(now.here.gap, 0.0) - now.limits.gap
            heights = lambda f: system.gap(t + f * s, q + f * s * way + f**2 * bend, params) - zero  # noqa: E731
            first, last = ((x.values[:count] - zero, s * x.rates[:count]) for x in (begin, seen))
            return meeting(heights, first, last, (watch & ~rises)[:count])

        nowhere = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(advance, left))
        found = first_event(advance, begin, watch, rises, zero, slow, left, rounding, between, nowhere)
        end, kind, contact = found.arrival, found.index // count, found.index % count
        this, slips = (jnp.arange(count) == contact) & found.found, now.modes == SLIP
        strike, grip = found.found & (kind == CLOSES), this & (kind == CHANGES_GRIP)
        # Loads that vanish together are found at the first of them, and all these contacts let go.
        none = zero[count : 2 * count] * jnp.finfo(u.dtype).eps ** -0.25
        vanish = watch[count : 2 * count] & (now.load[:, 0] > none) & (end.load[:, 0] <= none)
        lets_go = found.found & (kind == LETS_GO) & (this | vanish)
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
        event = jnp.where(found.found, found.index, -1).astype(jnp.int32)
        piece = Piece(now.jump, now.modes, now.direction, found.s, event, ~found.found, jnp.array(True))
        seen = found.seen.values[:count], found.seen.rates[:count]
        monitor, astray = monitor.piece(system, params, self.order, t, found.s, q, now, end, seen, after)
        # The inequalities of the modes at the end of the piece: no gap, load or grip is negative by more than rounding.
        least = jnp.minimum(begin.values, 0.0) - zero * jnp.finfo(u.dtype).eps ** -0.25
        astray = astray | jnp.any(watch & (found.seen.values < least))
        told = jnp.where(left_out & late, Status.TOO_MANY_EVENTS, Status.OK)
        told = jnp.where((left_out & ~late) | astray, Status.TOO_COARSE, told)
        told = jnp.where(now.found, told, Status.NO_FRICTION).astype(jnp.int32)
        struck = now.struck & due.strike
        told = first(told, law_status(system, params, now.before, struck))
        moved = t + found.s, left - found.s, end.q, end.u
        return moved, after, now.limits, monitor, now.z + end.impulse, told, ~found.found, piece


def _before(event: Array) -> Array:
    """(m,) the events that pieces begin with, of those (m,) that they end with; -1 for the first."""
    return jnp.concatenate([jnp.full(1, -1, jnp.int32), event[:-1]])


def watching(now: Moment, lasts) -> tuple[Array, ...]:
    """Which numbers (3 c,) are watched, which rise first, and below what they and their rates are zero to rounding."""
    limits, slips, closed, mu = now.limits, now.modes == SLIP, now.modes != OPEN, now.lasting.mu
    zero, no = jnp.zeros_like(mu), closed & ~closed
    lasting = closed & now.regular & lasts
    forces = jnp.full_like(mu, jnp.finfo(mu.dtype).eps ** 0.75 * jnp.max(now.load[:, 0], initial=0.0))
    watch = ~closed & ~now.falls, lasting, lasting & (mu > 0)
    values = zero + limits.gap, forces, jnp.where(slips, limits.slip, forces)
    rates = zero + limits.velocity, zero, jnp.where(slips, now.acceleration_of_rounding, 0.0)
    kinds = 3 if now.direction.shape[1] else 2
    return tuple(jnp.concatenate(x[:kinds]) for x in (watch, (now.opens, no, no), values, rates))


def _stepped(equations: Equations, record: bool, *given):
    """The state at the end of a step, impulses (c, 1 + k), the `Monitor` and status; and its record.

    The derivative is that of the equations of the pieces.

    Args:
        given: params, t, h, q, u and the `Monitor` before, which has no derivative.
    """

    find = in_one_kernel(equations.find, *given)

    @jax.custom_jvp
    def stepped(*given):
        return find(*given)[:4]

    @jax.custom_jvp
    def recorded(*given):
        return find(*given)

    @full_precision_matmul
    def rule(primals, tangents) -> Any:
        # That it calls itself makes second derivatives right, too. As a call that is computed again, since partial
        # evaluation of a scan would lose its rule, and with it second derivatives in reverse mode.
        found = jax.checkpoint(recorded, prevent_cse=False)(*primals)
        found = jax.tree.map(lambda x: checkpoint_name(x, RECORD), found)
        _, _, monitor, status, known = found
        (dparams, *start, _), params = tangents, primals[0]
        given = params, primals[1:5], known, (dparams, tuple(start))
        moved, dend, dz = in_one_kernel(equations.moved, *given)(*given)
        return found, (dend, dz, *jax.tree.map(_no_tangent, (monitor, status)), moved)

    @recorded.defjvp
    def _(primals, tangents) -> Any:
        return rule(primals, tangents)

    @stepped.defjvp
    def _(primals, tangents) -> Any:
        return tuple(x[:4] for x in rule(primals, tangents))

    return (recorded if record else stepped)(*given)


def _no_tangent(x):
    floats = jnp.issubdtype(x.dtype, jnp.floating)
    return jnp.zeros_like(x) if floats else np.zeros(x.shape, jax.dtypes.float0)


@dataclass(frozen=True)
class EventTimed(Scheme):
    r"""Each event at its own time inside the step; the default scheme.

    A step goes from event to event. In each piece between two of them contacts are open, held, stick or slip::

        find    what is due here: an impact, a slip that has come to its end
                the modes in which contacts go on: one complementarity problem for the accelerations
                the first number that passes zero on the way: a gap, a load, a slip, what friction can still take
        piece   the jump, and the motion in these modes (`motion.move`)

    `find` is never differentiated. The derivative of a step is that of its pieces in the modes that were found, with
    the time of each event from the equation of its number (implicit function theorem), in both modes and to second
    order. So it contains the saltation matrix DR + (F+ - DR F-) grad g^T / (grad g . F-) whole, and the derivative of
    the trajectory converges to the true one. The published schemes see an impact at an integer number of steps and lose
    its second term.

    **Accuracy.** Exact to rounding for constant forces at every h; for smooth ones fourth order in state and
    derivative, or second or sixth (`order`). Second order is Heun's method and needs thirty steps for a period, fourth
    order fifteen. A force that is not smooth costs the order in
    the steps that it is not smooth in, whatever the order: a jump inside a step leaves an error of h |jump| / 4 or so
    in the velocity, a kink one of h^2; `breaks` put both between steps. Where forces change so much within the steps
    that truncation may come to more than 1/32 of the way of a coordinate the status is TOO_COARSE
    (`monitor.Truncation`), and where forces or belts do much between the times that a step asks for, as often as
    steps are taken, or by one blow (`schemes.monitor`); a force that is switched within a step and stays is not told,
    but late or early by up to half a step: that is what `breaks` are for. What truncation has made of the motion is
    carried along through its impacts, and TOO_COARSE is also told where an impact, or its being the first of two, lies
    within that (`monitor.Margins`): a graze, an impact so slow that it might be none; an impact that comes within
    the error of a time that is asked may be on its other side there, and is not told. `simulate(substeps="auto")` keeps
    to an error of one's own. In single precision steps may be too short as well: where rounding takes more than 1/32 of
    a way, or of the fastest motion, the status is ILL_CONDITIONED.

    **Bounces that die away.** A bounce is left out whose flight would be shorter than what is left of the step, over
    `events`: so the end of a Zeno sequence is found to within O(h), and lies before the end of the step, which may be a
    time that is asked. Of some 2 800 random worlds that move for a second (chains and pendulums between walls a few
    centimetres away, blocks on belts), in steps of 10 ms, none has status 0 and a state that is off by a tenth, and
    four have such a Jacobian (5 ms: two). Of 495 chains that rattle in gaps of 5 to 60 mm one and seven (5 ms: none
    and five; `events=16`: none and four).

    - TOO_COARSE: such a bounce is as fast as an eighth of what the bodies have moved with, or would not die away
      (e = 1); one that is held, where it would hop and be back within the step, is driven into another contact by that
      (it comes to a ramp so slowly that it would be off it again within the step), where it would stay for good.
    - TOO_COARSE: what was left out is met by an impact, or meets another contact, and what later impacts make of that
      comes to a sixteenth of the fastest motion, or could change which of two impacts is the first. A blow to a body
      that still bounces, passed on at once to what it bounces on, is such an error as a whole.
    - Where e is above 1 - 1 / events, or a body rattles between two contacts, such a sequence may last beyond the end
      of the step: until it has ended a velocity may be off by up to that eighth and its derivative by all of it.
    - What a body slides meanwhile stays in the derivative of its place: of blocks that clattered to rest in steps of
      10 ms one in twenty was off by 4 %, one in a hundred by 18 % (2.5 ms: 1 and 5 %).
    - Corners that strike so shortly after each other that what was left out before decides upon their order, some
      10^-5 s, are not told.

    No derivative exists at grazing impacts, at simultaneous impacts of coupled contacts, and when a Zeno sequence ends.

    **Friction** (`System(slip=...)`). Each contact is open, sticks or slips, and the reaction follows from one linear
    system of these modes (`modes.react`). Impacts are Moreau's with Coulomb's law. Further events are a slip
    that comes to its end, whose time carries its derivative, friction that reaches its bound and a load that vanishes:
    there the acceleration is continuous, and nothing depends on the time to first order. Exact for constant forces and
    flat contacts; all else is of the method's order in state and derivative, but for a slip in space that comes to its
    end on a bent path, whose derivative is of second.

    - NO_FRICTION: there may be no finite reaction, because bodies jam, or slip presses a contact together as fast as
      its load opens it (Painleve's paradox). The motion goes on in the modes that were tried last. Where it presses
      faster than that and the contact would open by itself, two motions obey the law, with a load and without: one of
      them is taken.
    - TOO_COARSE: what slips behind bounces that are left out is driven by more than 1/64 of the bodies' fastest motion.
    - TOO_COARSE: a slip in space turns by more than 45 degrees between two events, or passes by zero with more than
      1/64 of its speed, and is faster than 1/1024 of the bodies' fastest motion so far. Below that the derivative may
      be off by a few times that share. A slip that sets out from rest in space turns at once, with what drives it: it
      is TOO_COARSE where friction that is off by that angle makes more than the same share of speed in a step.
    - Contacts whose rows depend on each other share their load evenly, as on equal springs (`qp.coulomb`). The motion
      of a box that lies flat does not depend on it while all corners stick, or slip in one direction with one mu. Where
      it pivots as it slides, or corners rub unlike, it does, and rigid bodies do not tell how: `certify` says so.
    - The derivative at a kink, of a body that rests at the edge of its cone or an impact between grip and slip, is that
      of one side.
    - An impact that would make energy (Newton's law with friction may) is blended with the one without restitution.
      With `System(impact_law="poisson")` or `"stronge"` an impact that one contact takes alone is a flow of its
      velocity over the normal impulse, which makes none (`System`, `impact`); where it has no end the status is
      NO_FRICTION, as where a `"compliant"` contact is struck off its centre. Impacts of several contacts at once are
      Moreau's.

    **Rolling and pivoting** (`System(rolling=...)`). Each of these frictions is that of a layer under the contact
    (`schemes.layers`): a rolling that comes to its end is an event like a slip's. In lists of changes of c contacts the
    number of the first of these frictions is that of its contact + c, of the next + 2 c.

    **Joints** (`System(joint_slip=...)`). Friction of a given size is that of a layer, too. A `ParticleLine` is such a
    system between its percussions, of which each has its own time.

    Args:
        events: how many events one step resolves; flights below its rest over `events` are left out. Impacts behind
            them are taken as inelastic, half as many; what is left of the step after those is left out: bodies stay
            where they are. `Status.TOO_MANY_EVENTS` tells of that, and where such an impact leaves out what is large
            (see above).
        order: of a `System`'s smooth motion, 2, 4 or 6; the program is the same.
        errors: whether the run estimates its error on the way (`monitor.Estimate`, `Trajectory.error`): four steps for
            one.
        tells: what of a step is listed, percussions or changes; `simulate` sets it.

    Source: design of this library; impact law S3 eq. (2).

    Example:
        >>> import jax, jax.numpy as jnp, diffcontact as dc
        >>> ball = dc.systems.balls(1, 1, box=(0.0, 10.0))
        >>> params = dict(mass=jnp.ones(1), radius=jnp.zeros(1), gravity=-9.81 * jnp.ones(1), restitution=0.8)
        >>> times = jnp.linspace(0.0, 1.0, 11)
        >>> end = lambda height: dc.simulate(ball, params, height * jnp.ones(1), jnp.zeros(1), times).q[-1, 0]
        >>> place, slope = jax.jit(lambda height: jax.jvp(end, (height,), (1.0,)))(1.0)  # one impact
        >>> print(f"{place:.4f} {slope:.4f}")
        0.4680 1.3865
    """

    systems: ClassVar[tuple[type, ...]] = (System, ParticleLine)
    rubs: ClassVar[bool] = True
    speed_dependent: ClassVar[bool] = True
    flows: ClassVar[bool] = True
    keeps: ClassVar[tuple[str, ...]] = (RECORD,)
    in_kernels: ClassVar[bool] = True

    events: int = 8
    order: int = 4
    errors: bool = False
    tells: frozenset[str] = field(default=frozenset(), repr=False)

    def __post_init__(self):
        if self.order not in TABLEAUS:
            raise ValueError(f"EventTimed(order={self.order!r}): expected 2, 4 or 6")
        if not (isinstance(self.events, int) and self.events >= 1):
            raise ValueError(f"EventTimed(events={self.events!r}): expected an integer of at least 1")

    def init(self, system: Any, params: Any, t: ArrayLike, h: ArrayLike, q: Array, u: Array) -> TimedState | LineState:
        """Position, velocity, and what is known of the motion; a line's percussion at the first time acts at once."""
        monitor = Monitor.begin(*lax.stop_gradient((q, u)))
        if isinstance(system, ParticleLine):
            return begin(system, params, t, h, q, u, monitor)
        return TimedState(q, u, monitor, Estimate.begin(q, u) if self.errors else None)

    def step(
        self, system: Any, params: Any, t: ArrayLike, h: ArrayLike, state: Any
    ) -> tuple[TimedState | LineState, Info]:
        """Smooth motion to the next event, what happens there, and so on to the end."""
        t, h = jnp.asarray(t, state.q.dtype), jnp.asarray(h, state.q.dtype)
        if isinstance(system, ParticleLine):
            return self._past_percussions(system, params, t, h, state)
        end, info = self._moved(system, params, t, h, state)
        monitor = end.monitor.step(system, params, t, h, state.q, state.u, end.u, info.impulse)
        end = replace(end, monitor=monitor)
        if state.estimate is None:
            return end, info

        def run(t, h, q, u):
            end, _ = self._moved(system, lax.stop_gradient(params), t, h, replace(state, q=q, u=u))
            return end.q, end.u

        estimate = state.estimate
        error = estimated(run, self.order, t, h, state.q, state.u, estimate.error)
        return replace(end, estimate=estimate.after(state.q, state.u, end.q, end.u, error)), info

    def _past_percussions(self, line: ParticleLine, params, t, h, state: LineState) -> tuple[LineState, Info]:
        """A step of a line, from percussion to percussion."""
        system = line.between_percussions

        def glide(now: Within, time) -> Within:
            def move():
                there = TimedState(now.q, now.u, now.monitor, None)
                end, info = self._moved(system, params, now.time, time - now.time, there)
                assert info.joints is not None
                impulse = now.impulse + info.joints[:, 0]
                return Within(time, end.q, end.u, impulse, first(now.status, info.status.astype(int)), end.monitor)

            return where_wanted(time > now.time, move, now)

        end, info = advance(line, params, t, h, state, glide)
        none = jnp.zeros(0, state.q.dtype)
        monitor = end.monitor.step(system, params, t, h, state.q, state.u, end.u, none)
        return end._replace(monitor=monitor), info

    def truncated(
        self, system: Any, params: Any, t: ArrayLike, h: ArrayLike, before: Any, after: Any, impulse: Array
    ) -> Truncation | None:
        """Its state knows its own."""
        return None

    def conclude(self, system: Any, params: Any, state: Any) -> Array:
        """Whether forces change too much within the steps, or places round too much; see `Truncation`."""
        system = system.between_percussions if isinstance(system, ParticleLine) else system
        monitor, estimate = state.monitor, getattr(state, "estimate", None)
        status = monitor.status(system.mass(state.q, params), lax.stop_gradient(state.q), self.order)
        coarse = estimate is not None and estimate.coarse
        return first(status, jnp.where(coarse, Status.TOO_COARSE, Status.OK).astype(jnp.int32))

    def _moved(self, system, params, t, h, state: TimedState) -> tuple[TimedState, Info]:
        if system.layered:
            q, u, monitor = state.q, state.u, state.monitor
            way = h * (monitor.fastest + h * jnp.abs(acceleration(system, params, t, q, u)))
            layers = Layers.under(system, params, t, q, u, way)
            monitor = jax.tree.map(layers.lying, monitor)
            lying = TimedState(layers.lying(q), layers.lying(u), monitor, None)
            end, info = self._moved(layers.system, layers.params, t, h, lying)
            end = jax.tree.map(layers.without, end)
            return replace(end, estimate=state.estimate), layers.reported(info, t, h)
        system, params = traced(system, jax.tree.map(jnp.asarray, params), t, state.q, state.u)
        equations = Equations(system, TABLEAUS[self.order], self.order, self.events)
        monitor = lax.stop_gradient(state.monitor)
        moved = _stepped(equations, bool(self.tells), params, t, h, state.q, state.u, monitor)
        (_, _, q, u), z, monitor, status, *known = moved
        told = [jax.vmap(lambda x: x.read(q.size, u.size))(x) for x in known]
        struck = equations.percussions(params, h, *told[0]) if "percussions" in self.tells else None
        pieces = equations.beginnings(params, *told[0]) if "changes" in self.tells else None
        friction = z[:, 1:] if system.slip is not None else None
        return TimedState(q, u, monitor, state.estimate), Info(z[:, 0], status, struck, friction, pieces)


def traced(system: System, params: Any, t: Array, q: Array, u: Array) -> tuple[System, Any]:
    """The system with functions that are programs, traced once each, and its params with what they close over.

    So a step evaluates a user's function once while it is traced, however often the equations need it, and what the
    functions close over (a wall that is given to the function around a simulation) is differentiated like params.

    Args:
        system, params: as given.
        t, q, u: of which only the shapes count.
    """
    gap = jax.eval_shape(lambda: system.gap(t, q, params))
    speed = (jnp.zeros(gap.shape, q.dtype),)
    arguments: dict[str, tuple] = {"gap": (t, q), "force": (t, q, u), "mass": (q,), "slip": (t, q, u), "rate": (q, u)}
    arguments["rows"] = (t, q)
    arguments |= {"tangential_restitution": (), "tangential_compliance": (), "advance": (q, u, t), "dexpinv": (u, u)}
    arguments["restitution"] = speed if system.speed_dependent else ()
    arguments["friction"] = speed if system.friction_by_speed else ()
    programs, constants = {}, {}
    for name, args in arguments.items():
        function = getattr(system, name)
        if function is None:
            continue
        # Coefficients have params first, all else last.
        first = name in ("restitution", "friction")
        given = (params, *args) if first else (*args, params)
        closed = jax.make_jaxpr(function)(*given)
        constants[name] = closed.consts
        programs[name] = _program(closed.jaxpr, name, first, bool(args))
    return replace(system, normals=None, tangents=None, **programs), (params, constants)


def _program(jaxpr, name, first: bool, more: bool):
    def run(params, *args):
        own, constants = params
        leaves = jax.tree.leaves((own, *args) if first else (*args, own))
        return jaxpr_as_fun(ClosedJaxpr(jaxpr, constants[name]))(*leaves)[0]

    # A coefficient that depends on the speed is known by its two arguments.
    if first:
        return (lambda params, speed: run(params, speed)) if more else (lambda params: run(params))
    return lambda *args: run(args[-1], *args[:-1])
