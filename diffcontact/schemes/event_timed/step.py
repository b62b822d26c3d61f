"""EventTimed: every impact at its own time, so that the trajectory's derivative is the true one."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from diffcontact.batching import entangled, select, where_wanted
from diffcontact.schemes.event_timed.events import CandidateStep, Cubic, rounding_of_time, to_event_or_end
from diffcontact.schemes.event_timed.friction.step import step_with_friction
from diffcontact.schemes.event_timed.impacts import Percussion, Threshold, matters, no_percussion, percussion, remainder
from diffcontact.schemes.event_timed.line_slip import glide_timed
from diffcontact.schemes.event_timed.smooth_motion import Arrival, Start, Tolerance, smooth, start
from diffcontact.schemes.event_timed.state import TimedState
from diffcontact.schemes.event_timed.truncation import Truncation
from diffcontact.schemes.gluing import most_held, no_adhesion
from diffcontact.schemes.layers import Layers
from diffcontact.schemes.line import LineState, advance, begin
from diffcontact.schemes.scheme import Info, Scheme
from diffcontact.status import Status, first
from diffcontact.system import ParticleLine, System, gap_motion


class _Moment(NamedTuple):
    """A moment inside a step, `left` seconds before its end: with the impulses so far, what is slow here, the contacts
    that have let go in this step, and what a `TimedState` knows besides."""

    t: Array
    left: Array
    q: Array
    u: Array
    impulse: Array
    slow: Array
    released: Array
    fastest: Array
    unsettled: Array
    truncation: Truncation
    status: Array
    adhesion: Array | None = None

    @classmethod
    def at_start(cls, system, params, t, h, state: TimedState) -> _Moment:
        """The beginning of a step, where nothing has happened yet."""
        shape = jax.eval_shape(lambda q: system.gap(t, q, params), state.q).shape
        zero, fine = jnp.zeros(shape, state.q.dtype), jnp.zeros((), jnp.int32)
        moving = jnp.asarray(t, zero.dtype), jnp.asarray(h, zero.dtype), state.q, state.u, zero
        t, left, q, u, impulse = entangled(moving, params)
        known = state.fastest, state.unsettled, state.truncation
        return cls(t, left, q, u, impulse, zero, zero > 0, *known, fine, state.adhesion)


@dataclass(frozen=True)
class EventTimed(Scheme):
    r"""Each percussion at its time of impact inside the step; the default scheme.

    A step is a short composition of two maps::

        step(h) = smooth(h - tau_1 - ... - tau_K) o percussion_K o ... o percussion_1 o smooth(tau_1)

    - `smooth`: free flight and resting contact, second order (`smooth_motion.smooth`);
    - `tau`: the first root of a gap along it; the last Newton step carries the derivative (implicit function theorem);
    - `percussion`: u+ = -e u- + (1 + e) Proj_M(T_K(q), u-) (`impacts.percussion`).

    Because tau moves with the parameters, the derivative of the step contains the saltation matrix
    DR + (F+ - DR F-) grad g^T / (grad g . F-) whole, and the derivative of the trajectory converges to the true one.
    The published schemes see an impact at an integer number of steps and lose its second term.

    A contact lets go at the time its reaction vanishes. Exact to rounding for constant forces at every h; for smooth
    ones second order in state and derivative, or fourth (`order=4`, up to twice the work of a step). Where forces
    change so much within the steps that truncation may come to more than 1/32 of the way of a coordinate the status is
    TOO_COARSE (`truncation.Truncation`); `simulate(substeps="auto")` keeps to an error of one's own. A contact that
    would be closed again within the step does not bounce, so the end of a Zeno sequence is found to within O(h). The
    status is TOO_COARSE where such a bounce is as fast as an eighth of what the bodies have moved with, or would not
    die away (e = 1). So it is where a body that would still bounce is struck elsewhere. Until a sequence that was left
    out has ended, about h / (1 - e) after its first bounce, or h / (1 - sqrt((1 + e^2) / 2)) where a body rattles
    between two contacts, a velocity may be off by up to that eighth and its derivative by all of it: ask for no time
    there, or take shorter steps. What a body slides meanwhile stays in the derivative of its place: of blocks that
    clattered to rest in steps of 10 ms one in twenty was off by 4 %, one in a hundred by 18 % (2.5 ms: 1 and 5 %).
    Corners that strike so shortly after each other that what was left out before decides upon their order, some 10^-5
    s, are not told. No derivative exists at grazing impacts, at simultaneous impacts of coupled contacts, and when a
    Zeno sequence ends.

    Where contacts rub (`System(slip=...)`) each of them is open, sticks or slips, and the reaction follows from one
    linear system of these modes (`friction`, the package). Impacts are Moreau's with Coulomb's law. Further events are
    a slip that comes to its end, whose time carries its derivative, friction that reaches its bound and a load that
    vanishes: there the acceleration is continuous, and nothing depends on the time to first order. Exact for constant
    forces and flat contacts; given forces of time are integrated to fourth order, all else to second, in state and
    derivative, or all to fourth with `order=4`, but for a slip in space that comes to its end on a bent path, whose
    derivative stays of second (`experiments/friction_orders.py`). What slips behind bounces that are left out may go on
    otherwise than it would: TOO_COARSE, where what drives it meanwhile comes to more than 1/64 of the bodies' fastest
    motion. The law has its limits. Where bodies jam, or slip presses a contact together as fast as its load opens it
    (Painleve's paradox), there may be no finite reaction: the status is NO_FRICTION, and friction is left out there. A
    slip in space that turns by more than 45 degrees between two events, or passes by zero with more than 1/64 of its
    speed, is TOO_COARSE, unless it is slower than 1/1024 of the bodies' fastest motion so far: the derivative may then
    be off by a few times that share. One that sets out from rest in space turns at once, with what drives it: where
    friction that is off by that angle makes more than the same share of speed in a step, it is TOO_COARSE, too. Of
    contacts whose rows depend on each other (a box that lies flat) the motion is unique, the split of load and friction
    is not: theirs is of least norm. The derivative at a kink, of a body that rests at the edge of its cone or an impact
    between grip and slip, is that of one side. An impact that would make energy (Newton's law with friction may) is
    blended with the one without restitution. With `System(impact_law="poisson")` or `"stronge"` an impact that one
    contact takes alone is a flow of its velocity over the normal impulse, which makes none (`System`, `impact`); where
    it has no end the status is NO_FRICTION. Impacts of several contacts at once are Moreau's.

    Where contacts resist rolling and pivoting, too (`System(rolling=...)`), each of these frictions is that of a layer
    under the contact (`schemes.layers`): a rolling that comes to its end is an event like a slip's. In lists of changes
    of c contacts the number of the first of these frictions is that of its contact + c, of the next + 2 c.

    Where contacts hold back (`System(adhesion=...)`, see `VelocityProjection`) a further event is an adhesion that is
    used up: the contact lets go, the acceleration jumps, and the time carries its derivative. Where a load turns into a
    pull on a contact that could take up no more, the adhesion is right to second order, whatever the order.

    On a `ParticleLine` the events are slip velocities that vanish and friction forces that reach their bound. The
    motion between them is exact but for given forces, which are integrated to fourth order (`line_slip`, `line_flow`).

    Args:
        events: how many percussions one step resolves one by one. What is left of a step with more is taken as
            inelastic: feasible, dissipative, and reported as `Status.TOO_MANY_EVENTS`.
        order: of a `System`'s smooth motion, 2 or 4.
        changes: whether steps with friction tell in which modes they go from event to event; `simulate` sets it.

    Source: design of this library; impact law S3 eq. (2).

    Example:
        >>> import jax, jax.numpy as jnp, diffcontact as dc
        >>> ball = dc.systems.balls(1, 1, box=(0.0, 10.0))
        >>> params = dict(mass=jnp.ones(1), radius=jnp.zeros(1), gravity=-9.81 * jnp.ones(1), restitution=0.8)
        >>> times = jnp.linspace(0.0, 1.0, 11)
        >>> end = lambda height: dc.simulate(ball, params, height * jnp.ones(1), jnp.zeros(1), times).q[-1, 0]
        >>> print(f"{end(1.0):.4f} {jax.jacfwd(end)(1.0):.4f}")  # one impact
        0.4680 1.3865
    """

    systems: ClassVar[tuple[type, ...]] = (System, ParticleLine)
    rubs: ClassVar[bool] = True
    speed_dependent: ClassVar[bool] = True
    flows: ClassVar[bool] = True
    glues: ClassVar[bool] = True

    events: int = 8
    order: int = 2
    changes: bool = field(default=False, repr=False)

    def __post_init__(self):
        if self.order not in (2, 4):
            raise ValueError(f"EventTimed(order={self.order!r}): expected 2 or 4")
        if not (isinstance(self.events, int) and self.events >= 1):
            raise ValueError(f"EventTimed(events={self.events!r}): expected an integer of at least 1")

    def require(self, system: System | ParticleLine) -> None:
        """Refuse a system that this scheme does not step.

        Raises:
            ValueError: it is none, or one whose contacts hold back bodies that turn.

        Example:
            >>> import diffcontact as dc
            >>> dc.EventTimed().require("a ball")
            Traceback (most recent call last):
            ...
            ValueError: scheme: EventTimed steps a System or a ParticleLine, got a str
        """
        super().require(system)
        if isinstance(system, System) and system.adhesion is not None and system.rate is not None:
            raise ValueError(
                "scheme: EventTimed steps no System with adhesion=... and rate=...; take VelocityProjection"
            )

    def init(self, system: Any, params: Any, t: ArrayLike, h: ArrayLike, q: Array, u: Array) -> TimedState | LineState:
        """Position, velocity and speed; a line's percussion at the first time acts at once."""
        if isinstance(system, ParticleLine):
            return begin(system, params, t, h, q, u)
        adhesion = None if system.adhesion is None else no_adhesion(system, params, t, q)
        fastest, settled = jnp.abs(lax.stop_gradient(u)), jnp.full_like(u, -jnp.inf)
        return TimedState(q, u, fastest, settled, Truncation.nothing(u), adhesion)

    def step(
        self, system: Any, params: Any, t: ArrayLike, h: ArrayLike, state: Any
    ) -> tuple[TimedState | LineState, Info]:
        """Smooth motion to the next impact, the percussion, and on, until the step is over."""
        if isinstance(system, ParticleLine):
            return advance(system, params, t, h, state, partial(glide_timed, system, params, self.events))
        if _turns_or_rubs(system):
            return self._step_with_friction(system, params, t, h, state)
        now = _Moment.at_start(system, params, t, h, state)
        none = no_percussion(now.t, now.impulse, now.q)
        if now.impulse.size == 0:
            begin = start(system, params, t, now.q, now.u, h, h, now.released)
            end = smooth(system, params, t, h, now.q, now.u, begin, self.order)
            nothing = jax.tree.map(lambda x: x[None], none)
            truncation = state.truncation.after(h, now.u, end.u, begin.a, 0.0, self.order)
            fastest = jnp.maximum(state.fastest, jnp.abs(lax.stop_gradient(end.u)))
            known = fastest, state.unsettled, truncation, state.adhesion
            return TimedState(end.q, end.u, *known), Info(end.impulse, end.status, nothing)

        def next_event(carry, last):
            now, pending = carry
            to_event = partial(_to_next_event, system, params, h, now, none, last, self.order)
            now, pending, percussion = where_wanted(pending, to_event, (now, pending, none))
            return (now, pending), percussion

        last = jnp.arange(self.events + 1) >= self.events - 1
        (end, pending), percussions = lax.scan(next_event, (now, jnp.array(True)), last)
        end = _finish(system, params, h, now, end, pending)
        known = end.fastest, end.unsettled, end.truncation, end.adhesion
        return TimedState(end.q, end.u, *known), Info(end.impulse, end.status, percussions)

    def conclude(self, system: Any, params: Any, state: Any) -> Array:
        """TOO_COARSE where forces change too much within the steps; see `Truncation`."""
        if isinstance(system, ParticleLine):
            return super().conclude(system, params, state)
        return state.truncation.status(system.mass(state.q, params), state.fastest, self.order)

    def _step_with_friction(self, system, params, t, h, state: TimedState) -> tuple[TimedState, Info]:
        if system.rolling is None:
            known = state.q, state.u, state.fastest, state.unsettled, state.truncation
            end, info = step_with_friction(system, params, t, h, *known, self.events, self.order, self.changes)
            return TimedState(end.q, end.u, end.fastest, end.unsettled, end.truncation), info
        layers = Layers.under(system, params, t, state.q, state.u)
        q, u, fastest = (layers.lying(x) for x in (state.q, state.u, state.fastest))
        truncation = jax.tree.map(layers.lying, state.truncation)
        lying = TimedState(q, u, fastest, layers.lying(state.unsettled, -jnp.inf), truncation)
        end, info = self._step_with_friction(layers.system, params, t, h, lying)
        return jax.tree.map(layers.without, end), layers.reported(info)


def _turns_or_rubs(system: System) -> bool:
    """Whether a system needs what only the motion with friction has: slips, or velocities other than q'."""
    return system.rubs or system.rate is not None


def _to_next_event(system, params, h, now: _Moment, none: Percussion, last, order: int):
    """Smooth motion to the next event or to the end of the step, and what happens there.

    Returns:
        Where that leads, whether there was an event (the step is not over), and its percussion or `none`.
    """
    glued = None if now.adhesion is None else now.adhesion > 0
    begin = start(system, params, now.t, now.q, now.u, h, now.left, now.released, glued)
    candidate = _to_event_or_end(system, params, now, begin, order)
    end: Arrival = candidate.arrival
    # Behind the gaps stand the multipliers: a contact whose multiplier vanishes lets go, and nothing jumps. A contact
    # whose gap is closed by the truncation of its path while it opens has let go too: that is no impact. Nor is it one
    # where no gap is closed after all, a near miss of what the cubics told; the motion goes on from there.
    count = now.impulse.size
    lets_go, contact = candidate.index >= count, candidate.index % count
    gaps, rates = gap_motion(system, params, now.t + candidate.s, end.q, end.u)
    # Newton's iteration on what bends strongly leaves the root of the rounding.
    converged = begin.tolerance.gap * jnp.finfo(now.q.dtype).eps ** -0.25
    closed, opens = gaps[contact] <= converged, rates[contact] >= 0
    struck, leaves = candidate.found & ~lets_go & closed & ~opens, candidate.found & (lets_go | (closed & opens))
    # Where none is closed, none may be negative: the search has been led astray until its end.
    allowed = jnp.minimum(begin.contacts.gap, 0.0) - converged
    lost = candidate.found & ~lets_go & ~closed & jnp.any(gaps < allowed)
    # A contact that opens, and is held because it would be closed again: that must be slow.
    opening = begin.contacts.velocity(now.u)
    held_back = begin.active & (opening > begin.tolerance.velocity) & matters(begin.contacts, opening, 0, now.fastest)
    coarse = jnp.where(lost | jnp.any(held_back), Status.TOO_COARSE, Status.OK).astype(jnp.int32)
    adhesion, this = now.adhesion, jnp.arange(count) == contact
    if adhesion is not None:
        left = jnp.minimum(adhesion + end.impulse, most_held(system, params, adhesion))
        adhesion = jnp.where(leaves & this, 0.0, jnp.maximum(left, 0.0))
    now = _Moment(
        t=now.t + candidate.s,
        left=now.left - candidate.s,
        q=end.q,
        u=end.u,
        impulse=now.impulse + end.impulse,
        slow=begin.tolerance.slow,
        released=now.released | (leaves & this),
        fastest=jnp.maximum(now.fastest, jnp.abs(lax.stop_gradient(end.u))),
        unsettled=now.unsettled,
        truncation=now.truncation.after(candidate.s, now.u, end.u, begin.a, begin.tolerance.velocity, order),
        status=first(first(now.status, coarse), end.status),
        adhesion=adhesion,
    )
    strike = partial(_strike, system, params, now, h, begin.tolerance, contact, ~last)
    now, percussion = where_wanted(struck, strike, (now, none))
    return now, candidate.found, percussion


def _to_event_or_end(system, params, now: _Moment, begin: Start, order: int) -> CandidateStep:
    """Smooth motion to the end of the step, or, where a gap closes or a reaction vanishes before, to the time it does.

    At the latter the acceleration is continuous, so that the motion does not depend on that time to first order: it
    needs no derivative, and its rate is good enough as the mean along the way.

    A contact that holds back lets go where its adhesion is used up. There the acceleration jumps, and the time carries
    its derivative.
    """

    def multipliers_at(s, end: Arrival):
        moved = jnp.where(s > 0, s, 1.0)
        rates = (end.multipliers - multipliers) / moved
        if now.adhesion is None:
            return end.multipliers, rates
        return jnp.where(glues, now.adhesion + end.impulse, end.multipliers), jnp.where(glues, end.multipliers, rates)

    def motion(s, end: Arrival):
        return _joined(
            gap_motion(system, params, now.t + s, end.q, end.slope), multipliers_at(lax.stop_gradient(s), end)
        )

    def until_overlap(s, end: Arrival):
        """How far the motion can be followed until a gap is negative.

        A body may pass through another within the step and leave no trace at its end. Quarters of the way are looked
        at, along the parabola that the smooth motion is to second order. So is the place where a gap's cubic is lowest:
        a touch that is shallower than the cubic is right is seen there.
        """
        bend = end.q - now.q - s * now.u

        def way(f):
            return now.q + f * s * now.u + f**2 * bend

        ends = gap_motion(system, params, now.t + s, end.q, end.slope)
        dip = Cubic.between((begin.contacts.gap, begin.contacts.velocity(now.u)), ends, s).lowest(~begin.resting)
        fractions = jnp.stack([dip, *jnp.array([0.25, 0.5, 0.75], multipliers.dtype)])
        gaps = jax.vmap(lambda f: system.gap(now.t + f * s, way(f), params))(fractions)
        overlaps = jnp.any((gaps < -begin.tolerance.gap) & ~begin.resting[None, :], axis=1)
        f = jnp.min(jnp.where(overlaps, fractions, 1.0))
        whole = f == 1.0
        y, v = jnp.where(whole, end.q, way(f)), jnp.where(whole, end.slope, now.u + f * (end.slope - now.u))
        there, rates = multipliers_at(s, end)
        return s * f, _joined(gap_motion(system, params, now.t + s * f, y, v), (loads + f * (there - loads), rates))

    multipliers = lax.stop_gradient(begin.multipliers)
    loads, rates = multipliers, jnp.zeros_like(multipliers)
    eps = jnp.finfo(multipliers.dtype).eps ** 0.75
    forces = jnp.full_like(multipliers, eps * jnp.max(multipliers, initial=0.0))
    length, lasts = jnp.where(now.left > 0, now.left, 1.0), now.left > rounding_of_time(now.t, now.left, now.q.dtype)
    changes = 4 * forces / length
    if now.adhesion is not None:
        glues = most_held(system, params, now.adhesion) > 0
        loads, rates = jnp.where(glues, now.adhesion, loads), jnp.where(glues, multipliers, 0.0)
        largest = eps * jnp.max(jnp.abs(multipliers), initial=0.0)
        spent = eps * jnp.max(now.adhesion, initial=0.0) + now.left * largest
        forces, changes = jnp.where(glues, spent, forces), jnp.where(glues, largest, changes)
    rounding = Tolerance(
        gap=jnp.concatenate([jnp.full_like(multipliers, begin.tolerance.gap), forces]),
        velocity=jnp.concatenate([jnp.full_like(multipliers, begin.tolerance.velocity), changes]),
        slow=begin.tolerance.slow,
    )
    return to_event_or_end(
        lambda s: smooth(system, params, now.t, s, now.q, now.u, begin, order),
        motion,
        until_overlap,
        _joined((begin.contacts.gap, begin.contacts.velocity(now.u)), (loads, rates)),
        jnp.concatenate([~begin.resting, begin.active & begin.regular & lasts]),
        lax.stop_gradient(rounding),
        now.t,
        now.left,
        Arrival.nowhere(now.q, begin.contacts.gap),
    )


def _joined(gaps, multipliers):
    """Gaps and multipliers (2 c,), and their rates."""
    return jax.tree.map(lambda *parts: jnp.concatenate(parts), gaps, multipliers)


def _strike(system, params, now: _Moment, h, tolerance, contact, alone) -> tuple[_Moment, Percussion]:
    """The percussion of `contact` here and now, with the closed contacts that it reaches."""
    closed = system.gap(now.t, now.q, params) <= tolerance.gap
    closed = closed | (jnp.arange(closed.size) == contact)
    threshold = Threshold(*lax.stop_gradient((h, tolerance.slow, tolerance.velocity, now.fastest, now.unsettled)))
    where, held = (now.t, now.q, now.u, contact, closed, threshold, alone), now.adhesion
    u, unsettled, status, hit = percussion(system, params, *where, held)
    impulse, status = now.impulse + hit.impulse, first(now.status, status)
    if held is not None:
        held = jnp.minimum(held + hit.impulse, most_held(system, params, held))
    return now._replace(u=u, impulse=impulse, unsettled=unsettled, status=status, adhesion=held), hit


def _finish(system, params, h, at_start: _Moment, now: _Moment, pending) -> _Moment:
    """What was not resolved: the rest of a step with too many percussions, or a whole step that ended in an overlap.

    Either is taken as inelastic, feasible and dissipative, and reported if something fast was stopped.
    """
    # Starting values may overlap by themselves; that is reported elsewhere and not made worse.
    depth = jnp.min(system.gap(now.t, now.q, params), initial=0.0)
    allowed = jnp.min(system.gap(at_start.t, at_start.q, params), initial=0.0)
    length = jnp.max(jnp.abs(at_start.q)) + h * jnp.max(jnp.abs(at_start.u))
    overlaps = ~pending & (depth < allowed - jnp.finfo(now.q.dtype).eps ** 0.75 * (1 + length))
    wanted = pending | overlaps

    def inelastic():
        since = select(overlaps, at_start, now)
        x, w, impulse, status, bounced, stopped = remainder(
            system, params, since.t, since.left, since.q, since.u, now.slow
        )
        bounced = bounced | (since.adhesion is not None)
        status = first(status, jnp.where(bounced, Status.TOO_MANY_EVENTS, Status.OK).astype(jnp.int32))
        unsettled = jnp.where(stopped, jnp.inf, since.unsettled)
        impulse, status = since.impulse + impulse, first(since.status, status)
        return since._replace(q=x, u=w, impulse=impulse, unsettled=unsettled, status=status)

    return where_wanted(wanted, inelastic, now)
