"""What a smooth piece of motion with friction begins with: which contacts are closed, stick or slip, and reactions."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from diffcontact.friction import Slip, friction_coefficients, slip_acceleration, slips
from diffcontact.qp.friction.law import length
from diffcontact.qp.friction.modes import Modes
from diffcontact.schemes.event_timed.smooth_motion import Tolerance, may_close, tolerances
from diffcontact.system import Contacts, acceleration, contacts, gap_acceleration


class Imposed(NamedTuple):
    """What the events of this step have decided: a tie is not left to rounding.

    Attributes:
        released: (c,) contacts that have let go: they push no more.
        sliding: (c,) contacts at rest that have reached the bound of their friction: they slip.
        direction: (c, k) of that slip.
    """

    released: Array
    sliding: Array
    direction: Array

    @classmethod
    def nothing(cls, slip: Array) -> Imposed:
        none = jnp.zeros(slip.shape[0], bool)
        return cls(none, none, jnp.zeros_like(slip))


class Place(NamedTuple):
    """What is known at (t, q), whatever the velocity.

    Attributes:
        contacts, slip: gaps, slips and their rows.
        mass: M(q).
        friction: (c,) mu.
        reach: (c,) |grad gap| |q|, the size of what cancels in a gap [m]; not differentiated.
    """

    contacts: Contacts
    slip: Slip
    mass: Array
    friction: Array
    reach: Array

    @classmethod
    def at(cls, system, params, t, q, size: int) -> Place:
        """Of a system with `size` velocities."""
        here = contacts(system, params, t, q)
        rows = here.normals if system.rate is None else jax.jacfwd(lambda q: system.gap(t, q, params))(q)
        friction = friction_coefficients(system, params, here.gap.size, q.dtype)
        reach = lax.stop_gradient(jnp.abs(rows) @ jnp.abs(q))
        return cls(here, slips(system, params, t, q, size), system.mass(q, params), friction, reach)

    def struck(self, system, params, before: Array) -> Place:
        """The same place in an impact before which the gap velocities are these (c,) [m/s]."""
        if not system.friction_by_speed:
            return self
        return self._replace(friction=friction_coefficients(system, params, before.size, before.dtype, before))

    def question(self, b: Array, s: Array, v: Array) -> Question:
        """The friction problem of these contacts with offsets b (c,) and s (c, k), from v (d,)."""
        return Question(self.mass, self.contacts.normals, self.slip.tangents, b, s, self.friction, v)


class Question(NamedTuple):
    """A friction problem, in the order in which `qp.coulomb` is asked."""

    mass: Array
    normals: Array
    tangents: Array
    b: Array
    s: Array
    friction: Array
    v: Array


class Surroundings(NamedTuple):
    """All that is known at (t, q, u) before the reaction is.

    Attributes:
        place: what does not depend on u.
        free: (d,) the acceleration without any reaction [m/s^2].
        curving: (c,), turning: (c, k) the accelerations of gaps and slips where u has none [m/s^2].
        opening: (c,), sliding: (c, k) gap and slip velocities [m/s].
        tolerance: see `Tolerance`.
        slip_tolerance: () a slip below this is zero to rounding [m/s].
        touching: (c,) closed contacts that do not approach.
    """

    place: Place
    free: Array
    curving: Array
    turning: Array
    opening: Array
    sliding: Array
    tolerance: Tolerance
    slip_tolerance: Array
    touching: Array

    @classmethod
    def at(cls, system, params, t, q, u, h, place: Place) -> Surroundings:
        """The length h of the whole step sets the thresholds."""
        here, slip, free = place.contacts, place.slip, acceleration(system, params, t, q, u)
        bends, turns = (of(system, params, t, q, u, free) for of in (gap_acceleration, slip_acceleration))
        scale = jnp.maximum(jnp.abs(bends), jnp.abs(here.normals) @ jnp.abs(free))
        known = lax.stop_gradient((here, place.reach, u, scale, h))
        tolerance, near = tolerances(*known, t), may_close(*known)
        across = jnp.abs(slip.tangents) @ (jnp.abs(u) + h * jnp.abs(free)) + jnp.abs(slip.drift)
        fastest = jnp.max(jnp.where(near[:, None], across, 0.0), initial=0.0)
        rounding = jnp.maximum(jnp.finfo(u.dtype).eps ** 0.75 * fastest, tolerance.velocity)
        opening = here.velocity(u)
        return cls(
            place=place,
            free=free,
            curving=bends - here.normals @ free,
            turning=turns - slip.tangents @ free,
            opening=opening,
            sliding=slip.velocity(u),
            tolerance=tolerance,
            slip_tolerance=lax.stop_gradient(rounding),
            touching=(here.gap <= tolerance.gap) & (opening >= -tolerance.velocity),
        )


class Piece(NamedTuple):
    """The beginning of a smooth piece of motion, whatever its length.

    Attributes:
        around: what is known there.
        a: (d,) acceleration with the reaction of the closed contacts [m/s^2].
        load: (c,) lambda, rub: (c, k) beta, that reaction [N].
        modes: which contacts are held closed, and which of them slip.
        direction: (c, k) of the slip, of length one where a contact slips.
        resting: (c,) those that are held closed, or touch without opening: their gaps are no events.
        regular: () whether a load that vanishes means anything: not where all are rounding.
        status: () of the search for the modes.
    """

    around: Surroundings
    a: Array
    load: Array
    rub: Array
    modes: Modes
    direction: Array
    resting: Array
    regular: Array
    status: Array

    @classmethod
    def nowhere(cls, around: Surroundings) -> Piece:
        """One before any motion, of the shapes of these surroundings."""
        still, load, rub = (jnp.zeros_like(x) for x in (around.free, around.opening, around.sliding))
        no, fine = load > 0, jnp.zeros((), jnp.int32)
        return cls(around, still, load, rub, Modes(closed=no, slip=no), rub, no, jnp.array(False), fine)


# How much faster than all that accelerates a contact is said to slip whose direction is known, at first and if that did
# not keep its sign.
CERTAIN, MORE_CERTAIN = 8.0, 1e4


def about_modes(around: Surroundings, imposed: Imposed, left, certain) -> Question:
    """The accelerations that obey Coulomb's law, of the contacts that are closed and do not open.

    A contact that opens so slowly that it would be closed again within the step rests (Gauss' principle, asked of the
    gaps `left` seconds later). One that slips has one direction, and all its friction is against it.
    """
    seconds = jnp.where(left > jnp.finfo(left.dtype).tiny, left, 1.0)
    closed = around.touching & ~imposed.released & (around.opening <= around.tolerance.velocity + around.tolerance.slow)
    slides, direction = known_slips(around, imposed)
    place = around.place
    toward = jnp.einsum("ck,ckd->cd", direction, place.slip.tangents)
    first = (jnp.arange(direction.shape[1]) == 0)[None]
    sizes = (
        jnp.abs(rows) @ jnp.abs(around.free) + jnp.abs(rest)
        for rows, rest in ((place.contacts.normals, around.curving), (place.slip.tangents, around.turning))
    )
    surely = certain * sum(jnp.max(size, initial=0.0) for size in sizes)
    along = jnp.sum(direction * around.turning, axis=1) + lax.stop_gradient(surely)
    room = around.curving + 2 * jnp.maximum(around.opening, 0.0) / seconds
    asked = place.question(jnp.where(closed, room, jnp.inf), around.turning, around.free)
    # In space the other direction of a contact that slips is left out.
    only = slides[:, None] & ~first
    tangents = jnp.where((slides[:, None] & first)[:, :, None], toward[:, None], asked.tangents)
    return asked._replace(
        tangents=jnp.where(only[:, :, None], 0, tangents),
        s=jnp.where(only, 0, jnp.where(slides[:, None] & first, along[:, None], asked.s)),
    )


def known_slips(around: Surroundings, imposed: Imposed) -> tuple[Array, Array]:
    """(c,) contacts whose slip has a direction, by its velocity or by an event, and that direction (c, k)."""
    size = length(around.sliding)
    moves = size > around.slip_tolerance
    unit = around.sliding / jnp.where(moves, size, 1.0)[:, None]
    slides = moves | imposed.sliding
    return slides, jnp.where(slides[:, None], jnp.where(moves[:, None], unit, imposed.direction), 0.0)


def begin(around: Surroundings, imposed: Imposed, question: Question, found, modes: Modes, h) -> Piece:
    """The piece that starts in the modes that were found, in a step of length h.

    Args:
        found: a `CoulombProjection`, the answer to `about_modes`.
        modes: its modes.
    """
    slides, direction = known_slips(around, imposed)
    rub = jnp.where(slides[:, None], found.tangential[:, :1] * direction, found.tangential)
    # From rest, a contact slips along its acceleration; where it has none yet, against its friction.
    starts = modes.closed & modes.slip & ~slides
    size = length(rub)
    onset = -rub / jnp.where(size > 0, size, 1.0)[:, None]
    direction = jnp.where(starts[:, None], onset, direction)
    slip = modes.closed & (modes.slip | slides)
    # A contact that opens faster than it could close again is in flight: its gap may close before the step ends.
    resting = modes.closed | (around.touching & (imposed.released | (around.opening <= around.tolerance.velocity)))
    pushed = h / 2 * jnp.max(jnp.abs(around.place.contacts.normals) @ jnp.abs(found.u - around.free), initial=0.0)
    return Piece(
        around=around,
        a=found.u,
        load=found.normal,
        rub=rub,
        modes=Modes(closed=modes.closed, slip=slip),
        direction=direction,
        resting=resting,
        regular=pushed > around.tolerance.velocity,
        status=found.status,
    )


def lost_direction(question: Question, imposed: Imposed, around: Surroundings, found) -> Array:
    """() whether a contact that is known to slip did not do so in the answer: it was not said to be fast enough."""
    slides, _ = known_slips(around, imposed)
    along = jnp.einsum("ckd,d->ck", question.tangents, found.u) + question.s
    # One that was stopped has none but for rounding, of either sign.
    rounding = jnp.finfo(along.dtype).eps ** 0.5 * jnp.abs(question.s[:, 0])
    return jnp.any(slides & (question.b < jnp.inf) & (along[:, 0] <= rounding))
