"""Of reactions in the same modes, those that contacts share evenly: the load of a box that lies on four corners."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from diffcontact.batching import where_wanted
from diffcontact.qp.friction.derivative import frozen
from diffcontact.qp.friction.law import assemble
from diffcontact.qp.friction.modes import Modes, slip_direction
from diffcontact.qp.friction.split import Sharing

# Where evenly shared reactions are outside the cones they go this far towards them.
FRACTIONS = (1.0, 0.5, 0.25, 0.125)
# Newton's steps: one where slips have known directions, more where these depend on the reactions.
STEPS = 5


def evenly(contacts, r, modes: Modes):
    """The reactions (c, 1 + k) in these modes that are shared evenly (`split`); r where nothing is shared.

    Args:
        contacts: `Contacts`.
        r: (c, 1 + k).
        modes: theirs.
    """
    sharing, (count, size) = Sharing.of(contacts.rows, contacts.scale, modes), r.shape
    taken, dependent = sharing.taken.reshape(count, size), sharing.dependent
    even = sharing.even * contacts.scale.repeat(size)[None, :]

    def closer(r, _):
        w = contacts.velocities(r)
        rubs = r[:, 1:] - contacts.friction[:, None] * r[:, :1] * slip_direction(r, w, contacts.strides())
        missed = jnp.where(taken, w, 0)
        missed = missed.at[:, 1:].set(jnp.where(modes.slip[:, None], rubs, missed[:, 1:])).reshape(-1)
        by_reaction, by_velocity, _ = frozen(contacts.rows, r, w, contacts.friction, modes, taken)
        matrix = jnp.where(dependent[:, None], even, assemble(by_reaction, by_velocity, contacts.W))
        missed = jnp.where(dependent, even @ r.reshape(-1), missed)
        return r - jnp.linalg.solve(matrix, missed).reshape(r.shape), None

    def shared():
        found, _ = lax.scan(closer, r, length=STEPS)
        return jnp.where(jnp.all(jnp.isfinite(found)), found, r)

    change = where_wanted(jnp.any(dependent), shared, r) - r
    fractions = jnp.asarray((*FRACTIONS, 0), r.dtype)
    candidates = r[None] + fractions[:, None, None] * change[None]
    normal, tangential = candidates[:, :, 0], candidates[:, :, 1:]
    bound = contacts.friction[None] * normal
    within = jnp.sum(tangential * tangential, axis=2) <= bound * bound
    possible = (normal >= 0) & (within | ~(modes.closed & ~modes.slip)[None])
    return candidates[jnp.argmax(jnp.all(possible, axis=1).at[-1].set(True))]
