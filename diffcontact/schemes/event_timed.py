"""EventTimed: every impact at its own time, so that the trajectory's derivative is the true one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
from jax import Array, lax

from diffcontact.batching import any_lane
from diffcontact.schemes.flow import smooth, start
from diffcontact.schemes.percussion import first_impact, percussion, remainder
from diffcontact.schemes.scheme import Info, State
from diffcontact.status import Status, first
from diffcontact.system import gap_motion


@partial(jax.tree_util.register_dataclass, data_fields=["time", "left", "q", "u", "impulse", "status"], meta_fields=[])
@dataclass(frozen=True)
class _Within:
    """Where we are inside a step: `left` seconds before its end."""

    time: Array
    left: Array
    q: Array
    u: Array
    impulse: Array
    status: Array


@dataclass(frozen=True)
class EventTimed:
    r"""Each percussion at its time of impact inside the step; the default scheme.

    A step is a short composition of two maps::

        step(h) = smooth(h - tau_1 - ... - tau_K) o percussion_K o ... o percussion_1 o smooth(tau_1)

    - `smooth`: free flight and resting contact, second order (`flow.smooth`);
    - `tau`: the first root of a gap along it, whose last Newton step carries the derivative (implicit function theorem);
    - `percussion`: u+ = -e u- + (1 + e) Proj_M(T_K(q), u-) (`percussion.percussion`).

    Because tau moves with the parameters, the derivative of the step contains the saltation matrix
    DR + (F+ - DR F-) grad g^T / (grad g . F-) whole, and the derivative of the trajectory converges to the true one. The
    published schemes see an impact at an integer number of steps and lose its second term.

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
        >>> end = lambda height: dc.simulate(ball, params, height[None], jnp.zeros(1), times).q[-1, 0]
        >>> print(f"{end(1.0):.6f} {jax.grad(end)(1.0):.6f}")  # one impact; exact derivative e^2 + ...
        0.788...
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
        contact_count = jax.eval_shape(lambda q: system.gap(t, q, params), state.q).size
        nothing = jnp.zeros(contact_count, state.q.dtype)
        now = _Within(t, h, state.q, state.u, nothing, jnp.zeros((), jnp.int32))

        def round_(carry, last):
            now, pending = carry

            def advance():
                moved, impacted = _to_next_event(system, params, h, now, last)
                return jax.tree.map(lambda new, old: jnp.where(pending, new, old), (moved, impacted), (now, pending))

            return lax.cond(any_lane(pending), advance, lambda: (now, pending)), None

        rounds = jnp.arange(self.events + 1)
        (now, pending), _ = lax.scan(round_, (now, jnp.array(True)), rounds >= self.events - 1)

        def give_up():
            slow = start(system, params, now.time, now.q, now.u, h).tolerance.slow
            x, w, impulse, status, stopped = remainder(system, params, now.time, now.left, now.q, now.u, slow)
            status = first(status, jnp.where(stopped, Status.TOO_MANY_EVENTS, Status.OK).astype(jnp.int32))
            rest = _Within(t + h, jnp.zeros_like(h), x, w, now.impulse + impulse, first(now.status, status))
            return jax.tree.map(lambda new, old: jnp.where(pending, new, old), rest, now)

        now = lax.cond(any_lane(pending), give_up, lambda: now)
        return State(now.q, now.u), Info(now.impulse, now.status)


def _to_next_event(system, params, h, now: _Within, last):
    """Smooth motion to the first impact and through it, or to the end of the step; and whether there was an impact."""
    t, s, q, u = now.time, now.left, now.q, now.u
    begin = start(system, params, t, q, u, h)
    x, w, impulse, status = smooth(system, params, t, s, q, u, begin)
    g0, v0 = begin.near.gap, begin.near.velocity(u)
    g1, v1 = gap_motion(system, params, t + s, x, w)
    guess, contact, found = lax.stop_gradient(first_impact((g0, g1), (v0, v1), s, ~begin.loaded, begin.tolerance))

    def impact():
        tau, x, w, impulse, status = _at_impact(system, params, t, q, u, begin, guess, contact)
        closed = jnp.abs(system.gap(t + tau, x, params)) <= begin.tolerance.gap
        closed = closed | (jnp.arange(closed.size) == contact)
        after, hit, hit_status = percussion(
            system, params, t + tau, x, w, contact, closed, begin.tolerance.slow, alone=~last
        )
        return _Within(
            t + tau, s - tau, x, after, now.impulse + impulse + hit, first(first(now.status, status), hit_status)
        )

    end = _Within(t + s, jnp.zeros_like(s), x, w, now.impulse + impulse, first(now.status, status))

    def choose():
        return jax.tree.map(lambda hit, free: jnp.where(found, hit, free), impact(), end)

    return lax.cond(any_lane(found), choose, lambda: end), found


def _at_impact(system, params, t, q, u, begin, guess, contact):
    """The time of impact tau and the state there, both with their derivatives.

    Newton's iteration on s -> gap(t + s, smooth(s)) is not differentiated; one more step from its end is, and gives
    d tau = -d gap / (gap velocity) by the implicit function theorem. It must act, unclipped, at tau = 0 too: an impact
    that falls exactly on a grid time would lose its derivative otherwise. The state at tau follows from the one at the
    last iterate by Taylor, since they differ by rounding in value and by d tau in derivative.
    """

    def evaluate(s, q, u, begin, params):
        """smooth(s), and how far in time the contact's gap is from zero there."""
        x, w, impulse, status = smooth(system, params, t, s, q, u, begin)
        gaps, velocities = gap_motion(system, params, t + s, x, w)
        rate = velocities[contact]
        # Grazing: without an approach there is no time to correct.
        approaching = rate < -begin.tolerance.velocity[contact]
        late = jnp.where(approaching, gaps[contact] / jnp.where(approaching, rate, -1.0), 0.0)
        return late, (x, w, impulse, status)

    fixed = lax.stop_gradient((q, u, begin, params))
    rounding = 8 * jnp.finfo(q.dtype).eps * (jnp.abs(t) + guess)

    def newton(carry):
        s, _, count = carry
        late, _ = evaluate(s, *fixed)
        return jnp.maximum(s - late, 0.0), jnp.abs(late), count + 1

    def unfinished(carry):
        return (carry[1] > rounding) & (carry[2] < 5)

    s, _, _ = lax.while_loop(unfinished, newton, (guess, jnp.full_like(guess, jnp.inf), 0))
    late, (x, w, impulse, status) = evaluate(s, q, u, begin, params)
    there = start(system, params, t + s, x, w, s)
    x, w = x - late * w + late**2 / 2 * there.a, w - late * there.a
    return s - late, x, w, impulse - late * there.multipliers, status
