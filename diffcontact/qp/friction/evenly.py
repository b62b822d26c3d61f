"""Of reactions in the same modes, those that hold to the last digit, and that contacts share evenly: the load of a box
that lies on four corners."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from diffcontact.numerics import linear
from diffcontact.numerics.batching import select, where_wanted
from diffcontact.qp.friction.derivative import frozen
from diffcontact.qp.friction.law import assemble
from diffcontact.qp.friction.modes import Modes, slip_direction
from diffcontact.qp.friction.split import Sharing

# Where evenly shared reactions are outside the cones they go this far towards them.
FRACTIONS = (1.0, 0.5, 0.25, 0.125)
# Newton's steps: one where slips have known directions, more where these depend on the reactions.
STEPS = 5
# Reactions that are so many times the way they lead together cancel in it: what held rows are then missed by is many
# times as much in the way.
CANCELS = 8
# A load of so many roundings of the largest reaction is none.
IDLE = 4


def evenly(contacts, r, modes: Modes):
    """The reactions (c, 1 + k) in these modes that are shared evenly (`split`), r where nothing is shared and nothing
    cancels; the way (d,) that they lead, L^-1 H^T r, to more digits than large reactions tell it; and the modes.

    Of contacts that share their loads, those that bear none are open: of a block in a slot without play the wall that
    it is not pressed against. Closed, it would have half of every further load, with a minus.

    Args:
        contacts: `Contacts`.
        r: (c, 1 + k).
        modes: theirs.
    """
    sharing, (count, size) = Sharing.of(contacts.rows, contacts.scale, modes), r.shape
    taken, dependent = sharing.taken.reshape(count, size), sharing.dependent
    even = sharing.even * contacts.scale.repeat(size)[None, :]

    def closer(found, _):
        r, way = found
        w = contacts.along(way) + contacts.q
        rubs = r[:, 1:] - contacts.friction[:, None] * r[:, :1] * slip_direction(r, w, contacts.strides())
        missed = jnp.where(taken, w, 0)
        missed = missed.at[:, 1:].set(jnp.where(modes.slip[:, None], rubs, missed[:, 1:])).reshape(-1)
        by_reaction, by_velocity, _ = frozen(contacts.rows, r, w, contacts.friction, modes, taken)
        matrix = jnp.where(dependent[:, None], even, assemble(by_reaction, by_velocity, contacts.W))
        missed = jnp.where(dependent, even @ r.reshape(-1), missed)
        change = -linear.solve(matrix, missed).reshape(r.shape)
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
