"""EventTimed: every impact at its own time, so that the trajectory's derivative is the true one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from diffcontact.batching import any_lane
from diffcontact.schemes.flow import smooth, start
from diffcontact.schemes.percussion import first_impact, percussion, remainder
from diffcontact.schemes.scheme import Info, State
from diffcontact.status import Status, first
from diffcontact.system import gap_motion


class _Moment(NamedTuple):
    """Where we are inside a step: `left` seconds before its end, with the impulses so far, and what is slow here."""

    t: Array
    left: Array
    q: Array
    u: Array
    impulse: Array
    slow: Array
    status: Array


class _Shot(NamedTuple):
    """A smooth piece of length s, aimed at the impact of `contact` where one was found: what it reached.

    `late` is how far the next shot goes back, after so many `corrections` of the same aim.
    """

    s: Array
    contact: Array
    corrections: Array
    found: Array
    late: Array
    x: Array
    w: Array
    impulse: Array
    status: Array


@dataclass(frozen=True)
class EventTimed:
    r"""Each percussion at its time of impact inside the step; the default scheme.

    A step is a short composition of two maps::

        step(h) = smooth(h - tau_1 - ... - tau_K) o percussion_K o ... o percussion_1 o smooth(tau_1)

    - `smooth`: free flight and resting contact, second order (`flow.smooth`);
    - `tau`: the first root of a gap along it; the last Newton step carries the derivative (implicit function theorem);
    - `percussion`: u+ = -e u- + (1 + e) Proj_M(T_K(q), u-) (`percussion.percussion`).

    Because tau moves with the parameters, the derivative of the step contains the saltation matrix
    DR + (F+ - DR F-) grad g^T / (grad g . F-) whole, and the derivative of the trajectory converges to the true one.
    The published schemes see an impact at an integer number of steps and lose its second term.

    Exact to rounding for constant forces at every h; second order in state and derivative otherwise. A bounce slower
    than h/2 times the acceleration ends in rest: the end of a Zeno sequence is found to within O(h). No derivative
    exists at grazing impacts, at simultaneous impacts of coupled contacts, and when a Zeno sequence ends.

    Args:
        events: how many percussions one step resolves one by one. What is left of a step with more is taken as
            inelastic: feasible, dissipative, and reported as `Status.TOO_MANY_EVENTS`.

    Source: design of this library; impact law S3 eq. (2).

    Example:
        >>> import jax, jax.numpy as jnp, diffcontact as dc
        >>> ball = dc.systems.balls(1, 1, box=(0.0, 10.0))
        >>> params = dict(mass=jnp.ones(1), radius=jnp.zeros(1), gravity=-9.81 * jnp.ones(1), restitution=0.8)
        >>> times = jnp.linspace(0.0, 1.0, 11)
        >>> end = lambda height: dc.simulate(ball, params, height * jnp.ones(1), jnp.zeros(1), times).q[-1, 0]
        >>> print(f"{end(1.0):.4f} {jax.grad(end)(1.0):.4f}")  # one impact
        0.4680 1.3865
    """

    events: int = 8

    def __post_init__(self):
        if not (isinstance(self.events, int) and self.events >= 1):
            raise ValueError(f"EventTimed(events={self.events!r}): expected an integer of at least 1")

    def init(self, system, params, t, h, q, u) -> State:
        """Position and velocity are all that is carried."""
        return State(q, u)

    def step(self, system, params, t, h, state: State) -> tuple[State, Info]:
        """Smooth motion to the next impact, the percussion, and on, until the step is over."""
        count = jax.eval_shape(lambda q: system.gap(t, q, params), state.q).size
        if count == 0:
            begin = start(system, params, t, state.q, state.u, h, h)
            x, w, *rest = smooth(system, params, t, h, state.q, state.u, begin)
            return State(x, w), Info(*rest)
        zero = jnp.zeros(count, state.q.dtype)
        at_start = _Moment(t, h, state.q, state.u, impulse=zero, slow=zero, status=jnp.zeros((), jnp.int32))

        def advance(now, last):
            begin = start(system, params, now.t, now.q, now.u, h, now.left)
            shot = _to_impact_or_end(system, params, now, begin)
            now = _Moment(
                t=now.t + shot.s,
                left=now.left - shot.s,
                q=shot.x,
                u=shot.w,
                impulse=now.impulse + shot.impulse,
                slow=begin.tolerance.slow,
                status=first(now.status, shot.status),
            )

            def strike():
                return _select(shot.found, _strike(system, params, now, begin.tolerance, shot.contact, ~last), now)

            return lax.cond(any_lane(shot.found), strike, lambda: now), shot.found

        def round_(carry, last):
            now, pending = carry
            return lax.cond(
                any_lane(pending), lambda: _select(pending, advance(now, last), (now, pending)), lambda: (now, pending)
            ), None

        last = jnp.arange(self.events + 1) >= self.events - 1
        (now, pending), _ = lax.scan(round_, (at_start, jnp.array(True)), last)
        now = _finish(system, params, h, at_start, now, pending)
        return State(now.q, now.u), Info(now.impulse, now.status)


# The cubic's root is good to O(s^4): the first shot at it corrects the time, the second its derivative, the third
# arrives. More run only where rounding is not reached, or another contact turns out to have closed before.
SHOTS = 7


def _to_impact_or_end(system, params, now: _Moment, begin) -> _Shot:
    """Smooth motion to the end of the step, or, where a gap closes before, to the first time of impact tau.

    tau is the root of s -> gap(t + s, smooth(s)) by Newton's iteration, whose last steps are differentiated: by the
    implicit function theorem d tau = -d gap / (gap velocity). Only their value is kept within the step: an impact that
    falls exactly on a grid time (tau = 0, or the end) would lose its derivative otherwise.
    """
    rounding = 8 * jnp.finfo(now.q.dtype).eps * (jnp.abs(now.t) + jnp.abs(now.left))
    floor = lax.stop_gradient(jnp.where(begin.near.gap <= begin.tolerance.gap, begin.near.gap, 0.0))

    def look(shot: _Shot):
        """Which contact closes first on the way to where the shot went, and how much earlier."""
        s, x, w = lax.stop_gradient((shot.s, shot.x, shot.w))
        # A body may pass through another within the step and leave no trace at its end.
        watched = ~begin.resting
        s, y, v = lax.stop_gradient(_until_overlap(system, params, now, s, x, w, watched, begin.tolerance))
        ends = (begin.near.gap, begin.near.velocity(now.u)), gap_motion(system, params, now.t + s, y, v)
        tau, contact, found = lax.stop_gradient(first_impact(*ends, s, watched, begin.tolerance))
        # The cubic's root is no more than an aim; its derivative is not the true one and is left out.
        s = jnp.where(found, lax.stop_gradient(shot.s), shot.s)
        return shot._replace(
            s=s, contact=contact, corrections=0 * contact, found=found, late=lax.stop_gradient(s) - tau
        )

    def correct(shot: _Shot):
        """How late the shot was, by its gap and gap velocity."""
        gaps, rates = gap_motion(system, params, now.t + shot.s, shot.x, shot.w)
        # From where a closed contact is, not from zero: a slow approach would take long for what is rounding.
        missed, rate = (gaps - floor)[shot.contact], rates[shot.contact]
        # Grazing: without an approach there is no time to correct.
        approaching = rate < -begin.tolerance.velocity
        late = jnp.where(approaching, missed / jnp.where(approaching, rate, -1.0), 0.0)
        return shot._replace(late=late, corrections=shot.corrections + 1)

    def shoot(shot: _Shot, number):
        s = shot.s - shot.late
        s = s + lax.stop_gradient(jnp.clip(s, 0.0, now.left) - s)
        x, w, impulse, status = smooth(system, params, now.t, s, now.q, now.u, begin)
        shot = shot._replace(s=s, x=x, w=w, impulse=impulse, status=status)
        # The aim was at the first root of cubics; where another contact overlaps, it closed earlier than they told.
        others = ~begin.resting & (jnp.arange(floor.size) != shot.contact)
        astray = jnp.any((system.gap(now.t + s, x, params) < floor - begin.tolerance.gap) & others)

        def aim_anew():
            anew = look(shot)
            return _select((number == 0) | (astray & anew.found), anew, correct(shot))

        return lax.cond((number == 0) | any_lane(astray), aim_anew, lambda: correct(shot))

    def again(shot: _Shot, number):
        wanted = (number == 0) | (shot.found & ((shot.corrections < 3) | (jnp.abs(shot.late) > rounding)))
        return lax.cond(any_lane(wanted), lambda: _select(wanted, shoot(shot, number), shot), lambda: shot), None

    zero, none = jnp.zeros((), now.q.dtype), jnp.zeros((), int)
    to_end = _Shot(now.left, none, none, jnp.array(False), zero, now.q, now.u, jnp.zeros_like(now.impulse), now.status)
    return lax.scan(again, to_end, jnp.arange(1 + SHOTS))[0]


def _strike(system, params, now: _Moment, tolerance, contact, alone) -> _Moment:
    """The percussion of `contact` here and now, with the closed contacts that it reaches."""
    closed = system.gap(now.t, now.q, params) <= tolerance.gap
    closed = closed | (jnp.arange(closed.size) == contact)
    u, impulse, status = percussion(system, params, now.t, now.q, now.u, contact, closed, tolerance.slow, alone)
    return now._replace(u=u, impulse=now.impulse + impulse, status=first(now.status, status))


def _until_overlap(system, params, now: _Moment, s, x, w, watched, tolerance):
    """How far the motion to (x, w), s later, goes until a watched contact overlaps: time, position, velocity there.

    Looks at quarters of the way, along the parabola that the smooth motion is to second order.
    """
    bend = x - now.q - s * now.u
    quarters = jnp.array([0.25, 0.5, 0.75, 1.0], x.dtype)
    way = now.q[None, :] + quarters[:, None] * s * now.u[None, :] + quarters[:, None] ** 2 * bend[None, :]
    gaps = jax.vmap(lambda f, y: system.gap(now.t + f * s, y, params))(quarters, way)
    overlaps = jnp.any((gaps < -tolerance.gap) & watched[None, :], axis=1).at[-1].set(True)
    first_one = jnp.argmax(overlaps)
    f = quarters[first_one]
    whole = f == 1.0
    return s * f, jnp.where(whole, x, way[first_one]), jnp.where(whole, w, now.u + f * (w - now.u))


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
        since = _select(overlaps, at_start, now)
        x, w, impulse, status, stopped = remainder(system, params, since.t, since.left, since.q, since.u, now.slow)
        status = first(status, jnp.where(stopped, Status.TOO_MANY_EVENTS, Status.OK).astype(jnp.int32))
        return since._replace(q=x, u=w, impulse=since.impulse + impulse, status=first(since.status, status))

    return lax.cond(any_lane(wanted), lambda: _select(wanted, inelastic(), now), lambda: now)


def _select(condition, new, old):
    return jax.tree.map(lambda new, old: jnp.where(condition, new, old), new, old)
