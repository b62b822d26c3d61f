"""May a step be wrong by more than its scheme states? Nothing here is differentiated, and nothing changes a motion.

Asked of each step, and summed up (`Truncation`): whether forces change within it, or do much, with walls and belts,
between the times that it asks for (`Unseen`); whether one blow is enough; whether its way leads through an obstacle, or
ends at a closed gap with a velocity into it. A published scheme asks for what its theorems exclude by a status.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from diffcontact.numerics import linear
from diffcontact.numerics.batching import where_wanted
from diffcontact.qp.rows import difference, magnitudes, product, squares, whitened
from diffcontact.status import Status
from diffcontact.system import System, acceleration, gap_motion

_F = TypeVar("_F", bound=Callable)
# Where functions of time are looked at beside the times that are asked for: at parts of a step that no oscillation with
# a whole number of periods in it repeats itself at, the golden section and its cube.
PROBES = np.array([5**0.5 - 2, (5**0.5 - 1) / 2])
# Where obstacles and blows are looked for: one place in each twelfth of a step, so uneven that of up to eight waves in
# it no more than a quarter is left out.
PLACES = (np.arange(12) + np.arange(1, 13) ** 2 * PROBES[1] % 1) / 12
# The parts of a step that are asked for: by most schemes, or at least known to them, and by Simpson's rule.
ENDS, SIMPSON = (0.0, 1.0), (0.0, 0.5, 1.0)
# Such a share may be unseen, an oscillation in six steps, or in two with Simpson's rule.
MOST_UNSEEN = 1 / 8
# What truncation, or all that is unseen, may come to of the way of a coordinate: some fifteen steps for a period.
MOST = 1 / 32
# A coordinate counts where its way, times the root of its mass, is more than this power of eps of the largest: a body
# that slides on a floor moves across it by rounding.
LEAST_WAY = 0.75
# What surfaces that hardly move round by, in eps of the largest coordinate.
_ROUNDING = 64
# What a step takes a force for may be wrong by 5/8 of what comes or goes with it and lasts for eight steps: by half,
# where it is switched on right behind the beginning of a step. And by `MOST_UNSEEN` of what acts anyhow, so that a
# force may have six steps for a period; and by the last share of the largest on any coordinate.
_STEPS, _SWITCHED, _LARGEST = 8, 5 / 8, 1 / 256
# A wall may come in by that share faster than the body that it meets goes on.
_THROWN = 3 / 16
# So deep a straight way may dip into an obstacle, against its length: as a quarter of the radius does in a bowl. And at
# more than that angle [rad] what flies through a body meets it. A body that has just been let go by a round obstacle or
# a swinging floor has one of O(h), and the straight way of a step dips O(h^2) below a gap that only opens: the error of
# a first-order scheme, and no passage. Flights through the edge of a body at less than this angle are lost with it.
_SHALLOW = 1 / 32
# By how much a contact's normal, or the axis of a spin, may turn [rad]: gamma of S2 lemma 5.2, up to this share of the
# radius of prox-regularity for the way of a step.
TURN = 0.25
# The jump of a contact may be eps ** -_WEDGED times what all jumps together make of the velocity. Where spheres are
# pressed into a line that they just fill, jumps double from step to step, and rounding soon decides which is squeezed
# out.
_WEDGED = 0.25


def undifferentiated(function: _F) -> _F:
    """Stop the derivatives of the arrays that a function is given, and of those that it returns."""

    def stopped(tree):
        return jax.tree.map(lambda x: lax.stop_gradient(x) if isinstance(x, Array) else x, tree)

    @wraps(function)
    def call(*args, **named):
        return stopped(function(*stopped(args), **stopped(named)))

    return call  # pyright: ignore[reportReturnType]


class Unseen(NamedTuple):
    """How much of what is given as a function of time steps cannot see, in all: they know it at some times only.

    Attributes:
        missed: (d,) what accelerations differ from the polynomial through the values that are asked for, times the
            lengths of the steps [m/s]; of surfaces () for how long that was much [s].
        felt: (d,) the same of these values [m/s]; of surfaces () for how long they had a part [s].

    Example:
        >>> def shaken(hertz):
        ...     force = lambda t: jnp.sin(2 * jnp.pi * hertz * t + jnp.ones(1))
        ...     return unseen_forces(force, 0.0, 0.02, ENDS, jnp.zeros(1)).large
        >>> [jax.jit(shaken)(hertz).item() for hertz in (1.0, 50.0)]
        [False, True]
    """

    missed: Array
    felt: Array

    def plus(self, other: Unseen) -> Unseen:
        """Add another."""
        return Unseen(self.missed + other.missed, self.felt + other.felt)

    @property
    def large(self) -> Array:
        """(d,) whether that is a large share."""
        return self.missed > MOST_UNSEEN * self.felt


def depends_on_time(given: Callable, t) -> bool:
    """Tell, when tracing, whether a function of time is one."""
    try:
        jax.vmap(given, out_axes=None)(jnp.stack([t, t]))
    except ValueError:
        # So vmap says that what it gives differs from time to time.
        return True
    return False


@undifferentiated
def beside(given: Callable, t, s, nodes: tuple[float, ...]) -> tuple[Array, Array]:
    """Find the largest difference from the polynomial through the values at the nodes, and the largest of these."""
    times = t + s * jnp.asarray(np.append(nodes, PROBES), jnp.result_type(t, s))
    values = jax.vmap(given)(times)
    # What does not depend on time has no rounding then.
    change, parts = values - values[:1], np.asarray(nodes)
    others = [np.delete(parts, i) for i in range(parts.size)]
    weights = [np.prod((PROBES[:, None] - x) / (node - x), 1) for node, x in zip(parts, others, strict=True)]
    told = jnp.tensordot(jnp.asarray(np.stack(weights, 1), values.dtype), change[: parts.size], 1)
    return jnp.max(jnp.abs(change[parts.size :] - told), axis=0), jnp.max(jnp.abs(values[: parts.size]), axis=0)


@undifferentiated
def given_forces(system, params, q: Array, u: Array) -> Callable:
    """Make t -> (d,) the acceleration of what is at q with the velocity u [m/s^2]."""
    return lambda t: acceleration(system, params, t, q, u)


@undifferentiated
def forces_and_joints(system, params, q: Array, u: Array) -> Callable:
    """t -> (1 or 2, d) accelerations by given forces, and by joints that rub at their bound [m/s^2]."""
    forces = given_forces(system, params, q, u)

    def given(t):
        found = [forces(t)]
        if system.joint_slip is not None:
            rows = jnp.abs(jax.jacfwd(lambda u: system.joint_slip(t, q, u, params))(u))
            bounds = jnp.einsum("j,jkd->d", jnp.asarray(system.joint_friction(t, params), u.dtype), rows)
            found.append(linear.solve_mass(system.mass(q, params), bounds))
        return jnp.stack(found)

    return given


@undifferentiated
def unseen_forces(given: Callable, t, s, nodes: tuple[float, ...], like: Array) -> Unseen:
    """What is unseen within s seconds of accelerations t -> (..., d), which are added up; d is that of `like`."""
    if not depends_on_time(given, t):
        return Unseen(jnp.zeros_like(like), jnp.zeros_like(like))
    return Unseen(*(jnp.abs(s) * x.reshape(-1, like.size).sum(axis=0) for x in beside(given, t, s, nodes)))


@undifferentiated
def forces_blow(given: Callable, t, s, root: Array) -> Array:
    """(d,) the change of velocity within s seconds by a force that steps do not see [m/s]; 0 where it is none to tell.

    A force that is switched on stays, and is taken wrongly for less than a step; one that is there between two times is
    taken for none. What comes and goes is looked for in the eight steps before and behind. One step is enough: in a sum
    all that a body feels at rest would hide a blow.

    Args:
        given: t -> (..., d) accelerations, of which several are added up.
        root: (d,) the root of the mass, which tells what coordinates of different units weigh.

    Example:
        >>> hammer = lambda t: jnp.where((t > 0.31) & (t < 0.35), 100.0, 0.0) * jnp.ones(1)
        >>> switched = lambda t: jnp.where(t > 0.31, 100.0, 0.0) * jnp.ones(1)
        >>> felt = jax.jit(forces_blow, static_argnums=0)
        >>> [np.round(felt(force, 0.25, 0.1, np.ones(1)), 1).tolist() for force in (hammer, switched)]
        [[4.2], [0.0]]
    """
    if not depends_on_time(given, jnp.asarray(t)):
        return jnp.zeros_like(root)
    steps = np.arange(_STEPS)
    times = t + s * jnp.asarray(np.concatenate([PLACES, -steps, 1 + steps]), jnp.result_type(t, s))
    values = jax.vmap(given)(times)
    # Before and behind a motion a force need not be defined.
    values = jnp.where(jnp.isfinite(values), values, 0.0).reshape(times.size, -1, root.size)
    within, before, behind = jnp.split(values, [PLACES.size, PLACES.size + _STEPS])
    shares = jnp.asarray(PLACES, values.dtype)[:, None, None]
    off = jnp.mean(jnp.abs(within - (1 - shares) * before[:1] - shares * behind[:1]), axis=0)
    # How much values change from step to step, or once for all.
    here, there = (jnp.mean(x, axis=0) for x in (before, behind))
    changes = [jnp.mean(jnp.abs(x - mean[None]), axis=0) for x, mean in ((before, here), (behind, there))]
    lasting = jnp.maximum(jnp.maximum(*changes), jnp.abs(there - here))
    acting = jnp.maximum(jnp.abs(before[0]), jnp.abs(behind[0]))
    least = (_LARGEST * jnp.max(root[None] * acting) / root)[None]
    told = off > _SWITCHED * lasting + jnp.maximum(MOST_UNSEEN * acting, least)
    return jnp.abs(s) * jnp.sum(jnp.where(told, off, 0.0), axis=0)


def _hides(off: Array, size: Array, among: Array) -> Array:
    """Whether a surface does much beside what is seen of it, and more than `among` rounds by; of the shape of off."""
    return off > MOST_UNSEEN * size + _ROUNDING * jnp.finfo(among.dtype).eps * jnp.max(jnp.abs(among))


def _unseen_surface(off: Array, size: Array, touching: Array, among: Array, s) -> Unseen:
    """Tell for how long a surface is touched that does much beside what is seen of it, and for how long one is [s].

    A share of all steps, since a belt that starts at once does so within one. `among` are coordinates that round.
    """
    length = jnp.abs(s).astype(among.dtype)
    return Unseen(length * jnp.any(touching & _hides(off, size, among)), length * jnp.any(touching))


def _nothing_unseen(among: Array) -> Unseen:
    return Unseen(jnp.zeros((), among.dtype), jnp.zeros((), among.dtype))


@undifferentiated
def unseen_belts(slip: Callable | None, t, s, touching: Array, u: Array) -> Unseen:
    """That of what contacts (c,) rub on, t -> (c, k) their slip for bodies as they are [m/s]."""
    if slip is None or not depends_on_time(slip, t):
        return _nothing_unseen(u)
    return _unseen_surface(*beside(slip, t, s, SIMPSON), touching[:, None], u, s)


@undifferentiated
def belts_shake(slip: Callable | None, t, s, touching: Array) -> Array:
    """() whether belts do in this step, and in those before and behind it, what steps do not see.

    One that starts or stops at once does so in one step, or in two. Arguments as of `unseen_belts`.
    """
    if slip is None or not depends_on_time(slip, jnp.asarray(t)):
        return jnp.array(False)
    begins = t + s * jnp.asarray([-1.0, 0.0, 1.0], jnp.result_type(t, s))
    off, size = jax.vmap(lambda t: beside(slip, t, s, SIMPSON))(begins)
    return jnp.any(touching[:, None] & jnp.all(_hides(off, size, slip(t)), axis=0))


@undifferentiated
def slip_of(system, params, q: Array, u: Array, name: str = "slip") -> Callable | None:
    """t -> (c, k) what contacts, or joints, rub with, for bodies as they are [m/s]; None where they do not rub."""
    slip = getattr(system, name)
    return None if slip is None else lambda t: slip(t, q, u, params)


def _unseen_walls(system, params, t, s, q: Array, impulse: Array) -> Unseen:
    """That of walls that acted, or might have within s seconds."""
    gap = lambda t: system.gap(t, q, params)  # noqa: E731
    if not depends_on_time(gap, t):
        return _nothing_unseen(q)
    now = gap(t)
    off, change = beside(lambda t: gap(t) - now, t, s, SIMPSON)
    return _unseen_surface(off, change, (impulse != 0) | (now <= off), q, s)


@undifferentiated
def surfaces_strike(system, params, t, s, q: Array, u: Array, w: Array, impulse: Array) -> Array:
    """() whether walls throw a body within s seconds, or belts push it, in a way that steps do not see.

    From the place q with the velocity u to the velocity w; contacts had the impulses (c,) [N s].
    """
    thrown = _walls_kick(system, params, t, s, q, u, w, impulse)
    joints = slip_of(system, params, q, u, "joint_slip")
    if joints is not None:
        thrown = thrown | belts_shake(joints, t, s, jnp.ones(jax.eval_shape(joints, t).shape[0], bool))
    return thrown | belts_shake(slip_of(system, params, q, u), t, s, impulse != 0)


def _walls_kick(system, params, t, s, q: Array, u: Array, w: Array, impulse: Array) -> Array:
    """() whether a wall comes in within s seconds, for a part of the step, so fast that a body there is thrown.

    That is faster than the body is, before or behind it, and than the wall goes on: a piston that starts within a step
    has its body in the next one.
    """

    def gap(t):
        return system.gap(t, q, params)

    if not depends_on_time(gap, t):
        return jnp.array(False)
    shares = np.concatenate([[0.0], PLACES, [1.0, 2.0]])
    gaps = jax.vmap(gap)(t + s * jnp.asarray(shares, q.dtype))
    moves = gaps[:-1] - gaps[1:]
    within, behind = moves[:-1], jnp.where(jnp.isfinite(moves[-1]), moves[-1], 0.0)
    rows, a = system.linearised(params, t, q)[1], acceleration(system, params, t, q, u)
    speed = jnp.maximum(jnp.abs(u), jnp.abs(w)) + s * jnp.abs(a)
    goes_on = jnp.maximum(jnp.maximum(product(rows, u), product(rows, w)), behind / s)
    known = jnp.maximum(goes_on, 0.0) + s / 2 * jnp.abs(product(rows, a)) + _THROWN * magnitudes(rows, speed)
    rounding = _ROUNDING * jnp.finfo(q.dtype).eps * jnp.max(jnp.abs(q))
    parts = jnp.asarray(np.diff(shares[:-1])[:, None], q.dtype)
    fast = jnp.any(within > parts * s * known[None] + rounding, axis=0)
    reached = (impulse != 0) | (jnp.min(gaps[:-1], axis=0) <= 0)
    return jnp.any(reached & fast)


@undifferentiated
def obstacles_hide(
    system, params, t, h, place: Callable, *, moved: Array | None = None, watched: Array | None = None
) -> Array:
    """() whether the way of a step goes through an obstacle.

    A washboard whose waves are as long as the way is flat to a scheme that knows tangents. What is narrower than a
    tenth of the way, or shallower than 1/32 of it, may be missed. All gaps are those at one time, t + h.

    Args:
        place: share of the way, 0 to 1 -> (n,) the place there [m].
        moved: (d,) how far a straight way leads, in the coordinates of u [m]; all gaps may overlap at its end.
        watched: (c,) or, of a smooth motion, the gaps to look at, all the way to its end.
    """
    if system.convex:
        return jnp.array(False)
    q = place(0.0)
    shares = jnp.asarray(np.append([0.0, 1.0], PLACES), q.dtype)
    gaps = jax.vmap(lambda f: system.gap(t + h, place(f), params))(shares)
    floor = jnp.minimum(jnp.min(gaps[: 2 if watched is None else 1], axis=0), 0.0)
    deepest = jnp.min(gaps, axis=0)
    dips = floor - deepest
    eps, size = jnp.finfo(q.dtype).eps, jnp.max(jnp.abs(q))
    if watched is not None:
        # Of a smooth motion this is the way itself, and no chord. Its events are found to the root of the rounding.
        deep = dips > _SHALLOW * (jnp.max(gaps, axis=0) - deepest) + eps**0.5 * size
        return jnp.any(watched & deep)
    suspect = dips > _ROUNDING * eps * size

    def through():
        mass = system.mass(q, params)
        root, length = linear.root_of_mass(mass), jnp.sqrt(moved @ linear.apply_mass(mass, moved))
        slope = lambda f: jnp.sqrt(_square(whitened(root, system.linearised(params, t + h, place(f))[1])))  # noqa: E731
        # A gap may be steep somewhere: the smallest slope tells how deep a place is.
        slopes = jnp.min(jax.vmap(slope)(shares), axis=0)
        return jnp.any(suspect & (dips > _SHALLOW * slopes * length))

    return where_wanted(jnp.any(suspect), through, jnp.zeros((), bool))


@undifferentiated
def enters_closed(system: System, params, t, h, before, after) -> Array:
    """() OK, or TOO_COARSE where a step ends at a closed gap with a velocity into it.

    A contact that is closed at both ends of a step, g0 and g1, must not approach any faster there than on the way,
    (g1 - g0) / h, but for what curvature and moving walls make of its velocity in a step. Otherwise an impact is put
    off, perhaps for ever. A scheme whose velocity is the way of a step gives it up in the next one.
    """
    q, x, u = before.q, after.q, after.u
    gaps = system.gap(t, q, params)
    if gaps.size == 0:
        return jnp.asarray(int(Status.OK), jnp.int32)
    ends, rates = gap_motion(system, params, t + h, x, u)
    eps = jnp.finfo(x.dtype).eps
    size = jnp.max(jnp.abs(x), initial=0.0) + h * jnp.max(jnp.abs(u), initial=0.0)
    # A gap velocity is right to the root of the rounding, a mean one to that of the places.
    speed = jnp.maximum(jnp.max(jnp.abs(u), initial=0.0), jnp.max(jnp.where(jnp.isfinite(rates), jnp.abs(rates), 0.0)))
    further = (ends - gaps) / h - rates - eps**0.5 * speed - 64 * eps * size / h
    suspect = (jnp.maximum(gaps, ends) <= eps**0.75 * size) & (rates < 0) & (further > 0)

    def judge():
        turned = jnp.abs(rates - gap_motion(system, params, t, q, u)[1])
        # What forces make of a velocity in a step cancels with what the contact makes of it, to their rounding.
        gained = h * jnp.max(jnp.abs(acceleration(system, params, t + h, x, u)))
        into = jnp.any(suspect & (further > turned + eps**0.5 * gained))
        return jnp.where(into, Status.TOO_COARSE, Status.OK).astype(jnp.int32)

    return where_wanted(jnp.any(suspect), judge, jnp.asarray(int(Status.OK), jnp.int32))


def inelastic_status(system: System, params) -> Array:
    """() OK, or RESTITUTION_IGNORED where a coefficient is above 0 and the scheme takes it as 0.

    Outside transformations `simulate` refuses such a coefficient; inside, its value is not known when tracing.
    """
    bounces = jnp.any(jnp.asarray(system.restitution(params)) > 0)
    if system.tangential_restitution is not None:
        bounces = bounces | jnp.any(jnp.asarray(system.tangential_restitution(params)) != 0)
    return jnp.where(bounces, Status.RESTITUTION_IGNORED, Status.OK).astype(int)


@undifferentiated
def passage_status(system: System, params, t, h, mass, q: Array, after: Array, impulse: Array) -> Array:
    """() OK, or TOO_COARSE where a step passed through a body: a gap closes first, then opens.

    Such a gap is looked at where its two tangents meet, the bottom of a gap that is convex along the way. A contact
    that is approached at less than 1/32 rad, or with that share of its own motion, is grazed. Of one that acts, or is
    closed before or after, as of a body that slides round another, the normal must turn by more than 1/4, too.
    """
    way, rounding = (after - q) / h, jnp.finfo(q.dtype).eps ** 0.75 * jnp.max(jnp.abs(q))
    (first_gap, first_rate), (last_gap, last_rate) = (
        gap_motion(system, params, at, x, way) for at, x in ((t, q), (t + h, after))
    )
    flies = (impulse == 0) & (jnp.abs(first_gap) > rounding) & (jnp.abs(last_gap) > rounding)
    turns = (first_rate < 0) & (last_rate > 0)
    meet = (last_gap - first_gap - h * last_rate) / jnp.where(turns, first_rate - last_rate, 1.0)
    suspect = turns & (first_gap + meet * first_rate <= rounding)

    def lowest():
        gaps = jax.vmap(lambda s: system.gap(t + s, q + s * way, params))(jnp.where(suspect, meet, 0.0))
        before, behind = (system.linearised(params, at, x)[1] for at, x in ((t, q), (t + h, after)))
        steep = -first_rate > _SHALLOW * (magnitudes(before, way) + jnp.abs(first_rate - product(before, way)))
        root = linear.root_of_mass(mass)
        far = _turned(whitened(root, before), whitened(root, behind))
        return jnp.any(suspect & (jnp.diagonal(gaps) <= rounding) & jnp.where(flies, steep, far))

    passed = where_wanted(jnp.any(suspect), lowest, jnp.zeros((), bool))
    return jnp.where(passed, Status.TOO_COARSE, Status.OK).astype(int)


@undifferentiated
def curvature_status(
    system: System, params, t, mass, start: Array, x: Array, acts: Callable, impulse: Array, change: Array
) -> Array:
    """() OK, or why contacts that act are not what their tangents are.

    - TOO_COARSE: a normal turns by more than 1/4 on the way of a step, which is longer than a quarter of the contact's
      radius of curvature then. The angle is that in the metric M^-1 of forces, at the time t of the contacts.
    - ILL_CONDITIONED: bodies are wedged in. Impulses that turn with their contacts cancel but for one part in
      eps^(-1/4), 8000 in double precision.

    Args:
        start, x: (n,) where the step comes from, and where it leads to [m].
        acts: () -> (c,) bool, the contacts that act; impulse: (c,) theirs [N s].
        change: (d,) what the impulses make of the velocity [m/s].

    Source: S2 lemma 5.2, gamma <= 1/4.
    """
    most = float(jnp.finfo(x.dtype).eps) ** (-2 * _WEDGED) * (change @ linear.apply_mass(mass, change))

    def looked_at(acts):
        root = linear.root_of_mass(mass)
        # What turns to and fro within the way of a step is seen within it.
        within = [] if system.convex else [start + share * (x - start) for share in PROBES]
        before, *behind = (whitened(root, system.linearised(params, t, at)[1]) for at in (start, x, *within))
        coarse = jnp.any(acts & jnp.any(jnp.stack([_turned(before, rows) for rows in behind]), axis=0))
        moves = _square(difference(behind[0], before)) > 0
        wedged = jnp.any(jnp.where(moves, impulse**2 * _square(before), 0) > most)
        return jnp.where(coarse, Status.TOO_COARSE, jnp.where(wedged, Status.ILL_CONDITIONED, Status.OK)).astype(int)

    def each():
        acting = acts()
        return where_wanted(jnp.any(acting), lambda: looked_at(acting), fine)

    fine, bounds = jnp.asarray(int(Status.OK)), system.turning(params, t, mass, start, x)
    if bounds is None:
        return each()
    sine, square = bounds
    calm = (sine < math.sin(TURN)) & (impulse @ impulse * square <= most)
    return where_wanted(~calm, each, fine)


def _turned(before, after) -> Array:
    """(c,) whether whitened normals turn by more than `TURN`."""
    here, there, apart = (_square(rows) for rows in (before, after, difference(after, before)))
    along = (here + there - apart) / 2
    return (along < 0) | (along**2 < math.cos(TURN) ** 2 * here * there)


def _square(rows) -> Array:
    """(c,) of the length of whitened rows."""
    return squares(rows, jnp.ones(rows.shape[1], rows.dtype))


class Truncation(NamedTuple):
    """What steps, or pieces of a step, may have missed, summed up over a motion in the coordinates of u.

    What the change of the acceleration a within s seconds adds to the place is to leading order::

        s^2/6 |a(t + s) - a(t)|  =  s/3 |w - u - s a(t)|,       w = u + s/2 (a(t) + a(t + s)) the velocity at the end

    Errors that grow by themselves, as those of chaotic motions do, are beyond it.

    Attributes:
        error: (d,) the sum of these [m]; way: (d,) how far the coordinate has moved, to and fro [m].
        time: () how long the motion has gone on [s].
        forces: (d,) what is unseen of forces that are given as functions of time [m/s]; surfaces: () for how long walls
            and belts did what steps cannot see [s].
        blind: () how many steps went through an obstacle, or did not see how a surface strikes a body; blows: (d,) the
            sum of blows that single steps did not see [m/s].
        timed: where steps of first order know forces that are given as functions of time, else None: (d,) what their
            change within steps adds to the place, and the way [m], without that of a weight that rests on a floor.
    """

    error: Array
    way: Array
    time: Array
    forces: Unseen
    surfaces: Unseen
    blind: Array
    blows: Array
    timed: Unseen | None = None

    @classmethod
    def nothing(cls, u: Array) -> Truncation:
        """Before any motion with the velocity u (d,)."""
        still, zero = jnp.zeros_like(u), jnp.zeros((), u.dtype)
        return cls(still, still, zero, Unseen(still, still), Unseen(zero, zero), zero, still)

    def counts(self, mass: Array) -> Array:
        """(d,) coordinates that move by more than rounding; mass (d,) or (d, d) tells what units weigh [kg]."""
        weight = root_of_diagonal(mass) * self.way
        return weight > float(jnp.finfo(weight.dtype).eps) ** LEAST_WAY * jnp.max(weight, initial=0.0)

    def coarse(self, mass: Array, order: int = 2) -> Array:
        """() whether truncation is a larger share of a way than `MOST`, or much of what acts was `Unseen`.

        Of a motion of fourth order truncation is about the square of that of second, per way.

        Example:
            >>> import jax, numpy as np
            >>> swinging = Truncation.nothing(np.zeros(2))._replace(error=np.array([0.1, 0.0]), way=np.ones(2))
            >>> [bool(x) for x in jax.jit(lambda: [swinging.coarse(np.ones(2), order) for order in (2, 4)])()]
            [True, False]
        """
        many = self.error > MOST ** (2 / order) * self.way
        many = many | (self.forces.large & (self.forces.missed * self.time / 2 > MOST * self.way))
        if self.timed is not None:
            many = many | (self.timed.missed > MOST * self.timed.felt)
        coarse = jnp.any(self.counts(mass) & many) | self.surfaces.large | (self.blind > 0)
        return coarse | jnp.any(self.blows * self.time / 2 > MOST * self.way)


@undifferentiated
def truncation_of_step(system, params, t, h, before, after, impulse: Array) -> Truncation:
    """That of a step of first order with h from one state to another, in which contacts had impulses (c,) [N s].

    How much place and velocity change forces is asked at one time: what rests under a load that changes is where it
    belongs. How much time changes them counts where a coordinate moves and feels nothing but them.
    """
    q, u, x, w = before.q, before.u, after.q, after.u
    given = given_forces(system, params, q, u)
    a, there = given(t), acceleration(system, params, t, x, w)
    belts = unseen_belts(slip_of(system, params, q, u), t, h, impulse != 0, u)
    blind = obstacles_hide(system, params, t, h, lambda f: q + f * (x - q), moved=h / 2 * (u + w))
    blind = blind | surfaces_strike(system, params, t, h, q, u, w, impulse)
    timed = None
    if depends_on_time(given, t):
        # Schemes take a force at the beginning of a step or in its middle.
        begin, middle, end = jax.vmap(given)(t + h * jnp.asarray([0.0, 0.5, 1.0], u.dtype))
        rounding = 64 * jnp.finfo(u.dtype).eps * (jnp.abs(u) + jnp.abs(w))
        alone = jnp.minimum(jnp.abs(w - u - h * begin), jnp.abs(w - u - h * middle)) <= rounding
        timed = changing(h, u, w, alone, end - begin)
    return Truncation(
        error=h**2 / 6 * jnp.abs(there - a),
        way=h / 2 * (jnp.abs(u) + jnp.abs(w) + h * jnp.abs(a)),
        time=jnp.abs(h),
        forces=unseen_forces(given, t, h, ENDS, u),
        surfaces=_unseen_walls(system, params, t, h, q, impulse).plus(belts),
        blind=blind.astype(u.dtype),
        blows=forces_blow(forces_and_joints(system, params, q, u), t, h, root_of_diagonal(system.mass(q, params))),
        timed=timed,
    )


def changing(h, u: Array, w: Array, alone: Array, change: Array) -> Unseen:
    """`Truncation.timed` of a step from u (d,) to w, in which an acceleration that acts `alone` changes (d,)."""
    missed = h**2 / 6 * jnp.where(alone, jnp.abs(change), 0.0)
    return Unseen(missed, h / 2 * (jnp.abs(u) + jnp.abs(w) + jnp.abs(w - u)))


def root_of_diagonal(mass: Array) -> Array:
    """(d,) what coordinates weigh by themselves, mass (d,) or (d, d)."""
    return jnp.sqrt(mass if mass.ndim == 1 else jnp.diagonal(mass))
