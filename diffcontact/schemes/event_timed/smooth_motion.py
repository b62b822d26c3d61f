"""The smooth part of the motion: free flight and persistent contact, of second or fourth order in the step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from diffcontact import qp
from diffcontact.batching import computed_again, entangled, once, select, where_wanted
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


def tolerances(here: Contacts, reach: Array, u: Array, scale: Array, h, t) -> Tolerance:
    """Rounding of gaps and gap velocities, from the sizes of the terms that cancel in them.

    One bound for all contacts that may close within the step: in a pile, the rounding of one contact is the motion of
    its neighbours. eps^(3/4) rather than eps: a projection on closed contacts is exact to a few hundred eps, and
    impacts that belong together must not be split by rounding. Nor is anything faster than zero that moves less than
    eps in the whole step. Walls that move are where they are by the rounding of the time, too.

    Args:
        here: the contacts.
        reach: (c,) |grad gap| |q| [m].
        u: (d,) velocity [m/s].
        scale: (c,) accelerations of the gaps [m/s^2].
        h: () length of the step [s].
        t: () time [s].
    """
    here, reach, u, scale, h, t = lax.stop_gradient((here, reach, u, scale, h, t))
    rows = jnp.abs(here.normals)
    eps = jnp.finfo(u.dtype).eps
    speed = rows @ jnp.abs(u) + jnp.abs(here.drift) + h * scale
    near = may_close(here, reach, u, scale, h)
    parts = reach + h * speed, speed, jnp.abs(t * here.drift)
    size, speed, moved = (jnp.max(jnp.where(near, x, 0.0), initial=0.0) for x in parts)
    return Tolerance(
        gap=eps**0.75 * size + 8 * eps * moved,
        velocity=jnp.maximum(eps**0.75 * speed, eps * size / jnp.abs(h)),
        slow=h / 2 * scale,
    )


def may_close(here: Contacts, reach: Array, u: Array, scale: Array, h) -> Array:
    """(c,) contacts that may close within the step: where the others are has no part in what rounding is.

    A body that is far away would else make two that are near touch. Arguments as in `tolerances`.
    """
    way = jnp.abs(h) * (jnp.abs(here.normals) @ jnp.abs(u) + jnp.abs(here.drift) + jnp.abs(h) * scale)
    return here.gap <= 2 * way + jnp.finfo(u.dtype).eps ** 0.5 * (reach + way)


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["contacts", "tolerance", "a", "multipliers", "resting", "active", "regular", "status"],
    meta_fields=[],
)
@dataclass(frozen=True)
class Start:
    """All that a smooth piece of motion knows at its beginning, whatever its length.

    Attributes:
        contacts: the contacts at (t, q).
        tolerance: see `Tolerance`.
        a: (d,) acceleration with the reaction of the resting contacts [m/s^2].
        multipliers: (c,) that reaction [N].
        resting: (c,) closed contacts that push, touch without opening, or have let go in this step.
        active: (c,) those of them that push (their multiplier is positive): they stay closed.
        regular: () whether a multiplier that vanishes means anything: not at a dead point, where no finite reaction
            follows the curves, nor where all multipliers are rounding.
        status: () of the projection.
    """

    contacts: Contacts
    tolerance: Tolerance
    a: Array
    multipliers: Array
    resting: Array
    active: Array
    regular: Array
    status: Array


def start(system, params, t, q, u, h, s, released, glued=None) -> Start:
    """Which contacts rest, which of them push, and how the system accelerates over the next s seconds.

    A closed contact rests if it opens so slowly (or not at all) that it would close again within the step. The reaction
    of the resting ones follows Gauss' principle of least constraint, asked of the gaps s later::

        a = argmin 1/2 |a - M^-1 f|_M^2      subject to      v_i + s/2 (G_i a + gamma_i) >= 0,  i at rest

    with v_i >= 0 the gap velocity and gamma_i = what curvature and moving walls contribute to its acceleration.

    Args:
        h: length of the whole step, which sets the thresholds.
        s: what is left of it.
        released: (c,) contacts that have let go in this step: they push no more.
        glued: None, or (c,) contacts that pull, too, where they are closed: they stay so.
    """
    here = contacts(system, params, t, q)
    mass, free = system.mass(q, params), acceleration(system, params, t, q, u)
    normal_acceleration, opening = gap_acceleration(system, params, t, q, u, free), here.velocity(u)
    # Two bodies that fall together have no relative acceleration: the terms' sizes count, not their sum.
    rows, still = lax.stop_gradient((jnp.abs(here.normals), here))
    scale = lax.stop_gradient(jnp.maximum(jnp.abs(normal_acceleration), rows @ jnp.abs(free)))
    tolerance = tolerances(still, rows @ jnp.abs(lax.stop_gradient(q)), *lax.stop_gradient((u, scale, h, t)))
    touching = (here.gap <= tolerance.gap) & (opening >= -tolerance.velocity)
    closed = touching & ~released
    length = jnp.where(jnp.abs(s) > jnp.finfo(q.dtype).tiny, s, 1.0)

    curving = normal_acceleration - here.normals @ free
    # What would stop everything a hundred times within the step is no smooth motion.
    violent = 100 * jnp.max(jnp.abs(opening) + rows @ jnp.abs(u) + h * scale, initial=0.0)

    def react(carry, number):
        before, slow, possible, *_ = carry
        offset = jnp.where(possible, curving, jnp.maximum(curving, 0.0)) + 2 * jnp.maximum(opening, 0.0) / length
        reaction = _reaction_of(mass, here.normals, jnp.where(before, offset, jnp.inf), free, held)
        # Sideways contacts in a pile are accelerated by the others' reactions alone: those count in a second pass.
        pushed = h / 2 * rows @ jnp.abs(solve(mass, rows.T @ reaction.multipliers))
        # At a dead point (three balls in a line between walls) no finite reaction follows the curves: a third pass
        # leaves them out, and a = 0 is admissible.
        most = jnp.max(pushed, initial=0.0)
        possible = (reaction.status == Status.OK) & (most <= violent)
        regular = possible & (most > tolerance.velocity)
        slow = jnp.where(number == 0, tolerance.slow + lax.stop_gradient(jnp.where(possible, pushed, 0.0)), slow)
        resting = jnp.where(number == 0, closed & (opening <= tolerance.velocity + slow), before)
        # With the same contacts at rest another pass would find the same reaction.
        again = ~possible | jnp.any(resting != before)
        found = reaction.u, reaction.multipliers, reaction.active, regular, reaction.status
        return resting, slow, possible, again, *found

    def react_again(carry, number):
        return where_wanted(carry[3], lambda: react(carry, number), carry), None

    nothing = jnp.zeros_like(normal_acceleration)
    held = None if glued is None else closed & glued
    resting = closed & (opening <= tolerance.velocity + tolerance.slow)
    yes, fine = jnp.array(True), jnp.zeros((), jnp.int32)
    flying = (resting, tolerance.slow, yes, yes, *entangled((free, nothing)), nothing > 0, yes, fine)
    resting, slow, _, _, a, multipliers, active, regular, status = where_wanted(
        jnp.any(resting), lambda: lax.scan(react_again, flying, jnp.arange(3))[0], flying
    )
    if held is not None:
        active = active | held
    # What opens and does not push is in flight. What only touches, or has just let go, is kept from overlapping.
    resting = active | (touching & (released | (opening <= tolerance.velocity)))
    return Start(here, tolerance._replace(slow=slow), a, multipliers, resting, active, regular, status)


def _reaction_of(mass, rows, offset, free, held) -> qp.Projection:
    """`qp.project`, with rows (c,) that are `held` as equalities, whose multipliers have either sign."""
    if held is None:
        return qp.project(mass, rows, offset, free)
    back = jnp.where(held, -offset, jnp.inf)
    found = qp.project(mass, jnp.concatenate([rows, -rows]), jnp.concatenate([offset, back]), free)
    push, pull = jnp.split(found.multipliers, 2)
    return replace(found, multipliers=push - pull, active=found.active[: push.size])


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["q", "u", "slope", "impulse", "multipliers", "status"],
    meta_fields=[],
)
@dataclass(frozen=True)
class Arrival:
    """The end of a smooth piece of motion.

    Attributes:
        q, u: (d,) position and velocity.
        slope: (d,) dq/ds, how the place of arrival moves with the length of the piece: u up to the order of the scheme,
            but for events the difference matters, since the gaps along the piece are functions of q.
        impulse: (c,) of the resting contacts [N s].
        multipliers: (c,) the reaction there of those that are held closed [N]; a contact where it is negative should
            have let go.
        status: () of the projections.
    """

    q: Array
    u: Array
    slope: Array
    impulse: Array
    multipliers: Array
    status: Array

    @classmethod
    def nowhere(cls, q: Array, gap: Array) -> Arrival:
        """One before any motion, of the shapes of these."""
        still, none = jnp.zeros_like(q), jnp.zeros_like(gap)
        return cls(still, still, still, none, none, jnp.zeros((), jnp.int32))


def smooth(system, params, t, s, q, u, begin: Start, order: int) -> Arrival:
    """Advance by s without any impact, to second or fourth order in s.

    RATTLE for the contacts that rest, free flight for everything else; a with the reaction, G the rows at rest::

        x = q + s u + s^2/2 a(t, q, u),                  then moved (M-orthogonally) onto  g(t+s, x) = 0  where active
        w = u + s/2 (a(t, q, u) + a(t+s, x, u + s a)),   then projected onto  G(t+s, x) w + dg/dt >= 0

    or, of fourth order, Nystrom's x and w, then moved and projected alike. Exact for constant forces and flat
    contacts. The projections run only where contacts rest.

    Source: RATTLE (Andersen 1983) with the one-sided velocity constraint of S1 eq. (12).
    """
    touching = jnp.any(begin.resting)
    if order == 2:
        x, impulse = q + s * u + s**2 / 2 * begin.a, s / 2 * begin.multipliers
    else:
        x, w, impulse = _nystrom(system, params, t, s, q, u, begin, touching)
    slope = u + s * begin.a

    def arrive(free):
        """w before its projection, where the system accelerates like this at (t + s, x, slope) without a reaction."""
        return u + s / 2 * (begin.a + free) if order == 2 else w

    def supported():
        way = jnp.max(jnp.abs(x - q))
        y, v, impulses, multipliers, status = _supported(system, params, t + s, x, way, slope, arrive, begin)
        return Arrival(y, v, slope if order == 2 else v, impulse + impulses, multipliers, first(begin.status, status))

    v = arrive(acceleration(system, params, t + s, x, slope) if order == 2 else None)
    flying = Arrival(x, v, slope if order == 2 else v, impulse, jnp.zeros_like(impulse), begin.status)
    return where_wanted(touching, supported, flying)


# What is corrected where contacts rest, one after the other.
PLACE, PLACE_AGAIN, OVERLAP, VELOCITY, REACTION = range(5)


def _supported(system, params, t, x, way, slope, arrive, begin: Start):
    """The end of a piece of motion with contacts at rest, from its place x before any correction, `way` from where it
    began: x, w, the impulse (c,) that corrects w, the reaction (c,) at the end, status.

    Five projections of one form, so that they are compiled once. The first hold the active contacts as equalities, so
    that x keeps its derivative where the correction itself is zero. Linear constraints need one pass, curved ones
    Newton's second: O(s^3), then O(s^6). Redundant contacts push through others, and curved ones may overlap by
    O(s^3): the third moves x to where no resting one does.

    The fourth is w's. At a release the multiplier comes down to zero exactly where its piece of motion ends: a row that
    is only kept from being negative would lose its derivative there, so that active ones are held. The fifth holds the
    acceleration there, for the sign of its multipliers.
    """

    def correct(carry, number):
        y, w = carry
        # A correction is small against the way to x, unless the held rows contradict each other there.
        sound = jnp.max(jnp.abs(y - x)) <= way + begin.tolerance.gap
        y = jnp.where((number != OVERLAP) | sound, y, x)
        here, mass = contacts(system, params, t, y), system.mass(y, params)

        def place():
            again = number < OVERLAP
            return here.gap - here.normals @ y, y, begin.active & again, begin.resting & ~again, begin.tolerance.gap

        def motion():
            ends = number == REACTION
            free = acceleration(system, params, t, y, jnp.where(ends, w, slope))
            still = lax.stop_gradient((params, t, y, w, free))
            bends = gap_acceleration(system, *still) - lax.stop_gradient(here.normals @ free)
            carries = begin.active | (begin.resting & (here.gap <= begin.tolerance.gap))
            offset, target = select(ends, (bends, still[-1]), (here.drift, arrive(free)))
            return offset, target, begin.active & (ends | begin.regular), carries & ~ends, begin.tolerance.velocity

        offset, target, held, kept, tolerance = lax.cond(number < VELOCITY, once(place), once(motion))
        found = qp.hold(mass, here.normals, offset, target, held)

        def push():
            end = qp.project(mass, here.normals, jnp.where(kept, offset, jnp.inf), found.u)
            return end.u, found.multipliers + end.multipliers, end.status

        misses = jnp.any(kept & (here.normals @ found.u + offset < -tolerance))
        end, multipliers, status = where_wanted(misses, push, (found.u, found.multipliers, jnp.zeros((), jnp.int32)))
        return (select(number < VELOCITY, end, y), select(number == VELOCITY, end, w)), (multipliers, status)

    (x, w), (multipliers, status) = lax.scan(computed_again(correct), (x, slope), jnp.arange(5))
    return x, w, multipliers[VELOCITY], lax.stop_gradient(multipliers[REACTION]), status[VELOCITY]


def _reaction(system, params, t, q, u, free, active):
    """The acceleration at (t, q, u), `free` without reaction, with the active contacts held; their multipliers (c,)."""
    here = contacts(system, params, t, q)
    curving = gap_acceleration(system, params, t, q, u, free) - here.normals @ free
    held = qp.hold(system.mass(q, params), here.normals, curving, free, active)
    return held.u, held.multipliers


def _nystrom(system, params, t, s, q, u, begin: Start, touching):
    """x, w and the impulse of the reaction by Nystrom's method of fourth order, with the active contacts held.

    Source: Hairer, Norsett, Wanner, Solving Ordinary Differential Equations I, section II.14.
    """

    def reaction(time, x, w):
        free = acceleration(system, params, time, x, w)
        flying = free, jnp.zeros_like(begin.multipliers)
        return where_wanted(touching, lambda: _reaction(system, params, time, x, w, free, begin.active), flying)

    def stage(last, at):
        fraction, weight = at
        bend = jnp.where(fraction == 1, last[0], begin.a)
        time, x = t + fraction * s, q + fraction * s * u + (fraction * s) ** 2 / 2 * bend
        found = reaction(time, x, u + fraction * s * last[0])
        return found, jax.tree.map(lambda k: weight * k, found)

    nodes = jnp.array([1 / 2, 1 / 2, 1.0], q.dtype), jnp.array([2.0, 2.0, 1.0], q.dtype)
    _, (a, multipliers) = lax.scan(stage, (begin.a, begin.multipliers), nodes)
    x = q + s * u + s**2 / 6 * (begin.a + (a[0] + a[1]) / 2)
    return x, u + s / 6 * (begin.a + jnp.sum(a, 0)), s / 6 * (begin.multipliers + jnp.sum(multipliers, 0))
