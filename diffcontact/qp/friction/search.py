"""Search for reactions that obey Coulomb's law: by local solves and Newton's method, from the ends of paths."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from diffcontact.numerics import linear
from diffcontact.numerics.batching import in_lanes, once, select, where_any, where_wanted
from diffcontact.qp.friction import interior, path
from diffcontact.qp.friction.contacts import Contacts
from diffcontact.qp.friction.derivative import Sharing, frozen
from diffcontact.qp.friction.law import Modes, assemble, length, slip_direction, solvable
from diffcontact.qp.friction.passes import accepted, improve, residual, sweep, wanted

# Contacts up to which local solves and Newton's method come first, from rest, and then paths from contacts held apart.
# So stacks of boxes with 40 and 96 contacts took 1.6 and 9 s on average, and three of 31 were not solved; the way
# through the interior takes some 10 and 40 ms.
FEW = 16
# Each follows another path; of few contacts the first is from rest.
ATTEMPTS, ATTEMPTS_OF_MANY = 8, 3


class Found(NamedTuple):
    """Hold reactions r (c, 1 + k), the way L^-1 H^T r (d,), residual, and modes."""

    r: Array
    way: Array
    residual: Array
    modes: Modes


def search(contacts) -> Found:
    """Return the best reactions that could be found."""
    found = _found(contacts)
    if contacts.q.shape[0] == 1:
        return found
    shared, way, modes = evenly(contacts, found.r, found.modes)
    left = residual(contacts, shared)[1]
    as_good = left <= jnp.maximum(2 * found.residual, wanted(shared.dtype))
    return select(as_good, Found(r=shared, way=way, residual=left, modes=modes), found)


class OnSprings(NamedTuple):
    """Hold what contacts do on stiff springs: their modes, directions (c, k) of slips, and the way from v (d,).

    `lawful` tells whether that was found, to a root of the rounding. Directions and way are those of rigid contacts in
    these modes, where they obey the law.
    """

    lawful: Array
    modes: Modes
    slips: Array
    step: Array


def on_springs(mass, H, h, friction, v, on, along) -> OnSprings:
    """Return what contacts do on stiff springs, some of them with known directions of slip.

    Of rows that depend on each other springs open those that would pull. Slips by which only springs give way are none.

    Args:
        H, h: rows (c, 1 + k, d) and offsets (c, 1 + k), both zero unless `on` (c,).
        along: (c, k) directions of slips that are known, zero of others.
    """
    contacts = Contacts.of(mass, H, h, friction, v, on, along)
    sprung = contacts.on_springs()
    r, way, left, modes = _found(sprung)
    w = sprung.velocities(r)
    creep = CREEPS * jnp.max(sprung.compliance * jnp.abs(r), initial=0.0)
    shared, rigid, _ = evenly(contacts, r, modes)
    exact = residual(contacts, shared)[1] <= accepted(r.dtype)
    r, way, w = select(exact, (shared, rigid, contacts.along(rigid) + contacts.q), (r, way, w))
    slips = jnp.einsum("cij,ci->cj", contacts.turn, -slip_direction(r, w, contacts.strides()))
    return OnSprings(
        lawful=left <= jnp.finfo(r.dtype).eps ** 0.5,
        modes=replace(modes, slip=modes.slip & ((length(w[:, 1:]) > creep) | (contacts.friction == 0))),
        slips=jnp.where(jnp.any(along != 0, axis=1)[:, None], along, slips),
        step=contacts.measure * linear.unwhiten(contacts.root, way),
    )


def _found(contacts) -> Found:
    if contacts.q.shape[0] == 1:
        # One contact: its exact solution, once more for the digits that cancel in it.
        r = sweep(contacts, sweep(contacts, jnp.zeros_like(contacts.q), 30), 30)
    else:
        r = _together(contacts)
    w, strides = contacts.velocities(r), contacts.strides()
    left = residual(contacts, r)[1]
    modes = Modes.of(r, w, contacts.friction, strides, jnp.where(left <= accepted(r.dtype), left, 0) * contacts.unit)
    r = modes.apply(r, w, contacts.friction, strides)
    return Found(r=r, way=contacts.step(r), residual=residual(contacts, r)[1], modes=modes)


def leaves_open(contacts, found: Found):
    """Tell whether friction leaves loads open, or nearly so.

    An example is a disc in a corner whose walls have mu = 1, and press it as it presses them. Then there is no
    derivative. One contact that slips is not looked at: it is solved exactly.
    """
    several = jnp.sum(found.modes.slip & (contacts.friction > 0)) > 1

    def singular():
        sharing = Sharing.of(contacts.rows, contacts.springs, found.modes)
        w = contacts.along(found.way) + contacts.q
        matrix = _equations(contacts, found.r, w, found.modes, sharing)
        return ~solvable(matrix, jnp.sin(1 + jnp.arange(found.r.size, dtype=found.r.dtype)))

    return where_wanted(several, singular, several & False)


def _equations(contacts, r, w, modes: Modes, sharing: Sharing):
    """Return the matrix (n, n) of a change of the reactions at the modes, n = c (1 + k)."""
    taken = sharing.taken.reshape(r.shape)
    by_reaction, by_velocity, _ = frozen(contacts.rows, r, w, contacts.friction, modes, taken)
    return jnp.where(sharing.dependent[:, None], sharing.even, assemble(by_reaction, by_velocity, contacts.W))


def _together(contacts):
    none = jnp.zeros_like(contacts.q)
    enough = accepted(none.dtype)
    few = contacts.q.shape[0] <= FEW
    attempts = ATTEMPTS if few else ATTEMPTS_OF_MANY

    def attempt(state):
        number, best, left = state
        running = left > enough
        if few:
            away = running & (number > 0)
            start = where_any(away, lambda: path.follow(contacts, number, away), lambda: none)
        else:
            start = interior.follow(contacts, number + 1, running)
        r, remains = improve(contacts, start, running)
        better = running & (remains < left)
        return number + 1, jnp.where(better, r, best), jnp.where(better, remains, left)

    def unfinished(state):
        return (state[2] > enough) & (state[0] < attempts)

    start = (jnp.zeros((), jnp.int32), none, residual(contacts, none)[1])
    return lax.while_loop(unfinished, once(attempt), in_lanes(start, start[2]))[1]


# Where evenly shared reactions are outside the cones they go this far towards them.
FRACTIONS = (1.0, 0.5, 0.25, 0.125)
# Newton's steps: one where slips have known directions, more where these depend on the reactions.
STEPS = 5
# Reactions cancel if they are this many times as long as the way that they lead together: the way then multiplies
# the miss of held rows.
CANCELS = 8
# Times what springs give way, below which a slip is none.
CREEPS = 8
# Roundings of the largest reaction below which a load is zero.
IDLE = 4


def evenly(contacts, r, modes: Modes):
    """Share loads evenly (`Sharing`): reactions (c, 1 + k), the way (d,) and modes.

    The way L^-1 H^T r has more digits than large reactions tell. Where nothing is shared and nothing cancels, r stays.
    Of contacts that share their loads, those without a load are open: of a block in a slot without play the wall that
    does not press it. Closed, that wall would have half of every further load, with a minus.
    """
    sharing = Sharing.of(contacts.rows, contacts.springs, modes)
    taken, dependent, even = sharing.taken.reshape(r.shape), sharing.dependent, sharing.even

    def closer(found, _):
        r, way = found
        w = contacts.along(way) + contacts.q
        rubs = r[:, 1:] - contacts.friction[:, None] * r[:, :1] * slip_direction(r, w, contacts.strides())
        missed = jnp.where(taken, w, 0)
        missed = missed.at[:, 1:].set(jnp.where(modes.slip[:, None], rubs, missed[:, 1:])).reshape(-1)
        missed = jnp.where(dependent, even @ r.reshape(-1), missed)
        change = -linear.solve(_equations(contacts, r, w, modes, sharing), missed).reshape(r.shape)
        return (r + change, way + contacts.step(change)), None

    way = contacts.step(r)

    def shared():
        found, _ = lax.scan(closer, (r, way), length=STEPS)
        return select(jnp.all(jnp.isfinite(found[0])), found, (r, way))

    cancels = jnp.max(jnp.abs(r)) ** 2 > CANCELS**2 * jnp.sum(way * way)
    there, along = where_wanted(jnp.any(dependent) | cancels, shared, (r, way))
    fractions = jnp.asarray((*FRACTIONS, 0), r.dtype)
    candidates = r[None] + fractions[:, None, None] * (there - r)[None]
    normal, tangential = candidates[:, :, 0], candidates[:, :, 1:]
    bound = contacts.friction[None] * normal
    within = jnp.sum(tangential * tangential, axis=2) <= bound * bound
    possible = (normal >= 0) & (within | ~(modes.closed & ~modes.slip)[None])
    chosen = jnp.argmax(jnp.all(possible, axis=1).at[-1].set(True))
    r, way = candidates[chosen], way + fractions[chosen] * (along - way)
    idle = jnp.any(dependent) & modes.closed & (r[:, 0] <= IDLE * jnp.finfo(r.dtype).eps * jnp.max(jnp.abs(r)))
    modes = Modes(closed=modes.closed & ~idle, slip=modes.slip & ~idle)
    return jnp.where(idle[:, None], 0, r), way, modes
