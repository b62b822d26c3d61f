"""The smooth part of the motion: free flight and persistent contact, second order in the step."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from diffcontact import qp
from diffcontact.batching import any_lane, select
from diffcontact.mass import solve
from diffcontact.status import Status, first
from diffcontact.system import Contacts, acceleration, contacts, gap_acceleration


class Tolerance(NamedTuple):
    """When a contact counts as closed, at rest and slow; none of them is differentiated.

    Attributes:
        gap: () a gap below this is zero to rounding [m].
        velocity: () a gap velocity below this is zero to rounding [m/s].
        slow: (c,) an approach below this does not bounce [m/s]: h/2 times the gap's acceleration scale, so that the
            next flight would be shorter than the step. It goes to zero with h: a threshold, not a smoothing.
    """

    gap: Array
    velocity: Array
    slow: Array


def _tolerance(near: Contacts, q: Array, u: Array, scale: Array, h) -> Tolerance:
    """Rounding of gaps and gap velocities, from the sizes of the terms that cancel in them.

    One bound for all contacts: in a pile, the rounding of one contact is the motion of its neighbours. eps^(3/4)
    rather than eps: a projection on closed contacts is exact to a few hundred eps, and impacts that belong together
    must not be split by rounding.
    """
    rows = jnp.abs(near.normals)
    rounding = jnp.finfo(q.dtype).eps ** 0.75
    speed = rows @ jnp.abs(u) + jnp.abs(near.drift) + h * scale
    size = rows @ jnp.abs(q) + h * speed
    return Tolerance(
        gap=rounding * jnp.max(size, initial=0.0), velocity=rounding * jnp.max(speed, initial=0.0), slow=h / 2 * scale
    )


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["near", "tolerance", "a", "multipliers", "resting", "loaded", "status"],
    meta_fields=[],
)
@dataclass(frozen=True)
class Start:
    """All that a smooth piece of motion knows at its beginning, whatever its length.

    Attributes:
        near: the contacts at (t, q).
        tolerance: see `Tolerance`.
        a: (d,) acceleration with the reaction of the resting contacts [m/s^2].
        multipliers: (c,) that reaction [N].
        resting: (c,) closed contacts that stay closed, or would be closed again within the step.
        loaded: (c,) those of them that carry load: they stay closed.
        status: () of the projection.
    """

    near: Contacts
    tolerance: Tolerance
    a: Array
    multipliers: Array
    resting: Array
    loaded: Array
    status: Array


def start(system, params, t, q, u, h, s) -> Start:
    """Which contacts rest, which of them carry load, and how the system accelerates over the next s seconds.

    A closed contact rests if it opens so slowly (or not at all) that it would close again within the step. The reaction
    of the resting ones follows Gauss' principle of least constraint, asked of the gaps s later::

        a = argmin 1/2 |a - M^-1 f|_M^2      subject to      v_i + s/2 (G_i a + gamma_i) >= 0,  i at rest

    with v_i >= 0 the gap velocity and gamma_i = what curvature and moving walls contribute to its acceleration.

    Args:
        h: length of the whole step, which sets the thresholds.
        s: what is left of it.
    """
    near = contacts(system, params, t, q)
    mass, free = system.mass(q, params), acceleration(system, params, t, q, u)
    lift, opening = gap_acceleration(system, params, t, q, u, free), near.velocity(u)
    # Two bodies that fall together have no relative acceleration: the terms' sizes count, not their sum.
    rows, still = lax.stop_gradient((jnp.abs(near.normals), near))
    scale = lax.stop_gradient(jnp.maximum(jnp.abs(lift), rows @ jnp.abs(free)))
    tolerance = _tolerance(still, *lax.stop_gradient((q, u)), scale, lax.stop_gradient(h))
    closed = (near.gap <= tolerance.gap) & (opening >= -tolerance.velocity)
    length = jnp.where(jnp.abs(s) > jnp.finfo(q.dtype).tiny, s, 1.0)

    curving = lift - near.normals @ free
    # What would stop everything a hundred times within the step is no smooth motion.
    violent = 100 * jnp.max(jnp.abs(opening) + rows @ jnp.abs(u) + h * scale, initial=0.0)

    def react(carry, number):
        resting, slow, possible, *_ = carry
        offset = jnp.where(possible, curving, jnp.maximum(curving, 0.0)) + 2 * jnp.maximum(opening, 0.0) / length
        reaction = qp.project(mass, near.normals, jnp.where(resting, offset, jnp.inf), free)
        # Sideways contacts in a pile are accelerated by the others' reactions alone: those count in a second pass.
        pushed = h / 2 * rows @ jnp.abs(solve(mass, rows.T @ reaction.multipliers))
        # At a dead point (three balls in a line between walls) no finite reaction follows the curves: a third pass
        # leaves them out, and a = 0 is admissible.
        possible = (reaction.status == Status.OK) & (jnp.max(pushed, initial=0.0) <= violent)
        slow = jnp.where(number == 0, tolerance.slow + lax.stop_gradient(jnp.where(possible, pushed, 0.0)), slow)
        resting = jnp.where(number == 0, closed & (opening <= tolerance.velocity + slow), resting)
        return (resting, slow, possible, reaction.u, reaction.multipliers, reaction.active, reaction.status), None

    def react_again(carry, number):
        wanted = (number < 2) | ~carry[2]
        return lax.cond(any_lane(wanted), lambda: react(carry, number), lambda: (carry, None))

    nothing = jnp.zeros_like(lift)
    resting = closed & (opening <= tolerance.velocity + tolerance.slow)
    flying = (resting, tolerance.slow, jnp.array(True), free, nothing, nothing > 0, jnp.zeros((), jnp.int32))
    resting, slow, _, a, multipliers, loaded, status = lax.cond(
        any_lane(jnp.any(resting)), lambda: lax.scan(react_again, flying, jnp.arange(3))[0], lambda: flying
    )
    return Start(near, tolerance._replace(slow=slow), a, multipliers, resting, loaded, status)


def smooth(system, params, t, s, q, u, begin: Start, way=None):
    """Advance by s without any impact: q, u, impulse (c,) [N s], status.

    RATTLE for the contacts that rest, free flight for everything else; a with the reaction, G the rows at rest::

        x = q + s u + s^2/2 a(t, q, u),                  then moved (M-orthogonally) onto  g(t+s, x) = 0  where loaded
        w = u + s/2 (a(t, q, u) + a(t+s, x, u + s a)),   then projected onto  G(t+s, x) w + dg/dt >= 0

    Second order in s; exact for constant forces and flat contacts. The projections run only where contacts rest.

    Args:
        way: () how far corrections of x may go [m]; None: as far as the motion itself.

    Source: RATTLE (Andersen 1983) with the one-sided velocity constraint of S1 eq. (12).
    """
    touching = any_lane(jnp.any(begin.resting))
    x = q + s * u + s**2 / 2 * begin.a
    way = jnp.max(jnp.abs(x - q)) if way is None else way
    x = lax.cond(touching, lambda: _keep_closed(system, params, t + s, way, x, begin), lambda: x)
    w = u + s / 2 * (begin.a + acceleration(system, params, t + s, x, u + s * begin.a))

    def supported():
        here = contacts(system, params, t + s, x)
        held = begin.loaded | (begin.resting & (here.gap <= begin.tolerance.gap))
        end = qp.project(system.mass(x, params), here.normals, jnp.where(held, here.drift, jnp.inf), w)
        return end.u, s / 2 * begin.multipliers + end.multipliers, first(begin.status, end.status)

    w, impulse, status = lax.cond(touching, supported, lambda: (w, jnp.zeros_like(begin.multipliers), begin.status))
    return x, w, impulse, status


# Richardson's extrapolation from one, two and three pieces of a second-order map: its errors in n^-2 and n^-3 cancel.
# A last piece of no length puts the result onto its contacts.
_PIECES = (1.0, 1 / 2, 1 / 2, 1 / 3, 1 / 3, 1 / 3, 0.0)
_BEGINS = (True, True, False, True, False, False, False)
_WEIGHTS = (1 / 12, 0.0, -4 / 3, 0.0, 0.0, 9 / 4, 0.0)


def smooth_extrapolated(system, params, t, s, q, u, begin: Start):
    """`smooth` of fourth order: T_1 / 12 - 4 T_2 / 3 + 9 T_3 / 4, with T_n the composition of n pieces of length s/n.

    The contacts that rest, and those that carry load, are the same on all pieces, so that T_n is a smooth map.

    Source: Hairer, Norsett, Wanner, Solving Ordinary Differential Equations I, section II.9.
    """
    touching = any_lane(jnp.any(begin.resting))
    way = jnp.max(jnp.abs(s * u + s**2 / 2 * begin.a))

    def reaction(time, x, w):
        """The acceleration at a later point, with the loaded contacts held."""
        free = acceleration(system, params, time, x, w)

        def held():
            near = contacts(system, params, time, x)
            curving = gap_acceleration(system, params, time, x, w, free) - near.normals @ free
            found = qp.hold(system.mass(x, params), near.normals, curving, free, begin.loaded)
            return found.u, found.multipliers

        return lax.cond(touching, held, lambda: (free, jnp.zeros_like(begin.multipliers)))

    def piece(carry, at):
        (done, x, w, impulse), total = carry
        fraction, begins, weight = at
        last = fraction == 0
        x, w, impulse = select(last, total, select(begins, (q, u, jnp.zeros_like(impulse)), (x, w, impulse)))
        done = jnp.where(begins, 0.0, done)
        a, multipliers = reaction(t + done * s, x, w)
        here = dataclasses.replace(begin, a=a, multipliers=multipliers)
        x, w, more, status = smooth(system, params, t + done * s, fraction * s, x, w, here, way)
        now = (x, w, impulse + more)
        total = select(last, now, jax.tree.map(lambda total, now: total + weight * now, total, now))
        return ((done + fraction, *now), total), status

    nothing = jnp.zeros_like(q), jnp.zeros_like(u), jnp.zeros_like(begin.multipliers)
    pieces = jnp.array(_PIECES, q.dtype), jnp.array(_BEGINS), jnp.array(_WEIGHTS, q.dtype)
    (_, (x, w, impulse)), status = lax.scan(piece, ((jnp.ones((), q.dtype), *nothing), nothing), pieces)
    return x, w, impulse, status[jnp.argmax(status != Status.OK)]


def _keep_closed(system, params, t, way, x, begin: Start) -> Array:
    """Move x so that loaded contacts are closed and no resting one overlaps.

    Loaded contacts are held as equalities, so that x keeps its derivative where the correction itself is zero. Linear
    constraints need the first pass only; the second is Newton's on curved ones: O(s^3), then O(s^6).
    """

    def newton(y, _):
        here = contacts(system, params, t, y)
        return qp.hold(system.mass(y, params), here.normals, here.gap - here.normals @ y, y, begin.loaded).u, None

    held = lax.scan(newton, x, None, length=2)[0]
    # The correction is small against the way to x, unless the held rows contradict each other there.
    sound = jnp.max(jnp.abs(held - x)) <= way + begin.tolerance.gap
    x = jnp.where(sound, held, x)
    # Redundant contacts carry load through others; on curved bodies they may overlap by O(s^3).
    here = contacts(system, params, t, x)

    def separate():
        offset = jnp.where(begin.resting, here.gap - here.normals @ x, jnp.inf)
        return qp.project(system.mass(x, params), here.normals, offset, x).u

    overlapping = jnp.any(begin.resting & (here.gap < -begin.tolerance.gap))
    return lax.cond(any_lane(overlapping), lambda: jnp.where(overlapping, separate(), x), lambda: x)
